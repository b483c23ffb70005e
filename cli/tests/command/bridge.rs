//! A scripted bridge: it says hello as a bridge does and answers each request as the test says.
//!
//! It stands where the socket of an awake session is, so these tests are about the command line alone: what it sends,
//! what it prints, how it exits.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::Home;

/// What the bridge answers: the text of a result, an error object, or nothing at all.
pub(crate) enum Answer {
    Result(String),
    Error(Value),
    Silence,
    /// Lines, each after a while, and then a result, if any.
    Slowly(Vec<(Duration, String)>, Option<String>),
}

/// An awake session `@s`, and everything that was sent to it.
pub(crate) struct Bridge {
    lines: Arc<Mutex<Vec<Value>>>,
    arrivals: Receiver<String>,
}

impl Bridge {
    /// Listens as the bridge of `@s` in `home`.
    pub(crate) fn start(home: &Home, answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let session = home.path().join("home/sessions/s");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&session).unwrap();
        let record = json!({
            "schema": 1, "target": "command", "command": "fake", "cwd": "/", "created": 1,
            "settings": {"idleTimeoutSecs": 600},
        });
        fs::write(session.join("session.json"), record.to_string()).unwrap();
        let listener = UnixListener::bind(session.join("sock")).unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (arrived, arrivals) = channel();
        let shared = (Arc::clone(&lines), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (lines, answer, arrived) =
                    (Arc::clone(&shared.0), Arc::clone(&shared.1), arrived.clone());
                thread::spawn(move || serve(stream.unwrap(), &lines, &*answer, &arrived));
            }
        });
        Self { lines, arrivals }
    }

    /// The messages so far, without hellos.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// The methods so far.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.messages().iter().map(|message| message["method"].as_str().unwrap_or("").to_owned()).collect()
    }

    /// The arguments of the last `tools/call`, byte for byte.
    pub(crate) fn arguments(&self) -> String {
        let messages = self.messages();
        let call = messages.iter().rev().find(|message| message["method"] == "tools/call").unwrap();
        call["params"]["arguments"].to_string()
    }

    /// Waits until a message of that method has arrived.
    pub(crate) fn wait_for(&self, method: &str) {
        while self.arrivals.recv_timeout(Duration::from_secs(10)).expect(method) != method {}
    }
}

fn serve(
    mut stream: UnixStream,
    lines: &Mutex<Vec<Value>>,
    answer: &dyn Fn(&Value) -> Answer,
    arrived: &Sender<String>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let hello: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(hello["drowse"]["hello"]["versions"], json!([1]));
    let welcome = json!({"drowse": {"hello": {"version": 1, "bridge": "test", "pid": std::process::id()}}});
    writeln!(stream, "{welcome}").unwrap();
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let message: Value = serde_json::from_str(&line).unwrap();
        let id = message["id"].clone();
        let answered = answer(&message);
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        lines.lock().unwrap().push(message);
        let _ = arrived.send(method);
        let written = match answered {
            Answer::Result(result) => writeln!(stream, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Answer::Error(error) => writeln!(stream, r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
            Answer::Silence => Ok(()),
            Answer::Slowly(lines, result) => lines
                .into_iter()
                .try_for_each(|(after, line)| {
                    thread::sleep(after);
                    writeln!(stream, "{line}")
                })
                .and_then(|()| match result {
                    Some(result) => writeln!(stream, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
                    None => Ok(()),
                }),
        };
        // A caller may be gone: that is some tests' subject.
        if written.is_err() {
            return;
        }
    }
}
