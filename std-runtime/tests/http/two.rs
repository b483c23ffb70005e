//! Clients of HTTP/2 by hand-written frames.

use std::time::Duration;

use drowse_core::era::Era;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::peer::{Endpoint, serve, with_meta};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// An acknowledgement, or the end of a stream.
const FLAG: u8 = 1;
const END_HEADERS: u8 = 4;

struct Two {
    stream: TcpStream,
    pings: usize,
}

impl Two {
    /// With so many bytes that a stream may send before it is told to go on.
    async fn connect(endpoint: &Endpoint, window: u32) -> Self {
        let mut two = Self { stream: TcpStream::connect(endpoint.address).await.unwrap(), pings: 0 };
        two.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
        two.write(SETTINGS, 0, 0, &setting).await;
        two
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let frame = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        // A connection that ends is seen by who reads.
        let _ = self.stream.write_all(&frame).await;
    }

    async fn call(&mut self, stream: u32, seconds: f64) {
        self.call_tagged(stream, seconds, "a").await;
    }

    /// The answer has the tag.
    async fn call_tagged(&mut self, stream: u32, seconds: f64, tag: &str) {
        let mut head = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/mcp"),
            (":authority", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "slow"),
        ] {
            // Literal, of no index.
            head.push(0);
            for text in [name, value] {
                head.push(text.len() as u8);
                head.extend_from_slice(text.as_bytes());
            }
        }
        let params = with_meta(json!({"name": "slow", "arguments": {"tag": tag, "seconds": seconds}}));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        self.write(HEADERS, END_HEADERS, stream, &head).await;
        let mut pieces = body.as_bytes().chunks(16 << 10).peekable();
        while let Some(piece) = pieces.next() {
            let last = if pieces.peek().is_none() { FLAG } else { 0 };
            self.write(DATA, last, stream, piece).await;
        }
    }

    /// The next frame that is of use, its kind and its payload. What has to be acknowledged is. `None` at the end.
    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            match (head[3], head[4] & FLAG) {
                (PING, 0) => {
                    self.pings += 1;
                    self.write(PING, FLAG, 0, &payload).await;
                }
                (SETTINGS, 0) => self.write(SETTINGS, FLAG, 0, &[]).await,
                (kind @ (DATA | HEADERS | GOAWAY), _) => return Some((kind, payload)),
                _ => {}
            }
        }
    }

    /// All kinds until the end, which comes within a few seconds.
    async fn rest(&mut self) -> Vec<u8> {
        let mut kinds = Vec::new();
        let all = async {
            while let Some((kind, _)) = self.frame().await {
                kinds.push(kind);
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(10), all).await.is_ok(), "it stays: {kinds:?}");
        kinds
    }
}

#[test]
fn who_only_acknowledges_pings_is_ended() {
    let short = |options: &mut drowse_runtime::serve::Options| {
        options.limits.head = Duration::from_millis(600);
        options.limits.stalled = Duration::from_millis(100);
    };
    serve(Era::Modern, short, async |endpoint| {
        let mut quiet = Two::connect(&endpoint, 65_535).await;
        let kinds = quiet.rest().await;
        assert!(quiet.pings > 1 && kinds.contains(&GOAWAY), "{} {kinds:?}", quiet.pings);
        // One that had a request is no better when that is over.
        let mut client = Two::connect(&endpoint, 65_535).await;
        client.call(1, 0.0).await;
        let kinds = client.rest().await;
        assert!(kinds.starts_with(&[HEADERS, DATA]) && kinds.contains(&GOAWAY), "{kinds:?}");
    });
}

#[test]
fn who_waits_for_an_answer_stays() {
    let short = |options: &mut drowse_runtime::serve::Options| {
        options.limits.head = Duration::from_millis(200);
        options.limits.stalled = Duration::from_millis(200);
    };
    serve(Era::Modern, short, async |endpoint| {
        let mut client = Two::connect(&endpoint, 65_535).await;
        client.call(1, 1.0).await;
        assert_eq!(client.frame().await.unwrap().0, HEADERS);
        let (kind, body) = client.frame().await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((kind, &answer["result"]["content"][0]["text"]), (DATA, &json!("a")));
    });
}

#[test]
fn who_takes_nothing_of_an_answer_is_ended() {
    let short = |options: &mut drowse_runtime::serve::Options| {
        options.limits.stalled = Duration::from_millis(300);
    };
    serve(Era::Modern, short, async |endpoint| {
        let mut client = Two::connect(&endpoint, 0).await;
        client.call(1, 0.0).await;
        let kinds = client.rest().await;
        assert!(kinds.starts_with(&[HEADERS]) && !kinds.contains(&DATA), "{kinds:?}");
        assert!(client.pings > 0);
    });
}

#[test]
fn who_takes_a_long_answer_slowly_gets_all_of_it() {
    let short = |options: &mut drowse_runtime::serve::Options| {
        options.limits.head = Duration::from_millis(800);
        options.limits.stalled = Duration::from_millis(800);
    };
    serve(Era::Modern, short, async |endpoint| {
        let window = 16 << 10;
        let mut client = Two::connect(&endpoint, window).await;
        // As much as may be sent at once.
        let tag = "long".repeat(14 << 10);
        client.call_tagged(1, 0.0, &tag).await;
        assert_eq!(client.frame().await.unwrap().0, HEADERS);
        let mut answer = Vec::new();
        let answer: serde_json::Value = loop {
            let (kind, piece) = client.frame().await.unwrap();
            assert_eq!(kind, DATA, "after {} bytes", answer.len());
            answer.extend_from_slice(&piece);
            if let Ok(answer) = serde_json::from_slice(&answer) {
                break answer;
            }
            // In all it takes longer than somebody who takes nothing may.
            tokio::time::sleep(Duration::from_millis(piece.len() as u64 * 400 / u64::from(window))).await;
            let more = (piece.len() as u32).to_be_bytes();
            client.write(WINDOW_UPDATE, 0, 0, &more).await;
            client.write(WINDOW_UPDATE, 0, 1, &more).await;
        };
        assert_eq!(answer["result"]["content"][0]["text"], json!(tag));
    });
}
