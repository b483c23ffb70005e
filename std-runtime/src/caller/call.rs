//! Operations on a session: C2 of the wake protocol.
//!
//! Owns the rule that nothing runs twice: an operation is sent again only where it is known that it did not
//! run, or only reads by definition. The bridge owns its time-out; here is only a guard against a bridge that is
//! dead and still there.

use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use drowse_core::logging::Level;
use drowse_core::method::Method;
use rustix::event::PollFlags;

use super::error::CallError;
use super::link::{Filled, Greeting, Link};
use super::message::{Incoming, cancel, parse, request as request_line};
use super::wake::{MARGIN, Present, patience};
use super::{Caller, Reply, Request, Sessions, TakeMessage};
use crate::fault;
use crate::home::SessionName;
use crate::input::ClientCapabilities;
use crate::record::{self, Settings};
use crate::wait::{Wait, Woken};
use crate::wire::{Kind, MAX_MESSAGE, Ran, Renewed, Unasked};

/// How often an operation that did not run is tried on another bridge.
pub(super) const MAX_ROUNDS: u32 = 16;
/// The most refused questions that a caller is told of.
const MOST_UNASKED: usize = 8;
/// A call that hears nothing looks after the bridge so often.
const CHECKPOINT: Duration = Duration::from_secs(5);
/// How long a bridge may take to greet somebody then.
const GREETING: Duration = Duration::from_secs(1);

impl<'a> Caller<'a> {
    pub(super) fn new(sessions: &'a Sessions, name: &SessionName, wait: Wait<'a>) -> Self {
        Self {
            sessions,
            name: name.clone(),
            wait,
            link: None,
            sent: 0,
            next_id: 1,
            renewed: None,
            unasked: Vec::new(),
            capabilities: ClientCapabilities::default(),
            log: None,
        }
    }

    /// A caller that goes on with a connection that was just made.
    pub(super) fn on(sessions: &'a Sessions, name: &SessionName, wait: Wait<'a>, link: Link) -> Self {
        Self { link: Some(link), ..Self::new(sessions, name, wait) }
    }

    /// The wait of all calls from now on.
    pub fn set_wait(&mut self, wait: Wait<'a>) {
        self.wait = wait;
    }

    /// What the server may ask for in the results of all calls from now on; nothing, unless it is said.
    pub fn set_capabilities(&mut self, capabilities: ClientCapabilities) {
        self.capabilities = capabilities;
    }

    /// From now on takes the server's log messages from that level on that come during a call.
    pub fn set_log(&mut self, level: Level, take: TakeMessage) {
        self.log = Some((level, take));
    }

    /// Runs one operation, waking the session if it sleeps.
    ///
    /// # Errors
    /// See [`CallError`]; each says whether the operation may have run.
    pub fn call(&mut self, mut request: Request<'_>) -> Result<Reply, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        let line = request_line(id, &request, self.capabilities, self.log.map(|(level, _)| level))?;
        let only_reads = Method::from_name(request.method).only_reads();
        let mut reissued = false;
        let mut present = Present::Use;
        for _ in 0..MAX_ROUNDS {
            let mut link = match self.link.take().and_then(usable) {
                Some(link) => link,
                None => {
                    self.sent = 0;
                    self.sessions.reach(&self.name, self.wait, present, &line)?
                }
            };
            match self.exchange(&mut link, id, &line, &mut request) {
                Exchange::Answered(answer) => {
                    self.link = Some(link);
                    return answer;
                }
                // Once, as it may be what the bridge died of.
                Exchange::Lost(_) if only_reads && !reissued => {
                    reissued = true;
                    present = Present::Use;
                }
                Exchange::Lost(error) | Exchange::Failed(error) => return Err(error),
                Exchange::DidNotRun => present = Present::Use,
                Exchange::ShuttingDown => present = Present::UseOther(link.bridge()),
            }
        }
        Err(CallError::BridgeFailed {
            name: self.name.clone(),
            what: format!("{MAX_ROUNDS} in a row went away before they took the call"),
            log: self.sessions.home().log_file(&self.name),
        })
    }

    /// Whether the server had ended the session, or itself, and what was answered since came from a fresh one, so that
    /// what the server kept in memory is gone. Said once.
    pub fn was_renewed(&mut self) -> Option<Renewed> {
        self.renewed.take()
    }

    /// What the server asked during the calls so far and was refused, because the call did not declare that it can be
    /// asked. The first few; said once.
    pub fn take_unasked(&mut self) -> Vec<Unasked> {
        std::mem::take(&mut self.unasked)
    }

    /// Runs one operation on the bridge at the other end of the caller's link, which must be there.
    pub(super) fn call_here(&mut self, mut request: Request<'_>) -> Result<Reply, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        let line = request_line(id, &request, self.capabilities, self.log.map(|(level, _)| level))?;
        let gone = CallError::BridgeLost { name: self.name.clone(), what: "it ended".to_owned() };
        let Some(mut link) = self.link.take() else { return Err(gone) };
        match self.exchange(&mut link, id, &line, &mut request) {
            Exchange::Answered(answer) => {
                self.link = Some(link);
                answer
            }
            Exchange::Lost(error) | Exchange::Failed(error) => Err(error),
            Exchange::DidNotRun | Exchange::ShuttingDown => Err(gone),
        }
    }

    fn exchange(&mut self, link: &mut Link, id: u64, line: &[u8], request: &mut Request<'_>) -> Exchange {
        self.sent += 1;
        let mut operation = Operation {
            id,
            only_reads: Method::from_name(request.method).only_reads(),
            number: self.sent,
            line,
            written: link.take_ahead(),
            fresh: true,
            broken: false,
            goaway: None,
            renewed: None,
            unasked: Vec::new(),
            log: self.log.map(|(_, take)| take),
            since: Instant::now(),
            timeout: request.timeout,
            look: Instant::now() + CHECKPOINT,
            silent: None,
        };
        let ahead = operation.written > 0;
        if !ahead {
            fault::point("C2");
        }
        loop {
            if let Some(outcome) = operation.send(link) {
                return outcome;
            }
            if !ahead {
                fault::point("C2-sent");
            }
            let outcome = operation.receive(link, &self.name, request);
            self.renewed = operation.renewed.take().or(self.renewed);
            let room = MOST_UNASKED.saturating_sub(self.unasked.len());
            self.unasked.extend(operation.unasked.drain(..).take(room));
            if let Some(outcome) = outcome {
                return outcome;
            }
            if let Some(outcome) = self.pause(link, &mut operation) {
                return outcome;
            }
        }
    }

    /// Waits for the bridge, as long as anybody wants to.
    fn pause(&self, link: &mut Link, operation: &mut Operation<'_>) -> Option<Exchange> {
        let mut interest = PollFlags::IN;
        if operation.is_sending() {
            interest |= PollFlags::OUT;
        }
        let woken = self.wait.no_later_than(operation.look).poll(&[(link.as_fd(), interest)]);
        let error = match woken {
            Ok(Woken::Ready) => return None,
            Ok(Woken::Interrupted) => {
                operation.cancel(link, "the user interrupted");
                CallError::Interrupted { ran: operation.ran() }
            }
            Ok(Woken::Deadline) if self.wait.is_over() => {
                operation.cancel(link, "the caller's deadline passed");
                let during = format!("waiting for the answer of {}", self.name);
                CallError::Deadline { during, ran: operation.ran() }
            }
            Ok(Woken::Deadline) => self.look_after(operation)?,
            Err(e) => CallError::BridgeLost { name: self.name.clone(), what: e.to_string() },
        };
        Some(Exchange::Failed(error))
    }

    /// Nothing came for a while: a bridge that is only busy greets whoever comes meanwhile. One that does not, for as long
    /// as a starter would wait for it, is stopped; it is left to the next starter to end it.
    fn look_after(&self, operation: &mut Operation<'_>) -> Option<CallError> {
        let lost = |what| Some(CallError::BridgeLost { name: self.name.clone(), what });
        let settings = match record::read_session(self.sessions.home(), &self.name) {
            Ok(Some(record)) => record.settings,
            _ => Settings::default(),
        };
        if operation.since.elapsed() >= longest_call(&settings, operation.timeout) {
            return lost(format!("no answer for {} s", operation.since.elapsed().as_secs()));
        }
        match self.sessions.greet(&self.name, self.wait, GREETING) {
            Ok(Greeting::Silent(_)) => {
                let silent = operation.silent.get_or_insert_with(Instant::now).elapsed();
                if silent >= patience(&settings) {
                    return lost(format!("it answers nothing any more, for {} s", silent.as_secs()));
                }
            }
            // Where there is no socket, that says nothing of the bridge which has this connection.
            _ => operation.silent = None,
        }
        operation.look = Instant::now() + CHECKPOINT.min(patience(&settings));
        None
    }
}

/// When even the slowest operation on a sleeping session must have been answered by a living bridge.
fn longest_call(settings: &Settings, timeout: Option<Duration>) -> Duration {
    settings.max_timeout().max(timeout.unwrap_or_default())
        + settings.connect_timeout()
        + settings.stop_limit()
        + MARGIN
}

/// How sending one operation over one connection came out.
enum Exchange {
    /// The connection can be used again.
    Answered(Result<Reply, CallError>),
    /// The bridge is gone, and with it what became of it.
    Lost(CallError),
    /// It will not be sent again.
    Failed(CallError),
    /// It certainly did not run.
    DidNotRun,
    /// It did not run, or it does not matter whether it did, because the bridge is going away for good.
    ShuttingDown,
}

/// One operation on one connection.
struct Operation<'a> {
    id: u64,
    /// It may be issued anew even if it ran.
    only_reads: bool,
    /// Its place among the requests on this connection, from 1.
    number: u64,
    line: &'a [u8],
    /// Bytes that were given to the kernel.
    written: usize,
    /// It was sent a moment ago: there is nothing to read before somebody waited for it.
    fresh: bool,
    /// The kernel takes no more.
    broken: bool,
    goaway: Option<u64>,
    renewed: Option<Renewed>,
    unasked: Vec<Unasked>,
    log: Option<TakeMessage>,
    since: Instant,
    /// The time-out that it brings itself.
    timeout: Option<Duration>,
    /// When it is looked after, if nothing comes before.
    look: Instant,
    /// Since when the bridge greets nobody.
    silent: Option<Instant>,
}

impl Operation<'_> {
    fn is_sending(&self) -> bool {
        !self.broken && self.written < self.line.len()
    }

    /// Whether it may have run, should nothing more be heard.
    fn ran(&self) -> Ran {
        if self.written == 0 { Ran::No } else { Ran::Unknown }
    }

    fn send(&mut self, link: &mut Link) -> Option<Exchange> {
        while self.is_sending() {
            match link.send(self.line.get(self.written..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(n) => self.written += n,
                // What the bridge said before it left is still to be read, and may say what became of it.
                Err(_) => self.broken = true,
            }
        }
        None
    }

    fn receive(
        &mut self,
        link: &mut Link,
        name: &SessionName,
        request: &mut Request<'_>,
    ) -> Option<Exchange> {
        loop {
            while let Some(line) = link.next_line() {
                match self.line(link, line, name, request) {
                    Some(outcome) => return Some(outcome),
                    None => continue,
                }
            }
            if std::mem::take(&mut self.fresh) && !self.broken {
                return None;
            }
            match link.fill() {
                Filled::Some => {}
                Filled::Nothing if self.broken => return Some(self.lost(name)),
                Filled::Nothing => return None,
                Filled::End => return Some(self.lost(name)),
                Filled::TooLong => {
                    self.cancel(link, "the answer is too large");
                    return Some(Exchange::Failed(CallError::TooLarge { limit: MAX_MESSAGE }));
                }
            }
        }
    }

    fn line(
        &mut self,
        link: &mut Link,
        line: Range<usize>,
        name: &SessionName,
        request: &mut Request<'_>,
    ) -> Option<Exchange> {
        match parse(link.get(line.clone())) {
            Ok(Incoming::Result { id, result }) if id == self.id => {
                let (line, range) = link.take(line);
                let result = range.start + result.start..range.start + result.end;
                Some(Exchange::Answered(Ok(Reply { line, result })))
            }
            Ok(Incoming::Error { id, error, data }) if id == self.id => Some(match data {
                Some(data) if data.kind == Kind::ShuttingDown && (data.ran == Ran::No || self.only_reads) => {
                    Exchange::ShuttingDown
                }
                Some(data) => Exchange::Answered(Err(CallError::Failed { data: Box::new(data), error })),
                None => Exchange::Answered(Err(CallError::Answer(error))),
            }),
            Ok(Incoming::Progress(params)) => {
                if let Some(progress) = &mut request.progress {
                    progress(params);
                }
                None
            }
            Ok(Incoming::Message(params)) => {
                if let Some(take) = self.log {
                    take(params);
                }
                None
            }
            Ok(Incoming::Renewed(how)) => {
                self.renewed = Some(how);
                None
            }
            Ok(Incoming::Unasked(question)) => {
                self.unasked.push(question);
                None
            }
            Ok(Incoming::Goaway(last)) => {
                self.goaway = Some(last);
                (last < self.number).then_some(Exchange::DidNotRun)
            }
            Ok(_) => None,
            Err(e) => {
                let what = format!("it said something that makes no sense: {e}");
                Some(Exchange::Failed(CallError::BridgeLost { name: name.clone(), what }))
            }
        }
    }

    /// The connection is gone without an answer.
    fn lost(&self, name: &SessionName) -> Exchange {
        // Not one byte left this process.
        if self.written == 0 {
            return Exchange::DidNotRun;
        }
        let what = match self.goaway {
            Some(_) => "it ended without an answer",
            None => "it ended without a word",
        };
        Exchange::Lost(CallError::BridgeLost { name: name.clone(), what: what.to_owned() })
    }

    /// Tells the bridge that nobody waits any more, if it can be told without waiting. If not, the end of the
    /// connection says the same.
    fn cancel(&self, link: &mut Link, reason: &str) {
        if self.written == self.line.len() {
            let _ = link.send(&cancel(self.id, reason));
        }
    }
}

/// A connection that was left alone for a while, if the bridge has not ended it since.
fn usable(mut link: Link) -> Option<Link> {
    loop {
        match link.fill() {
            Filled::Nothing => return Some(link),
            Filled::End | Filled::TooLong => return None,
            Filled::Some => {
                while let Some(line) = link.next_line() {
                    if matches!(parse(link.get(line)), Ok(Incoming::Goaway(_)) | Err(_)) {
                        return None;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What becomes of a request of this many bytes when the other side does what it does.
    fn outcome(size: usize, other: impl FnOnce(UnixStream)) -> (Exchange, usize) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut link = Link::over(ours);
        let line = vec![b'x'; size];
        let mut operation = Operation {
            id: 1,
            only_reads: false,
            number: 1,
            line: &line,
            written: 0,
            fresh: true,
            broken: false,
            goaway: None,
            renewed: None,
            unasked: Vec::new(),
            log: None,
            since: Instant::now(),
            timeout: None,
            look: Instant::now() + CHECKPOINT,
            silent: None,
        };
        let mut request = Request { method: "m", params: "", timeout: None, progress: None };
        let name = SessionName::new("s").unwrap();
        let mut theirs = Some(theirs);
        // As much as fits is sent before the other side acts, except where it is gone before anything is.
        if size > 1 {
            assert!(operation.send(&mut link).is_none());
        }
        other(theirs.take().unwrap());
        loop {
            assert!(operation.send(&mut link).is_none());
            if let Some(outcome) = operation.receive(&mut link, &name, &mut request) {
                return (outcome, operation.written);
            }
        }
    }

    const GOAWAY_0: &[u8] = b"{\"method\":\"notifications/drowse/goaway\",\"params\":{\"last\":0}}\n";

    #[test]
    fn a_request_of_which_no_byte_was_taken_did_not_run() {
        let (outcome, written) = outcome(1, drop);
        assert!(matches!(outcome, Exchange::DidNotRun));
        assert_eq!(written, 0);
    }

    #[test]
    fn one_of_which_some_bytes_were_taken_may_have_run() {
        let (outcome, written) = outcome(8 << 20, drop);
        assert!((1..8 << 20).contains(&written));
        let Exchange::Lost(error) = outcome else { panic!("not failed") };
        assert_eq!(error.ran(), Some(Ran::Unknown));
    }

    #[test]
    fn what_was_received_before_a_write_error_decides() {
        for size in [1, 100, 8 << 20] {
            let (outcome, _) = outcome(size, |mut theirs| theirs.write_all(GOAWAY_0).unwrap());
            assert!(matches!(outcome, Exchange::DidNotRun), "{size}");
        }
        let (outcome, _) = outcome(100, |mut theirs| {
            theirs.read_exact(&mut [0; 100]).unwrap();
            theirs.write_all(b"{\"id\":1,\"result\":{}}\n").unwrap();
            theirs.write_all(GOAWAY_0).unwrap();
        });
        assert!(matches!(outcome, Exchange::Answered(Ok(_))));
    }

    #[test]
    fn a_link_that_was_ended_meanwhile_is_not_used_again() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let link = usable(Link::over(ours)).unwrap();
        (&theirs).write_all(b"{\"method\":\"notifications/progress\",\"params\":{}}\n").unwrap();
        let link = usable(link).unwrap();
        (&theirs).write_all(GOAWAY_0).unwrap();
        assert!(usable(link).is_none());
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(usable(Link::over(ours)).is_none());
    }
}
