//! A server that costs next to nothing: one thread, no runtime, answers made of slices of the requests.
//!
//! It speaks the eras that it is told to, on standard streams or on HTTP. Its tools are `echo` (`text`), `big` (`size`) and
//! `stall` (`ms`: for so long it neither reads nor answers).

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use super::door::{Door, Reply};
use super::lines::Lines;
use super::peek::{self, Peek};

const TOOLS: &[u8] = br#"{"tools":[{"name":"echo","description":"Says it again","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},{"name":"big","description":"Says much","inputSchema":{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}},{"name":"stall","description":"Does nothing for a while","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}},"required":["ms"]}}]"#;
const INFO: &str = r#"{"name":"drowse-load","version":"1"}"#;

/// The eras that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eras {
    /// Up to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
    /// Either, as it is asked.
    Both,
}

impl Eras {
    /// The eras of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "legacy" => Some(Self::Legacy),
            "modern" => Some(Self::Modern),
            "both" => Some(Self::Both),
            _ => None,
        }
    }

    /// Their name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Both => "both",
        }
    }
}

/// Serves standard input until its end.
///
/// # Errors
/// If a stream breaks.
pub fn stdio(eras: Eras) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut lines = Lines::default();
    let mut answers = Vec::new();
    loop {
        let n = input.read(lines.space())?;
        if n == 0 {
            return Ok(());
        }
        lines.filled(n);
        while let Some(line) = lines.next() {
            if answer(eras, line, &mut answers) {
                answers.push(b'\n');
            }
        }
        output.write_all(&answers)?;
        output.flush()?;
        super::lines::reuse(&mut answers);
    }
}

/// Serves HTTP on a listener, forever.
///
/// # Errors
/// If nothing can be waited for.
pub fn http(eras: Eras, listener: TcpListener) -> io::Result<()> {
    let mut door = Door::new(listener)?;
    loop {
        door.turn(&mut [], |_, body, out| match answer(eras, body, out) {
            true => Reply::Text,
            false => Reply::Nothing,
        })?;
    }
}

/// Puts the answer to a message behind `out`. `false`: there is none.
pub fn answer(eras: Eras, line: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(Peek { id: Some(id), method: Some(method), body, .. }) = peek::peek(line) else { return false };
    let id = &line[id];
    let param = |name: &[u8]| body.as_ref().and_then(|body| peek::member(line, body.start, name));
    let version = param(b"_meta")
        .and_then(|meta| peek::member(line, meta.start, b"io.modelcontextprotocol/protocolVersion"));
    let modern = version.is_some() && eras != Eras::Legacy;
    let mut say = |parts: &[&[u8]]| {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.push(b'}');
        true
    };
    let kind: &[u8] = if modern { br#","resultType":"complete"}"# } else { b"}" };
    if eras == Eras::Modern && version.is_none() {
        return say(&[
            br#","error":{"code":-32022,"message":"only 2026-07-28","data":{"supported":["2026-07-28"]}}"#,
        ]);
    }
    match &line[method] {
        b"initialize" => {
            let asked = param(b"protocolVersion").map(|version| &line[version]);
            let version = asked.filter(|version| version.starts_with(b"\"20")).unwrap_or(b"\"2025-11-25\"");
            say(&[
                br#","result":{"protocolVersion":"#,
                version,
                br#","capabilities":{"tools":{}},"serverInfo":"#,
                INFO.as_bytes(),
                b"}",
            ])
        }
        b"server/discover" if modern => say(&[
            br#","result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":"#,
            INFO.as_bytes(),
            b"}",
            kind,
        ]),
        b"ping" => say(&[br#","result":{}"#]),
        b"tools/list" => {
            let fresh: &[u8] = if modern { br#","ttlMs":0,"cacheScope":"private""# } else { b"" };
            say(&[br#","result":"#, TOOLS, fresh, kind])
        }
        b"tools/call" => {
            let name = param(b"name").map(|name| &line[name]).unwrap_or_default();
            let arguments = param(b"arguments");
            let argument =
                |name: &[u8]| arguments.as_ref().and_then(|all| peek::member(line, all.start, name));
            let count = |name| argument(name).and_then(|raw| peek::number(&line[raw])).unwrap_or(0);
            let big;
            let text: &[u8] = match name {
                b"\"echo\"" => argument(b"text").map_or(b"\"\"", |text| &line[text]),
                b"\"big\"" => {
                    let size = usize::try_from(count(b"size")).unwrap_or(0);
                    big = [b"\"", vec![b'b'; size].as_slice(), b"\""].concat();
                    &big
                }
                b"\"stall\"" => {
                    thread::sleep(Duration::from_millis(count(b"ms")));
                    b"\"\""
                }
                _ => return say(&[br#","error":{"code":-32602,"message":"no such tool"}"#]),
            };
            say(&[br#","result":{"content":[{"type":"text","text":"#, text, b"}]", kind])
        }
        _ => say(&[br#","error":{"code":-32601,"message":"no such method"}"#]),
    }
}
