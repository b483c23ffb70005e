//! Calls what is rewritten between the eras, on bytes that nobody knows.

use drowse_core::activity::Asker;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::envelope::{self, Message};
use drowse_core::era::{Era, Revision};
use drowse_core::front::answer::{self, Answer, Asked};
use drowse_core::front::asking::{self, Asking, Subject};
use drowse_core::front::round::{self, Round, Sort};
use drowse_core::front::visits::{self, Visits};
use drowse_core::front::{self, Front};
use drowse_core::held::Carries;
use drowse_core::link::Key;
use drowse_core::message::Writer;
use drowse_core::method::Method;
use drowse_core::notification::Notification;
use drowse_core::span::Span;
use drowse_core::splice::{self, LegacyClient, Origin, RequestParts, Rewrite};
use drowse_core::tally::Tally;
use drowse_core::time::Instant;

use crate::board::{self, MESSAGE};

/// The bytes are a client's request, and a server's answer, and whatever else they may be.
pub fn read(bytes: &[u8]) {
    for one in Notification::all() {
        board::checksum(one.name().len() as u64 + u64::from(Notification::from_json(bytes) == one));
    }
    let mut tally = Tally::new();
    tally.handle_round();
    questions(bytes);
    let slices = front::discovery(Some(bytes));
    let more = front::initialization(Some(bytes), Revision::LATEST_LEGACY, bytes);
    board::checksum(slices.iter().chain(&more).map(|slice| slice.len()).sum::<usize>() as u64);
    let Ok(message) = envelope::read(bytes) else { return };
    if let Some(parts) = RequestParts::of(&message) {
        request(bytes, &parts);
    }
    answered(bytes, &message);
}

fn request(bytes: &[u8], parts: &RequestParts) {
    let method = Method::from_json(parts.method.of(bytes));
    let front = Front::of(Asker::DevProxy);
    board::checksum(u64::from(front.reaches(method, Era::Legacy) && front.answers_cancelled()));
    let carries = Carries::of(bytes, method, parts.params);
    if let Some(responses) = carries.responses.or(carries.state) {
        board::checksum(u64::from(splice::accepts_all(bytes, responses)));
    }
    board::checksum(u64::from(answer::is_needed_later(method, front.era(), None, true)));
    let client = LegacyClient { info: parts.id, capabilities: ClientCapabilities::default() };
    for revision in Revision::ALL {
        for from in [Origin::Legacy(&client), Origin::AfterVisits, Origin::Modern] {
            let how = Rewrite { wire: 7, progress: true, revision, level: None, from };
            let pieces = splice::request(bytes, parts, &how).unwrap_or_default();
            board::checksum(pieces.write(bytes, bytes, &mut [0; MESSAGE]).map_or(0, <[u8]>::len) as u64);
        }
    }
    let mut buffer = [0; MESSAGE];
    let mut w = Writer::new(&mut buffer);
    round::retry(&mut w, bytes, parts, [(bytes, bytes)].into_iter(), Some(bytes));
    round::question(&mut w, 7, bytes, Some(bytes));
    round::withdrawn(&mut w, 7);
    board::checksum(w.finish().map_or(0, <[u8]>::len) as u64);
}

fn answered(bytes: &[u8], message: &Message) {
    if let Message::Response { result, .. } = *message
        && Sort::of(bytes, result) == Sort::InputRequired
        && let Ok(round) = Round::read(bytes, result)
    {
        let mut buffer = [0; MESSAGE];
        let mut w = Writer::new(&mut buffer);
        for input in &round.inputs {
            let said = input.wanted.declined().or(input.wanted.failed()).map_or(0, <[u8]>::len);
            board::checksum(said as u64 + u64::from(input.wanted.is_covered(ClientCapabilities::default())));
            input.write(&mut w, 7, bytes);
        }
        board::checksum(w.finish().map_or(0, <[u8]>::len) as u64);
    }
    let id = Span::new(0, bytes.len());
    for client in [Era::Legacy, Era::Modern] {
        for server in [Revision::LATEST_LEGACY, Revision::LATEST_MODERN] {
            let capabilities = ClientCapabilities { url: board::now() > 1, ..ClientCapabilities::default() };
            let method = Method::ToolsCall;
            let asked = Asked { method, client, verbatim: false, capabilities, lacks: None };
            match Answer::of(bytes, message, server.era(), &asked) {
                Answer::VisitFirst(visit) => {
                    let length =
                        splice::visit_first(bytes, bytes, &visit).iter().map(|one| one.len()).sum::<usize>();
                    board::checksum(length as u64);
                }
                Answer::Missing(kind) => {
                    let length =
                        splice::missing_capability(bytes, kind).iter().map(|one| one.len()).sum::<usize>();
                    board::checksum(length as u64);
                }
                Answer::Visits(visit) => board::checksum(visit.ids(bytes).count() as u64),
                Answer::Plain => {}
            }
            for pieces in [
                splice::answer_legacy(bytes, message, id, method, server),
                splice::answer(bytes, message, id, method, server, false),
            ] {
                board::checksum(pieces.map_or(0, |pieces| pieces.len()) as u64);
            }
        }
    }
}

fn questions(bytes: &[u8]) {
    let now = Instant::from_micros(board::now());
    let mut visits = Visits::new([visits::Slot::EMPTY; 2]);
    visits.handle_asked(bytes, 1);
    board::checksum(visits.handle_complete(bytes).unwrap_or_default());
    visits.handle_client_gone(1);
    let mut asking = Asking::new([asking::Slot::EMPTY; 2]);
    let Ok(group) = asking.ask(now, 1, Subject::Round, bytes.len()) else { return };
    if let Some((key, place)) = asking.find(1, group.id(0)) {
        board::checksum(u64::from(asking.is_last(key, place)) + asking.client(key).unwrap_or_default());
        board::checksum(
            u64::from(asking.subject(key).is_some()) + u64::from(asking.handle_answer(key, place)),
        );
    }
    if let Some(call) = Key::from_wire(board::now()) {
        board::checksum(u64::from(asking.is_asked_for(call)));
        asking.handle_call_over(call);
    }
    asking.handle_over(group);
    asking.handle_client_gone(2);
    asking.handle_timeout(asking.poll_timeout().unwrap_or(now));
    while let Some(ended) = asking.poll_ended() {
        board::checksum(u64::from(ended.open) + ended.group.number());
    }
    board::checksum(asking.used() as u64);
}
