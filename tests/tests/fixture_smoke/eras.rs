//! Handshakes of either era, and the ways to get them wrong.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::peer::{Peer, call, code_of, discover, initialize, legacy_call, modern, request, text_of};

#[test]
fn dual_serves_both_eras() {
    let mut peer = Peer::start(&[]);
    let discovered = peer.ask(&discover());
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    for (key, value) in
        [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))]
    {
        assert_eq!(discovered["result"][key], value);
    }
    let server_info = &discovered["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server_info["name"], "drowse-fixture");
    assert_eq!(peer.call("echo", json!({"text": "hi"})), "hi");
    peer.initialize();
    let answer = peer.ask(&legacy_call(1, "echo", json!({"text": "hi"})));
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "hi"}]}));
    assert!(peer.close().is_empty());
    assert_eq!(peer.status().code(), Some(0));
    assert_eq!(peer.why(), "eof");
}

#[test]
fn legacy_knows_no_probe_and_waits_for_initialize() {
    let mut peer = Peer::start(&["--era", "legacy"]);
    assert_eq!(code_of(&peer.ask(&discover())), -32601);
    assert_eq!(code_of(&peer.ask(&call(1, "echo", json!({"text": "hi"})))), -32602);
    assert_eq!(peer.ask(&request(2, "ping", json!({})))["result"], json!({}));
    peer.initialize();
    assert_eq!(code_of(&peer.ask(&discover())), -32601);
    let answer = peer.ask(&call(3, "echo", json!({"text": "hi"})));
    assert_eq!(
        answer["result"],
        json!({"content": [{"type": "text", "text": "hi"}]}),
        "_meta changes nothing"
    );
}

#[test]
fn legacy_versions_are_negotiated() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(Peer::start(&[]).ask(&initialize(revision))["result"]["protocolVersion"], revision);
    }
    assert_eq!(Peer::start(&[]).ask(&initialize("1900-01-01"))["result"]["protocolVersion"], "2025-11-25");
    let mut peer = Peer::start(&["--legacy-version", "2025-03-26"]);
    assert_eq!(peer.ask(&initialize("2025-11-25"))["result"]["protocolVersion"], "2025-03-26");
}

#[test]
fn modern_wants_its_meta() {
    let mut peer = Peer::start(&["--era", "modern"]);
    let refused = peer.ask(&initialize("2025-11-25"));
    assert_eq!(code_of(&refused), -32602);
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(code_of(&peer.ask(&request(1, "tools/list", json!({})))), -32602);
    assert_eq!(code_of(&peer.ask(&modern(2, "ping", json!({})))), -32601);
    let mut older = discover();
    older["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
    let refused = peer.ask(&older);
    assert_eq!(code_of(&refused), -32022);
    assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert_eq!(peer.call("echo", json!({"text": "hi"})), "hi");
}

#[test]
fn modern_only_refuses_initialize() {
    let mut peer = Peer::start(&["--modern-only-refuses-initialize"]);
    let refused = peer.ask(&initialize("2025-11-25"));
    assert_eq!(code_of(&refused), -32601);
    assert!(refused["error"].get("data").is_none());
    assert_eq!(peer.ask(&discover())["result"]["supportedVersions"], json!(["2026-07-28"]));
}

#[test]
fn initialize_answers_32022() {
    let mut peer = Peer::start(&["--initialize-answers-32022"]);
    let refused = peer.ask(&initialize("2025-11-25"));
    assert_eq!(code_of(&refused), -32022);
    assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    assert_eq!(peer.ask(&discover())["result"]["supportedVersions"], json!(["2026-07-28"]));
}

#[test]
fn probe_error() {
    for era in ["legacy", "modern", "dual"] {
        let mut peer = Peer::start(&["--era", era, "--probe-error", "-32000"]);
        assert_eq!(code_of(&peer.ask(&discover())), -32000);
        let next =
            if era == "modern" { modern(1, "tools/list", json!({})) } else { initialize("2025-11-25") };
        assert!(peer.ask(&next).get("result").is_some());
    }
    let mut peer = Peer::start(&["--probe-error", "-32022"]);
    assert_eq!(peer.ask(&discover())["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[test]
fn probe_delay_lets_others_pass() {
    let mut peer = Peer::start(&["--era", "modern", "--probe-delay", "150"]);
    let sent = Instant::now();
    peer.send(&discover());
    assert_eq!(code_of(&peer.ask(&initialize("2025-11-25"))), -32602);
    let answer = peer.receive();
    assert_eq!(answer["id"], "probe");
    assert!(sent.elapsed() >= Duration::from_millis(150));
    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
}

#[test]
fn start_delay() {
    let started = Instant::now();
    let mut peer = Peer::start(&["--start-delay", "120"]);
    peer.ask(&discover());
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[test]
fn silent_answers_nothing_but_hears_all() {
    let mut peer = Peer::start(&["--silent"]);
    for message in [discover(), initialize("2025-11-25"), request(1, "ping", json!({}))] {
        peer.send(&message);
    }
    peer.write(b"garbage\n");
    assert_eq!(peer.close(), [] as [Value; 0]);
    assert_eq!(peer.journal.methods().unwrap(), ["server/discover", "initialize", "ping", "?"]);
}

#[test]
fn silent_before_initialize() {
    let mut peer = Peer::start(&["--era", "legacy", "--silent-before-initialize"]);
    peer.send(&discover());
    peer.send(&request(1, "ping", json!({})));
    peer.initialize();
    assert_eq!(text_of(&peer.ask(&legacy_call(2, "echo", json!({"text": "hi"})))), "hi");
    assert!(peer.close().is_empty());
}

#[test]
fn die_on_probe_spares_initialize() {
    let mut peer = Peer::start(&["--era", "legacy", "--die-on-probe"]);
    peer.send(&discover());
    assert!(peer.raw_line().is_none());
    assert_eq!(peer.status().code(), Some(1));
    assert_eq!(peer.why(), "die-on-probe");
    let mut peer = Peer::start(&["--era", "legacy", "--die-on-probe"]);
    peer.initialize();
    assert_eq!(code_of(&peer.ask(&discover())), -32601);
}

#[test]
fn die_on_probe_always_spares_nothing() {
    for message in [discover(), initialize("2025-11-25")] {
        let mut peer = Peer::start(&["--die-on-probe-always"]);
        peer.send(&message);
        assert!(peer.raw_line().is_none());
        assert_eq!(peer.status().code(), Some(1));
    }
}

#[test]
fn crash_in_handshake_counts_by_the_journal() {
    let mut first = Peer::start(&["--crash-in-handshake", "2"]);
    first.send(&initialize("2025-11-25"));
    assert_eq!(first.status().code(), Some(3));
    let again = || Peer::start_with(&["--crash-in-handshake", "2"], first.journal.clone(), |_| {});
    let mut second = again();
    second.send(&discover());
    assert_eq!(second.status().code(), Some(3));
    let mut third = again();
    third.initialize();
    assert_eq!(first.journal.starts().unwrap(), [first.child.id(), second.child.id(), third.child.id()]);
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for flags in [
        &["--no-such"][..],
        &["--era", "stone"],
        &["--crash-in-handshake", "1"],
        &["--probe-delay"],
        &["--session-end", "crash"],
    ] {
        let refused =
            std::process::Command::new(env!("CARGO_BIN_EXE_drowse-fixture")).args(flags).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{flags:?}");
        assert!(!refused.stderr.is_empty());
    }
}
