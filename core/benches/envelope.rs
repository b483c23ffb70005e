//! Reading envelopes, against the usual way: a struct of `RawValue`s by `serde_json`.
//!
//! Budget: at least 1.15x as fast as `serde_json` at every size, and 2x where `_meta` is read too.
//! `cargo bench -p drowse-core`.

#![allow(clippy::unwrap_used, reason = "a benchmark of a refused message would measure nothing")]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use drowse_core::envelope::{self, Message};
use drowse_core::framing::{Frame, LineDecoder};
use serde::Deserialize;
use serde_json::value::RawValue;

fn main() {
    divan::main();
}

/// Sizes of a request, of a result of text, and of a result of structure (a list of tools with their schemas).
const SHAPES: [&str; 6] = ["call-200", "text-4k", "tools-4k", "text-300k", "escaped-300k", "tools-300k"];

fn message(shape: &str) -> Vec<u8> {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let text = match shape {
        "call-200" => format!(
            r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello"}},{meta}}}}}"#
        ),
        "text-4k" => content(&"The quick brown fox jumps over the lazy dog. ".repeat(85), meta),
        "text-300k" => content(&"The quick brown fox jumps over the lazy dog. ".repeat(6600), meta),
        "escaped-300k" => {
            content(&r#"    if (name == \"naïve\") {\n        return;\n    }\n"#.repeat(5700), meta)
        }
        "tools-4k" => tools(9, meta),
        _ => tools(700, meta),
    };
    text.into_bytes()
}

fn content(text: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false,{meta}}}}}"#
    )
}

fn tools(count: usize, meta: &str) -> String {
    let tools: Vec<String> = (0..count)
        .map(|i| {
            format!(
                r#"{{"name":"tool_{i}","title":"Tool {i}","description":"Reads the file at the path and says how many lines it has.","inputSchema":{{"type":"object","properties":{{"path":{{"type":"string","description":"The path"}},"limit":{{"type":"integer","minimum":1,"maximum":5000,"default":100}},"deep":{{"type":"boolean","default":false}}}},"required":["path"]}},"annotations":{{"readOnlyHint":true}}}}"#
            )
        })
        .collect();
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"result":{{"tools":[{}],"ttlMs":0,"cacheScope":"private",{meta}}}}}"#,
        tools.join(",")
    )
}

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Holder<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// What `envelope::read` gives: the parts, and `_meta`.
#[divan::bench(args = SHAPES)]
fn drowse(bencher: Bencher<'_, '_>, shape: &str) {
    let frame = message(shape);
    bencher.counter(BytesCount::of_slice(&frame)).bench_local(|| envelope::read(black_box(&frame)).unwrap());
}

/// The parts only.
#[divan::bench(args = SHAPES)]
fn serde_json_parts(bencher: Bencher<'_, '_>, shape: &str) {
    let frame = message(shape);
    bencher
        .counter(BytesCount::of_slice(&frame))
        .bench_local(|| serde_json::from_slice::<Envelope<'_>>(black_box(&frame)).unwrap().used());
}

/// The parts and `_meta`.
#[divan::bench(args = SHAPES)]
fn serde_json_parts_and_meta(bencher: Bencher<'_, '_>, shape: &str) {
    let frame = message(shape);
    bencher.counter(BytesCount::of_slice(&frame)).bench_local(|| {
        let envelope = serde_json::from_slice::<Envelope<'_>>(black_box(&frame)).unwrap();
        let holder = envelope.params.or(envelope.result).unwrap();
        let meta = serde_json::from_str::<Holder<'_>>(holder.get()).unwrap().meta;
        (envelope.used(), meta.map(|meta| meta.get().len()))
    });
}

impl Envelope<'_> {
    fn used(&self) -> usize {
        let raw = [self.id, self.params, self.result, self.error];
        self.jsonrpc.len()
            + self.method.map_or(0, str::len)
            + raw.iter().flatten().map(|raw| raw.get().len()).sum::<usize>()
    }
}

/// A stream of small messages, as it comes out of a pipe: framing and reading.
#[divan::bench]
fn frames_of_200(bencher: Bencher<'_, '_>) {
    let mut stream = message("call-200");
    stream.push(b'\n');
    let stream = stream.repeat(300);
    bencher.counter(BytesCount::of_slice(&stream)).bench_local(|| {
        let mut decoder = LineDecoder::new([0; 65_536], 65_536);
        let mut rest = black_box(&*stream);
        let mut requests = 0;
        while !rest.is_empty() {
            let space = decoder.space();
            let n = space.len().min(rest.len());
            let (now, later) = rest.split_at(n);
            space.iter_mut().zip(now).for_each(|(slot, byte)| *slot = *byte);
            rest = later;
            decoder.filled(n);
            while let Some(frame) = decoder.poll_frame() {
                let Frame::Line(line) = frame else { continue };
                requests += usize::from(matches!(envelope::read(line), Ok(Message::Request { .. })));
            }
        }
        assert_eq!(requests, 300);
    });
}

/// A line over the limit, of which only the id is kept.
#[divan::bench(args = ["text-300k", "escaped-300k", "tools-300k"])]
fn oversize(bencher: Bencher<'_, '_>, shape: &str) {
    let mut line = message(shape);
    line.push(b'\n');
    bencher.counter(BytesCount::of_slice(&line)).bench_local(|| {
        let mut decoder = LineDecoder::new([0; 65_536], 65_536);
        let mut rest = black_box(&*line);
        while !rest.is_empty() {
            let space = decoder.space();
            let n = space.len().min(rest.len());
            let (now, later) = rest.split_at(n);
            space.iter_mut().zip(now).for_each(|(slot, byte)| *slot = *byte);
            rest = later;
            decoder.filled(n);
            if let Some(frame) = decoder.poll_frame() {
                assert!(matches!(frame, Frame::Oversize(oversize) if oversize.id == Some(b"17")));
            }
        }
    });
}
