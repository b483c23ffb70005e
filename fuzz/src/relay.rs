//! The relay under any order of what clients of both eras, servers and time can do: the models of the core's own tests.

use std::vec::Vec;

use drowse_core::era::Era;
use drowse_core::relay::{Answered, End, List, Listener, Lists, Relay, Slot, Step, Uri, Why, legacy};
use drowse_core::time::{Duration, Instant, Reason, Timetable};

use play::{Act, Play, URIS};
use world::{OVERLAP, PATIENCE, Told, World};

#[allow(dead_code, reason = "the core's tests use all of it")]
#[path = "../../core/src/relay/tests/play.rs"]
mod play;
#[allow(dead_code, reason = "the core's tests use all of it")]
#[path = "../../core/src/relay/tests/world.rs"]
mod world;

/// More than that takes more time than it is worth.
const MOST_ACTS: usize = 200;

/// `data`: a byte of circumstances (the era of the first server, HTTP, answers that take their time), then acts of two
/// to four bytes each.
pub(crate) fn orders(data: &[u8]) {
    let Some((circumstances, mut rest)) = data.split_first() else { return };
    let is = |bit: u8| circumstances & 1 << bit != 0;
    let modern = is(0);
    let mut play = Play::new(if modern { Era::Modern } else { Era::Legacy }, is(1), is(2));
    for _ in 0..MOST_ACTS {
        let Some(act) = act(&mut rest) else { break };
        play.act(act);
    }
    play.finish(modern);
}

fn act(data: &mut &[u8]) -> Option<Act> {
    let mut next = || {
        let (first, rest) = data.split_first()?;
        *data = rest;
        Some(*first)
    };
    let kind = next()?;
    let one = next()?;
    let (who, flag) = (usize::from(one), one & 1 != 0);
    Some(match kind {
        b'l' => {
            let uris = next()?;
            let uris = (0..URIS).filter(|uri| uris & 1 << uri != 0).collect();
            Act::Listen(who, uris, next()? & 7)
        }
        b'c' => Act::Cancel(who, next()?.into()),
        b's' => Act::Subscribe(who, next()? % URIS, true),
        b'u' => Act::Subscribe(who, next()? % URIS, false),
        b'x' => Act::Exit(who),
        b'h' => Act::Hears(who, next()? & 1 != 0),
        b'r' => {
            let code = [None, Some(-32602), Some(-32002), Some(-32603)];
            Act::Refuse(one % URIS, code[usize::from(next()? & 3)])
        }
        b'S' => Act::Serve(who),
        b'A' => Act::AnswerLate(who),
        b'H' => Act::Hear(who),
        b't' => Act::Touch(one % URIS),
        b'T' => Act::Change(if flag { List::Tools } else { List::Prompts }),
        b'L' => Act::Lose,
        b'B' => Act::Start(flag),
        b'R' => Act::Restart(flag),
        b'p' => Act::Pass(u16::from(one) * 10),
        b'e' => Act::EndStream,
        _ => Act::CanAsk(flag),
    })
}
