//! What a server was told, as lines of text: recorded while it runs, and replayed to the same machine later.
//!
//! A line is `<microseconds> <verb> [arguments]`, and a frame stands raw at its end, since it is a line itself. The
//! machine has no clock and no randomness, so the same [`Input`]s at the same times give the same outputs: whoever
//! hands its inputs in by [`Server::replay`], and keeps each as [`write()`] puts it, can have every state of that machine
//! again. Taking an action changes the machine, so it is an input too.
//!
//! A trace holds the frames of the server word for word: keep it as carefully as those.

use core::fmt;

use crate::era::Era;
use crate::http::exchange::{Carried, Verdict};
use crate::lifecycle::Exit;
use crate::link::{Allowance, Key, Ran, Slot};
use crate::logging::Level;
use crate::message::Writer;
use crate::method::Method;
use crate::negotiate::Question;
use crate::server::{Action, Kept, Operation, Outcome, Refusal, Server};
use crate::time::{Duration, Instant};

/// Whatever can be done to a [`Server`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input<'a> {
    /// [`Server::submit`]
    Submit(Operation),
    /// [`Server::ask_for`]
    AskFor(Era),
    /// [`Server::cancel`]
    Cancel(Key),
    /// [`Server::hold`]
    Hold(Key),
    /// [`Server::release`]
    Release(Key),
    /// [`Server::wake`]
    Wake,
    /// [`Server::defer`]
    Defer,
    /// [`Server::undefer`]
    Undefer,
    /// [`Server::show`]
    Show(bool),
    /// [`Server::set_idle`]
    SetIdle(Option<Duration>),
    /// [`Server::keep`]
    Keep(Kept),
    /// [`Server::handle_suspended`]
    Suspended(Duration),
    /// [`Server::set_level`]
    SetLevel(Option<Level>),
    /// [`Server::change_level`]
    ChangeLevel(Option<Level>),
    /// [`Server::leave`]
    Leave,
    /// [`Server::close`]
    Close,
    /// [`Server::handle_persisted`]
    Persisted,
    /// [`Server::handle_persist_failed`]
    PersistFailed,
    /// [`Server::handle_spawned`]
    Spawned,
    /// [`Server::handle_spawn_failed`]
    SpawnFailed,
    /// [`Server::set_writable`]
    SetWritable(bool),
    /// [`Server::handle_sent`]
    Sent(Key),
    /// [`Server::handle_frame`]
    Frame(&'a [u8]),
    /// [`Server::handle_oversize`]
    Oversize {
        /// The raw id, if one was found.
        id: Option<&'a [u8]>,
        /// Whether it is an answer.
        is_response: bool,
    },
    /// [`Server::handle_lost`]
    Lost,
    /// [`Server::handle_exited`]
    Exited(Exit),
    /// [`Server::handle_tree_gone`]
    TreeGone,
    /// [`Server::handle_expired`]
    Expired,
    /// [`Server::handle_unauthorized`]
    Unauthorized,
    /// [`Server::handle_session`]
    Session,
    /// [`Server::handle_endpoint`]
    Endpoint,
    /// [`Server::handle_verdict`]
    Verdict {
        /// What the exchange carried.
        carried: Carried,
        /// The wire id of its request.
        wire: u64,
        /// What came of it.
        verdict: Verdict,
    },
    /// [`Server::handle_timeout`]
    Timeout,
    /// [`Server::poll_action`]
    Poll,
}

/// What an input gave back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// It gives nothing back.
    None,
    /// What became of an operation.
    Submitted(Result<Key, Refusal>),
    /// What a frame was.
    Heard(Outcome),
    /// The next action.
    Action(Option<Action>),
}

/// Why an input could not be written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// The buffer is too small.
    Overflow,
    /// The frame, or the id, has a line break in it, so that it is none.
    NotALine,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overflow => "the buffer is too small for the line",
            Self::NotALine => "a frame with a line break in it is none",
        })
    }
}

impl core::error::Error for WriteError {}

/// The line is none of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseError;

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a line of a trace: <microseconds> <verb> [arguments]")
    }
}

impl core::error::Error for ParseError {}

/// A buffer of the frame's length and this is always enough.
pub const MAX_BESIDE_FRAME: usize = 320;

/// Writes an input as a line, with its line end.
///
/// # Errors
/// If the buffer is too small, or the input is not one line.
pub fn write<'b>(now: Instant, input: &Input<'_>, buffer: &'b mut [u8]) -> Result<&'b [u8], WriteError> {
    let mut line = Line(Writer::new(buffer));
    line.0.number(now.as_micros());
    match *input {
        Input::Submit(Operation { method, allowance }) => {
            line.word("submit");
            line.method(method);
            if let Some(Allowance { quiet, total }) = allowance {
                line.duration(quiet);
                line.duration(total);
            }
        }
        Input::AskFor(era) => {
            line.word("ask-for");
            line.word(era.name());
        }
        Input::Cancel(key) => line.with_number("cancel", key.wire()),
        Input::Hold(key) => line.with_number("hold", key.wire()),
        Input::Release(key) => line.with_number("release", key.wire()),
        Input::Wake => line.word("wake"),
        Input::Defer => line.word("defer"),
        Input::Undefer => line.word("undefer"),
        Input::Show(shown) => line.word(if shown { "show" } else { "hide" }),
        Input::SetIdle(idle) => {
            line.word("idle");
            line.period(idle);
        }
        Input::Keep(kept) => {
            line.word("keep");
            line.period(kept.idle);
            line.duration(kept.input_grace);
            line.duration(kept.terminate_grace);
            line.word(if kept.auto_restart { "restart" } else { "rest" });
            line.word(if kept.fail_on_expiry { "fail" } else { "fresh" });
            line.duration(kept.connect);
            line.duration(kept.allowance.quiet);
            line.duration(kept.allowance.total);
            line.period(kept.keepalive);
            line.period(kept.session_keepalive);
        }
        Input::Suspended(length) => {
            line.word("suspended");
            line.duration(length);
        }
        Input::SetLevel(level) => {
            line.word("level");
            line.word(level.map_or("none", Level::name));
        }
        Input::ChangeLevel(level) => {
            line.word("change-level");
            line.word(level.map_or("none", Level::name));
        }
        Input::Leave => line.word("leave"),
        Input::Close => line.word("close"),
        Input::Persisted => line.word("persisted"),
        Input::PersistFailed => line.word("persist-failed"),
        Input::Spawned => line.word("spawned"),
        Input::SpawnFailed => line.word("spawn-failed"),
        Input::SetWritable(writable) => line.word(if writable { "writable" } else { "full" }),
        Input::Sent(key) => line.with_number("sent", key.wire()),
        Input::Frame(frame) => {
            line.word("frame");
            line.raw(frame)?;
        }
        Input::Oversize { id, is_response } => {
            line.word(if is_response { "long-response" } else { "long-line" });
            if let Some(id) = id {
                line.raw(id)?;
            }
        }
        Input::Lost => line.word("lost"),
        Input::Exited(exit) => {
            let (word, value) = match exit {
                Exit::Status(status) => ("status", status),
                Exit::Signal(signal) => ("signal", signal),
            };
            line.word("exited");
            line.word(word);
            line.0.raw(b" ");
            line.0.signed(i64::from(value));
        }
        Input::TreeGone => line.word("gone"),
        Input::Expired => line.word("expired"),
        Input::Unauthorized => line.word("unauthorized"),
        Input::Session => line.word("session"),
        Input::Endpoint => line.word("endpoint"),
        Input::Verdict { carried, wire, verdict } => {
            line.with_number("verdict", wire);
            line.verdict(verdict);
            line.carried(carried);
        }
        Input::Timeout => line.word("timeout"),
        Input::Poll => line.word("poll"),
    }
    line.0.raw(b"\n");
    line.0.finish().map_err(|_| WriteError::Overflow)
}

/// Reads a line, with or without its end.
///
/// # Errors
/// If it is not exactly what [`write()`] writes.
pub fn parse(line: &[u8]) -> Result<(Instant, Input<'_>), ParseError> {
    let mut words = Words(Some(line.strip_suffix(b"\n").unwrap_or(line)));
    let now = Instant::from_micros(words.number()?);
    let input = match words.word()? {
        b"submit" => {
            let method = words.method()?;
            let allowance = match words.0 {
                Some(_) => Some(Allowance { quiet: words.duration()?, total: words.duration()? }),
                None => None,
            };
            Input::Submit(Operation { method, allowance })
        }
        b"ask-for" => Input::AskFor(match words.word()? {
            b"legacy" => Era::Legacy,
            b"modern" => Era::Modern,
            _ => return Err(ParseError),
        }),
        b"cancel" => Input::Cancel(words.key()?),
        b"hold" => Input::Hold(words.key()?),
        b"release" => Input::Release(words.key()?),
        b"wake" => Input::Wake,
        b"defer" => Input::Defer,
        b"undefer" => Input::Undefer,
        b"show" => Input::Show(true),
        b"hide" => Input::Show(false),
        b"idle" => Input::SetIdle(words.period()?),
        b"keep" => Input::Keep(words.kept()?),
        b"suspended" => Input::Suspended(words.duration()?),
        b"level" => Input::SetLevel(words.level()?),
        b"change-level" => Input::ChangeLevel(words.level()?),
        b"leave" => Input::Leave,
        b"close" => Input::Close,
        b"persisted" => Input::Persisted,
        b"persist-failed" => Input::PersistFailed,
        b"spawned" => Input::Spawned,
        b"spawn-failed" => Input::SpawnFailed,
        b"writable" => Input::SetWritable(true),
        b"full" => Input::SetWritable(false),
        b"sent" => Input::Sent(words.key()?),
        b"frame" => Input::Frame(words.0.take().ok_or(ParseError)?),
        b"long-response" => Input::Oversize { id: words.0.take(), is_response: true },
        b"long-line" => Input::Oversize { id: words.0.take(), is_response: false },
        b"lost" => Input::Lost,
        b"exited" => Input::Exited(match words.word()? {
            b"status" => Exit::Status(words.signed()?),
            b"signal" => Exit::Signal(words.signed()?),
            _ => return Err(ParseError),
        }),
        b"gone" => Input::TreeGone,
        b"expired" => Input::Expired,
        b"unauthorized" => Input::Unauthorized,
        b"session" => Input::Session,
        b"endpoint" => Input::Endpoint,
        b"verdict" => {
            Input::Verdict { wire: words.number()?, verdict: words.verdict()?, carried: words.carried()? }
        }
        b"timeout" => Input::Timeout,
        b"poll" => Input::Poll,
        _ => return Err(ParseError),
    };
    if words.0.is_some() { Err(ParseError) } else { Ok((now, input)) }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Server<S> {
    /// Does what the input says.
    pub fn replay(&mut self, now: Instant, input: Input<'_>) -> Output {
        match input {
            Input::Submit(operation) => return Output::Submitted(self.submit(now, operation)),
            Input::Frame(frame) => return Output::Heard(self.handle_frame(now, frame)),
            Input::Poll => return Output::Action(self.poll_action()),
            Input::AskFor(era) => self.ask_for(era),
            Input::Cancel(key) => self.cancel(now, key),
            Input::Hold(key) => self.hold(now, key),
            Input::Release(key) => self.release(now, key),
            Input::Wake => self.wake(now),
            Input::Defer => self.defer(),
            Input::Undefer => self.undefer(now),
            Input::Show(shown) => self.show(now, shown),
            Input::SetIdle(idle) => self.set_idle(idle),
            Input::Keep(kept) => self.keep(now, kept),
            Input::Suspended(length) => self.handle_suspended(now, length),
            Input::SetLevel(level) => self.set_level(level),
            Input::ChangeLevel(level) => self.change_level(level),
            Input::Leave => self.leave(now),
            Input::Close => self.close(now),
            Input::Persisted => self.handle_persisted(now),
            Input::PersistFailed => self.handle_persist_failed(now),
            Input::Spawned => self.handle_spawned(now),
            Input::SpawnFailed => self.handle_spawn_failed(now),
            Input::SetWritable(writable) => self.set_writable(writable),
            Input::Sent(key) => self.handle_sent(key),
            Input::Oversize { id, is_response } => self.handle_oversize(now, id, is_response),
            Input::Lost => self.handle_lost(now),
            Input::Exited(exit) => self.handle_exited(now, exit),
            Input::TreeGone => self.handle_tree_gone(now),
            Input::Expired => self.handle_expired(now),
            Input::Unauthorized => self.handle_unauthorized(now),
            Input::Session => self.handle_session(now),
            Input::Endpoint => self.handle_endpoint(now),
            Input::Verdict { carried, wire, verdict } => self.handle_verdict(now, carried, wire, verdict),
            Input::Timeout => self.handle_timeout(now),
        }
        Output::None
    }
}

/// Stands for a method without a name of its own.
const UNKNOWN_METHOD: &str = "other";

struct Line<'b>(Writer<'b>);

impl Line<'_> {
    fn word(&mut self, word: &str) {
        self.0.raw(b" ");
        self.0.raw(word.as_bytes());
    }

    fn with_number(&mut self, word: &str, number: u64) {
        self.word(word);
        self.0.raw(b" ");
        self.0.number(number);
    }

    fn method(&mut self, method: Method) {
        self.word(if method == Method::Other { UNKNOWN_METHOD } else { method.name() });
    }

    fn carried(&mut self, carried: Carried) {
        self.word(match carried {
            Carried::Question(Question::Discover) => "probe",
            Carried::Question(Question::Initialize) => "initialize",
            Carried::Request(_) => "request",
            Carried::Message => "message",
            Carried::Listening => "listening",
            Carried::OldStream => "old-stream",
            Carried::Goodbye => "goodbye",
        });
        if let Carried::Request(method) = carried {
            self.method(method);
        }
    }

    fn verdict(&mut self, verdict: Verdict) {
        self.word(match verdict {
            Verdict::Done => "done",
            Verdict::Expired { .. } => "expired",
            Verdict::Unauthorized => "unauthorized",
            Verdict::Unreachable => "unreachable",
            Verdict::Broken => "broken",
            Verdict::Refused { .. } => "refused",
            Verdict::Invalid => "invalid",
            Verdict::NoStream => "no-stream",
        });
        if let Verdict::Expired { ran } | Verdict::Refused { ran, .. } = verdict {
            self.word(ran.name());
        }
        if let Verdict::Refused { status, .. } = verdict {
            self.0.raw(b" ");
            self.0.number(u64::from(status));
        }
    }

    fn period(&mut self, period: Option<Duration>) {
        match period {
            Some(period) => self.duration(period),
            None => self.word("never"),
        }
    }

    /// Seconds and nanoseconds.
    fn duration(&mut self, duration: Duration) {
        self.0.raw(b" ");
        self.0.number(duration.as_secs());
        self.0.raw(b"s");
        self.0.number(u64::from(duration.subsec_nanos()));
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if bytes.contains(&b'\n') {
            return Err(WriteError::NotALine);
        }
        self.0.raw(b" ");
        self.0.raw(bytes);
        Ok(())
    }
}

/// What is left of a line; nothing once its last word was taken.
struct Words<'a>(Option<&'a [u8]>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a [u8], ParseError> {
        let rest = self.0.take().ok_or(ParseError)?;
        let end = rest.iter().position(|byte| *byte == b' ');
        let (word, rest) = match end.and_then(|at| rest.split_at_checked(at)) {
            Some((word, rest)) => (word, rest.get(1..)),
            None => (rest, None),
        };
        self.0 = rest;
        Ok(word)
    }

    fn number(&mut self) -> Result<u64, ParseError> {
        crate::json::as_u64(self.word()?).ok_or(ParseError)
    }

    fn signed(&mut self) -> Result<i32, ParseError> {
        crate::json::as_i64(self.word()?).and_then(|value| i32::try_from(value).ok()).ok_or(ParseError)
    }

    fn method(&mut self) -> Result<Method, ParseError> {
        let name = core::str::from_utf8(self.word()?).map_err(|_| ParseError)?;
        let method = Method::from_name(name);
        if name == method.name() || name == UNKNOWN_METHOD { Ok(method) } else { Err(ParseError) }
    }

    fn level(&mut self) -> Result<Option<Level>, ParseError> {
        match self.word()? {
            b"none" => Ok(None),
            word => core::str::from_utf8(word).ok().and_then(Level::from_name).map(Some).ok_or(ParseError),
        }
    }

    fn carried(&mut self) -> Result<Carried, ParseError> {
        Ok(match self.word()? {
            b"probe" => Carried::Question(Question::Discover),
            b"initialize" => Carried::Question(Question::Initialize),
            b"request" => Carried::Request(self.method()?),
            b"message" => Carried::Message,
            b"listening" => Carried::Listening,
            b"old-stream" => Carried::OldStream,
            b"goodbye" => Carried::Goodbye,
            _ => return Err(ParseError),
        })
    }

    fn verdict(&mut self) -> Result<Verdict, ParseError> {
        Ok(match self.word()? {
            b"done" => Verdict::Done,
            b"expired" => Verdict::Expired { ran: self.ran()? },
            b"unauthorized" => Verdict::Unauthorized,
            b"unreachable" => Verdict::Unreachable,
            b"broken" => Verdict::Broken,
            b"refused" => {
                let ran = self.ran()?;
                Verdict::Refused { ran, status: u16::try_from(self.number()?).map_err(|_| ParseError)? }
            }
            b"invalid" => Verdict::Invalid,
            b"no-stream" => Verdict::NoStream,
            _ => return Err(ParseError),
        })
    }

    fn ran(&mut self) -> Result<Ran, ParseError> {
        match self.word()? {
            b"no" => Ok(Ran::No),
            b"unknown" => Ok(Ran::Unknown),
            _ => Err(ParseError),
        }
    }

    fn key(&mut self) -> Result<Key, ParseError> {
        Key::from_wire(self.number()?).ok_or(ParseError)
    }

    fn kept(&mut self) -> Result<Kept, ParseError> {
        Ok(Kept {
            idle: self.period()?,
            input_grace: self.duration()?,
            terminate_grace: self.duration()?,
            auto_restart: self.choice(b"restart", b"rest")?,
            fail_on_expiry: self.choice(b"fail", b"fresh")?,
            connect: self.duration()?,
            allowance: Allowance { quiet: self.duration()?, total: self.duration()? },
            keepalive: self.period()?,
            session_keepalive: self.period()?,
        })
    }

    fn choice(&mut self, yes: &[u8], no: &[u8]) -> Result<bool, ParseError> {
        match self.word()? {
            word if word == yes => Ok(true),
            word if word == no => Ok(false),
            _ => Err(ParseError),
        }
    }

    fn period(&mut self) -> Result<Option<Duration>, ParseError> {
        match self.word()? {
            b"never" => Ok(None),
            word => duration(word).map(Some),
        }
    }

    fn duration(&mut self) -> Result<Duration, ParseError> {
        duration(self.word()?)
    }
}

fn duration(word: &[u8]) -> Result<Duration, ParseError> {
    let at = word.iter().position(|byte| *byte == b's').ok_or(ParseError)?;
    let (secs, nanos) = word.split_at_checked(at).ok_or(ParseError)?;
    let secs = crate::json::as_u64(secs).ok_or(ParseError)?;
    let nanos = nanos.get(1..).and_then(crate::json::as_u64).filter(|nanos| *nanos < 1_000_000_000);
    let nanos = nanos.and_then(|nanos| u32::try_from(nanos).ok()).ok_or(ParseError)?;
    Ok(Duration::new(secs, nanos))
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
