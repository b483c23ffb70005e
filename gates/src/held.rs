//! Calls the machine of held calls, on bytes that nobody knows.

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::envelope;
use drowse_core::era::Revision;
use drowse_core::held::{self, Asking, Candidate, Held, Kind, Principal, Retry, Secret};
use drowse_core::link::{Cause, Failure, Key, Ran};
use drowse_core::message::{self, Identity, Own};
use drowse_core::method::Method;
use drowse_core::span::Span;
use drowse_core::splice::{self, NoAnswer, RequestParts, Shown};
use drowse_core::time::Instant;

use crate::board;
use crate::surface::text;

/// The bytes are a question of a server, and a caller's retry.
pub fn read(bytes: &[u8]) {
    let at = Instant::from_micros(board::now());
    let mut held =
        Held::new(held::Config::default(), Secret::new([board::now() as u8; 16]), [held::Slot::EMPTY; 4]);
    held.handle_started(board::now());
    let Some(parts) = envelope::read(bytes).ok().and_then(|message| RequestParts::of(&message)) else {
        return;
    };
    let mut buffer = [0; message::OWN_MAX];
    let capabilities = ClientCapabilities::of_request(bytes, &parts);
    let us = Identity { name: "", version: "" };
    let own = Own::Initialize { id: 1, revision: Revision::LATEST_LEGACY };
    board::checksum(message::own_with(own, us, capabilities, &mut buffer).map_or(0, <[u8]>::len) as u64);
    let method = Method::from_json(parts.method.of(bytes));
    let principal = Principal(board::now());
    let Some(key) = Key::from_wire(board::now()) else { return };
    let kind = Kind::of(bytes, parts.method, parts.params).unwrap_or(Kind::Form);
    let candidate = Candidate { key, order: 0, principal, method, capabilities, away: None };
    held.handle_cancelled(at, principal, method);
    let call = held.attribute(at, kind, None, [candidate].into_iter()).unwrap_or_else(|why| {
        board::checksum(why.answer() as u64);
        key
    });
    let frame = bytes;
    let asking = Asking { call, principal, kind, method, frame, params: parts.params, random: [1; 16] };
    for _ in 0..2 {
        let Ok(asked) = held.hold(at, asking) else { return };
        let mut shown = held.shown(asked.question.held).map(|question| Shown::new(question, bytes, &parts));
        if let Some(shown) = shown.next()
            && let Some(state) = held.state(asked.question.held)
        {
            for slice in &splice::input_required(parts.id.of(bytes), &[shown], &state) {
                board::checksum(slice.len() as u64);
            }
        }
        if let Ok(pieces) = splice::refused(parts.id, kind, NoAnswer::Declined) {
            board::checksum(pieces.len() as u64);
        }
    }
    board::checksum(Retry::state_of(bytes, parts.params).map_or(0, Span::len) as u64);
    match held.handle_retry(at, Retry { principal, method, frame, params: parts.params.unwrap_or_default() })
    {
        Ok(resumed) => {
            for (_, answer) in &resumed.answers {
                if let Ok(pieces) = splice::answer_question(parts.id, *answer) {
                    board::checksum(pieces.len() as u64);
                }
            }
        }
        Err(lost) => {
            board::checksum(lost.kind().len() as u64);
            text(&lost);
        }
    }
    if let Some(key) = held.find(call) {
        held.handle_gone(at, key, true);
        board::checksum(u64::from(
            held.handle_failure(at, call, Failure { cause: Cause::TimedOut, ran: Ran::No }).is_some(),
        ));
        board::checksum(u64::from(held.handle_answer(at, call).is_some()));
        held.forget(key);
        held.cancel(key);
    }
    held.handle_principal_gone(principal);
    held.handle_lost();
    held.handle_timeout(held.poll_timeout().unwrap_or(at));
    while let Some(output) = held.poll_output() {
        board::checksum(u64::from(matches!(output, held::Output::Forget { .. })));
    }
    board::checksum(held.used() as u64);
}
