//! The same over HTTP, against a fixture on the loopback address: a warm call beside one made directly with a client that
//! is kept, and what a bridge costs while nobody asks.

use std::thread;
use std::time::{Duration, Instant};

use drowse_runtime::caller::{Request, Sessions, Wait};
use drowse_runtime::home::{Home, SessionName};
use drowse_tests::harness::HttpServer;

use super::{Bench, median, mib, show};

/// A client that stays connected, and what it sends.
struct Direct {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    url: String,
    session: Option<String>,
    modern: bool,
}

impl Direct {
    fn new(url: String, modern: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().expect("a client");
        let mut direct = Self { runtime, client, url, session: None, modern };
        if !modern {
            let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;
            direct.session = direct.post(initialize, &[]).1;
            let version = [("mcp-protocol-version", "2025-11-25")];
            direct.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &version);
        }
        direct
    }

    fn post(&self, body: &'static str, headers: &[(&str, &str)]) -> (String, Option<String>) {
        self.runtime.block_on(async {
            let mut request = self
                .client
                .post(&self.url)
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .body(body);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some(session) = &self.session {
                request = request.header("mcp-session-id", session);
            }
            let response = request.send().await.expect("an answer");
            assert!(response.status().is_success(), "{}", response.status());
            let session = response.headers().get("mcp-session-id");
            let session = session.map(|session| session.to_str().expect("a text").to_owned());
            (response.text().await.expect("a body"), session)
        })
    }

    fn call(&self) -> Duration {
        let begin = Instant::now();
        let (answer, _) = if self.modern {
            self.post(
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
                &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")],
            )
        } else {
            self.post(
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#,
                &[("mcp-protocol-version", "2025-11-25")],
            )
        };
        let took = begin.elapsed();
        assert!(answer.contains("\"result\""), "{answer}");
        took
    }
}

impl Bench {
    pub(super) fn http(&self) {
        for era in ["modern", "legacy"] {
            let server = HttpServer::start(&["--era", era]);
            self.warm_http_call(&server, era);
        }
        self.idle_http();
    }

    /// A call as a whole process, the same over stdio, calls of both by callers that stay connected to their bridges, and
    /// one without drowse, in turn. What a command takes over stdio beside the call itself is the command's own start: a
    /// process, its words, the connection to its bridge, what it prints.
    fn warm_http_call(&self, server: &HttpServer, era: &str) {
        self.run(&["connect", &server.url(), "@web"]);
        let fixture = self.empty.with_file_name("drowse-fixture").to_string_lossy().into_owned();
        self.run(&["connect", "@pipe", "--", &fixture, "--era", era]);
        let direct = Direct::new(server.url(), era == "modern");
        let sessions = Sessions::at(Home::new(self.home.path().to_owned(), None));
        let [web, pipe] = ["@web", "@pipe"].map(|name| SessionName::new(name).expect("a name"));
        let mut callers = [&web, &pipe].map(|name| sessions.caller(name, Wait::default()));
        let (mut calls, mut piped, mut starts, mut directly) = (vec![], vec![], vec![], vec![]);
        let mut kept = [vec![], vec![]];
        for _ in 0..200 {
            calls.push(self.run(&["@web", "tools-call", "echo", "text=hello"]));
            piped.push(self.run(&["@pipe", "tools-call", "echo", "text=hello"]));
            starts.push(self.run(&["--version"]));
            directly.push(direct.call());
            for (caller, kept) in callers.iter_mut().zip(&mut kept) {
                let begin = Instant::now();
                let params = r#"{"name":"echo","arguments":{"text":"hello"}}"#;
                let request = Request { method: "tools/call", params, timeout: None, progress: None };
                caller.call(request).expect("an answer");
                kept.push(begin.elapsed());
            }
        }
        drop(callers);
        let [call, start, piped, directly] =
            [&mut calls, &mut starts, &mut piped, &mut directly].map(|all| median(all));
        let [kept, kept_piped] = kept.map(|mut all| median(&mut all));
        let own = piped.saturating_sub(kept_piped);
        println!(
            "warm call, HTTP {era:<9} {:>9}   direct {}   --version {}   over stdio {}",
            show(call),
            show(directly),
            show(start),
            show(piped),
        );
        let to_direct = |took: Duration| took.as_secs_f64() / directly.as_secs_f64();
        println!("  by a caller that stays  {:>9}   ratio to direct {:.2}", show(kept), to_direct(kept));
        println!(
            "  less its own start      {:>9}   ratio to direct {:.2}   (the start {}; over stdio and staying {})",
            show(call.saturating_sub(own)),
            to_direct(call.saturating_sub(own)),
            show(own),
            show(kept_piped),
        );
        self.run(&["@web", "close"]);
        self.run(&["@pipe", "close"]);
    }

    /// Nobody asks: what the server hears then, and what the bridge costs.
    fn idle_http(&self) {
        let seconds = self.idle_seconds();
        for (era, more) in [("modern", None), ("legacy", Some("--no-sessions")), ("legacy", None)] {
            let flags: Vec<&str> = ["--era", era].into_iter().chain(more).collect();
            let server = HttpServer::start(&flags);
            self.run(&["connect", &server.url(), "@still", "--idle-timeout", "3600"]);
            self.run(&["@still", "tools-call", "echo", "text=hello"]);
            // The connection is kept for a while.
            thread::sleep(Duration::from_secs(20));
            let (heard, before) = (server.events("http").len(), self.activity("still"));
            thread::sleep(Duration::from_secs(seconds));
            let (more_heard, after) = (server.events("http").len(), self.activity("still"));
            println!(
                "idle bridge, HTTP {era:<6}  {:>6.2} MiB   {seconds} s: {} requests, {} ticks of CPU, {} wake-ups{}",
                mib(self.pss("still")),
                more_heard - heard,
                after.0 - before.0,
                after.1 - before.1,
                if more.is_none() && era == "legacy" { " (a session: asked after every 30 s)" } else { "" }
            );
            self.run(&["@still", "close"]);
        }
    }
}
