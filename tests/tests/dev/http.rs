//! `--http`: clients of both eras at one address, while the server behind it is replaced.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use drowse_tests::harness::{LIMIT, drowse};
use drowse_tests::load::http::{Head, Input, events};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::client::Place;

const TOKEN: &str = "let-me-in-please";

/// The proxy, and where it serves.
struct Proxy {
    child: Child,
    authority: String,
    path: String,
}

impl Proxy {
    fn start(place: &Place, flags: &[&str], server: &[&str]) -> Self {
        let mut child = Command::new(drowse())
            .args(["dev", "--http", "0"])
            .args(flags)
            .arg("--")
            .args(place.server(server))
            .current_dir(place.at(""))
            .env("DROWSE_HOME", place.at("home"))
            .env("DEV_TEST_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let url = said.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no URL: {said:?}"));
        let (authority, path) = url.split_once('/').unwrap();
        Self { authority: authority.to_owned(), path: format!("/{path}"), child }
    }

    /// A request, as far as the head of its answer.
    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Exchange {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.path,
            self.authority,
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut input = Input::default();
        let head = input.head(&mut stream).unwrap().expect("an answer");
        Exchange { stream, input, head, heard: Vec::new() }
    }

    /// Ends it, and waits for that.
    fn end(mut self) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < LIMIT, "the proxy does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request, and what comes to it.
struct Exchange {
    stream: TcpStream,
    input: Input,
    head: Head,
    heard: Vec<Value>,
}

impl Exchange {
    /// The next message that is like that; those before it are kept.
    fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(&is_it) {
                return self.heard.remove(at);
            }
            self.hear();
        }
    }

    fn hear(&mut self) {
        let mut part = Vec::new();
        if self.head.events {
            assert!(
                self.input.chunk(&mut self.stream, &mut part).unwrap(),
                "it ended; heard {:?}",
                self.heard
            );
            self.heard.extend(events(&part).map(|data| serde_json::from_slice::<Value>(data).unwrap()));
        } else {
            assert!(self.heard.is_empty(), "nothing more comes: {:?}", self.heard);
            self.input.body(&mut self.stream, &self.head, &mut part).unwrap();
            self.heard.push(serde_json::from_slice(&part).unwrap());
        }
    }

    fn wait_for_note(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method)
    }

    fn answer(mut self) -> Value {
        self.wait_for(|message| message.get("id").is_some() && message.get("method").is_none())
    }
}

/// A client of one of the eras; `session`: of a legacy one.
struct Client<'p> {
    proxy: &'p Proxy,
    session: Option<String>,
}

impl<'p> Client<'p> {
    fn new(proxy: &'p Proxy, era: &str) -> Self {
        let mut client = Self { proxy, session: None };
        if era == "legacy" {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                                "clientInfo": {"name": "t", "version": "1"}});
            let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            let opened = proxy.send("POST", &[], &body.to_string());
            client.session = Some(opened.head.session.clone().expect("a session"));
            assert_eq!(opened.answer()["result"]["capabilities"]["tools"]["listChanged"], true);
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(proxy.send("POST", &client.legacy(), &ready.to_string()).head.status(), 202);
        }
        client
    }

    fn legacy(&self) -> Vec<(&str, &str)> {
        let session = self.session.as_deref().map(|session| ("Mcp-Session-Id", session));
        session.into_iter().chain([("MCP-Protocol-Version", "2025-11-25")]).collect()
    }

    fn send(&self, method: &str, mut params: Value) -> Exchange {
        let named = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        let headers = if self.session.is_some() {
            self.legacy()
        } else {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let named = named.as_deref().map(|named| ("Mcp-Name", named));
            let own = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
            own.into_iter().chain(named).collect()
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.proxy.send("POST", &headers, &body)
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.send("tools/call", json!({"name": tool, "arguments": arguments})).answer();
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    fn text(&self, tool: &str) -> String {
        super::client::text(&self.call(tool, json!({})))
    }

    /// The stream of what belongs to no request, with everything that can be heard there, and that resource.
    fn listen(&self, uri: &str) -> Exchange {
        if self.session.is_some() {
            assert!(self.send("resources/subscribe", json!({"uri": uri})).answer().get("result").is_some());
            return self.proxy.send("GET", &self.legacy(), "");
        }
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
        let mut stream = self.send("subscriptions/listen", json!({"notifications": wanted}));
        stream.wait_for_note("notifications/subscriptions/acknowledged");
        stream
    }
}

const LISTS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";

#[test]
fn clients_of_both_eras_keep_their_connections_while_the_server_is_replaced() {
    for server in ["legacy", "modern"] {
        let place = Place::new();
        let proxy = Proxy::start(&place, &[], &["--era", server]);
        assert_eq!(place.starts(), 0);
        let clients = ["legacy", "modern"].map(|era| Client::new(&proxy, era));
        assert_eq!(place.starts(), 0, "a handshake starts nothing");
        let first = clients.each_ref().map(|client| client.text("pid"));
        assert_eq!(first[0], first[1], "one server for both");
        let mut streams = clients.each_ref().map(|client| client.listen("counter://main"));
        for (turn, client) in clients.iter().enumerate() {
            let restarted = client.call("dev_restart", json!({}));
            assert_eq!(restarted["structuredContent"]["outcome"], "restarted", "{restarted}");
            for stream in &mut streams {
                stream.wait_for_note(LISTS);
            }
            let pids = clients.each_ref().map(|client| client.text("pid"));
            assert!(pids[0] == pids[1] && pids[0] != first[0], "{pids:?}");
            assert_eq!(place.starts(), turn + 2);
        }
        let status = clients[0].call("dev_status", json!({}))["structuredContent"].clone();
        assert_eq!(status["subscriptions"], json!(["counter://main"]), "{status}");
        // Each hears of the new server's resource. The subscription may be under way still.
        let begun = Instant::now();
        let updates = thread::scope(|scope| {
            let waiting: Vec<_> = streams
                .iter_mut()
                .map(|stream| scope.spawn(|| stream.wait_for_note(UPDATED)["params"]["uri"].clone()))
                .collect();
            while !waiting.iter().all(|one| one.is_finished()) {
                assert!(begun.elapsed() < LIMIT, "no update");
                clients[1].call("touch", json!({}));
                thread::sleep(Duration::from_millis(20));
            }
            waiting.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(updates, ["counter://main", "counter://main"]);
        proxy.end();
    }
}

#[test]
fn a_server_of_both_eras_speaks_that_of_the_client_who_came_first() {
    for (first, second, question) in
        [("legacy", "modern", "initialize"), ("modern", "legacy", "server/discover")]
    {
        let place = Place::new();
        let proxy = Proxy::start(&place, &[], &["--era", "dual"]);
        for era in [first, second] {
            assert!(!Client::new(&proxy, era).text("pid").is_empty());
        }
        proxy.end();
        assert_eq!(place.journal().first_questions().unwrap(), [question]);
    }
}

#[test]
fn a_token_from_a_file_or_a_variable_is_asked_for() {
    let place = Place::new();
    place.write("token", &format!("{TOKEN}\n"));
    for typed in ["@token", "${DEV_TEST_TOKEN}", TOKEN] {
        let proxy = Proxy::start(&place, &["--http-bearer-token", typed], &[]);
        let with = |token: &str| {
            let value = format!("Bearer {token}");
            let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            proxy.send("POST", &[("Authorization", &value)], body).head.status()
        };
        assert_eq!(proxy.send("POST", &[], "{}").head.status(), 401);
        assert_eq!(with(typed), if typed == TOKEN { with(TOKEN) } else { 401 }, "{typed}");
        assert_ne!(with(TOKEN), 401, "{typed}");
        proxy.end();
    }
}

#[test]
fn a_page_that_is_allowed_comes_in_and_a_stream_is_held_as_long_as_is_said() {
    let place = Place::new();
    let flags =
        ["--http-origin", "https://tool.example", "--http-limit", "hold=1s", "--http-limit", "bodies=60000"];
    let proxy = Proxy::start(&place, &flags, &[]);
    let asks = |origin: &str| {
        let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
        proxy.send("OPTIONS", &headers, "").head.status()
    };
    assert_eq!((asks("https://tool.example"), asks("https://other.example")), (204, 403));
    // Three quarters of 60,000 are what a long one gets.
    let long = format!("{{{}", " ".repeat(50_000));
    assert_eq!(proxy.send("POST", &[], &long).head.status(), 413);
    assert_eq!(proxy.send("POST", &[("Content-Encoding", "gzip")], "{}").head.status(), 415);
    let client = Client::new(&proxy, "legacy");
    let mut call =
        client.send("tools/call", json!({"name": "slow", "arguments": {"ms": 600_000, "until": "done"}}));
    assert!(call.head.events);
    let mut told = Vec::new();
    while call.input.chunk(&mut call.stream, &mut told).unwrap() {}
    let told = String::from_utf8(told).unwrap();
    assert!(!told.contains("slept") && told.contains("retry: 1000"), "{told}");
    place.write("done", "");
    let id = told.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    let mut rounds = 0;
    let answer = loop {
        let headers: Vec<_> = client.legacy().into_iter().chain([("Last-Event-ID", id.as_str())]).collect();
        let mut again = proxy.send("GET", &headers, "");
        rounds += 1;
        let mut told = Vec::new();
        while again.input.chunk(&mut again.stream, &mut told).unwrap() {}
        let told = String::from_utf8(told).unwrap();
        if let Some(data) = told.lines().find_map(|line| line.strip_prefix("data: {")) {
            break format!("{{{data}");
        }
        assert!(rounds < 9, "{told}");
    };
    assert!(answer.contains("\"id\":1"), "{answer}");
    proxy.end();
}
