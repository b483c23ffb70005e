//! Clients of both eras on one bridge, by its socket, and a server that is started anew, of the same era or of another.

use std::fs;

use drowse_tests::harness::{Home, Session, Socket, at_once};
use serde_json::{Value, json};

use super::{COUNTER, TOUCH, asked};

const UPDATED: &str = "notifications/resources/updated";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A client, and the id of what it listens to.
struct Client {
    socket: Socket,
    modern: bool,
    listens: Value,
}

impl Client {
    fn legacy(session: &Session<'_>) -> Self {
        let mut socket = session.socket();
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "old", "version": "1"}});
        plain(&mut socket, "init", "initialize", params);
        assert_eq!(socket.answer(&json!("init"))["result"]["protocolVersion"], "2025-06-18");
        socket.notify("notifications/initialized", json!({})).unwrap();
        Self { socket, modern: false, listens: Value::Null }
    }

    fn modern(session: &Session<'_>, filter: Value) -> Self {
        let mut socket = session.socket();
        let listens = json!("listen:0");
        socket.send_as(&listens, "subscriptions/listen", json!({"notifications": filter}));
        let ack = socket.receive().unwrap();
        assert_eq!(ack["params"]["_meta"][SUBSCRIPTION], listens, "{ack}");
        assert_eq!(ack["params"]["notifications"], filter);
        Self { socket, modern: true, listens }
    }

    fn subscribe(&mut self, method: &str, uri: &str) {
        plain(&mut self.socket, method, method, json!({"uri": uri}));
        assert_eq!(self.socket.answer(&json!(method))["result"], json!({}));
    }

    /// The methods of all that it was told by now.
    fn told(&mut self) -> Vec<String> {
        match self.modern {
            true => self.socket.send_as(&json!("sync"), "drowse/status", json!({})),
            false => plain(&mut self.socket, "sync", "ping", json!({})),
        }
        let mut all = Vec::new();
        loop {
            let message = self.socket.receive().unwrap();
            if message["id"] == "sync" {
                all.sort();
                return all;
            }
            if self.modern {
                assert_eq!(message["params"]["_meta"][SUBSCRIPTION], self.listens, "{message}");
            }
            if message["method"] == UPDATED {
                assert_eq!(message["params"]["uri"], COUNTER);
            }
            all.push(message["method"].as_str().unwrap().to_owned());
        }
    }

    /// Waits until it is told of an update.
    fn hears_of_an_update(&mut self) {
        while self.socket.receive().unwrap()["method"] != UPDATED {}
    }
}

fn plain(socket: &mut Socket, id: &str, method: &str, params: Value) {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    socket.line(&request.to_string()).unwrap();
}

#[test]
fn two_legacy_and_two_modern_clients_each_hear_their_own_also_of_the_next_server() {
    let pairs = ["legacy", "modern"].into_iter().flat_map(|one| ["legacy", "modern"].map(|two| (one, two)));
    at_once(pairs.map(|(one, two)| (format!("{one}, then {two}"), (one, two))), |(before, after)| {
        let home = Home::new();
        let session = home.session("@s");
        let era = home.path().join("era");
        fs::write(&era, before).unwrap();
        let script = r#"era=$1; shift; exec "$@" --era "$(cat "$era")""#;
        let mut words = ["connect", "@s", "--json", "--auto-restart", "--", "sh", "-c", script, "sh"]
            .map(str::to_owned)
            .to_vec();
        words.push(era.to_str().unwrap().to_owned());
        words.extend(session.server(&[]));
        let _ = home.run(words).ok();
        session.wait_until_saved();

        let (mut old, mut other) = (Client::legacy(&session), Client::legacy(&session));
        let mut new = Client::modern(&session, json!({"resourceSubscriptions": [COUNTER]}));
        let mut lists = Client::modern(&session, json!({"toolsListChanged": true}));
        old.subscribe("resources/subscribe", COUNTER);
        // Asked for and given back: it hears nothing of it.
        other.subscribe("resources/subscribe", COUNTER);
        other.subscribe("resources/unsubscribe", COUNTER);
        let first_asked = asked(&session);
        let hear_their_own = |clients: [&mut Client; 4]| {
            let [old, other, new, lists] = clients;
            let _ = session.call(TOUCH, &[]).ok();
            assert_eq!((old.told(), new.told()), (vec![UPDATED.to_owned()], vec![UPDATED.to_owned()]));
            assert_eq!((other.told(), lists.told()), (vec![], vec![]));
            let _ = session.call("notify", &["what=tools"]).ok();
            let changed = vec![TOOLS_CHANGED.to_owned()];
            assert_eq!((old.told(), other.told(), lists.told()), (changed.clone(), changed.clone(), changed));
            assert_eq!(new.told(), [] as [String; 0]);
        };
        hear_their_own([&mut old, &mut other, &mut new, &mut lists]);

        fs::write(&era, after).unwrap();
        session.kill_server();
        // It may have changed meanwhile.
        old.hears_of_an_update();
        new.hears_of_an_update();
        session.wait_until_saved();
        for client in [&mut old, &mut other, &mut new, &mut lists] {
            let _ = client.told();
        }
        assert_eq!(session.state().unwrap().era.unwrap().era, after);
        hear_their_own([&mut old, &mut other, &mut new, &mut lists]);
        if (before, after) == ("legacy", "legacy") {
            assert_eq!((first_asked, asked(&session)), (1, 2), "once for all, and once more after the start");
        }

        old.subscribe("resources/unsubscribe", COUNTER);
        new.socket.notify("notifications/cancelled", json!({"requestId": new.listens})).unwrap();
        assert_eq!(new.told(), [] as [String; 0]);
        assert_eq!(session.status()["subscriptions"], json!([]));
        let _ = session.call(TOUCH, &[]).ok();
        for client in [&mut old, &mut other, &mut new, &mut lists] {
            assert_eq!(client.told(), [] as [String; 0]);
        }
        let _ = home.run(["close", "@s"]).ok();
    });
}
