//! The one table of a session's states: what each means, what a user can do next, and every way from one to another.
//!
//! The machine does not read it. A test drives the machine and what callers do to a session whose machine is gone, and
//! holds the table against what it sees: each transition has a row, and each row happens. Help and documentation show
//! it as [`Markdown`] or [`Text`], and a list shows [`State::next`].

use core::fmt::{self, Write as _};

use super::PublicState;
use super::PublicState::{
    Closed, Connecting, Crashed, Disconnected, Dormant, Expired, Idle, Live, Reconnecting, Suspended,
    Unauthorized,
};
use crate::activity::Plain;

/// What makes a session go from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// Somebody wants something of the server, or waits for it since before it was gone.
    Use,
    /// A user's `restart`, or `connect` with something else than before.
    Restart,
    /// `close`
    Close,
    /// `disable`
    Hidden,
    /// `enable` of what runs.
    Shown,
    /// It is negotiated.
    Ready,
    /// It cannot be started, reached, or negotiated with.
    StartFailed,
    /// 401 or 403.
    Refused,
    /// It does not answer.
    Silent,
    /// It said something.
    Heard,
    /// It ended the MCP session.
    SessionEnded,
    /// It exited with status 0 while nothing needed it, before the idle period was over.
    Left,
    /// It exited otherwise, or its output ended.
    Exited,
    /// The idle period is over.
    Deadline,
    /// A background start is due.
    Backoff,
    /// Another version of the program takes over.
    Replaced,
    /// The machine was killed.
    BridgeLost,
    /// The whole computer was started anew.
    Rebooted,
}

impl Event {
    /// Every event, in the order in which they are shown.
    pub const ALL: [Self; 18] = [
        Self::Use,
        Self::Restart,
        Self::Close,
        Self::Hidden,
        Self::Shown,
        Self::Ready,
        Self::StartFailed,
        Self::Refused,
        Self::Silent,
        Self::Heard,
        Self::SessionEnded,
        Self::Left,
        Self::Exited,
        Self::Deadline,
        Self::Backoff,
        Self::Replaced,
        Self::BridgeLost,
        Self::Rebooted,
    ];

    /// What happens, in Markdown.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Use => "it is used: an operation, `connect` or `enable`",
            Self::Restart => "`restart`, or `connect` with other settings or another `-H`",
            Self::Close => "`close`",
            Self::Hidden => "`disable`: nobody is shown it any more",
            Self::Shown => "`enable`",
            Self::Ready => "the server is ready",
            Self::StartFailed => "the server cannot be started, reached or agreed with",
            Self::Refused => "the server refuses the credentials (401, 403)",
            Self::Silent => "the server does not answer, or cannot be reached",
            Self::Heard => "the server is heard again",
            Self::SessionEnded => "the server ends the MCP session",
            Self::Left => "the server exits with status 0, not needed, an idle timeout set",
            Self::Exited => "the server exits, or closes its output",
            Self::Deadline => "the idle period is over",
            Self::Backoff => "the back-off is over, with `--auto-restart`",
            Self::Replaced => "another version of drowse takes its place",
            Self::BridgeLost => "its bridge is killed",
            Self::Rebooted => "the computer is started anew",
        }
    }
}

/// What there is to say of a state.
#[derive(Debug)]
pub struct State {
    /// Which.
    pub state: PublicState,
    /// What runs, and what does not.
    pub meaning: &'static str,
    /// What a user can do next, in Markdown, for a session `@s`.
    pub next: &'static str,
}

/// A way from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// From here,
    pub from: PublicState,
    /// when this happens,
    pub event: Event,
    /// there.
    pub to: PublicState,
    /// When it is so, if not always, in Markdown.
    pub remark: &'static str,
}

/// Ways of the same kind.
struct Ways {
    from: &'static [PublicState],
    event: Event,
    to: PublicState,
    remark: &'static str,
}

const fn ways(from: &'static [PublicState], event: Event, to: PublicState, remark: &'static str) -> Ways {
    Ways { from, event, to, remark }
}

static STATES: [State; 11] = [
    State {
        state: Dormant,
        meaning: "nothing runs, and nothing ever did",
        next: "starts on first use, e.g. `drowse @s tools-list`",
    },
    State {
        state: Connecting,
        meaning: "the server is being started and negotiated with; who calls waits",
        next: "wait until it answers: `drowse @s ping`",
    },
    State {
        state: Live,
        meaning: "the server runs and answers",
        next: "use it, e.g. `drowse @s tools-list`",
    },
    State {
        state: Suspended,
        meaning: "the server runs, and nobody is shown what it offers",
        next: "show it again: `drowse enable @s`",
    },
    State {
        state: Idle,
        meaning: "nothing runs, on purpose; only use wakes it, and always afresh",
        next: "wakes on next use, e.g. `drowse @s tools-list`",
    },
    State {
        state: Disconnected,
        meaning: "the bridge runs, and the server does not answer",
        next: "does not answer; begin anew: `drowse @s restart`",
    },
    State {
        state: Reconnecting,
        meaning: "the server is being started again in the background",
        next: "is being started again; why: `drowse @s logs`",
    },
    State {
        state: Crashed,
        meaning: "nothing runs: the server ended by itself, or could not be started",
        next: "starts again on next use, e.g. `drowse @s ping`; why: `drowse @s logs`",
    },
    State {
        state: Unauthorized,
        meaning: "nothing runs: the server refused the credentials",
        next: "new credentials: `drowse connect <server> @s -H 'Authorization: …'`; the same once more: `drowse @s restart`",
    },
    State {
        state: Expired,
        meaning: "nothing runs: the server ended the session, and what it kept is gone",
        next: "its state is gone; starts fresh on next use, e.g. `drowse @s tools-list` (with `--on-expiry fail`: `drowse @s \
               restart`)",
    },
    State {
        state: Closed,
        meaning: "nothing is left of it",
        next: "connect it again: `drowse connect <server> @s`",
    },
];

const AWAKE: &[PublicState] = &[Connecting, Live, Suspended, Disconnected, Reconnecting];
const READY: &[PublicState] = &[Live, Suspended, Disconnected];
const STARTING: &[PublicState] = &[Connecting, Reconnecting];

static WAYS: [Ways; 29] = [
    ways(&[Dormant, Idle], Event::Use, Connecting, ""),
    ways(
        &[Crashed],
        Event::Use,
        Connecting,
        "not during the back-off, nor while the breaker (5 in 30 s) is open; if it had run, the user is told that its state is gone",
    ),
    ways(
        &[Expired],
        Event::Use,
        Connecting,
        "not with `--on-expiry fail`; the user is told that its state is gone",
    ),
    ways(&[Reconnecting], Event::Use, Connecting, "somebody waits for it now"),
    ways(&[Disconnected], Event::Use, Connecting, "if it closed its output, as soon as it is gone"),
    ways(STARTING, Event::Ready, Live, ""),
    ways(STARTING, Event::Ready, Suspended, "if nobody is shown it"),
    ways(STARTING, Event::StartFailed, Crashed, ""),
    ways(STARTING, Event::Refused, Unauthorized, ""),
    ways(READY, Event::Refused, Unauthorized, ""),
    ways(&[Live], Event::Hidden, Suspended, ""),
    ways(&[Suspended], Event::Shown, Live, "the same process"),
    ways(&[Live, Suspended], Event::Silent, Disconnected, ""),
    ways(&[Disconnected], Event::Heard, Live, ""),
    ways(&[Disconnected], Event::Heard, Suspended, "if nobody is shown it"),
    ways(READY, Event::SessionEnded, Idle, "with an idle timeout and nothing in flight"),
    ways(READY, Event::SessionEnded, Expired, "otherwise"),
    ways(READY, Event::Left, Idle, ""),
    ways(READY, Event::Exited, Crashed, ""),
    ways(&[Live, Suspended], Event::Exited, Disconnected, "not needed, and how it exits is not known yet"),
    ways(&[Live, Suspended, Disconnected, Reconnecting], Event::Deadline, Idle, ""),
    ways(&[Crashed, Expired], Event::Deadline, Idle, "with `--auto-restart`, which is then over"),
    ways(&[Crashed, Expired], Event::Backoff, Reconnecting, ""),
    ways(&[Dormant], Event::Replaced, Idle, ""),
    ways(AWAKE, Event::Replaced, Idle, "as soon as nothing is in flight"),
    ways(
        &[Dormant, Live, Suspended, Idle, Disconnected, Reconnecting, Crashed, Unauthorized, Expired],
        Event::Restart,
        Connecting,
        "",
    ),
    ways(
        &[
            Dormant,
            Connecting,
            Live,
            Suspended,
            Idle,
            Disconnected,
            Reconnecting,
            Crashed,
            Unauthorized,
            Expired,
        ],
        Event::Close,
        Closed,
        "",
    ),
    ways(AWAKE, Event::BridgeLost, Crashed, ""),
    ways(AWAKE, Event::Rebooted, Idle, ""),
];

/// Of what has no row.
static UNKNOWN: State = State { state: Closed, meaning: "", next: "" };

/// What is to be said of a state.
#[must_use]
pub fn of(state: PublicState) -> &'static State {
    STATES.iter().find(|row| row.state == state).unwrap_or(&UNKNOWN)
}

/// The states, in the order in which they are shown.
pub fn states() -> impl Iterator<Item = &'static State> {
    STATES.iter()
}

/// Every transition that there is.
pub fn transitions() -> impl Iterator<Item = Transition> {
    WAYS.iter().flat_map(|ways| {
        let Ways { from, event, to, remark } = *ways;
        from.iter().map(move |from| Transition { from: *from, event, to, remark })
    })
}

/// Both tables in Markdown, for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Markdown;

impl fmt::Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| state | what it means | next |\n| --- | --- | --- |\n")?;
        for State { state, meaning, next } in states() {
            writeln!(f, "| `{state}` | {meaning} | {next} |")?;
        }
        f.write_str("\n| from | when | to | remark |\n| --- | --- | --- | --- |\n")?;
        for Ways { from, event, to, remark } in &WAYS {
            f.write_str("| ")?;
            for (index, state) in from.iter().enumerate() {
                write!(f, "{}`{state}`", if index > 0 { ", " } else { "" })?;
            }
            writeln!(f, " | {} | `{to}` | {remark} |", event.text())?;
        }
        Ok(())
    }
}

/// The same in plain text, for help: a paragraph a state, whose lines the caller may wrap.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, State { state, meaning, next }) in states().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            let mut plain = Plain(f);
            writeln!(plain, "{state}: {meaning}")?;
            writeln!(plain, "    next: {next}")?;
            for Ways { event, to, remark, .. } in WAYS.iter().filter(|ways| ways.from.contains(state)) {
                write!(plain, "    → {to}: {}", event.text())?;
                if !remark.is_empty() {
                    write!(plain, " ({remark})")?;
                }
                plain.write_char('\n')?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_state_has_a_row_with_a_next_step_and_is_on_the_way_of_something() {
        for state in PublicState::ALL {
            let row = of(state);
            assert_eq!(row.state, state);
            assert!(!row.meaning.is_empty() && row.next.contains("@s"), "{row:?}");
            assert!(state == Closed || transitions().any(|way| way.from == state), "{state} is never left");
            assert!(state == Dormant || transitions().any(|way| way.to == state), "{state} is never reached");
        }
        assert_eq!(states().count(), PublicState::ALL.len());
        assert!(transitions().all(|way| way.from != Closed), "what is closed is forgotten");
    }

    #[test]
    fn every_event_leads_somewhere_and_no_way_is_there_twice() {
        let all: Vec<_> = transitions().map(|way| (way.from, way.event, way.to)).collect();
        for event in Event::ALL {
            assert!(all.iter().any(|way| way.1 == event), "{event:?}");
        }
        for (index, way) in all.iter().enumerate() {
            assert!(!all.iter().skip(index + 1).any(|other| other == way), "{way:?}");
        }
    }

    #[test]
    fn the_idle_are_left_alone_by_all_but_their_user() {
        for way in transitions().filter(|way| way.from == Idle) {
            assert!(matches!(way.event, Event::Use | Event::Restart | Event::Close), "{way:?}");
            assert_ne!(way.to, Crashed);
        }
    }

    #[test]
    fn both_renderings_say_all_of_it() {
        let (markdown, text) = (Markdown.to_string(), Text.to_string());
        for line in markdown.lines().filter(|line| !line.is_empty()) {
            assert!(line.starts_with("| ") && line.ends_with(" |"), "{line}");
        }
        assert!(!text.contains('`'));
        for state in states() {
            assert!(text.contains(&state.next.replace('`', "")) && markdown.contains(state.next));
        }
        for way in transitions() {
            assert!(markdown.contains(way.event.text()) && markdown.contains(way.remark), "{way:?}");
            assert!(text.contains(&way.remark.replace('`', "")), "{way:?}");
        }
    }
}
