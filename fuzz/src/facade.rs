//! The facade under any inputs: a trace that never was, played with an adapter that keeps its word about keys. A first
//! line `http` makes it that of a server behind a URL.

use std::collections::HashMap;

use drowse_core::crash::CrashLog;
use drowse_core::http::exchange::Verdict;
use drowse_core::link::{Key, REISSUED, Ran, Slot};
use drowse_core::negotiate::Limits;
use drowse_core::server::{Action, Config, Outcome, Server, Transport};
use drowse_core::time::{Duration, Instant};
use drowse_core::trace::{self, Input, Output};

/// More actions than one input can ask for: each of the slots can be sent, cancelled and failed.
const MOST_ACTIONS: usize = 64;

struct Adapter {
    server: Server<[Slot; 4]>,
    now: Instant,
    /// Every key that was given out and not taken back, and whether the kernel has it.
    keys: HashMap<Key, bool>,
    reads: HashMap<Key, bool>,
}

/// `data` as a trace, line by line; lines that are none are passed over.
pub(crate) fn play(data: &[u8]) {
    let mut config = Config::default();
    if data.starts_with(b"http\n") {
        config.transport = Transport::Http;
        config.limits = Limits { hedge: None, ..config.limits };
        config.session_keepalive = Some(Duration::from_secs(30));
    }
    let server = Server::new(config, [Slot::EMPTY; 4], 0, CrashLog::new());
    let mut adapter = Adapter { server, now: Instant::ZERO, keys: HashMap::new(), reads: HashMap::new() };
    for line in data.split(|byte| *byte == b'\n') {
        let Ok((at, input)) = trace::parse(line) else { continue };
        let mut buffer = vec![0; line.len() + trace::MAX_BESIDE_FRAME];
        let written = trace::write(at, &input, &mut buffer).expect("what was read can be written");
        assert_eq!(trace::parse(written.strip_suffix(b"\n").unwrap_or(written)), Ok((at, input)));
        adapter.now = adapter.now.max(at);
        adapter.give(input);
    }
    // However it went, an end takes every key back. The adapter that ends it acknowledges what it is asked for.
    adapter.give(Input::Close);
    for _ in 0..4 {
        adapter.give(Input::Persisted);
        adapter.give(Input::TreeGone);
    }
    assert!(adapter.keys.is_empty(), "never taken back: {:?}", adapter.keys);
}

fn proves_that_nothing_ran(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Unauthorized
            | Verdict::Unreachable
            | Verdict::Expired { ran: Ran::No }
            | Verdict::Refused { ran: Ran::No, .. }
    )
}

impl Adapter {
    fn give(&mut self, input: Input<'_>) {
        if let Input::Sent(key) = input
            && let Some(sent) = self.keys.get_mut(&key)
        {
            *sent = true;
        }
        if let Input::Verdict { wire, verdict, .. } = input
            && proves_that_nothing_ran(verdict)
            && self.server.awaits(wire)
            && let Some(sent) = Key::from_wire(wire & !REISSUED).and_then(|key| self.keys.get_mut(&key))
        {
            *sent = false;
        }
        let output = self.server.replay(self.now, input);
        self.heed(output);
        for turn in 0.. {
            assert!(turn < MOST_ACTIONS, "the actions do not end");
            let output = self.server.replay(self.now, Input::Poll);
            if output == Output::Action(None) {
                break;
            }
            self.heed(output);
        }
        if input == Input::Timeout {
            self.time_moves_on();
        }
    }

    /// What a time-out set off may be due at once (a bridge that leaves lets its server go with the last request), but
    /// then it is done: no adapter is kept busy.
    fn time_moves_on(&mut self) {
        for _ in 0..2 {
            match self.server.poll_timeout() {
                Some((at, _)) if at <= self.now => {
                    self.server.handle_timeout(self.now);
                    while let Some(action) = self.server.poll_action() {
                        self.heed(Output::Action(Some(action)));
                    }
                }
                _ => return,
            }
        }
        let due = self.server.poll_timeout().filter(|(at, _)| *at <= self.now);
        assert_eq!(due, None, "due, and not handled");
    }

    fn heed(&mut self, output: Output) {
        match output {
            Output::Submitted(Ok(key)) => assert_eq!(self.keys.insert(key, false), None, "{key:?} twice"),
            Output::Heard(Outcome::Deliver { key, .. })
            | Output::Action(Some(
                Action::AnswerInfo { key } | Action::AnswerLevel { key } | Action::Fail { key, .. },
            )) => {
                assert!(self.keys.remove(&key).is_some(), "{key:?} taken back without having been given");
            }
            Output::Action(Some(Action::Send { key, method, .. })) => {
                let sent = self.keys.get(&key).expect("a key that is out");
                let again = self.reads.insert(key, method.only_reads()).is_some();
                assert!(!(again && *sent && !method.only_reads()), "{method:?} may run twice");
            }
            _ => {}
        }
    }
}
