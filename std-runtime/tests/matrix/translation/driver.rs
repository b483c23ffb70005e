//! Plays a transcript.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::era::Era;
use drowse_core::json;
use drowse_core::lifecycle::Exit;
use drowse_runtime::bridge::Hub;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::Row;
use crate::bridge::{Caller, Peer, Script, Stage, play, sleepy};

/// Longer than anything takes that is done at once.
const A_WHILE: Duration = Duration::from_millis(20);
const INFO: &str = r#"{"name":"old","version":"1"}"#;

/// Whether a line of a transcript is one.
pub(super) fn is_known(line: &str) -> bool {
    let marks = ["C> ", "C< ", "D> ", "D< ", "S> ", "S< ", "p> ", "p< ", "h> ", "h< ", "~"];
    let line = line.strip_prefix("p ").or_else(|| line.strip_prefix("h ")).unwrap_or(line);
    marks.iter().any(|mark| line.starts_with(mark))
}

/// A connection of a client, to the byte.
struct Client(Caller);

impl Client {
    fn new(hub: &Hub) -> Self {
        Self(Caller::of_proxy(hub))
    }

    async fn send(&mut self, line: &str) {
        self.0.line(line).await;
    }

    async fn receive(&mut self) -> Option<String> {
        // Nothing is lost by giving up: lines are short, and come whole.
        timeout(A_WHILE, self.0.next_line()).await.ok().flatten()
    }

    async fn begin(&mut self, capabilities: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{INFO}}}}}"#
        ))
        .await;
        self.receive().await.unwrap();
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }
}

struct Play<'r> {
    row: &'r Row,
    client: Era,
    stage: Stage,
    hub: Hub,
    first: Client,
    second: Option<Client>,
    /// Lines of the server that were looked at.
    heard: usize,
    named: HashMap<String, String>,
    seen: String,
    right: bool,
}

/// Plays a cell; what is wrong is told with all that was seen.
pub(super) fn play_row(row: &Row, cell: &str, client: Era, peer: Peer) -> Result<(), String> {
    let mut outcome = Ok(());
    play(async || {
        let script = Script { ttl_ms: 0, ..Script::of(peer) };
        let stage = Stage::new(script);
        let hub = stage.bridge_with(sleepy(), |config| {
            let session = row.session.as_bytes();
            config.capabilities = ClientCapabilities::read(session, json::scan(session).unwrap());
            config.roots = row.roots.iter().map(|&uri| uri.to_owned()).collect();
        });
        stage.saved().await;
        let first = Client::new(&hub);
        let mut play = Play {
            row,
            client,
            stage,
            hub,
            first,
            second: None,
            heard: 0,
            named: HashMap::new(),
            seen: String::new(),
            right: true,
        };
        if client == Era::Legacy && !row.fresh {
            play.first.begin(row.capabilities).await;
        }
        play.take_over().await;
        for line in cell.lines().map(str::trim).filter(|line| !line.is_empty()) {
            play.step(line).await;
        }
        play.expect_silence().await;
        if !play.right {
            outcome = Err(play.seen);
        }
    });
    outcome
}

impl Play<'_> {
    /// From here on the transcript answers as the server.
    async fn take_over(&mut self) {
        sleep(A_WHILE).await;
        while self.first.receive().await.is_some() {}
        self.stage.answer_by_hand(true);
        let lines = self.stage.lines();
        self.heard = lines.len();
        let mut streams = lines.iter().rev().filter(|line| line.contains("subscriptions/listen"));
        if let Some(stream) = streams.next().and_then(|line| serde_json::from_str::<Value>(line).ok()) {
            self.named.insert("stream".to_owned(), stream["id"].to_string());
        }
    }

    fn is_remote(&self) -> bool {
        self.stage.script().peer.is_remote()
    }

    async fn step(&mut self, line: &str) {
        let (only, rest) = line.split_at(2.min(line.len()));
        let line = match only {
            "p " | "h " if self.is_remote() != (only == "h ") => return,
            "p " | "h " => rest,
            _ => line,
        };
        let (mark, text) = line.split_at(line.find(' ').unwrap_or(line.len()));
        let text = self.spelt_out(text.trim_start());
        match mark {
            "C>" => {
                let text = self.filled(&text);
                self.first.send(&text).await;
            }
            "D>" => {
                if self.second.is_none() {
                    let mut second = Client::new(&self.hub);
                    if self.client == Era::Legacy {
                        second.begin(self.row.capabilities).await;
                    }
                    self.second = Some(second);
                    sleep(A_WHILE).await;
                }
                let text = self.filled(&text);
                self.second.as_mut().unwrap().send(&text).await;
            }
            "S>" => self.server_says(&text),
            "C<" => {
                let got = self.first.receive().await;
                self.compare("C<", &text, got);
            }
            "D<" => {
                let got = match &mut self.second {
                    Some(second) => second.receive().await,
                    None => None,
                };
                self.compare("D<", &text, got);
            }
            "S<" => self.server_gets(&text).await,
            "p<" if !self.is_remote() => self.server_gets(&text).await,
            "h<" if self.is_remote() => self.server_gets(&text).await,
            "p>" if !self.is_remote() => self.server_says(&text),
            "h>" if self.is_remote() => self.server_says(&text),
            "p<" | "h<" | "p>" | "h>" => {}
            "~again" => self.server_begins_again().await,
            "~wait" => sleep(Duration::from_secs(text.parse().unwrap())).await,
            _ => panic!("{line}"),
        }
    }

    /// The server ends and another one begins; behind a URL only the exchanges end that are under way.
    async fn server_begins_again(&mut self) {
        if self.is_remote() {
            self.stage.site().end_exchanges();
            return sleep(A_WHILE).await;
        }
        let mut other = Client::new(&self.hub);
        self.stage.answer_by_hand(false);
        self.stage.server_exits(Exit::Status(1));
        let asks = r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"_meta":{@NEW}}}"#;
        other.send(&self.spelt_out(asks)).await;
        assert!(other.receive().await.is_some());
        // It is asked for its lists, too.
        sleep(Duration::from_secs(1)).await;
        self.stage.answer_by_hand(true);
        assert_eq!(self.stage.starts(), 2);
        self.heard = self.stage.lines().len();
    }

    fn server_says(&self, text: &str) {
        let text = self.filled(text);
        if !self.is_remote() {
            return self.stage.server_writes(text);
        }
        let message: Value = serde_json::from_str(&text).unwrap();
        let site = self.stage.site();
        let subscription = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        if message.get("method").is_none() {
            assert!(site.says_to(Some(&message["id"]), &text), "no stream for {text}");
        } else if !subscription.is_null() {
            if !site.says_to(Some(subscription), &text) {
                site.says(&text);
            }
        } else if !site.says_to(None, &text) {
            site.says(&text);
        }
    }

    async fn server_gets(&mut self, text: &str) {
        if self.stage.lines().len() <= self.heard {
            sleep(A_WHILE).await;
        }
        let got = self.stage.lines().get(self.heard).cloned();
        self.heard += usize::from(got.is_some());
        self.compare("S<", text, got);
    }

    fn compare(&mut self, mark: &str, expected: &str, got: Option<String>) {
        let is_it = got.as_ref().is_some_and(|got| matches(expected, got, &mut self.named));
        if !is_it {
            self.right = false;
            writeln!(self.seen, "expected {mark} {expected}").unwrap();
        }
        let got = got.as_deref().unwrap_or("nothing");
        writeln!(self.seen, "{} {mark} {got}", if is_it { "        " } else { " but got" }).unwrap();
    }

    async fn expect_silence(&mut self) {
        sleep(A_WHILE).await;
        let mut more: Vec<(&str, String)> = Vec::new();
        while let Some(line) = self.first.receive().await {
            more.push(("C<", line));
        }
        while let Some(second) = &mut self.second
            && let Some(line) = second.receive().await
        {
            more.push(("D<", line));
        }
        more.extend(self.stage.lines().into_iter().skip(self.heard).map(|line| ("S<", line)));
        for (mark, line) in more {
            self.right = false;
            writeln!(self.seen, "   and {mark} {line}").unwrap();
        }
    }

    /// A line with the members of `_meta` in it.
    fn spelt_out(&self, text: &str) -> String {
        let capabilities = self.row.capabilities;
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let told = format!(r#"{version},"io.modelcontextprotocol/clientCapabilities":{capabilities}"#);
        let old = format!(r#"{told},"io.modelcontextprotocol/clientInfo":{INFO}"#);
        text.replace("@OLD", &old).replace("@NEW", &told)
    }

    /// A line with what its names stand for.
    fn filled(&self, text: &str) -> String {
        let fill =
            |text: String, (name, value): (&String, &String)| text.replace(&format!("<{name}>"), value);
        self.named.iter().fold(text.to_owned(), fill)
    }
}

/// Whether a line is as expected; learns what its names stand for.
fn matches(expected: &str, got: &str, named: &mut HashMap<String, String>) -> bool {
    let (mut expected, mut got) = (expected, got);
    while let Some((before, rest)) = expected.split_once('<') {
        let Some(after) = got.strip_prefix(before) else { return false };
        let (name, rest) = rest.split_once('>').unwrap();
        let end = match rest.split_once('<') {
            Some((until, _)) => after.find(until),
            None => after.len().checked_sub(rest.len()).filter(|end| after.is_char_boundary(*end)),
        };
        let Some((value, after)) = end.map(|end| after.split_at(end)) else { return false };
        if *named.entry(name.to_owned()).or_insert_with(|| value.to_owned()) != value {
            return false;
        }
        (expected, got) = (rest, after);
    }
    expected == got
}
