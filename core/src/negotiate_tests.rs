//! Every row of the negotiation: what the server says, in which order and when, and what it is taken for.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use core::cell::Cell;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::envelope;

const PROBE: Question = Question::Discover;
const INIT: Question = Question::Initialize;

/// A negotiation with its clock, and what it has sent.
struct Talk {
    negotiation: Negotiation,
    now: Instant,
    next: Cell<u64>,
    sent: Vec<Own>,
    /// The ids of the latest questions.
    probe: u64,
    init: u64,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Talk {
    fn with(pin: Pin, remembered: Option<Era>, straight: bool) -> Self {
        let now = Instant::from_millis(1_000);
        let negotiation = Negotiation::new(now, pin, remembered, straight, Limits::default());
        let mut talk = Self { negotiation, now, next: Cell::new(0), sent: Vec::new(), probe: 0, init: 0 };
        talk.drain();
        talk
    }

    fn new() -> Self {
        Self::with(Pin::None, None, false)
    }

    fn pinned(word: &str) -> Self {
        Self::with(Pin::from_name(word).unwrap(), None, false)
    }

    fn drain(&mut self) {
        for _ in 0..10 {
            let next = &self.next;
            let id = |_| {
                next.set(next.get() + 1);
                next.get()
            };
            match self.negotiation.poll_send(id) {
                Some(own) => {
                    match own {
                        Own::Discover { id, .. } => self.probe = id,
                        Own::Initialize { id, .. } => self.init = id,
                        _ => {}
                    }
                    self.sent.push(own);
                }
                None => return,
            }
        }
        panic!("poll_send never ends: {:?}", self.sent);
    }

    /// What was sent since the last call, in words.
    fn said(&mut self) -> Vec<String> {
        self.sent
            .drain(..)
            .map(|own| match own {
                Own::Discover { revision, .. } => format!("discover {}", revision.name()),
                Own::Initialize { revision, .. } => format!("initialize {}", revision.name()),
                Own::Initialized => "initialized".to_string(),
                other => panic!("{other:?} is not part of a handshake"),
            })
            .collect()
    }

    /// The server answers the question of that wire id.
    fn hears(&mut self, question: Question, id: u64, body: &str) -> Heard {
        let heard = self.hears_before_sending(question, id, body);
        self.drain();
        heard
    }

    fn hears_before_sending(&mut self, question: Question, id: u64, body: &str) -> Heard {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#);
        let message = envelope::read(frame.as_bytes()).unwrap();
        let heard = self.negotiation.handle_answer(self.now, question, frame.as_bytes(), &message);
        if let Heard::Handshake(span) = heard {
            assert!(body.ends_with(core::str::from_utf8(span.of(frame.as_bytes())).unwrap()), "{body}");
        }
        heard
    }

    /// The server answers the latest question of that kind.
    fn answers(&mut self, question: Question, body: &str) -> Heard {
        let id = self.latest(question);
        self.hears(question, id, body)
    }

    fn latest(&self, question: Question) -> u64 {
        match question {
            Question::Discover => self.probe,
            Question::Initialize => self.init,
        }
    }

    /// The same conversation, to be continued in another way.
    fn fork(&self) -> Self {
        Self { negotiation: self.negotiation, next: self.next.clone(), sent: self.sent.clone(), ..*self }
    }

    fn passes(&mut self, millis: u64) {
        self.now = self.now.after(ms(millis));
        self.negotiation.handle_timeout(self.now);
        self.drain();
    }

    /// The time until the next timeout, and its reason.
    fn awaits(&self) -> Option<(u64, Reason)> {
        let mut table = Timetable::new();
        self.negotiation.timetable(&mut table);
        table.next().map(|(at, reason)| (at.since(self.now).as_millis() as u64, reason))
    }

    fn result(&self) -> Option<Result<Revision, NegotiationError>> {
        match (self.negotiation.revision(), self.negotiation.failure()) {
            (Some(revision), None) => Some(Ok(revision)),
            (None, Some(error)) => Some(Err(error)),
            (None, None) => None,
            both => panic!("{both:?}"),
        }
    }

    fn settles_on(&self, revision: Revision) {
        assert_eq!(self.result(), Some(Ok(revision)));
        assert_eq!(self.awaits(), None, "nothing is awaited any more");
    }

    fn fails(&self, error: NegotiationError) {
        assert_eq!(self.result(), Some(Err(error)));
        assert_eq!(self.awaits(), None, "nothing is awaited any more");
    }
}

fn described(versions: &str) -> String {
    format!(r#""result":{{"resultType":"complete","supportedVersions":{versions},"capabilities":{{}}}}"#)
}

fn initialized(version: &str) -> String {
    format!(
        r#""result":{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#
    )
}

fn error(code: i64) -> String {
    format!(r#""error":{{"code":{code},"message":"no"}}"#)
}

fn unsupported(versions: &str) -> String {
    format!(
        r#""error":{{"code":-32022,"message":"no","data":{{"supported":{versions},"requested":"2026-07-28"}}}}"#
    )
}

const MODERN: Revision = Revision::V2026_07_28;
const LEGACY: Revision = Revision::V2025_11_25;
const ONLY_MODERN: &str = r#"["2026-07-28"]"#;
const ONLY_LEGACY: &str = r#"["2024-11-05","2025-11-25"]"#;
const DISJOINT: &str = r#"["2027-01-01","2028-01-01"]"#;

// The probe is answered.

#[test]
fn a_discover_result_is_modern() {
    let mut talk = Talk::new();
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    assert!(matches!(talk.answers(PROBE, &described(ONLY_MODERN)), Heard::Handshake(_)));
    talk.settles_on(MODERN);
    assert!(talk.said().is_empty(), "a modern server needs nothing more");
}

#[test]
fn a_discover_result_that_names_unknown_revisions_too_is_modern() {
    let mut talk = Talk::new();
    talk.answers(PROBE, &described(r#"["2027-01-01",7,"2026-07-28","2025-06-18"]"#));
    talk.settles_on(MODERN);
}

#[test]
fn a_discover_result_with_legacy_revisions_only_leads_to_initialize() {
    let mut talk = Talk::new();
    talk.said();
    talk.answers(PROBE, &described(ONLY_LEGACY));
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    talk.answers(INIT, &initialized("2024-11-05"));
    talk.settles_on(Revision::V2024_11_05);
}

#[test]
fn a_discover_result_without_a_common_revision_is_an_error() {
    let mut talk = Talk::new();
    talk.said();
    talk.answers(PROBE, &described(DISJOINT));
    talk.fails(NegotiationError::NoCommonVersion);
    assert!(talk.said().is_empty());
}

#[test]
fn a_result_without_a_list_of_versions_is_no_description() {
    for body in [r#""result":{}"#, r#""result":{"supportedVersions":"2026-07-28"}"#] {
        let mut talk = Talk::new();
        talk.said();
        talk.answers(PROBE, body);
        assert_eq!(talk.said(), ["initialize 2025-11-25"], "{body}");
        talk.answers(INIT, &initialized("2025-11-25"));
        talk.settles_on(LEGACY);
    }
}

#[test]
fn unsupported_with_a_mutual_modern_revision_is_put_once_more() {
    let mut talk = Talk::new();
    talk.said();
    talk.answers(PROBE, &unsupported(ONLY_MODERN));
    assert_eq!(talk.said(), ["discover 2026-07-28"], "also when it names what was offered");
    assert_eq!(talk.result(), None);
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
}

#[test]
fn unsupported_twice_is_an_error() {
    let mut talk = Talk::new();
    talk.answers(PROBE, &unsupported(ONLY_MODERN));
    talk.said();
    talk.answers(PROBE, &unsupported(ONLY_MODERN));
    talk.fails(NegotiationError::NoCommonVersion);
    assert!(talk.said().is_empty(), "never initialize after -32022 with a modern revision");
}

#[test]
fn a_repeated_refusal_of_the_first_probe_is_not_one_of_the_second() {
    let mut talk = Talk::new();
    let first = talk.latest(PROBE);
    talk.hears(PROBE, first, &unsupported(ONLY_MODERN));
    assert_eq!(talk.hears(PROBE, first, &unsupported(ONLY_MODERN)), Heard::Other);
    assert_eq!(talk.result(), None);
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
}

#[test]
fn a_repeated_refusal_of_the_first_initialize_is_not_one_of_the_second() {
    let mut talk = Talk::pinned("legacy");
    let first = talk.latest(INIT);
    let body = r#""error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05"]}}"#;
    talk.hears(INIT, first, body);
    assert_eq!(talk.hears(INIT, first, body), Heard::Other);
    assert_eq!(talk.result(), None);
    talk.answers(INIT, &initialized("2024-11-05"));
    talk.settles_on(Revision::V2024_11_05);
}

#[test]
fn unsupported_with_legacy_revisions_only_leads_to_initialize() {
    let mut talk = Talk::new();
    talk.said();
    talk.answers(PROBE, &unsupported(ONLY_LEGACY));
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    talk.answers(INIT, &initialized("2025-06-18"));
    assert_eq!(talk.said(), ["initialized"]);
    talk.settles_on(Revision::V2025_06_18);
}

#[test]
fn unsupported_without_a_common_revision_is_an_error_and_never_initialize() {
    for body in [unsupported(DISJOINT), unsupported("[]"), unsupported("7"), error(-32022)] {
        let mut talk = Talk::new();
        talk.said();
        talk.answers(PROBE, &body);
        talk.fails(NegotiationError::NoCommonVersion);
        assert!(talk.said().is_empty(), "{body}");
    }
}

#[test]
fn modern_errors_prove_a_modern_server() {
    for code in [-32020, -32021] {
        let mut talk = Talk::new();
        talk.said();
        talk.answers(PROBE, &error(code));
        talk.settles_on(MODERN);
        assert!(talk.said().is_empty());
    }
}

#[test]
fn any_other_code_leads_to_initialize() {
    for code in
        [-32601, -32602, -32600, -32000, -32001, -32003, -32004, -32002, -32700, -32603, 0, 1, 404, i64::MIN]
    {
        let mut talk = Talk::new();
        talk.said();
        assert_eq!(talk.answers(PROBE, &error(code)), Heard::Consumed);
        assert_eq!(talk.said(), ["initialize 2025-11-25"], "{code}");
        assert!(matches!(talk.answers(INIT, &initialized("2025-11-25")), Heard::Handshake(_)));
        assert_eq!(talk.said(), ["initialized"], "{code}");
        talk.settles_on(LEGACY);
    }
}

#[test]
fn an_error_without_a_code_leads_to_initialize() {
    for body in [r#""error":{}"#, r#""error":{"code":"x"}"#, r#""error":{"code":-32022.5,"data":[]}"#] {
        let mut talk = Talk::new();
        talk.said();
        talk.answers(PROBE, body);
        assert_eq!(talk.said(), ["initialize 2025-11-25"], "{body}");
    }
}

#[test]
fn both_questions_refused_is_an_error_with_the_last_code() {
    let mut talk = Talk::new();
    talk.answers(PROBE, &error(-32601));
    talk.answers(INIT, &error(-32603));
    talk.fails(NegotiationError::Refused(-32603));
}

// Silence.

#[test]
fn silence_is_hedged_after_two_seconds() {
    let mut talk = Talk::new();
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    assert_eq!(talk.awaits(), Some((2_000, Reason::Hedge)));
    talk.passes(1_999);
    assert!(talk.said().is_empty());
    talk.passes(1);
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    assert_eq!(talk.awaits(), Some((58_000, Reason::Connect)));
}

#[test]
fn hedged_discover_first_is_modern_at_once() {
    let mut talk = Talk::new();
    talk.passes(2_500);
    talk.said();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    assert_eq!(talk.answers(INIT, &unsupported(ONLY_MODERN)), Heard::Other, "late, and of no interest");
    assert_eq!(talk.answers(INIT, &initialized("2025-11-25")), Heard::Other);
    talk.settles_on(MODERN);
    assert!(talk.said().is_empty(), "no notifications/initialized for a modern server");
}

#[test]
fn hedged_initialize_first_waits_for_the_verdict() {
    let mut talk = Talk::new();
    talk.passes(3_000);
    talk.said();
    assert!(matches!(talk.answers(INIT, &initialized("2025-03-26")), Heard::Handshake(_)));
    assert_eq!(talk.result(), None);
    assert_eq!(talk.awaits(), Some((500, Reason::Verdict)));
    talk.passes(499);
    assert!(talk.said().is_empty());
    talk.passes(1);
    assert_eq!(talk.said(), ["initialized"]);
    talk.settles_on(Revision::V2025_03_26);
}

#[test]
fn a_discover_result_within_the_verdict_wins() {
    let mut talk = Talk::new();
    talk.passes(3_000);
    talk.said();
    talk.answers(INIT, &initialized("2025-11-25"));
    talk.passes(499);
    assert!(matches!(talk.answers(PROBE, &described(ONLY_MODERN)), Heard::Handshake(_)));
    talk.settles_on(MODERN);
    assert!(talk.said().is_empty());
}

#[test]
fn a_refusal_within_the_verdict_settles_it() {
    // `initialize` was accepted: whatever else the server says of the probe, it can be spoken to.
    for body in [
        error(-32601),
        error(-32020),
        unsupported(ONLY_LEGACY),
        unsupported(DISJOINT),
        error(-32022),
        described(DISJOINT),
        described(ONLY_LEGACY),
        r#""result":{}"#.to_string(),
    ] {
        let mut talk = Talk::new();
        talk.passes(2_000);
        talk.said();
        talk.answers(INIT, &initialized("2025-11-25"));
        talk.passes(100);
        talk.answers(PROBE, &body);
        assert_eq!(talk.said(), ["initialized"], "{body}");
        talk.settles_on(LEGACY);
    }
}

#[test]
fn a_corrected_probe_within_the_verdict_gets_what_is_left_of_it() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(INIT, &initialized("2025-11-25"));
    talk.said();
    talk.answers(PROBE, &unsupported(ONLY_MODERN));
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    let mut silent = talk.fork();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    silent.passes(500);
    assert_eq!(silent.said(), ["initialized"]);
    silent.settles_on(LEGACY);
}

#[test]
fn a_corrected_probe_that_is_not_sent_yet_still_gets_its_verdict() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    let (probe, init) = (talk.probe, talk.init);
    talk.hears_before_sending(PROBE, probe, &unsupported(ONLY_MODERN));
    talk.hears_before_sending(INIT, init, &initialized("2025-11-25"));
    talk.drain();
    assert_eq!(talk.awaits(), Some((500, Reason::Verdict)));
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
}

#[test]
fn a_probe_refused_after_the_hedge_waits_for_initialize() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(PROBE, &error(-32601));
    assert_eq!(talk.result(), None);
    talk.said();
    talk.answers(INIT, &initialized("2025-11-25"));
    assert_eq!(talk.said(), ["initialized"], "no verdict: the probe is settled");
    talk.settles_on(LEGACY);
}

#[test]
fn a_silent_server_fails_at_the_connect_limit() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.passes(57_999);
    assert_eq!(talk.result(), None);
    talk.passes(1);
    talk.fails(NegotiationError::TimedOut);
    assert!(!talk.negotiation.may_have_died_on_probe(), "it is alive, only silent");
}

#[test]
fn a_server_that_answers_after_it_failed_changes_nothing() {
    let mut talk = Talk::new();
    talk.passes(60_000);
    talk.fails(NegotiationError::TimedOut);
    talk.said();
    assert_eq!(talk.answers(PROBE, &described(ONLY_MODERN)), Heard::Other);
    talk.fails(NegotiationError::TimedOut);
    assert!(talk.said().is_empty());
}

// The false-legacy trap.

#[test]
fn initialize_refused_with_a_modern_revision_is_modern() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.said();
    talk.answers(INIT, &unsupported(ONLY_MODERN));
    assert_eq!(talk.said(), ["discover 2026-07-28"], "the first probe may have been lost");
    assert_eq!(talk.result(), None);
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
}

#[test]
fn a_late_answer_to_the_first_probe_is_as_good() {
    let mut talk = Talk::new();
    let first = talk.latest(PROBE);
    talk.passes(2_000);
    talk.answers(INIT, &unsupported(ONLY_MODERN));
    assert!(matches!(talk.hears(PROBE, first, &described(ONLY_MODERN)), Heard::Handshake(_)));
    talk.settles_on(MODERN);
    assert_eq!(talk.answers(PROBE, &described(ONLY_MODERN)), Heard::Other, "the second one's answer");
}

#[test]
fn a_server_proved_modern_may_refuse_to_describe_itself() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(INIT, &unsupported(ONLY_MODERN));
    talk.answers(PROBE, &error(-32603));
    talk.settles_on(MODERN);
}

#[test]
fn a_server_proved_modern_is_not_asked_to_initialize_again() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(INIT, &unsupported(ONLY_MODERN));
    talk.said();
    talk.passes(30_000);
    assert!(talk.said().is_empty());
    talk.passes(30_000);
    talk.fails(NegotiationError::TimedOut);
}

#[test]
fn initialize_refused_by_a_modern_server_after_the_probe_was_refused() {
    let mut talk = Talk::new();
    talk.answers(PROBE, &error(-32601));
    talk.said();
    talk.answers(INIT, &unsupported(r#"["2026-07-28","2027-01-01"]"#));
    talk.settles_on(MODERN);
    assert!(talk.said().is_empty());
}

#[test]
fn any_code_may_name_a_modern_revision() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.said();
    talk.answers(INIT, r#""error":{"code":-32602,"message":"no","data":{"supported":["2026-07-28"]}}"#);
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
}

#[test]
fn initialize_refused_while_the_probe_is_open_puts_the_probe_once_more() {
    // The server is up, for it answers: what it makes of the probe it can say now.
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.said();
    talk.answers(INIT, &error(-32601));
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    assert_eq!(talk.result(), None);
    let copy = talk.fork();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    // And a server that goes on ignoring it is not waited for until the connect limit.
    talk = copy.fork();
    talk.passes(1_999);
    assert_eq!(talk.result(), None);
    talk.passes(1);
    talk.fails(NegotiationError::Refused(-32601));
}

// The handshake of the legacy era.

#[test]
fn every_legacy_revision_is_spoken() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy) {
        let mut talk = Talk::new();
        talk.answers(PROBE, &error(-32601));
        talk.said();
        talk.answers(INIT, &initialized(revision.name()));
        assert_eq!(talk.said(), ["initialized"]);
        talk.settles_on(revision);
    }
}

#[test]
fn an_unknown_revision_is_an_error() {
    for version in ["2024-10-07", "2027-01-01", "", "2026-07-28", "1.0"] {
        let mut talk = Talk::new();
        talk.answers(PROBE, &error(-32601));
        talk.said();
        assert_eq!(talk.answers(INIT, &initialized(version)), Heard::Consumed);
        talk.fails(NegotiationError::NoCommonVersion);
        assert!(talk.said().is_empty(), "{version}: not initialized");
    }
}

#[test]
fn an_initialize_result_without_a_revision_is_an_error() {
    for body in [r#""result":{}"#, r#""result":{"protocolVersion":7}"#] {
        let mut talk = Talk::new();
        talk.answers(PROBE, body);
        talk.answers(INIT, body);
        talk.fails(NegotiationError::NoCommonVersion);
    }
}

#[test]
fn a_useless_initialize_result_does_not_outweigh_an_open_probe() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(INIT, &initialized("2026-07-28"));
    assert_eq!(talk.result(), None, "a DiscoverResult is modern, whatever else came");
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
}

#[test]
fn a_refusal_that_names_an_older_revision_is_heeded_once() {
    let body = |version: &str| {
        format!(r#""error":{{"code":-32602,"message":"no","data":{{"supported":["{version}"]}}}}"#)
    };
    let mut talk = Talk::new();
    talk.answers(PROBE, &error(-32601));
    talk.said();
    talk.answers(INIT, &body("2024-11-05"));
    assert_eq!(talk.said(), ["initialize 2024-11-05"]);
    let copy = talk.fork();
    talk.answers(INIT, &initialized("2024-11-05"));
    talk.settles_on(Revision::V2024_11_05);
    talk = copy.fork();
    talk.answers(INIT, &body("2025-03-26"));
    talk.fails(NegotiationError::Refused(-32602));
}

#[test]
fn a_repeated_initialize_result_is_ignored() {
    let mut talk = Talk::new();
    talk.answers(PROBE, &error(-32601));
    talk.said();
    talk.answers(INIT, &initialized("2025-11-25"));
    assert_eq!(talk.answers(INIT, &initialized("2024-11-05")), Heard::Other);
    assert_eq!(talk.said(), ["initialized"], "once");
    talk.settles_on(LEGACY);
}

#[test]
fn a_repeated_initialize_result_does_not_move_the_verdict() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(INIT, &initialized("2025-11-25"));
    talk.passes(400);
    assert_eq!(talk.answers(INIT, &initialized("2024-11-05")), Heard::Other);
    assert_eq!(talk.awaits(), Some((100, Reason::Verdict)));
    talk.passes(100);
    talk.settles_on(LEGACY);
}

// The process ends.

#[test]
fn a_server_that_dies_on_the_probe_deserves_a_straight_start() {
    for refused_first in [false, true] {
        let mut talk = Talk::new();
        if refused_first {
            talk.answers(PROBE, &error(-32601));
        }
        talk.negotiation.handle_end();
        talk.fails(NegotiationError::Ended);
        assert!(talk.negotiation.may_have_died_on_probe());
    }
}

#[test]
fn a_straight_start_asks_initialize_alone() {
    let mut talk = Talk::with(Pin::None, None, true);
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    assert_eq!(talk.awaits(), Some((60_000, Reason::Connect)), "no hedge: the probe kills it");
    talk.passes(10_000);
    assert!(talk.said().is_empty());
    talk.answers(INIT, &initialized("2024-11-05"));
    assert_eq!(talk.said(), ["initialized"]);
    talk.settles_on(Revision::V2024_11_05);
}

#[test]
fn a_straight_start_is_not_repeated() {
    let mut talk = Talk::with(Pin::None, None, true);
    talk.negotiation.handle_end();
    talk.fails(NegotiationError::Ended);
    assert!(!talk.negotiation.may_have_died_on_probe());
    let mut talk = Talk::with(Pin::None, None, true);
    talk.said();
    talk.answers(INIT, &error(-32603));
    talk.fails(NegotiationError::Refused(-32603));
    assert!(talk.said().is_empty(), "and the probe is not put either");
}

#[test]
fn a_straight_start_of_a_modern_server_goes_forward() {
    let mut talk = Talk::with(Pin::None, None, true);
    talk.said();
    talk.answers(INIT, &unsupported(ONLY_MODERN));
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
}

#[test]
fn what_did_not_die_on_the_probe() {
    // It was never probed.
    let mut talk = Talk::pinned("legacy");
    talk.negotiation.handle_end();
    assert!(!talk.negotiation.may_have_died_on_probe());
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.negotiation.handle_end();
    assert!(!talk.negotiation.may_have_died_on_probe());
    // It is modern for sure.
    let mut talk = Talk::pinned("modern");
    talk.negotiation.handle_end();
    assert!(!talk.negotiation.may_have_died_on_probe());
    let mut talk = Talk::new();
    talk.answers(PROBE, &unsupported(ONLY_MODERN));
    talk.negotiation.handle_end();
    assert!(!talk.negotiation.may_have_died_on_probe());
    // It is settled.
    let mut talk = Talk::new();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.negotiation.handle_end();
    talk.settles_on(MODERN);
    assert!(!talk.negotiation.may_have_died_on_probe());
}

#[test]
fn a_server_that_refused_initialize_and_ends_has_said_why() {
    let mut talk = Talk::new();
    talk.passes(2_000);
    talk.answers(INIT, &error(-32603));
    talk.negotiation.handle_end();
    talk.fails(NegotiationError::Refused(-32603));
    assert!(!talk.negotiation.may_have_died_on_probe());
}

// Pins and memory.

#[test]
fn a_legacy_pin_never_probes() {
    let mut talk = Talk::pinned("legacy");
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    assert_eq!(talk.awaits(), Some((60_000, Reason::Connect)));
    talk.passes(30_000);
    assert!(talk.said().is_empty());
    talk.answers(INIT, &initialized("2025-03-26"));
    talk.settles_on(Revision::V2025_03_26);
}

#[test]
fn a_legacy_pin_refuses_a_modern_server() {
    let mut talk = Talk::pinned("legacy");
    talk.said();
    talk.answers(INIT, &unsupported(ONLY_MODERN));
    talk.fails(NegotiationError::NoCommonVersion);
    assert!(talk.said().is_empty());
    let mut talk = Talk::pinned("legacy");
    talk.answers(INIT, &error(-32601));
    talk.fails(NegotiationError::Refused(-32601));
}

#[test]
fn a_modern_pin_never_initializes() {
    let mut talk = Talk::pinned("modern");
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    assert_eq!(talk.awaits(), Some((60_000, Reason::Connect)));
    talk.passes(59_999);
    assert!(talk.said().is_empty());
    let copy = talk.fork();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    for (body, failure) in [
        (error(-32601), NegotiationError::Refused(-32601)),
        (r#""result":{}"#.to_string(), NegotiationError::NoCommonVersion),
        (described(ONLY_LEGACY), NegotiationError::NoCommonVersion),
        (unsupported(ONLY_LEGACY), NegotiationError::NoCommonVersion),
    ] {
        talk = copy.fork();
        talk.said();
        talk.answers(PROBE, &body);
        talk.fails(failure);
        assert!(talk.said().is_empty(), "{body}");
    }
    talk = copy.fork();
    talk.passes(1);
    talk.fails(NegotiationError::TimedOut);
}

#[test]
fn a_pinned_revision_is_offered_and_no_other_accepted() {
    for revision in Revision::ALL {
        let mut talk = Talk::pinned(revision.name());
        match revision.era() {
            Era::Legacy => {
                assert_eq!(talk.said(), [format!("initialize {}", revision.name())]);
                let copy = talk.fork();
                talk.answers(INIT, &initialized(revision.name()));
                talk.settles_on(revision);
                let other = Revision::ALL.into_iter().find(|other| *other != revision).unwrap();
                talk = copy.fork();
                talk.answers(INIT, &initialized(other.name()));
                talk.fails(NegotiationError::NoCommonVersion);
                // A server that names the others only.
                talk = copy.fork();
                let named = format!(r#"["{}"]"#, other.name());
                talk.answers(INIT, &unsupported(&named));
                talk.fails(NegotiationError::NoCommonVersion);
            }
            Era::Modern => {
                assert_eq!(talk.said(), [format!("discover {}", revision.name())]);
                talk.answers(PROBE, &described(&format!(r#"["2025-11-25","{}"]"#, revision.name())));
                talk.settles_on(revision);
            }
        }
    }
}

#[test]
fn remembered_legacy_spares_the_probe() {
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    assert_eq!(talk.awaits(), Some((2_000, Reason::Hedge)));
    talk.answers(INIT, &initialized("2025-11-25"));
    assert_eq!(talk.said(), ["initialized"], "at once");
    talk.settles_on(LEGACY);
}

#[test]
fn remembered_legacy_that_is_modern_now() {
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.said();
    let copy = talk.fork();
    for body in [unsupported(ONLY_MODERN), error(-32601)] {
        talk = copy.fork();
        talk.answers(INIT, &body);
        assert_eq!(talk.said(), ["discover 2026-07-28"], "{body}");
        talk.answers(PROBE, &described(ONLY_MODERN));
        talk.settles_on(MODERN);
    }
}

#[test]
fn remembered_legacy_with_a_useless_initialize_result_is_probed() {
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.said();
    talk.answers(INIT, &initialized("2027-01-01"));
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    let copy = talk.fork();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    talk = copy.fork();
    talk.passes(2_000);
    talk.fails(NegotiationError::NoCommonVersion);
}

#[test]
fn remembered_legacy_that_is_silent_is_hedged_the_other_way_round() {
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.said();
    talk.passes(2_000);
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    let copy = talk.fork();
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    talk = copy.fork();
    talk.answers(INIT, &initialized("2025-11-25"));
    talk.settles_on(LEGACY);
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(LEGACY);
}

#[test]
fn a_server_that_dies_on_initialize_may_be_probed_alone() {
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.negotiation.handle_end();
    talk.fails(NegotiationError::Ended);
    assert!(talk.negotiation.may_have_died_on_initialize());
    // So slow that both questions waited for it: the first one is to blame.
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.passes(2_000);
    talk.negotiation.handle_end();
    assert!(talk.negotiation.may_have_died_on_initialize());
    // It refuses first, and with or without saying what it speaks.
    for refusal in [error(-32601), unsupported(r#"["2026-07-28"]"#)] {
        let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
        talk.answers(INIT, &refusal);
        assert!(!talk.negotiation.may_have_died_on_initialize(), "it lives");
        talk.negotiation.handle_end();
        assert!(talk.negotiation.failure().is_some());
        assert!(talk.negotiation.may_have_died_on_initialize(), "{refusal}");
    }
    let mut talk = Talk::with(Pin::None, Some(Era::Legacy), false);
    talk.answers(INIT, &error(-32601));
    talk.said();
    talk.answers(PROBE, &error(-32601));
    talk.negotiation.handle_end();
    assert!(!talk.negotiation.may_have_died_on_initialize(), "it refused both");
    for mut talk in [Talk::new(), Talk::pinned("legacy"), Talk::pinned("modern")] {
        talk.negotiation.handle_end();
        assert!(!talk.negotiation.may_have_died_on_initialize());
    }
    let mut talk = Talk::with(Pin::None, Some(Era::Modern), true);
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    assert_eq!(talk.awaits(), Some((60_000, Reason::Connect)), "no hedge: `initialize` kills it");
    talk.answers(PROBE, &described(ONLY_MODERN));
    talk.settles_on(MODERN);
    let mut talk = Talk::with(Pin::None, Some(Era::Modern), true);
    talk.negotiation.handle_end();
    talk.fails(NegotiationError::Ended);
    assert!(!talk.negotiation.may_have_died_on_initialize() && !talk.negotiation.may_have_died_on_probe());
}

#[test]
fn remembered_modern_that_is_legacy_now() {
    let mut talk = Talk::with(Pin::None, Some(Era::Modern), false);
    assert_eq!(talk.said(), ["discover 2026-07-28"]);
    talk.answers(PROBE, &error(-32601));
    assert_eq!(talk.said(), ["initialize 2025-11-25"]);
    talk.answers(INIT, &initialized("2025-11-25"));
    talk.settles_on(LEGACY);
    let mut talk = Talk::with(Pin::None, Some(Era::Modern), false);
    talk.said();
    talk.passes(2_000);
    assert_eq!(talk.said(), ["initialize 2025-11-25"], "silent");
    let mut talk = Talk::with(Pin::None, Some(Era::Modern), false);
    talk.negotiation.handle_end();
    assert!(talk.negotiation.may_have_died_on_probe(), "dead");
}

// Ids.

#[test]
fn answers_with_ids_that_were_never_asked_are_not_heard() {
    for (question, body) in [
        (PROBE, described(ONLY_MODERN)),
        (PROBE, error(-32601)),
        (PROBE, unsupported(DISJOINT)),
        (INIT, initialized("2025-11-25")),
        (INIT, error(-32603)),
    ] {
        let mut talk = Talk::new();
        talk.passes(2_000);
        for id in [0, 3, 99, u64::MAX] {
            assert_eq!(talk.hears(question, id, &body), Heard::Other, "{body}");
        }
        assert_eq!(talk.result(), None);
    }
}

#[test]
fn an_answer_to_what_was_not_asked_yet_is_not_heard() {
    let mut talk = Talk::new();
    assert_eq!(talk.hears(INIT, 2, &initialized("2025-11-25")), Heard::Other);
    assert_eq!(talk.result(), None);
}

#[test]
fn an_answer_that_is_no_message_is_as_good_as_a_refusal() {
    let mut talk = Talk::new();
    talk.said();
    let (now, probe) = (talk.now, talk.probe);
    talk.negotiation.handle_invalid_answer(now, PROBE, probe + 1);
    talk.drain();
    assert!(talk.said().is_empty(), "an answer to nothing");
    talk.negotiation.handle_invalid_answer(now, PROBE, probe);
    talk.drain();
    assert_eq!(talk.said(), ["initialize 2025-11-25"], "at once");
    let init = talk.init;
    talk.negotiation.handle_invalid_answer(now, INIT, init);
    talk.fails(NegotiationError::InvalidAnswer);
}

// Time.

#[test]
fn repeated_and_early_timeouts_change_nothing() {
    let mut talk = Talk::new();
    talk.said();
    talk.passes(1_000);
    talk.passes(0);
    talk.passes(1_000);
    talk.passes(0);
    talk.passes(0);
    assert_eq!(talk.said(), ["initialize 2025-11-25"], "once");
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Answer { probe: bool, id: u64, body: usize },
    End,
}

fn bodies() -> Vec<String> {
    let mut bodies: Vec<String> =
        [ONLY_MODERN, ONLY_LEGACY, DISJOINT, "[]"].iter().map(|list| described(list)).collect();
    bodies.extend([ONLY_MODERN, ONLY_LEGACY, DISJOINT, "[]"].iter().map(|list| unsupported(list)));
    bodies.extend([-32020, -32021, -32022, -32601, 7].map(error));
    bodies.extend(["2024-11-05", "2025-11-25", "2026-07-28", "2030-01-01"].map(initialized));
    bodies.push(r#""result":{}"#.to_string());
    bodies
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop_oneof![Just(0), Just(499), Just(500), Just(2_000), 0..70_000u64].prop_map(Step::Pass),
        6 => (any::<bool>(), 0..6u64, 0..bodies().len())
            .prop_map(|(probe, id, body)| Step::Answer { probe, id, body }),
        1 => Just(Step::End),
    ]
}

fn pin() -> impl Strategy<Value = Pin> {
    prop_oneof![
        4 => Just(Pin::None),
        1 => Just(Pin::Era(Era::Legacy)),
        1 => Just(Pin::Era(Era::Modern)),
        1 => (0..5usize).prop_map(|index| Pin::Revision(Revision::ALL[index])),
    ]
}

fn era() -> impl Strategy<Value = Option<Era>> {
    prop_oneof![Just(None), Just(Some(Era::Legacy)), Just(Some(Era::Modern))]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the server says, in whatever order: the negotiation ends by the connect limit plus the waits that an
    /// answer may add, says nothing against its pin, and does not change its mind.
    #[test]
    fn any_conversation_ends(
        pin in pin(),
        remembered in era(),
        straight in any::<bool>(),
        steps in prop::collection::vec(step(), 0..30),
    ) {
        let bodies = bodies();
        let mut talk = Talk::with(pin, remembered, straight);
        let mut settled = None;
        for step in steps {
            match step {
                Step::Pass(millis) => talk.passes(millis),
                Step::Answer { probe, id, body } => {
                    talk.hears(if probe { PROBE } else { INIT }, id, &bodies[body]);
                }
                Step::End => {
                    talk.negotiation.handle_end();
                    talk.drain();
                }
            }
            let result = talk.result();
            if settled.is_some() {
                prop_assert_eq!(result, settled);
            }
            settled = result;
            if let Some((wait, _)) = talk.awaits() {
                prop_assert!(wait <= 60_000);
            }
            prop_assert_eq!(talk.awaits().is_none(), result.is_some());
        }
        for own in &talk.sent {
            match own {
                Own::Discover { revision, .. } | Own::Initialize { revision, .. } => {
                    prop_assert!(pin.allows(*revision), "{own:?} against {pin:?}");
                }
                _ => {}
            }
        }
        prop_assert!(talk.sent.len() <= 7, "{:?}", talk.sent);
        if let Some(Ok(revision)) = talk.result() {
            prop_assert!(pin.allows(revision));
        }
        for _ in 0..4 {
            if let Some((wait, _)) = talk.awaits() {
                talk.passes(wait);
            }
        }
        prop_assert!(talk.result().is_some(), "it never ends");
    }
}
