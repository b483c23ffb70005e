//! What statuses, bodies, ends and failures mean, by what was carried and over which link.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;

const CALL: Carried = Carried::Request(Method::ToolsCall);
const LIST: Carried = Carried::Request(Method::ToolsList);
const PROBE: Carried = Carried::Question(Question::Discover);
const MODERN: Link = Link { era: Some(Era::Modern), session: false, old: false };
const SESSION: Link = Link { era: Some(Era::Legacy), session: true, old: false };
const STATELESS: Link = Link { era: Some(Era::Legacy), session: false, old: false };
const OLD: Link = Link { era: Some(Era::Legacy), session: false, old: true };
const UNKNOWN: Link = Link { era: None, session: false, old: false };

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

const fn head(status: u16, content: Content) -> Head {
    Head { status, content, encoded: false, retry_after: None }
}

fn answered(carried: Carried, link: Link, head: Head) -> Next {
    Exchange::new(carried, link).handle_head(at(0), &head)
}

/// What a refusal with that body comes to.
fn refused(carried: Carried, link: Link, status: u16, body: &str) -> Next {
    let mut exchange = Exchange::new(carried, link);
    match exchange.handle_head(at(0), &head(status, Content::Other)) {
        Next::Inspect => exchange.handle_body(body.as_bytes()),
        next => next,
    }
}

#[test]
fn types_of_content() {
    for (header, content) in [
        (None, Content::Unnamed),
        (Some(""), Content::Unnamed),
        (Some("application/json"), Content::Json),
        (Some(" Application/JSON ; charset=utf-8"), Content::Json),
        (Some("application/problem+json"), Content::Json),
        (Some("text/event-stream;charset=utf-8"), Content::Events),
        (Some("text/html"), Content::Other),
        (Some("+json"), Content::Other),
        (Some("application/jsonp"), Content::Other),
    ] {
        assert_eq!(Content::of(header.map(str::as_bytes)), content, "{header:?}");
    }
}

#[test]
fn a_success_is_read_by_its_type() {
    for carried in [CALL, LIST, PROBE] {
        for link in [MODERN, SESSION, STATELESS, UNKNOWN] {
            assert_eq!(answered(carried, link, head(200, Content::Json)), Next::Message);
            assert_eq!(answered(carried, link, head(200, Content::Unnamed)), Next::Message);
            assert_eq!(answered(carried, link, head(200, Content::Events)), Next::Events);
            assert_eq!(answered(carried, link, head(200, Content::Other)), Next::Over(Verdict::Invalid));
        }
    }
    assert_eq!(answered(Carried::Message, SESSION, head(202, Content::Unnamed)), Next::Over(Verdict::Done));
    assert_eq!(answered(Carried::Listening, SESSION, head(200, Content::Events)), Next::Events);
    assert_eq!(
        answered(Carried::Listening, SESSION, head(200, Content::Json)),
        Next::Over(Verdict::NoStream)
    );
}

#[test]
fn what_is_compressed_unasked_is_not_unpacked() {
    let head = Head { encoded: true, ..head(200, Content::Json) };
    assert_eq!(answered(CALL, MODERN, head), Next::Over(Verdict::Invalid));
    assert_eq!(
        answered(CALL, MODERN, Head { status: 500, ..head }),
        Next::Over(Verdict::Refused { status: 500, ran: Ran::Unknown })
    );
}

#[test]
fn an_error_in_the_body_is_the_answer_whatever_the_status() {
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#;
    for status in [400, 404, 500] {
        for carried in [CALL, PROBE] {
            match refused(carried, MODERN, status, body) {
                Next::Answer { error } => {
                    let mut buffer = [0; 256];
                    let frame = error_answer(7, error.of(body.as_bytes()), &mut buffer).unwrap();
                    assert_eq!(
                        frame,
                        br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no such method"}}"#
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
    for body in ["<html>", "", "{}", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#] {
        assert_eq!(
            refused(CALL, MODERN, 400, body),
            Next::Over(Verdict::Refused { status: 400, ran: Ran::Unknown }),
            "{body}"
        );
    }
}

#[test]
fn a_session_that_is_gone_is_told_from_all_other_refusals() {
    let gone = Next::Over(Verdict::Expired { ran: Ran::No });
    let error = |code: i64, message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{message}"}}}}"#)
    };
    for body in [String::new(), "<html>not here".to_string(), error(-32001, "Session not found")] {
        assert_eq!(refused(CALL, SESSION, 404, &body), gone, "{body}");
    }
    for body in [
        error(-32000, "Bad Request: No valid session ID provided"),
        error(-32000, "Bad Request: Server not initialized"),
        "Invalid SESSION".to_string(),
    ] {
        assert_eq!(refused(CALL, SESSION, 400, &body), gone, "{body}");
    }
    // A method that is missing is no session that is missing, and wrong arguments may speak of sessions, too.
    assert!(matches!(refused(CALL, SESSION, 404, &error(-32601, "x")), Next::Answer { .. }));
    assert!(matches!(refused(CALL, SESSION, 400, &error(-32602, "no such session")), Next::Answer { .. }));
    assert!(matches!(refused(CALL, SESSION, 400, &error(-32000, "bad")), Next::Answer { .. }));
    // Without a session none can be gone.
    for link in [MODERN, STATELESS] {
        assert!(matches!(refused(CALL, link, 404, &error(-32001, "Session not found")), Next::Answer { .. }));
        assert_eq!(
            refused(CALL, link, 404, "Session not found"),
            Next::Over(Verdict::Refused { status: 404, ran: Ran::Unknown })
        );
    }
}

#[test]
fn a_stream_of_no_request_tells_of_its_session_only_once_it_was_there() {
    let never = |status| answered(Carried::Listening, SESSION, head(status, Content::Other));
    for status in [400, 404, 405] {
        assert_eq!(never(status), Next::Over(Verdict::NoStream), "{status}: many servers have none");
    }
    let again = |status: u16, body: &str| {
        let mut exchange = Exchange::new(Carried::Listening, SESSION);
        assert_eq!(exchange.handle_head(at(0), &head(200, Content::Events)), Next::Events);
        assert!(matches!(exchange.handle_end(at(0), false), Next::Resume { .. }));
        match exchange.handle_head(at(0), &head(status, Content::Other)) {
            Next::Inspect => exchange.handle_body(body.as_bytes()),
            next => next,
        }
    };
    assert_eq!(again(404, ""), Next::Over(Verdict::Expired { ran: Ran::Unknown }));
    assert_eq!(again(400, "No valid session ID provided"), Next::Over(Verdict::Expired { ran: Ran::No }));
    assert_eq!(again(400, "Invalid event ID"), Next::Over(Verdict::NoStream));
    assert_eq!(again(405, ""), Next::Over(Verdict::NoStream));
}

#[test]
fn refusals_that_prove_that_nothing_ran() {
    for status in [401, 403] {
        assert_eq!(answered(CALL, MODERN, head(status, Content::Json)), Next::Over(Verdict::Unauthorized));
        assert_eq!(
            answered(Carried::Listening, SESSION, head(status, Content::Json)),
            Next::Over(Verdict::Unauthorized)
        );
    }
    for status in [301, 302, 307, 308] {
        assert_eq!(
            answered(CALL, MODERN, head(status, Content::Other)),
            Next::Over(Verdict::Refused { status, ran: Ran::No })
        );
    }
    assert_eq!(refused(CALL, MODERN, 405, ""), Next::Over(Verdict::Refused { status: 405, ran: Ran::No }));
    assert_eq!(
        refused(CALL, MODERN, 502, "<html>"),
        Next::Over(Verdict::Refused { status: 502, ran: Ran::Unknown })
    );
}

#[test]
fn later_is_waited_for_where_asking_twice_does_no_harm() {
    let later = |secs| Head { retry_after: Some(Duration::from_secs(secs)), ..head(429, Content::Other) };
    for carried in [LIST, PROBE] {
        let mut exchange = Exchange::new(carried, MODERN);
        for round in 0..AGAIN {
            let now = at(u64::from(round));
            assert_eq!(
                exchange.handle_head(now, &later(2)),
                Next::Again { at: now.after(Duration::from_secs(2)) }
            );
        }
        assert_eq!(exchange.handle_head(at(9), &later(2)), Next::Inspect, "not for ever");
    }
    assert_eq!(answered(CALL, MODERN, later(2)), Next::Inspect, "it may have run");
    assert_eq!(answered(LIST, MODERN, later(3600)), Next::Inspect);
    assert_eq!(answered(LIST, MODERN, head(503, Content::Other)), Next::Inspect, "it names no time");
}

#[test]
fn a_stream_with_ids_is_taken_up_after_the_pause_that_it_asks_for() {
    let mut exchange = Exchange::new(CALL, SESSION);
    assert_eq!(exchange.handle_head(at(0), &head(200, Content::Events)), Next::Events);
    exchange.handle_event(true, Some(Duration::from_millis(500)));
    for round in 1..20 {
        // A server that polls may close again and again.
        let now = at(round * 1000);
        assert_eq!(exchange.handle_end(now, false), Next::Resume { at: at(round * 1000 + 500) });
        assert_eq!(exchange.handle_head(now, &head(200, Content::Events)), Next::Events);
    }
    assert_eq!(exchange.handle_end(at(99_000), true), Next::Over(Verdict::Done));
    // But not without a pause.
    for carried in [CALL, Carried::Listening] {
        let mut exchange = Exchange::new(carried, SESSION);
        let _ = exchange.handle_head(at(0), &head(200, Content::Events));
        exchange.handle_event(true, Some(Duration::ZERO));
        assert_eq!(exchange.handle_end(at(0), false), Next::Resume { at: at(100) });
    }
}

#[test]
fn a_resumption_that_brings_nothing_is_tried_ever_more_rarely_and_then_no_more() {
    let mut exchange = Exchange::new(CALL, SESSION);
    let _ = exchange.handle_head(at(0), &head(200, Content::Events));
    exchange.handle_event(true, None);
    let mut pauses = Vec::new();
    let mut next = exchange.handle_end(at(0), false);
    while let Next::Resume { at } = next {
        pauses.push(at.as_millis());
        next = exchange.handle_failure(Instant::ZERO, false);
    }
    assert_eq!(pauses, [1000, 2000, 4000, 8000, 16_000, 32_000]);
    assert_eq!(next, Next::Over(Verdict::Broken), "what was asked may have run");
}

#[test]
fn what_cannot_be_taken_up_is_broken() {
    let mut exchange = Exchange::new(CALL, SESSION);
    let _ = exchange.handle_head(at(0), &head(200, Content::Events));
    exchange.handle_event(false, Some(Duration::from_millis(1)));
    assert_eq!(exchange.handle_end(at(0), false), Next::Over(Verdict::Broken), "no event had an id");
    // Streams of a modern server cannot be resumed.
    let mut exchange = Exchange::new(CALL, MODERN);
    let _ = exchange.handle_head(at(0), &head(200, Content::Events));
    exchange.handle_event(true, None);
    assert_eq!(exchange.handle_end(at(0), false), Next::Over(Verdict::Broken));
    // A server that does not know how.
    for (status, verdict) in [
        (405, Verdict::Broken),
        (400, Verdict::Broken),
        (404, Verdict::Expired { ran: Ran::Unknown }),
        // The request itself was taken, so this proves nothing of it; whoever asks next is told.
        (401, Verdict::Broken),
        (403, Verdict::Broken),
    ] {
        let mut exchange = Exchange::new(CALL, SESSION);
        let _ = exchange.handle_head(at(0), &head(200, Content::Events));
        exchange.handle_event(true, None);
        assert!(matches!(exchange.handle_end(at(0), false), Next::Resume { .. }));
        assert_eq!(exchange.handle_head(at(0), &head(status, Content::Other)), Next::Over(verdict));
    }
}

#[test]
fn failures_without_a_response() {
    for carried in [CALL, LIST, PROBE, Carried::OldStream] {
        let failed = |connected| Exchange::new(carried, MODERN).handle_failure(at(0), connected);
        assert_eq!(failed(false), Next::Over(Verdict::Unreachable));
        assert_eq!(failed(true), Next::Over(Verdict::Broken));
    }
    for carried in [Carried::Message, Carried::Goodbye] {
        assert_eq!(Exchange::new(carried, SESSION).handle_failure(at(0), true), Next::Over(Verdict::Done));
    }
}

#[test]
fn the_listening_stream_is_kept_or_there_is_none() {
    let mut exchange = Exchange::new(Carried::Listening, SESSION);
    assert_eq!(exchange.handle_head(at(0), &head(405, Content::Other)), Next::Over(Verdict::NoStream));
    let mut exchange = Exchange::new(Carried::Listening, SESSION);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let _ = exchange.handle_head(at(0), &head(200, Content::Events));
        match exchange.handle_end(at(0), false) {
            Next::Resume { at } => pauses.push(at.as_millis() / 1000),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60], "a server that closes it at once is asked rarely");
    exchange.handle_event(false, None);
    assert_eq!(exchange.handle_end(at(0), false), Next::Resume { at: at(1000) });
}

#[test]
fn the_old_transport() {
    assert_eq!(answered(CALL, OLD, head(202, Content::Unnamed)), Next::Over(Verdict::Done));
    assert_eq!(answered(CALL, OLD, head(200, Content::Other)), Next::Over(Verdict::Done));
    assert_eq!(answered(Carried::OldStream, UNKNOWN, head(200, Content::Events)), Next::Events);
    assert_eq!(
        Exchange::new(Carried::OldStream, OLD).handle_end(at(0), false),
        Next::Over(Verdict::Expired { ran: Ran::Unknown })
    );
    assert!(matches!(
        answered(Carried::OldStream, UNKNOWN, head(404, Content::Other)),
        Next::Over(Verdict::Refused { status: 404, .. })
    ));
}

#[test]
fn the_end_of_a_session_is_no_matter_how_it_is_taken() {
    for status in [200, 202, 204, 400, 404, 405, 500] {
        assert_eq!(
            answered(Carried::Goodbye, SESSION, head(status, Content::Other)),
            Next::Over(Verdict::Done)
        );
    }
}

#[test]
fn only_the_same_origin_is_followed_and_only_with_method_and_body() {
    for status in [301, 302, 303, 307, 308] {
        assert!(!may_follow(status, false));
        assert_eq!(may_follow(status, true), status >= 307);
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever a server does, an exchange comes to an end unless the server keeps it going, and a call is never
        /// said not to have run once its request was taken.
        #[test]
        fn no_call_that_was_taken_is_said_not_to_have_run(
            statuses in proptest::collection::vec((200u16..600, 0u8..4, any::<bool>(), any::<bool>()), 1..30),
            link in prop_oneof![Just(MODERN), Just(SESSION), Just(STATELESS), Just(OLD), Just(UNKNOWN)],
        ) {
            let mut exchange = Exchange::new(CALL, link);
            let mut taken = false;
            let mut now = at(0);
            for (status, content, id, connected) in statuses {
                let content = [Content::Json, Content::Events, Content::Unnamed, Content::Other][usize::from(content)];
                let next = match exchange.handle_head(now, &head(status, content)) {
                    Next::Events => {
                        taken = true;
                        exchange.handle_event(id, None);
                        exchange.handle_end(now, false)
                    }
                    Next::Message => {
                        taken = true;
                        exchange.handle_message_end(false)
                    }
                    Next::Inspect => exchange.handle_body(b"no session"),
                    next => next,
                };
                let next = match next {
                    Next::Resume { at } if !connected => {
                        now = at;
                        exchange.handle_failure(now, connected)
                    }
                    next => next,
                };
                match next {
                    Next::Over(Verdict::Expired { ran } | Verdict::Refused { ran, .. }) => {
                        prop_assert!(!taken || ran == Ran::Unknown);
                        return Ok(());
                    }
                    Next::Over(verdict) => {
                        prop_assert!(!taken || verdict != Verdict::Unreachable);
                        return Ok(());
                    }
                    Next::Again { .. } => prop_assert!(false, "a call is never put again"),
                    Next::Resume { at } => {
                        prop_assert!(taken && at > now);
                        now = at;
                    }
                    _ => return Ok(()),
                }
            }
        }
    }
}
