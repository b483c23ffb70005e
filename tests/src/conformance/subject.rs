//! What the server scenarios are run against: something that listens at a URL, and ends with its value here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Home, LIMIT};

/// How long it may take to end once it is told to.
const END: Duration = Duration::from_secs(20);
/// How much of what it says is kept.
const KEPT: usize = 64 << 10;

/// When drowse ends the stream of a call that is not answered, so that its client polls: that is what
/// `server-sse-polling` wants to see.
const HOLD: &str = "hold=1s";

/// It.
#[derive(Debug)]
pub struct Subject {
    /// Where it listens.
    pub url: String,
    process: Option<Process>,
    /// Where drowse has its files; fails if anything of it is left.
    home: Option<Home>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// Held: the end of its standard input may be the end of it.
    _stdin: Option<ChildStdin>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Subject {
    /// The everything server itself, over HTTP. `words` is its command.
    ///
    /// # Errors
    /// If it does not start.
    pub fn direct(words: &[String]) -> Result<Self, String> {
        let (program, arguments) = words.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).args(["--http", "0"]);
        let (process, url) = Process::start(command)?;
        Ok(Self { url, process: Some(process), home: None })
    }

    /// drowse with a server behind it that is started by `words`, over HTTP or on standard input and output.
    ///
    /// # Errors
    /// If it does not start.
    pub fn front(words: &[String], over_http: bool) -> Result<Self, String> {
        let home = Home::new();
        let mut all: Vec<String> =
            ["dev", "--http", "127.0.0.1:0", "--http-limit", HOLD, "--sampling"].map(String::from).into();
        let mut server = words.to_vec();
        if over_http {
            let port = free_port().map_err(|error| format!("no free port: {error}"))?.to_string();
            all.extend(["--backend-url".to_owned(), format!("http://127.0.0.1:{port}/mcp")]);
            server.extend(["--http".to_owned(), port]);
        }
        all.push("--".to_owned());
        all.extend(server);
        let (process, url) = Process::start(home.command(all))?;
        let subject = Self { url, process: Some(process), home: Some(home) };
        wake(&subject.url).map_err(|error| format!("it does not answer: {error}\n{}", subject.said()))?;
        Ok(subject)
    }

    /// What answers everything with the same result: against it no scenario may pass.
    ///
    /// # Errors
    /// If it cannot listen.
    pub fn constant() -> Result<Self, String> {
        let listen = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            thread::spawn(move || {
                for connection in listener.incoming().flatten() {
                    thread::spawn(move || answer_all(connection));
                }
            });
            Ok(format!("http://127.0.0.1:{port}/mcp"))
        };
        let url = listen().map_err(|error: io::Error| format!("cannot listen: {error}"))?;
        Ok(Self { url, process: None, home: None })
    }

    /// What it has said so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.process.as_ref().map(Process::said).unwrap_or_default()
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it does not end when it is told to.
    ///
    /// # Panics
    /// If anything of it is left.
    pub fn end(mut self) -> Result<(), String> {
        let ended = self.process.take().map_or(Ok(()), Process::end);
        drop(self.home.take());
        ended
    }
}

impl Process {
    /// Starts it, and waits for the first address that it says.
    fn start(mut command: Command) -> Result<(Self, String), String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let said = Arc::default();
        let (sender, address) = mpsc::channel();
        listen_to(child.stdout.take(), &said, sender.clone());
        listen_to(child.stderr.take(), &said, sender);
        let process = Self { _stdin: child.stdin.take(), child, said };
        match address.recv_timeout(LIMIT) {
            Ok(url) => Ok((process, url)),
            Err(_) => {
                let said = process.said();
                let _ = process.end();
                Err(format!("{command:?} says no address:\n{said}"))
            }
        }
    }

    fn said(&self) -> String {
        self.said.lock().map(|said| String::from_utf8_lossy(&said).into_owned()).unwrap_or_default()
    }

    fn end(mut self) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let told = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        let deadline = Instant::now() + END;
        while told && Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(format!("it did not end when it was told to:\n{}", self.said()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen_to(pipe: Option<impl Read + Send + 'static>, said: &Arc<Mutex<Vec<u8>>>, found: Sender<String>) {
    let Some(pipe) = pipe else { return };
    let said = Arc::clone(said);
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if let Some(url) = address_in(&String::from_utf8_lossy(&line)) {
                let _ = found.send(url);
            }
            if let Ok(mut said) = said.lock() {
                let over = (said.len() + line.len()).saturating_sub(KEPT).min(said.len());
                said.drain(..over);
                said.append(&mut line);
            }
            line.clear();
        }
    });
}

/// The first address in a line.
fn address_in(line: &str) -> Option<String> {
    let from = line.find("http://")?;
    let rest = &line[from..];
    let end = rest.find(|c: char| c.is_whitespace() || c.is_control() || "\"'<>,".contains(c));
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

/// Has the server behind it started, and waits for that: scenarios wait ten seconds at most, a busy machine longer.
fn wake(url: &str) -> io::Result<()> {
    const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap_or((url, ""));
    let mut connection = TcpStream::connect(host)?;
    connection.set_read_timeout(Some(LIMIT))?;
    write!(
        connection,
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/list\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let status = answer.lines().next().unwrap_or_default();
    if status.contains(" 200 ") { Ok(()) } else { Err(io::Error::other(answer)) }
}

/// A port that nobody had just now.
fn free_port() -> io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}

/// Reads requests of one connection, and gives each the same result, under its own id so that nobody waits for another.
fn answer_all(mut connection: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            length = line.strip_prefix("content-length:").map_or(length, |it| it.trim().parse().unwrap_or(0));
        }
        let mut body = Vec::new();
        reader.by_ref().take(length).read_to_end(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        write!(connection, "{head}{}\r\n\r\n{answer}", answer.len())?;
    }
}

/// The command of the everything server, restricted to one version.
///
/// # Errors
/// If one of the programs is not there.
pub fn everything(node: &Path, script: &Path, version: &str) -> Result<Vec<String>, String> {
    // drowse starts it in a directory of its own.
    let absolute = |path: &Path| {
        let here = path.components().count() > 1;
        let path = if here { path.canonicalize() } else { Ok(path.to_owned()) };
        path.map(|path| path.display().to_string()).map_err(|error| error.to_string())
    };
    let script = absolute(script).map_err(|error| format!("{}: {error}", script.display()))?;
    let node = absolute(node).map_err(|error| format!("{}: {error}", node.display()))?;
    let only = if version == super::tables::MODERN { "--modern-only" } else { "--legacy-only" };
    Ok(vec![node, script, only.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_a_line() {
        let url = Some("http://127.0.0.1:80/mcp".to_owned());
        for line in [
            "http://127.0.0.1:80/mcp",
            "serving http://127.0.0.1:80/mcp\r\n",
            r#"{"notice":"listening","url":"http://127.0.0.1:80/mcp"}"#,
            "at http://127.0.0.1:80/mcp, on request",
        ] {
            assert_eq!(address_in(line), url, "{line}");
        }
        assert_eq!(address_in("nothing yet\n"), None);
    }

    #[test]
    fn the_constant_subject_answers_every_request_of_a_connection_alike() {
        let subject = Subject::constant().expect("it listens");
        let address = subject.url.trim_start_matches("http://").trim_end_matches("/mcp");
        let mut connection = TcpStream::connect(address).expect("a connection");
        let mut lines = BufReader::new(connection.try_clone().expect("the same connection"));
        for (body, id) in [("", "null"), (r#"{"id":7}"#, "7")] {
            let head = format!("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
            connection.write_all((head + body).as_bytes()).expect("it is read");
            let mut answer = String::new();
            while !answer.ends_with("\r\n\r\n") {
                lines.read_line(&mut answer).expect("a line of the head");
            }
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            let length = answer.rsplit(' ').next().and_then(|length| length.trim().parse().ok());
            let mut body = vec![0; length.expect("the body's length is the last of the head")];
            lines.read_exact(&mut body).expect("a body");
            let body = String::from_utf8_lossy(&body);
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!((body["id"].to_string().as_str(), &body["result"]), (id, &json!({})));
        }
    }
}
