//! What the core tells a caller can be logged with defmt: frames reach the logger, and different values differ in them.
//!
//! defmt on a host needs a logger, a timestamp and a panic handler in each binary; here the logger is the test's own.

#![allow(unsafe_code, reason = "defmt's logger and panic handler are unsafe functions by its contract")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core, reason = "tests run on a host")]

use std::cell::RefCell;

use drowse_core::envelope::{self, EnvelopeErrorKind, Part};
use drowse_core::era::{Era, Pin, Revision};
use drowse_core::front::{Inbound, Rejection};
use drowse_core::json::JsonErrorKind;
use drowse_core::lifecycle::{Exit, Lost, PublicState, Record, Unavailable};
use drowse_core::link::{Cause, Failure, Key, Ran};
use drowse_core::message::Own;
use drowse_core::method::Method;
use drowse_core::negotiate::NegotiationError;
use drowse_core::relay::Step;
use drowse_core::server::{Action, Ignored, Outcome, Refusal, StartError};
use drowse_core::snapshot::{self, Listings};
use drowse_core::span::Span;
use drowse_core::time::{Instant, Reason};

thread_local! {
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[defmt::global_logger]
struct PerThread;

// SAFETY: the buffer is the thread's own, so frames of different threads cannot mix.
unsafe impl defmt::Logger for PerThread {
    fn acquire() {}
    unsafe fn flush() {}
    unsafe fn release() {}
    unsafe fn write(bytes: &[u8]) {
        LOGGED.with_borrow_mut(|logged| logged.extend_from_slice(bytes));
    }
}

defmt::timestamp!("{=u8}", 0);

#[defmt::panic_handler]
fn panic() -> ! {
    std::process::abort()
}

fn logged(value: &impl defmt::Format) -> Vec<u8> {
    LOGGED.take();
    defmt::println!("{}", value);
    LOGGED.take()
}

/// The frames of the values are as different as the values.
fn differ(values: &[&dyn Fn() -> Vec<u8>]) {
    let frames: Vec<_> = values.iter().map(|log| log()).collect();
    for (index, frame) in frames.iter().enumerate() {
        assert!(!frame.is_empty(), "value {index} is not logged");
        assert!(!frames[..index].contains(frame), "value {index} is logged like another");
    }
}

macro_rules! differ {
    ($($value:expr),+ $(,)?) => { differ(&[$(&|| logged(&$value)),+]) };
}

#[test]
fn actions_are_logged() {
    let key = Key::from_wire(7 << 16 | 3).unwrap();
    let failure = Failure { cause: Cause::ServerLost, ran: Ran::Unknown };
    differ!(
        Action::Persist(Record { state: PublicState::Live, generation: 1, ended: false }),
        Action::Persist(Record { state: PublicState::Live, generation: 2, ended: false }),
        Action::Persist(Record { state: PublicState::Idle, generation: 1, ended: false }),
        Action::Spawn { generation: 1 },
        Action::SendOwn(Own::Ping { id: 1 }),
        Action::SendOwn(Own::Discover { id: 1, revision: Revision::LATEST_MODERN }),
        Action::Send { key, wire: key.wire(), method: Method::ToolsCall, revision: Revision::LATEST_LEGACY },
        Action::Send { key, wire: key.wire(), method: Method::ToolsList, revision: Revision::LATEST_LEGACY },
        Action::AnswerInfo { key },
        Action::AnswerLevel { key },
        Action::Fail { key, failure },
        Action::Fail { key, failure: Failure { ran: Ran::No, ..failure } },
        Action::CloseInput,
        Action::Terminate,
        Action::Kill,
        Action::Retire,
        Action::Renewed(Lost::Expired),
        Action::Renewed(Lost::Ended),
        Action::Listen,
        Action::OpenOldStream,
        Action::Relay(Step::Cancel { wire: 1 }),
        Action::Relay(Step::Cancel { wire: 2 }),
        Action::Snapshot(snapshot::Step::Gathered { lists: Listings::NONE, lacking: Listings::NONE }),
    );
}

#[test]
fn outcomes_and_refusals_are_logged() {
    let error = envelope::read(b"{\"jsonrpc\":\"2.0\",\"id\":1}").unwrap_err();
    assert_eq!(error.kind, EnvelopeErrorKind::NoKind);
    differ!(
        Outcome::Handshake(Span::new(1, 2)),
        Outcome::Handshake(Span::new(1, 3)),
        Outcome::Pong { id: Span::new(1, 2) },
        Outcome::Ignored(Ignored::Unasked),
        Outcome::Ignored(Ignored::Malformed(error)),
        Refusal::Full,
        Refusal::Unavailable(Unavailable::BackingOff(Instant::from_millis(1))),
        Refusal::Unavailable(Unavailable::BackingOff(Instant::from_millis(2))),
        Inbound::Ignore,
        Inbound::Reject { id: None, rejection: Rejection::Batch },
        Inbound::Reject { id: None, rejection: Rejection::MissingMeta("a") },
        StartError::NotSpawned,
        StartError::Negotiation(NegotiationError::Refused(-1)),
        StartError::Negotiation(NegotiationError::Refused(-2)),
    );
}

#[test]
fn small_words_are_logged() {
    differ!(Reason::Connect, Reason::Idle, Era::Legacy, Era::Modern, Pin::None, Pin::Era(Era::Legacy));
    differ!(Exit::Status(0), Exit::Status(1), Exit::Signal(1));
    differ!(
        JsonErrorKind::Empty,
        EnvelopeErrorKind::Repeated(Part::Id),
        EnvelopeErrorKind::Repeated(Part::Method)
    );
    let states: Vec<_> = PublicState::ALL.iter().map(logged).collect();
    assert!(states.iter().enumerate().all(|(index, frame)| !states[..index].contains(frame)));
}
