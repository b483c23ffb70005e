//! What the fixture does to its lines.

use serde_json::{Value, json};

use super::peer::{Peer, call, code_of, discover, legacy_call, request};

#[test]
fn a_line_that_is_no_message_is_refused() {
    let mut peer = Peer::start(&[]);
    peer.write(b"what?\n");
    let refused = peer.receive();
    assert_eq!(code_of(&refused), -32700);
    assert!(refused.get("id").is_none());
}

#[test]
fn garbage_stands_between_the_messages() {
    let mut peer = Peer::start(&["--garbage"]);
    let mut seen = Vec::new();
    for id in 0..9 {
        peer.send(&call(id, "echo", json!({"text": "hi"})));
        loop {
            let line = peer.raw_line().unwrap();
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) if message.get("result").is_some() => {
                    assert_eq!(message["id"], id);
                    break;
                }
                _ => seen.push(line),
            }
        }
    }
    assert_eq!(seen.len(), 10, "one before everything, and one before each message");
    assert!(seen.iter().any(|line| std::str::from_utf8(line).is_err()));
    assert!(seen.contains(&Vec::new()) && seen.contains(&b"{}".to_vec()));
}

#[test]
fn answer_twice() {
    let mut peer = Peer::start(&["--answer-twice"]);
    let first = peer.ask(&call(1, "echo", json!({"text": "hi"})));
    assert_eq!(peer.receive(), first);
    peer.send(&call(2, "tag", json!({"tag": "once"})));
    assert_eq!((&peer.receive()["id"], &peer.receive()["id"]), (&json!(2), &json!(2)));
    assert_eq!(peer.journal.executions("once").unwrap(), 1, "answered twice, run once");
    assert!(peer.close().is_empty());
}

#[test]
fn unknown_ids() {
    let mut peer = Peer::start(&["--unknown-ids"]);
    peer.send(&call(1, "echo", json!({"text": "hi"})));
    let ids: Vec<Value> = (0..4).map(|_| peer.receive()["id"].clone()).collect();
    assert_eq!(ids, [json!("nobody-asked"), json!(4_503_599_627_370_496_u64), json!(-1), json!(1)]);
}

#[test]
fn batch() {
    let mut peer = Peer::start(&["--batch", "--legacy-version", "2025-03-26"]);
    let answer = peer.ask(&request(1, "ping", json!({})));
    assert_eq!(answer[0]["method"], "notifications/message");
    assert_eq!(answer[1], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[test]
fn no_result_type() {
    let mut peer = Peer::start(&["--no-result-type"]);
    let discovered = peer.ask(&discover());
    assert!(discovered["result"].get("resultType").is_none());
    assert!(discovered["result"]["_meta"].is_object());
}

#[test]
fn huge_line_is_of_exactly_that_size_with_the_id_last() {
    let mut peer = Peer::start(&["--huge-line", "100000"]);
    for (arguments, size) in
        [(json!({}), 100_000), (json!({"bytes": 3_000_000}), 3_000_000), (json!({"bytes": 300}), 300)]
    {
        for request in
            [call("last", "huge", arguments.clone()), legacy_call("last", "huge", arguments.clone())]
        {
            if request["params"].get("_meta").is_none() && peer.journal.methods().unwrap().len() == 1 {
                peer.initialize();
            }
            peer.send(&request);
            let line = peer.raw_line().unwrap();
            assert_eq!(line.len(), size);
            assert!(line.ends_with(b",\"id\":\"last\"}"));
            let message: Value = serde_json::from_slice(&line).unwrap();
            assert!(message["result"]["content"][0]["text"].as_str().unwrap().len() < size);
        }
    }
    peer.send(&call(9, "huge", json!({"bytes": 0})));
    assert_eq!(peer.receive()["result"]["content"][0]["text"], "", "as short as it gets");
}

#[test]
fn close_stdout_and_stay() {
    let mut peer = Peer::start(&["--close-stdout-and-stay"]);
    peer.ask(&discover());
    peer.send(&call(1, "tag", json!({"tag": "t"})));
    assert!(peer.raw_line().is_none());
    assert_eq!(peer.journal.executions("t").unwrap(), 1);
    peer.send(&json!({"jsonrpc": "2.0", "method": "notifications/still-there"}));
    peer.wait(|entries| entries.iter().any(|entry| entry.is("in", "method", "notifications/still-there")));
    peer.stdin = None;
    assert_eq!(peer.status().code(), Some(0));
}
