//! What the fixture's tools, resources and prompts answer.

use serde_json::{Value, json};

use super::peer::{Peer, call, code_of, legacy_call, modern, request, text_of};

#[test]
fn simple_tools() {
    let mut peer = Peer::start(&[]);
    assert_eq!(peer.call("tag", json!({"tag": "t1"})), "t1");
    assert_eq!(peer.call("tag", json!({"tag": "t1"})), "t1");
    assert_eq!(peer.journal.executions("t1").unwrap(), 2);
    assert_eq!(peer.call("big", json!({"bytes": 200_000})).len(), 200_000);
    assert_eq!(peer.call("cwd", json!({})), std::env::current_dir().unwrap().to_string_lossy());
    assert_eq!(peer.call("env", json!({"name": "PATH"})), std::env::var("PATH").unwrap());
    for failing in [call(1, "fail", json!({})), call(1, "env", json!({"name": "NO_SUCH_VARIABLE"}))] {
        assert_eq!(peer.ask(&failing)["result"]["isError"], true);
    }
    let refused = peer.ask(&call(2, "rpc_error", json!({})));
    assert_eq!((code_of(&refused), &refused["error"]["data"]), (1234, &json!({"detail": [1, "two"]})));
    assert_eq!(code_of(&peer.ask(&call(3, "rpc_error", json!({"code": -5})))), -5);
    for wrong in [call(4, "no-such", json!({})), call(4, "echo", json!({})), call(4, "bonus", json!({}))] {
        assert_eq!(code_of(&peer.ask(&wrong)), -32602);
    }
}

#[test]
fn slow_reports_is_overtaken_and_is_cancelled() {
    let mut peer = Peer::start(&[]);
    let mut slow = call(0, "slow", json!({"ms": 250, "tag": "s"}));
    slow["params"]["_meta"]["progressToken"] = json!(0);
    peer.send(&slow);
    assert_eq!(peer.call("echo", json!({"text": "first"})), "first");
    let mut reports = Vec::new();
    let last = loop {
        let message = peer.receive();
        match message["params"]["progress"].as_u64() {
            Some(progress) => {
                assert_eq!(
                    (&message["params"]["progressToken"], &message["params"]["total"]),
                    (&json!(0), &json!(250))
                );
                reports.push(progress);
            }
            None => break message,
        }
    };
    assert_eq!(text_of(&last), "slept 250");
    // A loaded machine may skip one, but not repeat one or invent one.
    assert!(
        reports.is_sorted() && reports.iter().all(|progress| [100, 200].contains(progress)),
        "{reports:?}"
    );

    peer.send(&call("c", "slow", json!({"ms": 60_000, "tag": "gone"})));
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}));
    peer.wait(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "gone")));
    assert!(peer.close().is_empty(), "a cancelled request is not answered");
}

#[test]
fn ask_in_the_legacy_era_is_a_request_of_the_server() {
    let mut peer = Peer::start(&["--era", "legacy"]);
    peer.initialize();
    let asked = peer.ask(&legacy_call(1, "ask", json!({})));
    assert_eq!((&asked["method"], &asked["id"]), (&json!("roots/list"), &json!("ask-1")));
    // It serves others meanwhile.
    assert_eq!(peer.ask(&request(2, "ping", json!({})))["id"], 2);
    peer.send(&json!({"jsonrpc": "2.0", "id": "ask-1", "result": {"roots": []}}));
    assert_eq!(text_of(&peer.receive()), r#"{"roots":[]}"#);
    let asked = peer.ask(&legacy_call(3, "ask", json!({"method": "ping"})));
    assert_eq!((&asked["method"], &asked["id"]), (&json!("ping"), &json!("ask-2")));
    peer.send(&json!({"jsonrpc": "2.0", "id": "ask-2", "error": {"code": 1, "message": "no"}}));
    assert_eq!(text_of(&peer.receive()), r#"{"code":1,"message":"no"}"#);
}

#[test]
fn ask_in_the_modern_era_takes_two_rounds() {
    let mut peer = Peer::start(&[]);
    let mut ask = call(1, "ask", json!({}));
    let refused = peer.ask(&ask);
    assert_eq!(
        (code_of(&refused), &refused["error"]["data"]["requiredCapabilities"]),
        (-32021, &json!({"roots": {}}))
    );
    ask["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"roots": {}});
    let wanted = peer.ask(&ask)["result"].clone();
    assert_eq!(wanted["resultType"], "input_required");
    assert_eq!(wanted["inputRequests"]["roots"]["method"], "roots/list");
    ask["id"] = json!(2);
    ask["params"]["inputResponses"] = json!({"roots": {"roots": []}});
    ask["params"]["requestState"] = wanted["requestState"].clone();
    assert_eq!(text_of(&peer.ask(&ask)), r#"{"roots":{"roots":[]}}"#);
    ask["params"]["requestState"] = json!("forged");
    assert_eq!(code_of(&peer.ask(&ask)), -32602);
}

fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(id, "subscriptions/listen", json!({"notifications": filter}))
}

#[test]
fn notify_reaches_only_who_asked_in_the_modern_era() {
    let mut peer = Peer::start(&["--era", "modern"]);
    for what in ["log", "tools", "prompts", "resources", "updated"] {
        assert_eq!(peer.call("notify", json!({"n": 3, "what": what})), "0");
    }
    let mut logged = call(1, "notify", json!({"n": 2}));
    logged["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    peer.send(&logged);
    for index in 0..2 {
        assert_eq!(peer.receive()["params"]["data"], json!({"index": index}));
    }
    assert_eq!(text_of(&peer.receive()), "2");

    let acknowledged = peer.ask(&listen("l", json!({"toolsListChanged": true})));
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": "l"}));
    peer.ask(&listen(7, json!({"resourceSubscriptions": ["counter://main"]})));
    let changed = peer.ask(&call(2, "notify", json!({"what": "tools"})));
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": "l"}));
    assert_eq!(text_of(&peer.receive()), "1");
    let updated = peer.ask(&call(3, "touch", json!({})));
    assert_eq!(
        updated["params"],
        json!({
            "uri": "counter://main", "_meta": {"io.modelcontextprotocol/subscriptionId": 7}
        })
    );
    assert_eq!(text_of(&peer.receive()), "1");
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    assert_eq!(peer.call("touch", json!({})), "2");
    assert_eq!(peer.call("notify", json!({"what": "prompts"})), "0");
}

#[test]
fn notify_and_subscriptions_in_the_legacy_era() {
    let mut peer = Peer::start(&["--era", "legacy"]);
    peer.initialize();
    peer.send(&legacy_call(1, "notify", json!({"n": 2, "what": "resources"})));
    for _ in 0..2 {
        assert_eq!(peer.receive()["method"], "notifications/resources/list_changed");
    }
    assert_eq!(text_of(&peer.receive()), "2");
    assert_eq!(text_of(&peer.ask(&legacy_call(2, "touch", json!({})))), "1", "nobody has subscribed");
    peer.ask(&request(3, "resources/subscribe", json!({"uri": "counter://main"})));
    assert_eq!(peer.ask(&legacy_call(4, "touch", json!({})))["params"], json!({"uri": "counter://main"}));
    assert_eq!(text_of(&peer.receive()), "2");
    peer.ask(&request(5, "resources/unsubscribe", json!({"uri": "counter://main"})));
    assert_eq!(text_of(&peer.ask(&legacy_call(6, "touch", json!({})))), "3");
}

#[test]
fn flip_tools_changes_the_list() {
    let mut peer = Peer::start(&[]);
    let names = |answer: Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let before = names(peer.ask(&modern(1, "tools/list", json!({}))));
    assert_eq!(before.len(), 16);
    assert_eq!(peer.call("flip_tools", json!({})), "true");
    let after = names(peer.ask(&modern(2, "tools/list", json!({}))));
    assert_eq!((after.len(), after.last().map(String::as_str)), (17, Some("bonus")));
    assert_eq!(peer.call("bonus", json!({})), "bonus");
}

#[test]
fn lists_come_in_pages() {
    let mut peer = Peer::start(&["--page-size", "7"]);
    let mut sizes = Vec::new();
    let mut params = json!({});
    loop {
        let result = peer.ask(&modern(1, "tools/list", params.clone()))["result"].clone();
        sizes.push(result["tools"].as_array().unwrap().len());
        match result.get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => break,
        }
    }
    assert_eq!(sizes, [7, 7, 2]);
    for cursor in [json!("x"), json!("99"), json!(7)] {
        assert_eq!(code_of(&peer.ask(&modern(2, "tools/list", json!({"cursor": cursor})))), -32602);
    }
}

#[test]
fn resources_prompts_and_completion() {
    let mut peer = Peer::start(&[]);
    let resources = peer.ask(&modern(1, "resources/list", json!({})))["result"]["resources"].clone();
    assert_eq!(resources.as_array().map(Vec::len), Some(2));
    let read = |uri: &str| modern(2, "resources/read", json!({"uri": uri}));
    assert_eq!(peer.ask(&read("counter://main"))["result"]["contents"][0]["text"], "0");
    assert_eq!(peer.ask(&read("blob://bytes"))["result"]["contents"][0]["blob"], "AAEC/w==");
    assert_eq!(code_of(&peer.ask(&read("none://"))), -32602);
    let templates = peer.ask(&modern(3, "resources/templates/list", json!({})));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "counter://{name}");
    assert_eq!(peer.ask(&modern(4, "prompts/list", json!({})))["result"]["prompts"][0]["name"], "hello");
    let prompt = peer.ask(&modern(5, "prompts/get", json!({"name": "hello", "arguments": {"name": "Ann"}})));
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "hello Ann");
    assert_eq!(code_of(&peer.ask(&modern(6, "prompts/get", json!({"name": "hello"})))), -32602);
    let completed = peer.ask(&modern(
        7,
        "completion/complete",
        json!({
            "ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": "an"}
        }),
    ));
    assert_eq!(completed["result"]["completion"]["values"], json!(["ann", "anna"]));
    peer.initialize();
    assert_eq!(code_of(&peer.ask(&request(8, "resources/read", json!({"uri": "none://"})))), -32002);
}
