//! A bridge's socket, by a hand-written client: modern MCP whatever the server speaks, ids of any kind, and lines that
//! are none.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use drowse_tests::fixture::journal::Entry;
use drowse_tests::harness::{Home, LIMIT, Session, Socket, failure, in_both_eras};
use serde_json::{Value, json};

fn connect<'h>(home: &'h Home, era: &str) -> Session<'h> {
    home.connect("@s", &[], &["--era", era])
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

/// Ids as JSON text: a client's are kept byte for byte.
const IDS: &[&str] = &[
    "0",
    "-1",
    "9007199254740993",
    "18446744073709551615",
    r#""0""#,
    r#""""#,
    r#""\u0061\/b""#,
    "\"\u{2713}\"",
];

#[test]
fn ids_of_any_kind_keep_their_bytes() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let address = session.socket_file();
        let mut stream = UnixStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut read = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line
        };
        writeln!(stream, r#"{{"drowse":{{"hello":{{"versions":[1,7],"client":"x","future":1}}}}}}"#).unwrap();
        assert!(read().starts_with(r#"{"drowse":{"hello":"#));
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        for method in
            ["tools/list", "server/discover", "drowse/status", "drowse/info", "drowse/ping", "no/such"]
        {
            for id in IDS {
                writeln!(stream, r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{meta}}},"id":{id}}}"#)
                    .unwrap();
                let line = read();
                assert!(line.contains(&format!(r#""id":{id}"#)), "{method} {id}: {line}");
                let is_error = serde_json::from_str::<Value>(&line).unwrap().get("error").is_some();
                assert_eq!(is_error, method == "no/such", "{line}");
            }
        }
        assert_eq!(session.starts(), 1);
    });
}

#[test]
fn an_id_is_the_connections_own() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let (mut one, mut other) = (session.socket(), session.socket());
        let slow = |tag: &str, ms: u64| call("slow", json!({"tag": tag, "ms": ms}));
        one.send_as(&json!(0), "tools/call", slow("one", 60_000));
        other.send_as(&json!(0), "tools/call", slow("other", 400));
        session.wait_for_run("one");
        session.wait_for_run("other");
        // Cancelled by its own client alone, and by its own id alone.
        for id in [json!("0"), json!(1), json!(0.0), json!(null)] {
            one.notify("notifications/cancelled", json!({"requestId": id})).unwrap();
        }
        assert_eq!(one.ask("drowse/status", json!({}))["result"]["inFlight"], 2);
        one.notify("notifications/cancelled", json!({"requestId": 0})).unwrap();
        assert_eq!(failure(&one.answer(&json!(0))), ("cancelled", "unknown"));
        assert_eq!(other.answer(&json!(0))["result"]["content"][0]["text"], "slept 400");
        session.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "one")));
        assert_eq!((session.executions("one"), session.executions("other")), (1, 1));
    });
}

#[test]
fn answers_come_as_they_are_ready() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let mut socket = session.socket();
        let ids: Vec<Value> = [500, 300, 100]
            .map(|ms| socket.call("slow", json!({"ms": ms, "tag": format!("t{ms}")})))
            .to_vec();
        let quick = socket.call("echo", json!({"text": "hi"}));
        let order: Vec<Value> =
            std::iter::from_fn(|| socket.receive()).take(4).map(|got| got["id"].clone()).collect();
        assert_eq!(order, [&quick, &ids[2], &ids[1], &ids[0]].map(Clone::clone));
    });
}

#[test]
fn progress_comes_under_the_clients_own_token() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let mut socket = session.socket();
        for (tag, token) in [("a", json!(0)), ("b", json!("0")), ("c", json!("\u{2713}"))] {
            let mut params = call("slow", json!({"ms": 350, "tag": tag}));
            params["_meta"] = json!({"progressToken": token});
            let id = socket.send("tools/call", params);
            let mut reports = 0;
            let answer = loop {
                let message = socket.receive().unwrap();
                if message.get("method").is_none() {
                    break message;
                }
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], token);
                reports += 1;
            };
            assert_eq!(answer["id"], id, "{answer}");
            // As many as the server sent, which are fewer than three where the machine has no time for one.
            let is_report = |entry: &&Entry| entry.event == "progress" && entry.fields["tag"] == tag;
            let sent = session.journal.entries().unwrap().iter().filter(is_report).count();
            assert!(reports == sent && (1..=3).contains(&sent), "{reports} of {sent}");
        }
        // Nobody gets what he did not ask for.
        let id = socket.call("slow", json!({"ms": 350}));
        assert_eq!(socket.receive().unwrap()["id"], id);
    });
}

/// What a modern client may count on is there, whichever era the server is of.
#[test]
fn results_are_modern_whatever_the_server_is() {
    in_both_eras(|era| {
        let home = Home::new();
        for flags in [&["--era", era][..], &["--era", era, "--no-result-type"]] {
            let name = format!("@s{}", flags.len());
            let session = home.connect(&name, &[], flags);
            let mut socket = session.socket();
            for (method, params, cacheable) in [
                ("tools/list", json!({}), true),
                ("resources/list", json!({}), true),
                ("resources/templates/list", json!({}), true),
                ("resources/read", json!({"uri": "counter://main"}), true),
                ("prompts/list", json!({}), true),
                ("server/discover", json!({}), true),
                ("tools/call", call("echo", json!({"text": "hi"})), false),
                ("prompts/get", json!({"name": "hello", "arguments": {"name": "you"}}), false),
            ] {
                let answer = socket.ask(method, params);
                let result = &answer["result"];
                assert_eq!(result["resultType"], "complete", "{flags:?} {method}: {answer}");
                assert_eq!(result["ttlMs"].is_u64(), cacheable, "{flags:?} {method}: {answer}");
                assert_eq!(result["cacheScope"].is_string(), cacheable, "{flags:?} {method}: {answer}");
            }
            let answer = socket.ask("resources/read", json!({"uri": "no://such"}));
            assert_eq!(answer["error"]["code"], -32602, "not the code of the old revisions: {answer}");
            let discovered = socket.ask("server/discover", json!({}));
            assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
            let info = &discovered["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
            assert_eq!(info["name"], "drowse-fixture", "{discovered}");
        }
    });
}

#[test]
fn requests_that_are_not_modern_are_refused_and_cost_nothing() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        session.wait_until_saved();
        let before = session.methods();
        let mut socket = session.socket();
        let mut code = |line: &str| {
            socket.line(line).unwrap();
            let answer = socket.receive().unwrap();
            (answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}")), answer)
        };
        let with = |meta: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
        let (version, capabilities) =
            ("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities");
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).0, -32602);
        assert_eq!(code(&with(json!({})).to_string()).0, -32602);
        assert_eq!(code(&with(json!({version: "2026-07-28"})).to_string()).0, -32602);
        let (unsupported, answer) = code(&with(json!({version: "2025-11-25", capabilities: {}})).to_string());
        let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
        assert_eq!((unsupported, &answer["error"]["data"]), (-32022, &data));
        assert_eq!(code("nonsense").0, -32700);
        assert_eq!(code("{}").0, -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#).0, -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}"#).0, -32600);
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#).0, -32600);
        // Batches are of revisions that are not spoken here.
        let batch = json!([with(json!({version: "2026-07-28", capabilities: {}}))]);
        assert_eq!(code(&batch.to_string()).0, -32600);
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}1{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!([-32700, -32600].contains(&code(&deep).0));
        // The connection is as good as before, and the server heard nothing of all that.
        assert_eq!(session.methods(), before);
        assert!(socket.ask("tools/list", json!({}))["result"].is_object());
        assert_eq!(session.starts(), 1);
    });
}

#[test]
fn a_first_line_that_is_no_hello_is_refused() {
    let home = Home::new();
    let session = home.connect("@s", &[], &[]);
    let address = session.socket_file();
    for line in [
        "GET / HTTP/1.1",
        "{}",
        r#"{"jsonrpc":"2.0","id":0,"method":"drowse/close"}"#,
        r#"{"drowse":{"hello":{"versions":[2]}}}"#,
    ] {
        let mut stream = UnixStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // What comes after it is not read.
        let hello = r#"{"drowse":{"hello":{"versions":[1]}}}"#;
        stream.write_all(format!("{line}\n{hello}\n").as_bytes()).unwrap();
        let answer: Vec<String> = BufReader::new(&stream).lines().map_while(Result::ok).collect();
        assert_eq!(answer.len(), 1, "one line, then the end: {answer:?}");
        let refused: Value = serde_json::from_str(&answer[0]).unwrap();
        assert_eq!(refused["drowse"]["refused"]["versions"], json!([1]), "{line}: {refused}");
        assert_eq!(refused["drowse"]["refused"]["inFlight"], 0);
    }
    assert_eq!(session.status()["state"], "live");
    let mode = std::fs::metadata(&address).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else's");
}

/// More than the bridge has room for, on one connection: all are answered, each once.
#[test]
fn a_thousand_requests_at_once() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let mut socket = session.socket();
        let mut other: Socket = session.socket();
        std::thread::scope(|scope| {
            let mut writer = socket.writer();
            scope.spawn(move || {
                for place in 0..1000 {
                    let tag = format!("t{place}");
                    let params = json!({"name": "tag", "arguments": {"tag": tag}, "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities": {},
                    }});
                    let line = json!({"jsonrpc": "2.0", "id": tag, "method": "tools/call", "params": params});
                    writeln!(writer, "{line}").unwrap();
                }
            });
            let mut answered: Vec<String> = (0..1000)
                .map(|_| {
                    let answer = socket.receive().unwrap();
                    let id = answer["id"].as_str().unwrap().to_owned();
                    assert_eq!(answer["result"]["content"][0]["text"], json!(id));
                    id
                })
                .collect();
            answered.sort_unstable();
            answered.dedup();
            assert_eq!(answered.len(), 1000);
        });
        assert_eq!(other.ask("drowse/status", json!({}))["result"]["inFlight"], 0);
        let runs = session.journal.entries().unwrap().iter().filter(|entry| entry.event == "run").count();
        assert_eq!((runs, session.starts()), (1000, 1));
    });
}
