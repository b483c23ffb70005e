//! Clients of both eras at once that subscribe: whatever they do, and whenever the server is started anew, the server
//! announces what they want and nothing else, and each hears its own.

use std::collections::BTreeSet;
use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::Exit;
use drowse_core::server::Config;
use drowse_runtime::bridge::Hub;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Event, Script, Stage, play, sleepy};

in_both_eras! {
    the_staged_server_announces_only_what_was_subscribed
    what_is_refused_is_left_out_and_said_once
    a_cancelled_request_is_not_answered_and_those_that_wait_with_it_are
    a_slow_client_of_the_legacy_era_is_told_once
    after_a_hundred_restarts_there_is_no_more_than_after_one
    a_subscription_made_while_the_server_is_down_is_expressed_at_its_start
    the_stream_is_closed_before_the_servers_input
    what_nobody_asked_for_is_dropped_and_is_no_error
}

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const UPDATED: &str = "notifications/resources/updated";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const LATEST: &str = "2025-11-25";
const A_WHILE: Duration = Duration::from_millis(50);
/// Longer than any pause before the server is started again.
const RESTARTED: Duration = Duration::from_secs(120);
/// The server refuses the last two.
const URIS: [&str; 5] = ["a:1", "a:2", "a:3", "gone:1", "shy:1"];

fn restarting() -> Config {
    let mut config = sleepy();
    config.lifecycle.auto_restart = true;
    config
}

async fn begin(era: Era) -> (Stage, Hub) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(restarting());
    stage.saved().await;
    (stage, hub)
}

async fn legacy(hub: &Hub) -> Caller {
    let (mut caller, _) = Caller::legacy(hub, LATEST, json!({})).await;
    sleep(A_WHILE).await;
    drain(&mut caller).await;
    caller
}

async fn drain(caller: &mut Caller) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(message) = caller.waiting().await {
        all.push(message);
    }
    all
}

async fn subscribe(caller: &mut Caller, id: &str, uri: &str) {
    caller.plain(&json!(id), "resources/subscribe", json!({"uri": uri})).await;
}

fn updates(messages: &[Value]) -> usize {
    messages.iter().filter(|message| message["method"] == UPDATED).count()
}

/// One that announced regardless would hide a relay that does not ask.
async fn the_staged_server_announces_only_what_was_subscribed(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(restarting());
    stage.saved().await;
    let said = |stage: &Stage| stage.process().said();
    let before = said(&stage);
    stage.process().update("a:1");
    assert_eq!(said(&stage), before);
    let mut caller = legacy(&hub).await;
    subscribe(&mut caller, "s", "a:1").await;
    caller.answer(&json!("s")).await;
    let before = said(&stage);
    stage.process().update("a:2");
    assert_eq!(said(&stage), before);
    stage.process().update("a:1");
    assert_eq!(said(&stage), before + 1);
}

async fn what_is_refused_is_left_out_and_said_once(era: Era) {
    let (stage, hub) = begin(era).await;
    let mut caller = Caller::of_proxy(&hub);
    let filter =
        json!({"notifications": {"resourceSubscriptions": ["a:1", "gone:1", "a:2", "shy:1", "a:3"]}});
    caller.send("subscriptions/listen", filter).await;
    let ack = caller.receive().await.unwrap();
    assert_eq!(ack["params"]["notifications"]["resourceSubscriptions"], json!(["a:1", "a:2", "a:3"]));
    for _ in 0..3 {
        assert_eq!(stage.process().subscriptions(), ["a:1", "a:2", "a:3"]);
        assert_eq!(stage.process().open_streams(), usize::from(era == Era::Modern));
        stage.server_exits(Exit::Status(1));
        sleep(RESTARTED).await;
    }
    for uri in ["gone:1", "shy:1"] {
        let notes = stage.notes();
        let said = notes.iter().filter(|note| note.contains(uri)).count();
        assert_eq!(said, 1, "{notes:?}");
    }
    // Each client's own subscription has its own refusal, however often it comes.
    let mut old = legacy(&hub).await;
    for (uri, codes) in
        [("gone:1", [-32002, -32602]), ("shy:1", [-32603, -32603]), ("gone:1", [-32002, -32602])]
    {
        subscribe(&mut old, "x", uri).await;
        let answer = old.answer(&json!("x")).await;
        assert!(codes.contains(&answer["error"]["code"].as_i64().unwrap()), "{answer}");
    }
}

async fn the_stream_is_closed_before_the_servers_input(era: Era) {
    let (stage, hub) = begin(era).await;
    let mut caller = Caller::of_proxy(&hub);
    caller.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["a:1"]}})).await;
    assert_eq!(caller.receive().await.unwrap()["method"], ACKNOWLEDGED);
    let process = stage.process();
    assert_eq!(process.open_streams(), usize::from(era == Era::Modern));
    hub.close();
    hub.retired().await;
    let events: Vec<Event> = stage.events().into_iter().map(|(_, event)| event).collect();
    let got = |method: &str| {
        events.iter().rposition(|event| matches!(event, Event::Got(message) if message["method"] == method))
    };
    let closed = events.iter().rposition(|event| *event == Event::InputClosed).unwrap();
    if era == Era::Modern {
        let (opened, cancelled) = (got("subscriptions/listen"), got("notifications/cancelled"));
        assert!(opened < cancelled && cancelled < Some(closed), "{events:?}");
        assert_eq!(process.open_streams(), 0);
    } else {
        assert!(got("resources/subscribe") < Some(closed));
    }
}

async fn what_nobody_asked_for_is_dropped_and_is_no_error(era: Era) {
    let (stage, hub) = begin(era).await;
    let before = stage.notes();
    let announce = |uri: &str| {
        let params = match era {
            Era::Legacy => json!({"uri": uri}),
            // On a stream that nobody opened.
            Era::Modern => json!({"uri": uri, "_meta": {SUBSCRIPTION: "of nobody"}}),
        };
        stage.server_says(&json!({"jsonrpc": "2.0", "method": UPDATED, "params": params}));
    };
    // Without a client, with clients that want nothing, and with one that wants something else.
    announce("a:1");
    sleep(A_WHILE).await;
    let (mut old, mut new) = (legacy(&hub).await, Caller::of_proxy(&hub));
    announce("a:1");
    sleep(A_WHILE).await;
    subscribe(&mut old, "s", "a:2").await;
    old.answer(&json!("s")).await;
    announce("a:1");
    sleep(A_WHILE).await;
    for caller in [&mut old, &mut new] {
        assert_eq!(drain(caller).await, [] as [Value; 0]);
    }
    assert_eq!((stage.starts(), stage.notes()), (1, before), "nothing is said of it");
    stage.process().update("a:2");
    sleep(A_WHILE).await;
    assert_eq!(updates(&drain(&mut old).await), 1, "all goes on");
}

async fn a_cancelled_request_is_not_answered_and_those_that_wait_with_it_are(era: Era) {
    let stage = Stage::new(Script { boot: Duration::from_secs(1), ..Script::of(era) });
    let hub = stage.proxy(sleepy());
    let mut caller = legacy(&hub).await;
    for cancelled in ["one", "two"] {
        for id in ["one", "two", "three"] {
            subscribe(&mut caller, id, "a:1").await;
        }
        caller.notify("notifications/cancelled", json!({"requestId": cancelled})).await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(stage.process().subscriptions(), ["a:1"]);
        let told = drain(&mut caller).await;
        let answers = told.iter().filter(|message| message.get("method").is_none());
        let mut answered: Vec<Value> = answers.map(|answer| answer["id"].clone()).collect();
        answered.sort_by_key(Value::to_string);
        let others: Vec<Value> =
            ["one", "three", "two"].into_iter().filter(|id| *id != cancelled).map(Value::from).collect();
        assert_eq!(answered, others);
        caller.plain(&json!("off"), "resources/unsubscribe", json!({"uri": "a:1"})).await;
        caller.answer(&json!("off")).await;
        stage.server_exits(Exit::Status(0));
        sleep(Duration::from_secs(5)).await;
        drain(&mut caller).await;
    }
    // The only one that waits is the end of it.
    subscribe(&mut caller, "alone", "a:1").await;
    caller.notify("notifications/cancelled", json!({"requestId": "alone"})).await;
    sleep(Duration::from_secs(5)).await;
    assert!(drain(&mut caller).await.iter().all(|message| message.get("method").is_some()), "no answer");
}

async fn a_slow_client_of_the_legacy_era_is_told_once(era: Era) {
    let (stage, hub) = begin(era).await;
    let (mut slow, mut quick) = (legacy(&hub).await, legacy(&hub).await);
    for caller in [&mut slow, &mut quick] {
        subscribe(caller, "s", "a:1").await;
        caller.answer(&json!("s")).await;
    }
    const UPDATES: usize = 5_000;
    for _ in 0..UPDATES {
        stage.process().update("a:1");
        assert_eq!(quick.receive().await.unwrap()["method"], UPDATED);
    }
    sleep(A_WHILE).await;
    let told = updates(&drain(&mut slow).await);
    // Two pipes' worth, and the one that stands for all that came later.
    assert!((2..UPDATES / 2).contains(&told), "{told}");
    stage.process().update("a:1");
    sleep(A_WHILE).await;
    assert_eq!(updates(&drain(&mut slow).await), 1);
}

async fn after_a_hundred_restarts_there_is_no_more_than_after_one(era: Era) {
    let (stage, hub) = begin(era).await;
    let (mut old, mut new) = (legacy(&hub).await, Caller::of_proxy(&hub));
    subscribe(&mut old, "s", "a:1").await;
    old.answer(&json!("s")).await;
    let filter =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:1", "a:2"]}});
    new.send("subscriptions/listen", filter).await;
    sleep(A_WHILE).await;
    drain(&mut new).await;
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        stage.server_exits(Exit::Status(1));
        sleep(RESTARTED).await;
        let process = stage.process();
        let (told_old, told_new) = (drain(&mut old).await, drain(&mut new).await);
        // What may have changed meanwhile, each once.
        assert_eq!((updates(&told_old), updates(&told_new)), (1, 2));
        seen.insert((process.subscriptions(), process.open_streams(), told_old.len(), told_new.len()));
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
    stage.process().update("a:1");
    stage.process().update("a:3");
    sleep(A_WHILE).await;
    for caller in [&mut old, &mut new] {
        assert_eq!(updates(&drain(caller).await), 1);
    }
}

async fn a_subscription_made_while_the_server_is_down_is_expressed_at_its_start(era: Era) {
    let stage = Stage::new(Script { boot: Duration::from_secs(3), ..Script::of(era) });
    let hub = stage.proxy(sleepy());
    let (mut old, mut other) = (legacy(&hub).await, legacy(&hub).await);
    let mut new = Caller::of_proxy(&hub);
    subscribe(&mut old, "s", "a:1").await;
    subscribe(&mut other, "s", "a:2").await;
    new.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["a:3"]}})).await;
    // Who is not there any more when it starts is not waited for.
    drop(other);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(drain(&mut old).await, [] as [Value; 0], "the server has not answered");
    old.answer(&json!("s")).await;
    assert_eq!(new.receive().await.unwrap()["method"], ACKNOWLEDGED);
    sleep(A_WHILE).await;
    assert_eq!((stage.starts(), stage.process().subscriptions()), (1, vec!["a:1".into(), "a:3".into()]));
    // Nobody hears of it, which is no error.
    stage.process().update("a:2");
    sleep(A_WHILE).await;
    assert_eq!(drain(&mut old).await, [] as [Value; 0]);
}

#[derive(Clone, Debug)]
enum Deed {
    Subscribe(usize, usize, bool),
    Listen(usize, Vec<usize>),
    Cancel(usize, usize),
    Reconnect(usize),
    Restart(bool),
    Update(usize),
    Wait(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let uri = 0..URIS.len();
    prop_oneof![
        8 => (0..2_usize, uri.clone(), any::<bool>()).prop_map(|(who, uri, on)| Deed::Subscribe(who, uri, on)),
        5 => (2..4_usize, proptest::collection::vec(uri.clone(), 0..4)).prop_map(|(who, uris)| Deed::Listen(who, uris)),
        3 => (2..4_usize, any::<usize>()).prop_map(|(who, which)| Deed::Cancel(who, which)),
        1 => (0..4_usize).prop_map(Deed::Reconnect),
        1 => any::<bool>().prop_map(Deed::Restart),
        3 => uri.prop_map(Deed::Update),
        4 => (0..30_u64).prop_map(Deed::Wait),
    ]
}

/// A client that knows what it asked for, and counts.
struct Counting {
    caller: Caller,
    modern: bool,
    /// Its requests: the id, the URIs, and whether it still wants them.
    asked: Vec<(String, Vec<usize>, bool)>,
    told: Vec<Value>,
}

impl Counting {
    async fn connect(hub: &Hub, modern: bool) -> Self {
        let caller =
            if modern { Caller::of_proxy(hub) } else { Caller::legacy(hub, LATEST, json!({})).await.0 };
        Self { caller, modern, asked: Vec::new(), told: Vec::new() }
    }

    fn answers<'m>(&'m self, id: &str) -> Vec<&'m Value> {
        let is_it = |message: &&Value| message.get("method").is_none() && message["id"] == *id;
        self.told.iter().filter(is_it).collect()
    }

    /// What it hears of by what it was told, each as often as it will be told.
    fn hears(&self) -> Vec<String> {
        let mut heard = Vec::new();
        if self.modern {
            for (id, _, wanted) in self.asked.iter().filter(|(_, _, wanted)| *wanted) {
                let acks: Vec<&Value> = self
                    .told
                    .iter()
                    .filter(|told| {
                        told["method"] == ACKNOWLEDGED && told["params"]["_meta"][SUBSCRIPTION] == **id
                    })
                    .collect();
                assert!(*wanted && acks.len() + self.answers(id).len() == 1, "{id}: {:?}", self.told);
                let uris =
                    acks.first().map(|ack| ack["params"]["notifications"]["resourceSubscriptions"].clone());
                heard.extend(
                    serde_json::from_value::<Vec<String>>(uris.unwrap_or_default()).unwrap_or_default(),
                );
            }
            return heard;
        }
        for (id, _, _) in &self.asked {
            assert_eq!(self.answers(id).len(), 1, "{id}: {:?}", self.told);
        }
        for (index, uri) in URIS.iter().enumerate() {
            let last = self.asked.iter().rev().find(|(_, uris, _)| uris == &[index]);
            if last.is_some_and(|(id, _, on)| *on && self.answers(id)[0].get("result").is_some()) {
                heard.push((*uri).to_owned());
            }
        }
        heard
    }
}

async fn whatever_they_do(era: Era, deeds: Vec<Deed>) {
    let (stage, hub) = begin(era).await;
    let mut clients = Vec::new();
    for modern in [false, false, true, true] {
        clients.push(Counting::connect(&hub, modern).await);
    }
    for (count, deed) in deeds.into_iter().enumerate() {
        let id = format!("r{count}");
        match deed {
            Deed::Subscribe(who, uri, on) => {
                let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
                clients[who].caller.plain(&json!(id), method, json!({"uri": URIS[uri]})).await;
                clients[who].asked.push((id, vec![uri], on));
            }
            Deed::Listen(who, uris) => {
                let names: Vec<&str> = uris.iter().map(|uri| URIS[*uri]).collect();
                let filter = json!({"notifications": {"resourceSubscriptions": names}});
                clients[who].caller.send_as(&json!(id), "subscriptions/listen", filter).await;
                clients[who].asked.push((id, uris, true));
            }
            Deed::Cancel(who, which) => {
                let client = &mut clients[who];
                let count = client.asked.len().max(1);
                if let Some((id, _, wanted)) = client.asked.get_mut(which % count) {
                    *wanted = false;
                    client.caller.notify("notifications/cancelled", json!({"requestId": id})).await;
                }
            }
            Deed::Reconnect(who) => clients[who] = Counting::connect(&hub, who >= 2).await,
            Deed::Restart(waits) => {
                stage.server_exits(Exit::Status(1));
                sleep(if waits { RESTARTED } else { Duration::ZERO }).await;
            }
            Deed::Update(uri) => stage.process().update(URIS[uri]),
            Deed::Wait(millis) => sleep(Duration::from_millis(millis)).await,
        }
        if count % 8 == 0 {
            for client in &mut clients {
                client.told.extend(drain(&mut client.caller).await);
            }
        }
    }
    sleep(RESTARTED).await;
    let mut wanted = BTreeSet::new();
    for client in &mut clients {
        client.told.extend(drain(&mut client.caller).await);
        wanted.extend(client.hears());
    }
    let process = stage.process();
    assert_eq!(process.subscriptions(), wanted.into_iter().collect::<Vec<_>>());
    assert!(process.open_streams() <= 1);
    for uri in URIS {
        process.update(uri);
        sleep(A_WHILE).await;
        for client in &mut clients {
            let told = drain(&mut client.caller).await;
            let times = client.hears().iter().filter(|heard| *heard == uri).count();
            assert_eq!((told.len(), updates(&told)), (times, times), "{uri}: {told:?}");
            assert!(told.iter().all(|told| told["params"]["uri"] == uri));
        }
    }
    process.change_tools();
    sleep(A_WHILE).await;
    for client in &mut clients {
        let told = drain(&mut client.caller).await;
        assert_eq!(told.len(), usize::from(!client.modern), "{told:?}");
        assert!(told.iter().all(|told| told["method"] == TOOLS_CHANGED));
    }
    drop(clients);
    sleep(A_WHILE).await;
    assert_eq!(process.subscriptions(), [] as [String; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_clients_of_both_eras_do_each_hears_its_own(
        modern in any::<bool>(), deeds in proptest::collection::vec(deed(), 0..40),
    ) {
        play(async || whatever_they_do(if modern { Era::Modern } else { Era::Legacy }, deeds.clone()).await);
    }
}
