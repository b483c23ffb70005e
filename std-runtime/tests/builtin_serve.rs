//! The built-in server over pipes: its threads, its end, and what it does when a stream fails.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::{self, BufRead, BufReader, Cursor, PipeReader, PipeWriter, Read, Write};
use std::thread::{self, JoinHandle};

use drowse_runtime::builtin;
use serde_json::{Value, json};

struct Client {
    to_server: PipeWriter,
    from_server: BufReader<PipeReader>,
    server: JoinHandle<io::Result<()>>,
}

impl Client {
    fn start() -> Self {
        let (input, to_server) = io::pipe().unwrap();
        let (from_server, output) = io::pipe().unwrap();
        let server = thread::spawn(move || builtin::serve(BufReader::new(input), output));
        Self { to_server, from_server: BufReader::new(from_server), server }
    }

    fn send(&mut self, message: &Value) {
        self.to_server.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from_server.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Closes the server's input; what was still unread, and how the server ended.
    fn close(self) -> (String, io::Result<()>) {
        drop(self.to_server);
        let mut rest = String::new();
        let mut from_server = self.from_server;
        from_server.read_to_string(&mut rest).unwrap();
        (rest, self.server.join().unwrap())
    }
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": name,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": id,
        },
    }})
}

fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[test]
fn a_sleep_reports_by_itself_and_others_pass_it() {
    let mut client = Client::start();
    client.send(&call(1, "sleep", json!({"ms": 200})));
    client.send(&call(2, "echo", json!({"text": "hi"})));
    assert_eq!(client.receive()["id"], 2);
    assert_eq!(client.receive()["params"]["progress"], 100);
    assert_eq!(client.receive()["params"]["progress"], 200);
    assert_eq!(client.receive()["id"], 1);
    // The timer thread has gone to sleep by now; the next request that waits must wake it.
    client.send(&call(3, "sleep", json!({"ms": 10})));
    assert_eq!(client.receive()["id"], 3);
    let (rest, end) = client.close();
    assert_eq!(rest, "");
    end.unwrap();
}

#[test]
fn a_sooner_deadline_overtakes_the_one_that_is_waited_for() {
    let mut client = Client::start();
    client.send(&call(1, "sleep", json!({"ms": 90_000})));
    client.send(&call(2, "sleep", json!({"ms": 1})));
    loop {
        let message = client.receive();
        if message["id"] == 2 {
            break;
        }
        assert_eq!(message["method"], "notifications/progress");
    }
    client.send(&cancelled(1));
    // Whatever was on its way before the cancellation is before this answer, and nothing is after it.
    client.send(&call(3, "sleep", json!({"ms": 300})));
    let mut own = Vec::new();
    while own.last() != Some(&json!(null)) {
        let message = client.receive();
        match message["params"]["progressToken"].as_u64() {
            Some(1) => assert!(own.is_empty(), "a cancelled request reported"),
            Some(token) => {
                assert_eq!(token, 3);
                own.push(message["params"]["progress"].clone());
            }
            None => {
                assert_eq!(message["id"], 3);
                own.push(json!(null));
            }
        }
    }
    assert_eq!(own, [json!(100), json!(200), json!(300), json!(null)]);
    client.close().1.unwrap();
}

#[test]
fn the_end_of_input_ends_it_at_once_whatever_waits() {
    let mut client = Client::start();
    client.send(&call(1, "sleep", json!({"ms": 3_600_000})));
    client.send(&call(2, "echo", json!({"text": "hi"})));
    assert_eq!(client.receive()["id"], 2);
    let (rest, end) = client.close();
    assert!(!rest.contains("\"id\":1"), "{rest}");
    end.unwrap();
}

#[test]
fn a_last_line_without_a_newline_is_answered() {
    let mut output = Vec::new();
    let input = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    builtin::serve(Cursor::new(input), &mut output).unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
}

#[test]
fn a_large_text_passes_through() {
    let mut client = Client::start();
    let text = "0123456789abcde\"".repeat(10 << 16);
    client.send(&call(1, "echo", json!({"text": text})));
    assert_eq!(client.receive()["result"]["content"][0]["text"], Value::String(text));
    client.close().1.unwrap();
}

#[test]
fn nobody_left_to_read_is_an_ordinary_end() {
    let Client { mut to_server, from_server, server } = Client::start();
    drop(from_server);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    // Until the server has left as well, and its input with it.
    while writeln!(to_server, "{ping}").is_ok() {}
    server.join().unwrap().unwrap();
}

/// Refuses every byte.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn output_that_fails_is_reported() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let error = builtin::serve(Cursor::new(ping), Full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// Refuses every byte, and says on a pipe that it has been asked.
struct FullAndTold(PipeWriter);

impl Write for FullAndTold {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.0.write_all(b"!")?;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn output_that_fails_while_input_is_awaited_is_reported_at_the_end() {
    for then in ["", "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n"] {
        let (input, mut to_server) = io::pipe().unwrap();
        let (mut told, tell) = io::pipe().unwrap();
        let server = thread::spawn(move || builtin::serve(BufReader::new(input), FullAndTold(tell)));
        writeln!(to_server, "{}", call(1, "sleep", json!({"ms": 1}))).unwrap();
        told.read_exact(&mut [0]).unwrap();
        to_server.write_all(then.as_bytes()).unwrap();
        drop(to_server);
        assert_eq!(server.join().unwrap().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn input_that_fails_is_reported() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let error = builtin::serve(BufReader::new(Broken), io::sink()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}
