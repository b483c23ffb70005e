//! What becomes of each message between clients and servers of both eras: what arrives on the far side, and what the
//! near side is told. A method without a row, or a row without one of the four pairs, is a failure.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::method::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Event, Script, Stage, play, sleepy};

const A_WHILE: Duration = Duration::from_millis(50);

/// What becomes of a message on one pair of eras.
enum Cell {
    /// It arrives as it is, but for the id and for what each request says of itself; so does its answer.
    Passes,
    /// The front answers, and the far side hears nothing.
    Answered(Value),
    /// The front answers with that error, and the far side hears nothing.
    Refused(i64),
    /// The near side, and then the far side, hear this instead: messages without ids.
    Becomes(Vec<Value>, Vec<Value>),
    /// Nobody hears anything.
    Nothing,
}

use Cell::{Answered, Becomes, Nothing, Passes, Refused};

/// The pairs, client first, in the order of a row's cells.
const PAIRS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];

struct Row {
    method: &'static str,
    params: Value,
    cells: [Cell; 4],
}

fn row(method: &'static str, params: Value, cells: [Cell; 4]) -> Row {
    Row { method, params, cells }
}

fn passes(method: &'static str, params: Value) -> Row {
    row(method, params, [Passes, Passes, Passes, Passes])
}

/// Requests and notifications of clients, on a connection that is open.
fn from_clients() -> Vec<Row> {
    let listen = |uri: &str| {
        json!({"method": "subscriptions/listen", "params": {"notifications":
        {"toolsListChanged": true, "resourceSubscriptions": [uri]}}})
    };
    let subscribe = |uri: &str| json!({"method": "resources/subscribe", "params": {"uri": uri}});
    let acknowledged = json!({"method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": "x"},
            "notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:1"]}}});
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:1"]}});
    let discovered = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
        "cacheScope": "private", "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}}});
    let named = |mut discovered: Value| {
        discovered["_meta"] =
            json!({"io.modelcontextprotocol/serverInfo": {"name": "staged", "version": "1"}});
        discovered
    };
    let empty = || Answered(json!({}));
    vec![
        passes("tools/list", json!({})),
        passes("tools/call", json!({"name": "echo", "arguments": {"tag": "t", "n": [1.50, "\u{e9}"]}})),
        passes("resources/list", json!({"cursor": "c"})),
        passes("resources/templates/list", json!({})),
        passes("resources/read", json!({"uri": "a:1"})),
        passes("prompts/list", json!({})),
        passes("prompts/get", json!({"name": "p"})),
        passes(
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"}}),
        ),
        // Tasks are not the same in the two eras; drowse's own commands use those of either.
        row("tasks/get", json!({"taskId": "7"}), [Passes, Refused(-32601), Passes, Passes]),
        row(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
            [Refused(-32600), Refused(-32600), Refused(-32022), Refused(-32022)],
        ),
        row(
            "server/discover",
            json!({}),
            [Refused(-32601), Refused(-32601), Answered(named(discovered.clone())), Answered(discovered)],
        ),
        row("ping", json!({}), [empty(), empty(), Refused(-32601), Refused(-32601)]),
        row(
            "logging/setLevel",
            json!({"level": "warning"}),
            [
                Becomes(
                    vec![json!({"result": {}})],
                    vec![json!({"method": "logging/setLevel", "params": {"level": "warning"}})],
                ),
                empty(),
                Refused(-32601),
                Refused(-32601),
            ],
        ),
        row(
            "resources/subscribe",
            json!({"uri": "a:1"}),
            [
                Becomes(vec![json!({"result": {}})], vec![subscribe("a:1")]),
                // The stream for the lists is replaced by one for both.
                Becomes(
                    vec![json!({"result": {}})],
                    vec![listen("a:1"), json!({"method": "notifications/cancelled"})],
                ),
                Refused(-32601),
                Refused(-32601),
            ],
        ),
        row(
            "resources/unsubscribe",
            json!({"uri": "a:1"}),
            [empty(), empty(), Refused(-32601), Refused(-32601)],
        ),
        row(
            "subscriptions/listen",
            wanted,
            [
                Refused(-32601),
                Refused(-32601),
                Becomes(vec![acknowledged.clone()], vec![subscribe("a:1")]),
                Becomes(vec![acknowledged], vec![listen("a:1")]),
            ],
        ),
        row("no/such", json!({}), [Refused(-32601), Refused(-32601), Refused(-32601), Refused(-32601)]),
        row("notifications/roots/list_changed", json!({}), [Nothing, Nothing, Nothing, Nothing]),
        row("notifications/initialized", json!({}), [Nothing, Nothing, Nothing, Nothing]),
        row(
            "notifications/progress",
            json!({"progressToken": 1, "progress": 1}),
            [Nothing, Nothing, Nothing, Nothing],
        ),
        row(
            "notifications/cancelled",
            json!({"requestId": "nobody's"}),
            [Nothing, Nothing, Nothing, Nothing],
        ),
    ]
}

/// What a server says while a call of the client, with the progress token `"t"`, is with it: the message but for ids,
/// and what the client hears, and the server in return.
fn from_servers() -> Vec<(&'static str, Value, [Cell; 4])> {
    let content = json!({"content": [{"type": "text", "text": "x"}]});
    let with = |mut result: Value, name: &str, value: &str| {
        result[name] = value.into();
        json!({"result": result})
    };
    let complete = || with(content.clone(), "resultType", "complete");
    let plain = || json!({"result": content});
    let hears = |message: Value| Becomes(vec![message], Vec::new());
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let question = json!({"method": "elicitation/create", "params": form});
    let required = json!({"result": {"resultType": "input_required", "inputRequests": {"k": question},
        "requestState": "s"}});
    let log = json!({"method": "notifications/message", "params": {"level": "warning", "data": "d"}});
    let changed = json!({"method": "notifications/tools/list_changed"});
    let error = json!({"error": {"code": -32602, "message": "no", "data": {"a": 1}}});
    let asks = |message: Value| {
        let refusal = json!({"error": {"code": -32601, "message": "drowse declared no such capability"}});
        (
            message,
            [
                Becomes(Vec::new(), vec![refusal.clone()]),
                Nothing,
                Becomes(Vec::new(), vec![refusal]),
                Nothing,
            ],
        )
    };
    let (sampling, not_sampled) =
        asks(json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}));
    let (roots, no_roots) = asks(json!({"method": "roots/list"}));
    let ponged = || Becomes(Vec::new(), vec![json!({"result": {}})]);
    vec![
        ("result", plain(), [hears(plain()), hears(plain()), hears(complete()), hears(complete())]),
        ("complete", complete(), [hears(complete()), hears(plain()), hears(complete()), hears(complete())]),
        (
            "error",
            error.clone(),
            [hears(error.clone()), hears(error.clone()), hears(error.clone()), hears(error)],
        ),
        (
            "input_required",
            required.clone(),
            // A legacy server has no such results: it is whatever the tool means by it.
            [hears(required.clone()), hears(question.clone()), hears(required.clone()), hears(required)],
        ),
        (
            "elicitation/create",
            question.clone(),
            [
                hears(question.clone()),
                Nothing,
                hears(json!({"result": {"resultType": "input_required", "inputRequests": {"q1": question},
                    "requestState": "*"}})),
                Nothing,
            ],
        ),
        ("sampling/createMessage", sampling, not_sampled),
        ("roots/list", roots, no_roots),
        ("ping", json!({"method": "ping"}), [ponged(), Nothing, ponged(), Nothing]),
        ("notifications/message", log.clone(), [hears(log.clone()), hears(log), Nothing, Nothing]),
        (
            "notifications/tools/list_changed",
            changed.clone(),
            [hears(changed.clone()), hears(changed), Nothing, Nothing],
        ),
        (
            "notifications/progress",
            json!({"method": "notifications/progress", "params": {"progressToken": "*", "progress": 1}}),
            std::array::from_fn(|_| {
                hears(
                    json!({"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1}}),
                )
            }),
        ),
        // Nobody subscribed.
        (
            "notifications/resources/updated",
            json!({"method": "notifications/resources/updated", "params": {"uri": "a:1"}}),
            [Nothing, Nothing, Nothing, Nothing],
        ),
        (
            "notifications/other",
            json!({"method": "notifications/other"}),
            [Nothing, Nothing, Nothing, Nothing],
        ),
    ]
}

/// What the front adds to each request for a server of that era, beside what the client says.
fn meta(client: Era, server: Era) -> Option<Value> {
    match (client, server) {
        (Era::Legacy, Era::Legacy) => None,
        (Era::Modern, Era::Legacy) => Some(json!({})),
        (Era::Legacy, Era::Modern) => Some(json!({
            "io.modelcontextprotocol/logLevel": "info",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "old", "version": "1"},
        })),
        (Era::Modern, Era::Modern) => Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        })),
    }
}

/// A client of that era, whose connection is open, on a server that is ready and has said all that it says by itself.
async fn open(client: Era, server: Era) -> (Stage, Caller, usize) {
    let stage = Stage::new(Script { ttl_ms: 0, ..Script::of(server) });
    let hub = stage.bridge(sleepy());
    stage.saved().await;
    let mut caller = match client {
        Era::Legacy => Caller::legacy(&hub, "2025-11-25", json!({"elicitation": {}})).await.0,
        Era::Modern => {
            let mut caller = Caller::of_proxy(&hub);
            caller.ask("server/discover", json!({})).await;
            caller
        }
    };
    sleep(A_WHILE).await;
    // Changed lists are listened to for a legacy client, and that has an answer of its own.
    while caller.waiting().await.is_some() {}
    let heard = stage.events().len();
    (stage, caller, heard)
}

/// What the server got since then, and nothing of it twice.
fn far(stage: &Stage, since: usize) -> Vec<Value> {
    let got = stage.events().into_iter().skip(since).filter_map(|(_, event)| match event {
        Event::Got(message) => Some(message),
        _ => None,
    });
    got.collect()
}

async fn near(caller: &mut Caller) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(message) = caller.waiting().await {
        all.push(message);
    }
    all
}

/// A message without what is different each time.
fn bare(message: &Value) -> Value {
    let mut bare = message.clone();
    let object = bare.as_object_mut().unwrap();
    assert_eq!(object.remove("jsonrpc"), Some(json!("2.0")));
    object.remove("id");
    if let Some(meta) =
        bare["params"].get_mut("_meta").filter(|_| message["method"] == "subscriptions/listen")
    {
        *meta = json!(null);
        bare["params"].as_object_mut().unwrap().remove("_meta");
    }
    if message["method"] == "notifications/cancelled" || bare["params"].is_null() {
        bare.as_object_mut().unwrap().remove("params");
    }
    if bare["result"].is_null() {
        bare.as_object_mut().unwrap().remove("result");
    } else if bare["result"]["requestState"].as_str().is_some_and(|state| state.len() > 8) {
        bare["result"]["requestState"] = json!("*");
    }
    bare
}

async fn from_client(row: &Row, client: Era, server: Era, cell: &Cell) {
    let what = format!("{} from {client:?} to {server:?}", row.method);
    let (stage, mut caller, since) = open(client, server).await;
    let is_request = !row.method.starts_with("notifications/");
    match (is_request, client) {
        (false, _) => caller.notify(row.method, row.params.clone()).await,
        (true, Era::Legacy) => caller.plain(&json!("x"), row.method, row.params.clone()).await,
        (true, Era::Modern) => caller.send_as(&json!("x"), row.method, row.params.clone()).await,
    }
    sleep(A_WHILE).await;
    let (near, far) = (near(&mut caller).await, far(&stage, since));
    match cell {
        Passes => {
            let [request] = &far[..] else { panic!("{what}: {far:?}") };
            let mut params = row.params.clone();
            let meta = meta(client, server);
            if let Some(meta) = meta {
                params["_meta"] = meta;
            }
            if row.method == "tools/call" {
                params["_meta"]["progressToken"] = request["id"].clone();
            }
            assert_eq!(bare(request), json!({"method": row.method, "params": params}), "{what}");
            assert!(request["id"].is_u64(), "{what}");
            let [answer] = &near[..] else { panic!("{what}: {near:?}") };
            assert_eq!(answer["id"], "x", "{what}");
            let Some(result) = answer.get("result") else {
                assert!(answer["error"]["code"].is_i64(), "{what}: {answer}");
                return;
            };
            let cacheable = Method::from_name(row.method).is_cacheable();
            for (name, value, said) in [
                ("resultType", json!("complete"), client == Era::Modern),
                ("ttlMs", json!(0), client == Era::Modern && cacheable),
                ("cacheScope", json!("private"), client == Era::Modern && cacheable),
            ] {
                assert_eq!(result.get(name), said.then_some(&value), "{what}: {name}");
            }
        }
        Answered(result) => {
            assert_eq!(near, [json!({"jsonrpc": "2.0", "id": "x", "result": result})], "{what}");
            assert_eq!(far, [json!(null); 0], "{what}");
        }
        Refused(code) => {
            let [answer] = &near[..] else { panic!("{what}: {near:?}") };
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(code)), "{what}");
            assert_eq!(far, [json!(null); 0], "{what}");
        }
        Becomes(told, asked) => {
            assert_eq!(near.iter().map(bare).collect::<Vec<_>>(), *told, "{what}");
            assert_eq!(far.iter().map(bare).collect::<Vec<_>>(), *asked, "{what}");
        }
        Nothing => assert_eq!((near, far), (Vec::new(), Vec::new()), "{what}"),
    }
}

async fn from_server(name: &str, message: &Value, client: Era, server: Era, cell: &Cell) {
    let what = format!("{name} of {server:?} to {client:?}");
    let (stage, mut caller, _) = open(client, server).await;
    let mut params = json!({"name": "never", "arguments": {"tag": "c"}, "_meta": {"progressToken": "t"}});
    match client {
        Era::Legacy => caller.plain(&json!("x"), "tools/call", params).await,
        Era::Modern => {
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
            caller.send_as(&json!("x"), "tools/call", params).await;
        }
    }
    stage.until(|stage| stage.runs("c") > 0).await;
    let since = stage.events().len();
    let wire = far(&stage, 0).iter().find(|got| got["method"] == "tools/call").unwrap()["id"].clone();
    let mut says = message.clone();
    says["jsonrpc"] = json!("2.0");
    if says["method"] == "notifications/progress" {
        says["params"]["progressToken"] = wire.clone();
    }
    if says.get("method").is_none() {
        says["id"] = wire;
    } else if !name.starts_with("notifications/") {
        says["id"] = json!("theirs");
    }
    match name {
        // To whoever listens in its era, and to nobody else.
        "notifications/tools/list_changed" => stage.process().change_tools(),
        "notifications/resources/updated" => stage.process().update("a:1"),
        _ => stage.server_says(&says),
    }
    sleep(A_WHILE).await;
    let (near, far) = (near(&mut caller).await, far(&stage, since));
    match cell {
        Becomes(told, asked) => {
            assert_eq!(near.iter().map(bare).collect::<Vec<_>>(), *told, "{what}");
            assert_eq!(far.iter().map(bare).collect::<Vec<_>>(), *asked, "{what}");
            for answer in near.iter().filter(|message| message.get("method").is_none()) {
                assert_eq!(answer["id"], "x", "{what}");
            }
            for answer in &far {
                assert_eq!(answer["id"], "theirs", "{what}");
            }
        }
        Nothing => {
            let relisted = |message: &Value| message["method"] == "tools/list";
            let far: Vec<Value> = far.into_iter().filter(|message| !relisted(message)).collect();
            assert_eq!((near, far), (Vec::new(), Vec::new()), "{what}");
        }
        _ => panic!("{what}: no such cell for a server"),
    }
}

fn pair(at: usize) {
    let (client, server) = PAIRS[at];
    for row in from_clients() {
        play(async || from_client(&row, client, server, &row.cells[at]).await);
    }
    for (name, message, cells) in from_servers() {
        play(async || from_server(name, &message, client, server, &cells[at]).await);
    }
}

#[test]
fn legacy_clients_of_legacy_servers() {
    pair(0);
}

#[test]
fn legacy_clients_of_modern_servers() {
    pair(1);
}

#[test]
fn modern_clients_of_legacy_servers() {
    pair(2);
}

#[test]
fn modern_clients_of_modern_servers() {
    pair(3);
}

#[test]
fn every_method_has_a_row() {
    let rows = from_clients();
    for method in Method::all().filter(|method| !method.is_drowses()) {
        let has = rows.iter().any(|row| Method::from_name(row.method) == method);
        assert!(has, "{method:?}");
    }
    for name in [
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
    ] {
        assert!(rows.iter().any(|row| row.method == name), "{name}");
    }
    let said: Vec<&str> = from_servers().into_iter().map(|(name, _, _)| name).collect();
    for name in [
        "result",
        "complete",
        "error",
        "input_required",
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
        "ping",
        "notifications/message",
        "notifications/progress",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ] {
        assert!(said.contains(&name), "{name}");
    }
}
