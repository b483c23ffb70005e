//! Rounds of questions without a terminal: what is declared, what a retry holds, and what is refused.

use drowse_tests::fixture::journal::Entry;
use drowse_tests::harness::{Home, Session, at_once};
use serde_json::{Value, json};

use super::{asks, form, script};

/// The calls that the server saw, in order.
fn calls(session: &Session<'_>) -> Vec<Entry> {
    let entries = session.journal.entries().unwrap();
    entries.into_iter().filter(|entry| entry.event == "interview").collect()
}

fn name(message: &str) -> Value {
    form(
        message,
        json!({"name": {"type": "string", "default": "ann"}, "age": {"type": "integer"}}),
        json!(["name"]),
    )
}

#[test]
fn a_retry_is_the_same_request_with_the_answers_and_the_exact_state() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--era", "modern"]);
    let states = [" \"quoted\\ \u{e9}\u{1f40e}\n", "", "two"];
    let rounds = script(&[
        asks(json!({"z": name("first"), "a b": name("second")}), states[0]),
        json!({"resultType": "input_required", "requestState": states[1]}),
        json!({"resultType": "input_required", "inputRequests": {"z": name("third")}}),
        asks(json!({"k": name("fourth")}), states[2]),
    ]);
    let given = r#"{"name": "bob", "age": 7, "a b": {"name": "eve"}, "k": {"action": "decline"}}"#;
    let run = session.run(["tools-call", "interview", &rounds, "--elicit", given]).ok();
    assert_eq!(run.text(), r#"{"k":{"action":"decline"}}"#);
    let calls = calls(&session);
    let bob = json!({"action": "accept", "content": {"name": "bob", "age": 7}});
    let eve = json!({"action": "accept", "content": {"name": "eve"}});
    let expected = [
        (0, json!(null), json!(["name", "arguments"])),
        (1, json!({"z": bob, "a b": eve}), json!(["name", "arguments", "inputResponses", "requestState"])),
        (2, json!(null), json!(["name", "arguments", "requestState"])),
        (3, json!({"z": bob}), json!(["name", "arguments", "inputResponses"])),
        (
            4,
            json!({"k": {"action": "decline"}}),
            json!(["name", "arguments", "inputResponses", "requestState"]),
        ),
    ];
    assert_eq!(calls.len(), expected.len());
    let mut ids = Vec::new();
    for (call, (round, answers, params)) in calls.iter().zip(expected) {
        let field = |name: &str| call.fields[name].clone();
        assert_eq!((field("round"), field("answers")), (json!(round), answers.clone()));
        // The keys of the answers in the order of the questions.
        assert_eq!(field("answers").to_string(), answers.to_string());
        let sent: Vec<Value> =
            field("params").as_array().unwrap().iter().filter(|name| **name != "_meta").cloned().collect();
        assert_eq!(json!(sent), params);
        assert_eq!(field("declared"), json!({"elicitation": {"form": {}, "url": {}}}));
        ids.push(field("id").to_string());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each a request of its own");
    assert_eq!(session.starts(), 1);
}

#[test]
fn without_anybody_nothing_is_declared_and_nothing_answered() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--era", "modern"]);
    let rounds = script(&[asks(json!({"q": name("you")}), "s")]);
    let failed = session.run(["tools-call", "interview", &rounds]).fails(2);
    assert_eq!((&failed["kind"], &failed["ran"]), (&json!("invalid-answer"), &json!("unknown")));
    let calls = calls(&session);
    assert_eq!((calls.len(), &calls[0].fields["declared"]), (1, &json!({})));
    // Not even with an answer at hand, where the question is of another kind.
    for question in [
        json!({"method": "roots/list"}),
        json!({"method": "sampling/createMessage", "params": {"messages": []}}),
    ] {
        let rounds = script(&[asks(json!({"q": question}), "s")]);
        let run = session.run(["tools-call", "interview", &rounds, "--elicit", "accept-defaults"]);
        assert!(run.fails(2)["error"].as_str().unwrap().contains("not offered"));
    }
    assert_eq!(self::calls(&session).len(), 3);
}

#[test]
fn defaults_and_refusals() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--era", "modern"]);
    let all = json!({
        "name": {"type": "string", "default": "ann"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 9.5},
        "ok": {"type": "boolean", "default": true},
        "status": {"type": "string", "enum": ["on", "off"], "default": "on"},
        "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Ay"}]}, "default": ["a"]},
        "none": {"type": "string"},
    });
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://x.example/"}});
    let rounds = script(&[asks(json!({"f": form("all", all, json!(["name"])), "u": url}), "s")]);
    let answer = |elicit: &str| {
        let text = session.run(["tools-call", "interview", &rounds, "--elicit", elicit]).ok().text();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let defaults = json!({"name": "ann", "age": 30, "score": 9.5, "ok": true, "status": "on", "tags": ["a"]});
    let decline = json!({"action": "decline"});
    // Consent to an address is not a default.
    assert_eq!(
        answer("accept-defaults"),
        json!({"f": {"action": "accept", "content": defaults}, "u": decline})
    );
    assert_eq!(answer("decline"), json!({"f": decline, "u": decline}));
    let said = answer(r#"{"u": {"action": "accept", "content": {"x": 1}}, "f": {"action": "cancel"}}"#);
    assert_eq!(said, json!({"f": {"action": "cancel"}, "u": {"action": "accept"}}));

    let before = calls(&session).len();
    let needs = script(&[asks(
        json!({"f": form("Who?", json!({"name": {"type": "string"}}), json!(["name"]))}),
        "s",
    )]);
    for (elicit, says) in [
        ("accept-defaults", "`name` has no default"),
        ("{}", "name is missing"),
        (r#"{"name": 7}"#, "name: not a text"),
        (r#"{"f": {"action": "accept"}}"#, "name is missing"),
        (r#"{"f": {"action": "maybe"}}"#, "none of accept, decline and cancel"),
    ] {
        let failed = session.run(["tools-call", "interview", &needs, "--elicit", elicit]).fails(1);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!("input-required"), &json!("unknown")));
        assert!(failed["error"].as_str().unwrap().contains(says), "{failed}");
    }
    assert_eq!(calls(&session).len(), before + 5, "none of them was sent again");
    for wrong in ["accept", "[]", "{"] {
        assert_eq!(
            session.run(["tools-call", "interview", &needs, "--elicit", wrong]).fails(1)["kind"],
            "usage"
        );
    }
    let run = session.run(["resources-read", "interview://once", "--elicit", "accept-defaults"]).ok();
    let text = run.json()["contents"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, r#"{"who":{"action":"accept","content":{"who":"you"}}}"#);
}

#[test]
fn questions_that_make_no_sense_are_the_servers_fault() {
    let home = Home::new();
    let session = home.connect("@s", &["--root", "."], &["--era", "modern"]);
    let question = |question: Value| asks(json!({"q": question}), "s");
    let cases = [
        json!({"resultType": "input_required"}),
        json!({"resultType": "input_required", "requestState": 7}),
        json!({"resultType": "input_required", "requestState": {"a": 1}, "inputRequests": {}}),
        json!({"resultType": "input_required", "inputRequests": [], "requestState": "s"}),
        json!({"resultType": "input_required", "inputRequests": "q", "requestState": "s"}),
        question(json!(null)),
        question(json!({"params": {}})),
        question(json!({"method": 7})),
        question(json!({"method": "tools/call", "params": {}})),
        question(json!({"method": "elicitation/create"})),
        question(json!({"method": "elicitation/create", "params": {"message": 7, "requestedSchema": {}}})),
        question(json!({"method": "elicitation/create", "params": {"message": "m", "requestedSchema": []}})),
        question(form("m", json!({"a": {"type": "object"}}), json!([]))),
        question(json!({"method": "elicitation/create", "params": {"message": "m", "mode": "url"}})),
        question(json!({"method": "elicitation/create", "params": {"message": "m", "mode": 1}})),
        json!({"resultType": "something else"}),
    ];
    at_once(cases.into_iter().enumerate().map(|(n, case)| (n.to_string(), case)), |case| {
        let run = session.run([
            "tools-call",
            "interview",
            &script(std::slice::from_ref(&case)),
            "--elicit",
            "accept-defaults",
        ]);
        assert_eq!(run.fails(2)["kind"], "invalid-answer", "{case}");
    });
    assert_eq!(calls(&session).len(), 16, "each was sent once");
    // One that never has enough.
    let rounds: Vec<Value> =
        (0..20).map(|n| asks(json!({"q": {"method": "roots/list"}}), &n.to_string())).collect();
    let failed = session.run(["tools-call", "interview", &script(&rounds)]).fails(2);
    assert!(failed["error"].as_str().unwrap().contains("10 times"), "{failed}");
    assert_eq!(calls(&session).len(), 16 + 11);
}

#[test]
fn roots_are_those_of_the_session() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--era", "modern"]);
    let failed = session.call("ask", &[]).fails(2);
    assert_eq!(failed["_drowse"]["rpc"]["code"], -32021);
    assert!(failed["_drowse"]["hint"].as_str().unwrap().contains("--root"), "{failed}");
    let directory = home.path().join("a b");
    std::fs::create_dir(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let mut words = vec!["connect", "@s", "--root", path, "--root", "file:///etc", "--json", "--"];
    let server = session.server(&["--era", "modern"]);
    words.extend(server.iter().map(String::as_str));
    let _ = home.run(&words).ok();
    let said: Value = serde_json::from_str(&session.call("ask", &[]).ok().text()).unwrap();
    let uri = format!("file://{}", directory.canonicalize().unwrap().to_str().unwrap().replace(' ', "%20"));
    assert_eq!(said, json!({"roots": {"roots": [{"uri": uri}, {"uri": "file:///etc"}]}}));
    for wrong in ["no/such", "file://host/x"] {
        let (_, run) = home.try_connect("@t", &["--root", wrong], &["--era", "modern"]);
        assert_eq!(run.fails(1)["kind"], "usage");
    }
}

#[test]
fn a_language_model_is_a_command_of_the_session() {
    let home = Home::new();
    let model = r#"printf '{"role":"assistant","model":"m","content":{"type":"text","text":%s},"stopReason":"endTurn"}' "$(cat | wc -c)""#;
    let session = home.connect("@s", &["--sampling-command", model], &["--era", "modern"]);
    let params =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 9});
    let question = json!({"method": "sampling/createMessage", "params": params});
    let rounds = script(&[asks(json!({"q": question}), "s")]);
    let said: Value = serde_json::from_str(&session.call("interview", &[&rounds]).ok().text()).unwrap();
    assert_eq!(said["q"]["content"]["text"], params.to_string().len());
    assert_eq!(calls(&session)[0].fields["declared"], json!({"sampling": {}}));
    // One with tools is another capability.
    let mut with_tools = question.clone();
    with_tools["params"]["tools"] = json!([]);
    let rounds_with_tools = script(&[asks(json!({"q": with_tools}), "s")]);
    let failed = session.call("interview", &[&rounds_with_tools]).fails(2);
    assert!(failed["error"].as_str().unwrap().contains("with tools"), "{failed}");
    for (name, command, says) in [
        ("@fails", "echo no credit >&2; exit 3", "failed (exit status: 3): no credit"),
        ("@talks", "echo hello", "no result"),
    ] {
        let session = home.connect(name, &["--sampling-command", command], &["--era", "modern"]);
        let failed = session.call("interview", &[&rounds]).fails(1);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!("sampling"), &json!("unknown")));
        assert!(failed["error"].as_str().unwrap().contains(says), "{failed}");
        assert_eq!(calls(&session).len(), 1);
    }
    let slow = home.connect("@slow", &["--sampling-command", "sleep 1000"], &["--era", "modern"]);
    let failed = slow.call("interview", &[&rounds, "--timeout", "1"]).fails(1);
    assert!(failed["error"].as_str().unwrap().contains("took too long"), "{failed}");
}
