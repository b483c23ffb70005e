//! Progress on a terminal, and nowhere else.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::bridge::{Answer, Bridge};
use crate::home::{Home, Run};

const LIMIT: Duration = Duration::from_secs(20);

/// A server whose tool `long` reports progress, at once and later; it answers only if it is not called `stuck`.
fn server(message: &Value) -> Answer {
    let name = message["params"]["name"].as_str().unwrap_or_default();
    let token = message["params"]["_meta"]["progressToken"].clone();
    let progress = |done: u64, text: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": done, "total": 4, "message": text}})
        .to_string()
    };
    let mut steps = Vec::new();
    if !token.is_null() {
        steps.push((Duration::ZERO, progress(1, "too early")));
        // Longer than what counts as quick.
        steps.push((Duration::from_millis(350), progress(2, "half\u{1b}[2J of it")));
    }
    let result = r#"{"content":[{"type":"text","text":"done"}]}"#;
    match message["method"].as_str() {
        Some("tools/call") => Answer::Slowly(steps, (name != "stuck").then(|| result.to_owned())),
        _ => Answer::Silence,
    }
}

/// A command whose stderr is a terminal, and what appears there.
struct Screen {
    child: Child,
    pieces: Receiver<Vec<u8>>,
    seen: String,
}

impl Screen {
    fn start(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let child = command.stdout(Stdio::piped()).stderr(theirs).spawn().unwrap();
        drop(command);
        let (sender, pieces) = channel();
        let mut ours = File::from(ours);
        thread::spawn(move || {
            let mut piece = [0; 1024];
            // It ends with an error when the last one that has it open is gone.
            while let Ok(size @ 1..) = ours.read(&mut piece) {
                let _ = sender.send(piece[..size].to_vec());
            }
        });
        Self { child, pieces, seen: String::new() }
    }

    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let piece = self.pieces.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{text}: {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    /// Its end: what was on stdout, what on the terminal.
    fn end(mut self) -> Run {
        while let Ok(piece) = self.pieces.recv_timeout(LIMIT) {
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
        let mut run = Run::of(self.child.wait_with_output().unwrap());
        run.err = self.seen;
        run
    }
}

fn awake() -> (Home, Bridge) {
    let home = Home::new();
    let bridge = Bridge::start(&home, server);
    (home, bridge)
}

#[test]
fn long_work_shows_its_progress_on_a_terminal() {
    let (home, _bridge) = awake();
    let run = Screen::start(home.command(&["@s", "tools-call", "long"])).end();
    assert_eq!((run.code, run.out.as_str()), (0, "done\n"));
    assert!(run.err.contains(r"[##########----------]  50 %  (1 s)  half\x1b[2J of it"), "{:?}", run.err);
    assert!(!run.err.contains("too early"), "{:?}", run.err);
    assert!(run.err.ends_with("\r\u{1b}[K"), "nothing of it stays: {:?}", run.err);
}

#[test]
fn and_nowhere_else() {
    let (home, bridge) = awake();
    let run = home.run("@s tools-call long");
    assert_eq!((run.out.as_str(), run.err.as_str()), ("done\n", ""));
    let run = Screen::start(home.command(&["@s", "tools-call", "long", "--json"])).end();
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let mut dumb = home.command(&["@s", "tools-call", "long"]);
    dumb.env("TERM", "dumb");
    assert_eq!(Screen::start(dumb).end().err, "");
    for message in bridge.messages() {
        assert_eq!(message["params"]["_meta"].get("progressToken"), None, "not even asked for");
    }
}

#[test]
fn ctrl_c_takes_the_line_away_and_cancels() {
    let (home, bridge) = awake();
    let mut screen = Screen::start(home.command(&["@s", "tools-call", "stuck"]));
    screen.wait_for("50 %");
    let kill = format!("kill -INT {}", screen.child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let run = screen.end();
    assert_eq!((run.code, run.out.as_str()), (130, ""));
    assert!(run.err.contains("\r\u{1b}[Kerror: interrupted; it may have run"), "{:?}", run.err);
    bridge.wait_for("notifications/cancelled");
}
