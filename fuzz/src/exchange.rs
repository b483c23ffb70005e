//! The machine of one exchange under any network, with an adapter that hands in only what can come.

use drowse_core::envelope::{self, Message};
use drowse_core::era::Era;
use drowse_core::http::exchange::{self, Carried, Content, Exchange, Head, Link, Next, Verdict};
use drowse_core::link::Ran;
use drowse_core::method::Method;
use drowse_core::negotiate::Question;
use drowse_core::time::{Duration, Instant};

/// The longest that is waited before a request is sent again, or a stream taken up.
const MOST: Duration = Duration::from_secs(60);
/// How often in a row that may bring nothing.
const PATIENCE: usize = 16;

/// What the adapter waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Message,
    Events,
    Inspect,
}

/// `data` as an exchange: two bytes for what it is, then what the network does, step by step.
pub(crate) fn play(data: &[u8]) {
    let [carried, link, ref steps @ ..] = *data else { return };
    let carried = match carried % 9 {
        0 => Carried::Question(Question::Discover),
        1 => Carried::Question(Question::Initialize),
        2 | 3 => Carried::Request(Method::ToolsCall),
        4 => Carried::Request(Method::ToolsList),
        5 => Carried::Message,
        6 => Carried::Listening,
        7 => Carried::OldStream,
        _ => Carried::Goodbye,
    };
    let era = match link & 3 {
        0 => Some(Era::Modern),
        1 | 2 => Some(Era::Legacy),
        _ => None,
    };
    let link = Link { era, session: link & 4 != 0, old: link & 8 != 0 };
    let mut exchange = Exchange::new(carried, link);
    let mut now = Instant::from_millis(1000);
    let mut stage = Stage::Head;
    // What the server has certainly taken, so that it may have run.
    let mut taken = false;
    let mut in_vain = 0;
    let mut steps = steps.iter().copied();
    while let Some(step) = steps.next() {
        let mut more = || steps.next().unwrap_or_default();
        let (next, body) = match (step % 8, stage) {
            (0 | 1, Stage::Head) => {
                let status = match more() {
                    low @ 0..100 => 200 + u16::from(low),
                    other => u16::from(other) * 3,
                };
                let flags = more();
                let head = Head {
                    status,
                    content: match flags & 3 {
                        0 => Content::Json,
                        1 => Content::Events,
                        2 => Content::Unnamed,
                        _ => Content::Other,
                    },
                    encoded: flags & 0x1c == 0x1c,
                    retry_after: (flags & 0x20 != 0).then(|| Duration::from_secs(u64::from(flags >> 5) * 7)),
                };
                let next = exchange.handle_head(now, &head);
                if matches!(next, Next::Message | Next::Events) {
                    taken = true;
                }
                (next, vec![])
            }
            (2 | 7, Stage::Inspect) => {
                let length = usize::from(more()).min(steps.len());
                let body: Vec<u8> = steps.by_ref().take(length).collect();
                (exchange.handle_body(&body), body)
            }
            (3, Stage::Events) => (exchange.handle_end(now, more() & 1 == 1), vec![]),
            (4, Stage::Message) => (exchange.handle_message_end(more() & 1 == 1), vec![]),
            (5, Stage::Head) => (exchange.handle_failure(now, more() & 1 == 1), vec![]),
            (5, Stage::Message) => (exchange.handle_failure(now, true), vec![]),
            (6, Stage::Events) => {
                let flags = more();
                let retry = (flags & 2 != 0).then(|| Duration::from_millis(u64::from(flags) * 1000));
                exchange.handle_event(flags & 1 != 0, retry);
                in_vain = 0;
                continue;
            }
            _ => continue,
        };
        match next {
            Next::Message => stage = Stage::Message,
            Next::Events => {
                stage = Stage::Events;
                // A server may end a stream that it lets be taken up as often as it likes: the request's time-out ends that.
                in_vain = 0;
            }
            Next::Inspect => stage = Stage::Inspect,
            Next::Again { at } => {
                assert!(!taken, "what was taken is not sent again");
                assert!(
                    carried != Carried::Request(Method::ToolsCall),
                    "what may run code is not sent again"
                );
                now = later(now, at, &mut in_vain, carried);
                stage = Stage::Head;
            }
            Next::Resume { at } => {
                let is_stream = matches!(carried, Carried::Listening | Carried::OldStream);
                assert!(taken || is_stream, "there is nothing to take up");
                now = later(now, at, &mut in_vain, carried);
                stage = Stage::Head;
            }
            Next::Answer { error } => {
                let error = error.of(&body);
                let mut buffer = vec![0; error.len() + 48];
                let frame = exchange::error_answer((1 << 49) - 1, error, &mut buffer).expect("there is room");
                assert!(matches!(envelope::read(frame), Ok(Message::Error { id: Some(_), .. })));
                return;
            }
            Next::Over(verdict) => {
                let says_no = matches!(
                    verdict,
                    Verdict::Unauthorized
                        | Verdict::Unreachable
                        | Verdict::Expired { ran: Ran::No }
                        | Verdict::Refused { ran: Ran::No, .. }
                );
                let is_request = matches!(carried, Carried::Question(_) | Carried::Request(_));
                assert!(!(says_no && taken && is_request), "{verdict:?} of what was taken");
                return;
            }
        }
    }
}

/// The time after a pause, which is not too long, and not made for ever.
fn later(now: Instant, at: Instant, in_vain: &mut usize, carried: Carried) -> Instant {
    assert!(at >= now && at <= now.after(MOST), "{at:?}");
    *in_vain += 1;
    assert!(*in_vain <= PATIENCE || carried == Carried::Listening, "it never ends");
    at
}
