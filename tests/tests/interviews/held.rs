//! Legacy servers that ask their client during a call, over stdio and HTTP: the command line answers as it does a modern
//! one, and the call runs once.

use drowse_tests::fixture::journal::Entry;
use drowse_tests::harness::{Home, HttpServer, Session};
use serde_json::{Value, json};

/// A form with one field that has a default.
fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {
        "type": "object", "properties": {"who": {"type": "string", "default": "ann"}}, "required": ["who"],
    }}})
}

/// Runs `test` with a session on a server that is a process, and with one that is behind a URL.
fn over_both(flags: &[&str], test: impl Fn(&Session<'_>)) {
    let home = Home::new();
    test(&home.connect("@stdio", flags, &["--era", "legacy"]));
    let server = HttpServer::start(&["--era", "legacy"]);
    test(&home.connect_http("@http", flags, &server));
}

fn asked(session: &Session<'_>) -> usize {
    let entries: Vec<Entry> = session.journal.entries().unwrap();
    entries.iter().filter(|entry| entry.event == "run").count()
}

/// What the server was told of its client.
fn told(session: &Session<'_>) -> Vec<Value> {
    let entries: Vec<Entry> = session.journal.entries().unwrap();
    entries.iter().filter_map(|entry| entry.fields.get("capabilities").cloned()).collect()
}

#[test]
fn a_server_is_told_what_the_session_answers_and_not_what_a_client_can() {
    let home = Home::new();
    let directory = home.path().to_owned();
    let root = directory.to_str().unwrap();
    let elicitation = json!({"form": {}, "url": {}});
    for (flags, expected) in [
        (&[][..], json!({"elicitation": elicitation})),
        (&["--root", root], json!({"elicitation": elicitation, "roots": {}})),
        (&["--sampling-command", "cat"], json!({"elicitation": elicitation, "sampling": {"tools": {}}})),
    ] {
        over_both(flags, |session| {
            // One that cannot be asked anything, and one that can be asked for more.
            let mut socket = session.socket();
            let params = json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"},
                "capabilities": {"sampling": {}, "roots": {}}});
            let open = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            socket.line(&open.to_string()).unwrap();
            assert!(socket.answer(&json!(1)).get("result").is_some());
            let _ = session.run(["tools-call", "echo", "text=x"]).ok();
            assert_eq!(json!(told(session)), json!([expected]), "{flags:?}");
        });
    }
}

#[test]
fn a_question_is_answered_and_the_call_goes_on() {
    over_both(&[], |session| {
        let question = form().to_string();
        let run = session.run(["tools-call", "ask", &question, "--elicit", "accept-defaults"]).ok();
        let said: Value = serde_json::from_str(&run.text()).unwrap();
        assert_eq!(said, json!({"action": "accept", "content": {"who": "ann"}}));
        let run = session.run(["tools-call", "ask", &question, "--elicit", r#"{"who": "bob"}"#]).ok();
        assert!(run.text().contains("bob"), "{}", run.text());
        let calls = session.methods().iter().filter(|method| *method == "tools/call").count();
        assert_eq!(calls, 2, "a call that is answered is not called again");
        assert!(asked(session) <= 2);
    });
}

#[test]
fn without_anybody_it_is_declined_at_once() {
    over_both(&[], |session| {
        let declined = |flags: &[&str]| {
            let form = form().to_string();
            let run = session.run(["tools-call", "ask", &form].into_iter().chain(flags.iter().copied())).ok();
            let said: Value = serde_json::from_str(&run.text()).unwrap();
            assert_eq!(said, json!({"action": "decline"}));
            run.notices()
        };
        // The user did not, and has to know.
        let told = declined(&[]);
        assert_eq!((told.len(), &told[0]["kind"]), (1, &json!("question")), "{told:?}");
        let text = told[0]["notice"].as_str().unwrap();
        for part in ["“Who?”", "declined", "--elicit"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(declined(&["--elicit", "decline"]), [json!(null); 0]);
        let log = session.run(["logs"]).ok().out;
        assert!(log.contains("cannot be asked for that") && !log.contains("Undeclared("), "{log}");
    });
}

#[test]
fn an_answer_that_cannot_be_given_ends_the_call_and_frees_the_session() {
    over_both(&[], |session| {
        let question = json!({"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {
            "type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"],
        }}});
        let _ =
            session.run(["tools-call", "ask", &question.to_string(), "--elicit", "accept-defaults"]).fails(1);
        session.wait_for(|entries| {
            entries.iter().any(|entry| {
                let field = |name: &str| entry.fields.get(name).cloned().unwrap_or_default();
                field("method") == "notifications/cancelled" || entry.event == "cancelled"
            })
        });
        session.run(["tools-call", "ask", &form().to_string(), "--elicit", "accept-defaults"]).ok();
    });
}

#[test]
fn roots_are_told_and_a_model_is_asked() {
    let home = Home::new();
    let directory = home.path().to_owned();
    let root = directory.to_str().unwrap();
    let model =
        r#"cat >/dev/null; echo '{"role":"assistant","model":"m","content":{"type":"text","text":"hm"}}'"#;
    let flags = ["--root", root, "--sampling-command", model];
    over_both(&flags, |session| {
        let run = session.run(["tools-call", "ask", r#"{"method": "roots/list"}"#]).ok();
        let roots: Value = serde_json::from_str(&run.text()).unwrap();
        assert!(roots["roots"][0]["uri"].as_str().unwrap().starts_with("file:///"), "{roots}");
        let question = json!({"method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5,
        }});
        let run = session.run(["tools-call", "ask", &question.to_string()]).ok();
        assert!(run.text().contains("hm"), "{}", run.text());
    });
    // Not offered, so it is refused.
    over_both(&[], |session| {
        let run = session.run(["tools-call", "ask", r#"{"method": "roots/list"}"#]).ok();
        assert!(run.text().contains("-32601"), "{}", run.text());
    });
}
