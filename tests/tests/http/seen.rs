//! What a server saw: of what every test of this suite asks for.

use drowse_tests::fixture::journal::Entry;
use drowse_tests::harness::{HttpServer, Session};
use serde_json::{Value, json};

/// Longer than any test.
pub(super) const FOR_EVER: &str = "ms:=600000";

/// When something happened, in milliseconds since 1970.
pub(super) fn at(entry: &Entry) -> u64 {
    entry.fields["at"].as_u64().expect("a time")
}

/// The sessions that it gave, in order.
pub(super) fn sessions(server: &HttpServer) -> Vec<String> {
    server.events("session").iter().filter_map(|entry| entry.text("session")).map(Into::into).collect()
}

/// The methods of what was posted, in order.
pub(super) fn posted(server: &HttpServer) -> Vec<String> {
    let http = server.events("http");
    http.iter().filter_map(|entry| entry.text("method")).map(Into::into).collect()
}

/// The ids of the requests with this method, in order.
pub(super) fn ids(server: &HttpServer, method: &str) -> Vec<Value> {
    server.requests(method).iter().map(|entry| entry.fields["id"].clone()).collect()
}

/// The requests with this method of HTTP or of the protocol.
pub(super) fn count(server: &HttpServer, method: &str) -> usize {
    server.requests(method).len()
}

/// The handshake with a server that is met for the first time.
pub(super) fn handshake(era: &str) -> Vec<&'static str> {
    match era {
        "legacy" => vec!["server/discover", "initialize", "notifications/initialized"],
        _ => vec!["server/discover"],
    }
}

/// How drowse asks a server of that era whether it lives.
pub(super) fn question(era: &str) -> &'static str {
    if era == "legacy" { "ping" } else { "server/discover" }
}

/// That a failure is of this kind, and says whether it ran.
#[track_caller]
pub(super) fn check(failed: &Value, kind: &str, ran: &str) {
    assert_eq!((&failed["kind"], &failed["ran"]), (&json!(kind), &json!(ran)), "{failed}");
}

/// That a message says all of this.
#[track_caller]
pub(super) fn says(failed: &Value, parts: &[&str]) {
    let hint = failed["_drowse"]["hint"].as_str().unwrap_or_default();
    let said = format!("{} {hint}", failed["error"].as_str().unwrap_or_default());
    for part in parts {
        assert!(said.contains(part), "it does not say `{part}`: {failed}");
    }
}

/// The session lives: a call works in the same generation, and nothing of what was before is left in it.
#[track_caller]
pub(super) fn lives(session: &Session<'_>, server: &HttpServer) {
    let generation = session.state().expect("a state").generation;
    assert_eq!(session.call("tag", &["tag=lives"]).ok().text(), "lives");
    assert_eq!(server.executions("lives"), 1);
    assert_eq!(session.status()["inFlight"], 0);
    assert_eq!(session.listed()["status"], "live");
    assert_eq!(session.state().expect("a state").generation, generation, "the same session");
}
