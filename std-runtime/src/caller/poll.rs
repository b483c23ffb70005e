//! How many bridges are, asked of all of them at once and again and again: for those who watch.
//!
//! Starts nothing and counts as no use. A connection is kept from one round to the next, and so is a question that was
//! not answered: whoever is stopped is not sent another one each second, and is not waited for in the next round.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::error::CallError;
use super::link::{Filled, Greeting, Link, Unanswered};
use super::message::{Incoming, parse, request as request_line};
use super::{Request, Sessions};
use crate::home::{HomeError, SessionName};
use crate::input::ClientCapabilities;
use crate::wait::{Wait, Woken};
use crate::wire::{METHOD_STATUS, Status};

/// What a bridge answered, or did not.
#[derive(Debug, Clone)]
pub enum Standing {
    /// It says this of itself.
    Answers(Box<Answer>),
    /// It was connected to, and has not answered in time.
    Silent,
    /// It speaks no language of ours.
    Refuses,
    /// There is none.
    Absent,
}

/// What a bridge says of itself.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its version of drowse.
    pub version: String,
    /// How it is.
    pub status: Status,
}

/// The connections to the bridges that are watched.
#[derive(Debug)]
pub struct Poll<'s> {
    sessions: &'s Sessions,
    connections: HashMap<SessionName, Connection>,
    next_id: u64,
}

enum Connection {
    /// The hello is not answered.
    Greeted(Unanswered),
    /// The question with this number is not answered.
    Asked(Link, u64),
    /// Nothing is under way.
    Quiet(Link),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Greeted(_) => "Greeted",
            Self::Asked(..) => "Asked",
            Self::Quiet(_) => "Quiet",
        })
    }
}

/// How far one bridge is in a round.
enum Progress {
    Waiting(Connection),
    Done(Standing, Option<Connection>),
}

impl<'s> Poll<'s> {
    /// Watches sessions. Connects to nobody yet.
    #[must_use]
    pub fn new(sessions: &'s Sessions) -> Self {
        Self { sessions, connections: HashMap::new(), next_id: 1 }
    }

    /// Asks the bridges of these sessions, all at once, and waits no longer than `bound` for all of them together:
    /// those that were silent in the last round are not waited for. Connections to others are closed. An interrupt ends
    /// the wait; what is known by then is answered.
    ///
    /// # Errors
    /// If the home cannot be used, or the kernel refuses to wait.
    pub fn ask(
        &mut self,
        names: &[SessionName],
        bound: Duration,
        wait: Wait<'_>,
    ) -> Result<HashMap<SessionName, Standing>, CallError> {
        let mut standings = HashMap::with_capacity(names.len());
        let mut known = std::mem::take(&mut self.connections);
        let mut waiting: Vec<(SessionName, Connection, bool)> = Vec::new();
        for name in names {
            let before = known.remove(name);
            let was_silent = matches!(before, Some(Connection::Greeted(_) | Connection::Asked(..)));
            match self.begin(name, before) {
                Ok(Progress::Waiting(connection)) => waiting.push((name.clone(), connection, was_silent)),
                Ok(Progress::Done(standing, connection)) => {
                    self.keep(name, connection);
                    standings.insert(name.clone(), standing);
                }
                // Our own trouble (out of descriptors, most likely), which says nothing about the bridge.
                Err(_) => _ = standings.insert(name.clone(), Standing::Silent),
            }
        }
        drop(known);
        let limited = wait.no_later_than(Instant::now() + bound);
        while waiting.iter().any(|(_, _, was_silent)| !was_silent) {
            let interest: Vec<_> =
                waiting.iter().map(|(_, connection, _)| (connection.as_fd(), PollFlags::IN)).collect();
            let woken = limited
                .poll(&interest)
                .map_err(|e| HomeError::io("wait for", &self.sessions.home().sessions(), e))?;
            drop(interest);
            if woken != Woken::Ready {
                break;
            }
            let mut still = Vec::with_capacity(waiting.len());
            for (name, connection, was_silent) in waiting {
                match self.advance(connection) {
                    Progress::Waiting(connection) => still.push((name, connection, was_silent)),
                    Progress::Done(standing, connection) => {
                        self.keep(&name, connection);
                        standings.insert(name, standing);
                    }
                }
            }
            waiting = still;
        }
        for (name, connection, _) in waiting {
            standings.insert(name.clone(), Standing::Silent);
            self.connections.insert(name, connection);
        }
        Ok(standings)
    }

    fn keep(&mut self, name: &SessionName, connection: Option<Connection>) {
        if let Some(connection) = connection {
            self.connections.insert(name.clone(), connection);
        }
    }

    /// Asks a bridge, on the connection that there is or on a new one.
    fn begin(&mut self, name: &SessionName, before: Option<Connection>) -> Result<Progress, CallError> {
        if let Some(connection) = before {
            let progress = match connection {
                Connection::Quiet(link) => self.question(link),
                connection => self.advance(connection),
            };
            match progress {
                // It went to sleep since, and may have been woken again.
                Progress::Done(Standing::Absent, _) => {}
                progress => return Ok(progress),
            }
        }
        // Without waiting: what is not there at once is waited for together with all others.
        Ok(match self.sessions.greet(name, Wait::default(), Duration::ZERO)? {
            Greeting::Welcome(link) => self.question(link),
            Greeting::Silent(unanswered) => Progress::Waiting(Connection::Greeted(unanswered)),
            Greeting::Refused(_) => Progress::Done(Standing::Refuses, None),
            Greeting::Absent => Progress::Done(Standing::Absent, None),
        })
    }

    fn question(&mut self, mut link: Link) -> Progress {
        let id = self.next_id;
        self.next_id += 1;
        let request = Request { method: METHOD_STATUS, params: "", timeout: None, progress: None };
        let sent = request_line(id, &request, ClientCapabilities::default(), None)
            .map_err(drop)
            .and_then(|line| link.send(&line).map(|sent| sent == line.len()).map_err(drop));
        match sent {
            Ok(true) => self.advance(Connection::Asked(link, id)),
            // It reads nothing: half a question cannot be taken back.
            Ok(false) => Progress::Done(Standing::Silent, None),
            Err(()) => Progress::Done(Standing::Absent, None),
        }
    }

    /// Takes what has come, without waiting.
    fn advance(&mut self, connection: Connection) -> Progress {
        match connection {
            Connection::Greeted(unanswered) => match unanswered.advance() {
                Greeting::Welcome(link) => self.question(link),
                Greeting::Silent(unanswered) => Progress::Waiting(Connection::Greeted(unanswered)),
                Greeting::Refused(_) => Progress::Done(Standing::Refuses, None),
                Greeting::Absent => Progress::Done(Standing::Absent, None),
            },
            Connection::Quiet(link) => Progress::Done(Standing::Absent, Some(Connection::Quiet(link))),
            Connection::Asked(mut link, id) => loop {
                while let Some(line) = link.next_line() {
                    match read(link.get(line), id) {
                        Said::Answer(answer) => {
                            let answer = Answer { version: link.version().to_owned(), ..*answer };
                            let standing = Standing::Answers(Box::new(answer));
                            return Progress::Done(standing, Some(Connection::Quiet(link)));
                        }
                        Said::Goodbye => return Progress::Done(Standing::Absent, None),
                        Said::Nonsense => return Progress::Done(Standing::Refuses, None),
                        Said::Other => {}
                    }
                }
                match link.fill() {
                    Filled::Some => {}
                    Filled::Nothing => return Progress::Waiting(Connection::Asked(link, id)),
                    Filled::End | Filled::TooLong => return Progress::Done(Standing::Absent, None),
                }
            },
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Greeted(unanswered) => unanswered.as_fd(),
            Self::Asked(link, _) | Self::Quiet(link) => link.as_fd(),
        }
    }
}

enum Said {
    Answer(Box<Answer>),
    Goodbye,
    Nonsense,
    Other,
}

fn read(line: &[u8], id: u64) -> Said {
    match parse(line) {
        Ok(Incoming::Result { id: of, result }) if of == id => {
            let document = line.get(result).unwrap_or_default();
            match serde_json::from_slice(document) {
                Ok(status) => Said::Answer(Box::new(Answer { version: String::new(), status })),
                Err(_) => Said::Nonsense,
            }
        }
        Ok(Incoming::Error { id: of, .. }) if of == id => Said::Nonsense,
        Ok(Incoming::Goaway(_)) => Said::Goodbye,
        Ok(_) => Said::Other,
        Err(_) => Said::Nonsense,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread::{self, JoinHandle};

    use serde_json::{Value, json};

    use super::*;
    use crate::home::Home;
    use crate::wire::Tally;

    fn home() -> (tempfile::TempDir, Sessions) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        home.prepare().unwrap();
        (dir, Sessions::at(home))
    }

    fn listen(sessions: &Sessions, word: &str) -> (SessionName, UnixListener) {
        let name = SessionName::new(word).unwrap();
        crate::record::make_directory(sessions.home(), &name).unwrap();
        let listener = UnixListener::bind(sessions.home().socket_file(&name)).unwrap();
        (name, listener)
    }

    /// Answers the hello and then `rounds` questions on one connection.
    fn bridge(listener: UnixListener, rounds: usize, tally: Value) -> JoinHandle<UnixStream> {
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.next().unwrap().unwrap();
            let hello = json!({"drowse": {"hello": {"version": 1, "bridge": "9.9.9", "pid": 7}}});
            writeln!(&stream, "{hello}").unwrap();
            for _ in 0..rounds {
                let asked: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                assert_eq!(asked["method"], METHOD_STATUS);
                writeln!(&stream, "{}", json!({"jsonrpc": "2.0", "method": "notifications/other"})).unwrap();
                let result = json!({
                    "state": "live", "generation": 3, "serverPid": 8, "inFlight": 1, "idleInMs": null,
                    "tally": tally,
                });
                writeln!(&stream, "{}", json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
                    .unwrap();
            }
            stream
        })
    }

    const BOUND: Duration = Duration::from_secs(20);

    #[test]
    fn all_are_asked_at_once_and_whoever_is_silent_is_waited_for_once() {
        let (_dir, sessions) = home();
        let (good, listener) = listen(&sessions, "good");
        let answering = bridge(listener, 2, json!({"calls": 5, "p50Ms": 1.5, "later": 2}));
        // It accepts nothing, as one that is stopped.
        let (stopped, _queue) = listen(&sessions, "stopped");
        let absent = SessionName::new("absent").unwrap();
        let names = [good.clone(), stopped.clone(), absent.clone()];
        let mut poll = Poll::new(&sessions);
        let bound = Duration::from_millis(500);
        let begun = Instant::now();
        let standings = poll.ask(&names, bound, Wait::default()).unwrap();
        assert!(begun.elapsed() >= bound);
        let Standing::Answers(answer) = &standings[&good] else { panic!("{standings:?}") };
        assert_eq!((answer.version.as_str(), answer.status.generation), ("9.9.9", 3));
        let tally = Tally { calls: 5, p50_ms: Some(1.5), ..Tally::default() };
        assert_eq!(answer.status.tally, Some(tally));
        assert!(matches!(standings[&stopped], Standing::Silent));
        assert!(matches!(standings[&absent], Standing::Absent));
        // The same connection, and no wait for the silent one.
        let begun = Instant::now();
        let standings = poll.ask(&names, BOUND, Wait::default()).unwrap();
        assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
        assert!(matches!(standings[&good], Standing::Answers(_)));
        assert!(matches!(standings[&stopped], Standing::Silent));
        drop(answering.join().unwrap());
        let standings = poll.ask(&names[..1], BOUND, Wait::default()).unwrap();
        assert!(matches!(standings[&good], Standing::Absent), "{standings:?}");
    }

    #[test]
    fn one_that_goes_to_sleep_and_wakes_is_met_again() {
        let (_dir, sessions) = home();
        let (name, listener) = listen(&sessions, "x");
        let first = bridge(listener.try_clone().unwrap(), 1, Value::Null);
        let mut poll = Poll::new(&sessions);
        let standings = poll.ask(std::slice::from_ref(&name), BOUND, Wait::default()).unwrap();
        let Standing::Answers(answer) = &standings[&name] else { panic!("{standings:?}") };
        assert_eq!(answer.status.tally, None);
        drop(first.join().unwrap());
        let second = bridge(listener, 1, json!({"calls": 1}));
        let standings = poll.ask(std::slice::from_ref(&name), BOUND, Wait::default()).unwrap();
        assert!(matches!(standings[&name], Standing::Answers(_)), "{standings:?}");
        drop(second.join().unwrap());
    }
}
