//! What must hold for any bytes. Each function panics if it does not.

use std::fmt;

use drowse_core::envelope::{self, EnvelopeErrorKind, Known, Message, Part, Values};
use drowse_core::framing::{Frame, LineDecoder};
use drowse_core::http::headers;
use drowse_core::json::{self, JsonError, JsonErrorKind};
use drowse_core::message::Writer;
use drowse_core::span::Span;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The scan accepts exactly what `serde_json` accepts, minus lone surrogates and what is too deep; and walking what
/// was accepted gives what `serde_json` gives.
pub(crate) fn json(bytes: &[u8]) {
    let raw = serde_json::from_slice::<&RawValue>(bytes);
    let value = serde_json::from_slice::<Value>(bytes);
    match json::scan(bytes) {
        Ok(span) => {
            let raw = raw.expect("accepted, but no JSON");
            assert_eq!(raw.get().as_bytes(), span.of(bytes));
            match value {
                Ok(value) => same_value(bytes, span, &value),
                // These two are limits of `Value`, not of JSON.
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.contains("number out of range") || text.contains("recursion limit"),
                        "{text}"
                    );
                }
            }
        }
        Err(JsonError { kind, offset }) => {
            assert!(offset as usize <= bytes.len());
            match kind {
                JsonErrorKind::LoneSurrogate => assert!(value.is_err(), "refused for a lone surrogate"),
                JsonErrorKind::TooDeep => {
                    let open = bytes.iter().filter(|&&byte| byte == b'[' || byte == b'{').count();
                    assert!(open > json::MAX_DEPTH, "refused for its depth");
                }
                _ => assert!(raw.is_err(), "refused, but JSON: {kind:?} at {offset}"),
            }
        }
    }
}

fn same_value(bytes: &[u8], span: Span, value: &Value) {
    let raw = span.of(bytes);
    assert_eq!(json::is_object(raw), value.is_object());
    assert_eq!(json::is_array(raw), value.is_array());
    assert_eq!(json::is_string(raw), value.is_string());
    assert_eq!(json::as_u64(raw), value.as_u64());
    assert_eq!(json::as_i64(raw), value.as_i64());
    match value {
        Value::String(text) => {
            same_text(raw, text);
            let is_id = raw.len() > 1;
            assert_eq!(envelope::is_id(raw), is_id);
        }
        Value::Array(items) => {
            let spans: Vec<Span> = json::elements(bytes, span).collect();
            assert_eq!(spans.len(), items.len());
            for (span, item) in spans.into_iter().zip(items) {
                same_value(bytes, span, item);
            }
            assert_eq!(json::members(bytes, span).count(), 0);
        }
        Value::Object(map) => {
            let mut found = serde_json::Map::new();
            for member in json::members(bytes, span) {
                let key = text_of(member.key.of(bytes)).expect("a name must be a string");
                let value: Value =
                    serde_json::from_slice(member.value.of(bytes)).expect("a value must be JSON");
                same_value(bytes, member.value, &value);
                if !found.contains_key(&key) {
                    assert_eq!(json::member(bytes, span, &key), Some(member.value), "not the first {key:?}");
                }
                found.insert(key, value);
            }
            // Of repeated names `serde_json` keeps the last, as the loop above does.
            assert_eq!(&found, map);
            assert_eq!(json::member(bytes, span, "a name that no generator makes"), None);
        }
        _ => {}
    }
}

fn same_text(raw: &[u8], text: &str) {
    assert_eq!(text_of(raw).as_deref(), Some(text));
    assert!(json::str_eq(raw, text));
    assert!(!json::str_eq(raw, &format!("{text}x")));
    if let Some((last, _)) = text.char_indices().next_back() {
        assert!(!json::str_eq(raw, &text[..last]));
        assert_eq!(json::unescape(raw, &mut vec![0; text.len() - 1]), None);
    }
    let mut exact = vec![0; text.len()];
    assert_eq!(json::unescape(raw, &mut exact), Some(text));
    header(raw, text);
}

/// A text arrives through a header as it was.
fn header(raw: &[u8], text: &str) {
    let mut buffer = vec![0; text.len() / 3 * 4 + 20];
    let mut w = Writer::new(&mut buffer);
    headers::write_value(raw, &mut w).expect("a text always fits");
    let header = w.finish().expect("no longer than base64");
    assert!(header.iter().all(|byte| (b' '..=b'~').contains(byte)));
    assert_eq!(header, header.trim_ascii());
    let inner = header.strip_prefix(b"=?base64?").and_then(|rest| rest.strip_suffix(b"?="));
    assert_eq!(headers::is_plain(raw), inner.is_none());
    assert_eq!(inner.map_or_else(|| header.to_vec(), decode_base64), text.as_bytes());
}

fn decode_base64(encoded: &[u8]) -> Vec<u8> {
    let letters = [b'A'..=b'Z', b'a'..=b'z', b'0'..=b'9', b'+'..=b'+', b'/'..=b'/'];
    let value = |letter: &u8| letters.iter().cloned().flatten().position(|other| other == *letter);
    assert!(encoded.len().is_multiple_of(4));
    let text = encoded.strip_suffix(b"==").or(encoded.strip_suffix(b"=")).unwrap_or(encoded);
    let bits = text.iter().flat_map(|letter| {
        let value = value(letter).expect("a letter of base64");
        (0..6).rev().map(move |bit| value >> bit & 1)
    });
    let bits: Vec<usize> = bits.collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
}

fn text_of(raw: &[u8]) -> Option<String> {
    json::unescape(raw, &mut vec![0; raw.len()]).map(str::to_owned)
}

/// Walks over bytes that nobody validated end, and give nothing outside of the span.
pub(crate) fn walks(bytes: &[u8], start: usize, end: usize, name: &str) {
    let span = Span::new(start, end);
    let inside =
        |part: Span| part.start() >= span.start() && part.end() <= span.end() && part.end() <= bytes.len();
    let mut last = span.start();
    for member in json::members(bytes, span) {
        assert!(inside(member.key) && inside(member.value));
        assert!(last < member.key.start() && member.key.end() < member.value.start());
        last = member.value.end();
    }
    let mut last = span.start();
    for item in json::elements(bytes, span) {
        assert!(inside(item) && !item.is_empty() && last < item.start());
        last = item.end();
    }
    let _ = json::member(bytes, span, name);
    assert!(headers::tools(bytes, span).all(|tool| inside(tool.span)));
    for annotation in headers::annotations(bytes, span) {
        assert!(annotation.path().iter().chain([&annotation.header()]).all(|part| inside(*part)));
        assert!(annotation.argument(bytes, bytes, span).is_none_or(inside));
    }
    let raw = span.of(bytes);
    let _ = (json::as_i64(raw), json::as_u64(raw), envelope::is_id(raw));
    if let Some(text) = text_of(raw) {
        assert!(json::str_eq(raw, &text));
    }
}

/// The members of an object in order, repeated ones included.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'a> Entries<'a> {
    fn all(&self, name: &str) -> Vec<&'a RawValue> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| *value).collect()
    }

    fn one(&self, name: &str) -> Option<&'a RawValue> {
        self.all(name).first().copied()
    }
}

fn entries(bytes: &[u8]) -> Option<Entries<'_>> {
    serde_json::from_slice(bytes).ok()
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

/// A string or an integer of any size.
fn is_id(value: &RawValue) -> bool {
    let number = value.get().trim_start_matches('-');
    is_string(value) || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// A frame is read as a message exactly if the rules, written down once more over `serde_json`, say so; and the parts
/// are the same.
pub(crate) fn envelope(frame: &[u8]) {
    let read = envelope::read(frame);
    if let Err(error) = read {
        assert!(error.offset as usize <= frame.len());
        assert!(error.id.is_none_or(|id| envelope::is_id(id.of(frame))));
        assert!(!error.to_string().is_empty());
    }
    let span = match json::scan(frame) {
        Ok(span) => span,
        Err(JsonError { kind, offset }) => {
            let error = read.expect_err("accepted, but no JSON");
            assert_eq!(
                (error.kind, error.offset, error.code()),
                (EnvelopeErrorKind::Json(kind), offset, -32700)
            );
            return;
        }
    };
    let expected = if json::is_object(span.of(frame)) {
        let entries = entries(frame).expect("an object");
        expected_message(frame, &entries).map_err(|broken| {
            let ids = entries.all("id");
            let id = ids.first().filter(|id| ids.len() == 1 && is_id(id)).map(|id| span_in(frame, id));
            (broken, id, entries.one("method").is_none())
        })
    } else if json::is_array(span.of(frame)) {
        if json::elements(frame, span).next().is_some() {
            Ok(Message::Batch { items: span })
        } else {
            Err((vec![EnvelopeErrorKind::EmptyBatch], None, true))
        }
    } else {
        Err((vec![EnvelopeErrorKind::NotAMessage], None, true))
    };
    match (read, expected) {
        (Ok(message), expected) => assert_eq!(Ok(message), expected),
        (Err(error), Err((broken, id, is_response))) => {
            assert!(broken.contains(&error.kind), "{:?} is none of {broken:?}", error.kind);
            assert_eq!((error.id, error.is_response, error.code()), (id, is_response, -32600));
        }
        (Err(error), Ok(message)) => panic!("refused ({error}) what is {message:?}"),
    }
}

/// The message, or all rules that it breaks.
fn expected_message(frame: &[u8], entries: &Entries<'_>) -> Result<Message, Vec<EnvelopeErrorKind>> {
    use EnvelopeErrorKind::{Invalid, Misplaced, Missing, NoKind, Repeated};

    let mut broken = Vec::new();
    for part in [Part::Version, Part::Id, Part::Method, Part::Params, Part::Result, Part::Error] {
        let all = entries.all(part.name());
        if all.len() > 1 {
            broken.push(Repeated(part));
        }
        let valid = |value: &RawValue| match part {
            Part::Version => serde_json::from_str::<String>(value.get()).is_ok_and(|text| text == "2.0"),
            Part::Id => is_id(value) || value.get() == "null",
            Part::Method => is_string(value),
            _ => is_object(value),
        };
        if !all.into_iter().all(valid) {
            broken.push(Invalid(part));
        }
    }
    let mut metas = Vec::new();
    for holder in [entries.all("params"), entries.all("result")].concat() {
        if let Some(inner) = self::entries(holder.get().as_bytes()) {
            metas.extend(inner.all("_meta").into_iter().map(|meta| (span_in(frame, meta), is_object(meta))));
        }
    }
    if metas.len() > 1 {
        broken.push(Repeated(Part::Meta));
    }
    if metas.iter().any(|(_, object)| !object) {
        broken.push(Invalid(Part::Meta));
    }
    if entries.one("jsonrpc").is_none() {
        broken.push(Missing(Part::Version));
    }
    let [id, method, params, result, error] =
        ["id", "method", "params", "result", "error"].map(|name| entries.one(name));
    let null_id = id.is_some_and(|id| id.get() == "null");
    let misplaced: &[Part] = match (method, result, error) {
        (Some(_), Some(_), _) => &[Part::Result],
        (Some(_), None, Some(_)) => &[Part::Error],
        (None, Some(_), Some(_)) if params.is_none() => &[Part::Error],
        (None, ..) if params.is_some() => &[Part::Params],
        _ => &[],
    };
    broken.extend(misplaced.iter().map(|part| Misplaced(*part)));
    if method.is_none() && params.is_none() && result.is_none() && error.is_none() {
        broken.push(NoKind);
    }
    if result.is_some() && method.is_none() && id.is_none() {
        broken.push(Missing(Part::Id));
    }
    if null_id && (method.is_some() || result.is_some()) {
        broken.push(Invalid(Part::Id));
    }
    if !broken.is_empty() {
        return Err(broken);
    }
    let span = |value: &RawValue| span_in(frame, value);
    let id = id.filter(|_| !null_id).map(span);
    let meta = metas.first().map(|(span, _)| *span);
    Ok(match (method.map(span), id, result.map(span), error.map(span)) {
        (Some(method), Some(id), ..) => {
            Message::Request { id, method, params: params.map(span), meta, known: known(frame, params) }
        }
        (Some(method), None, ..) => Message::Notification { method, params: params.map(span), meta },
        (None, Some(id), Some(result), _) => {
            let last = |name| self::entries(result.of(frame)).and_then(|inner| inner.all(name).pop());
            let is_error = last("isError").is_some_and(|said| said.get() == "true");
            Message::Response { id, result, meta, is_error, kind: last("resultType").map(span) }
        }
        (None, id, _, Some(error)) => Message::Error { id, error },
        other => panic!("the rules above left a gap: {other:?}"),
    })
}

/// The last members of the names that drowse asks for.
fn known(frame: &[u8], params: Option<&RawValue>) -> Values {
    let inside = |value: &RawValue| entries(span_in(frame, value).of(frame));
    let params = params.and_then(inside);
    let meta = params.as_ref().and_then(|params| inside(params.one("_meta")?));
    let mut values = Values::default();
    for (members, holder) in [(&Known::OF_PARAMS[..], params), (&Known::OF_META, meta)] {
        for member in members {
            if let Some(value) = holder.as_ref().and_then(|holder| holder.all(member.name()).pop()) {
                values.set(*member, span_in(frame, value));
            }
        }
    }
    values
}

/// Where a value that was borrowed from `frame` stands in it.
fn span_in(frame: &[u8], value: &RawValue) -> Span {
    let start = value.get().as_ptr().addr() - frame.as_ptr().addr();
    Span::new(start, start + value.get().len())
}

/// A frame that outlives the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Owned {
    Line(Vec<u8>),
    Oversize { id: Option<Vec<u8>>, is_response: bool, length: u64 },
}

impl From<Frame<'_>> for Owned {
    fn from(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Line(line) => Self::Line(line.to_vec()),
            Frame::Oversize(oversize) => Self::Oversize {
                id: oversize.id.map(<[u8]>::to_vec),
                is_response: oversize.is_response,
                length: oversize.length,
            },
        }
    }
}

/// Whatever the pieces in which `stream` arrives and whatever the size of the buffer, the frames are those that the
/// plainest code gives. `pieces` are used in turn, each is the size of the next read.
pub(crate) fn framing(stream: &[u8], limit: usize, buffer: usize, pieces: &[u8]) {
    let whole = decode(stream, limit, stream.len().max(limit) + 2, &[]);
    let found = decode(stream, limit, buffer, pieces);
    assert_eq!(found, whole, "limit {limit}, buffer {buffer}, pieces {pieces:?}");

    let mut frames = whole.into_iter();
    for line in stream.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(|byte| b" \t\r\n".contains(byte)) {
            continue;
        }
        match frames.next().expect("a line is missing") {
            Owned::Line(found) => {
                assert_eq!(found, line);
                assert!(line.len() <= limit);
            }
            Owned::Oversize { id, is_response, length } => {
                assert!(line.len() > limit);
                assert_eq!(length, line.len() as u64);
                let id = id.as_deref();
                assert!(id.is_none_or(|id| envelope::is_id(id) && id.len() <= 256));
                // Of a malformed line, not more can be said.
                if let Some(entries) = entries(line) {
                    let ids = entries.all("id");
                    let usable = |id: &&&RawValue| {
                        ids.len() == 1
                            && is_id(id)
                            && json::scan(id.get().as_bytes()).is_ok()
                            && id.get().len() <= 256
                    };
                    assert_eq!(id, ids.first().filter(usable).map(|id| id.get().as_bytes()));
                    assert_eq!(is_response, entries.one("method").is_none());
                } else if serde_json::from_slice::<&RawValue>(line).is_ok()
                    && line.trim_ascii_start()[0] != b'{'
                {
                    assert_eq!((id, is_response), (None, true));
                }
            }
        }
    }
    assert_eq!(frames.next(), None, "a frame too many");
}

fn decode(mut stream: &[u8], limit: usize, buffer: usize, pieces: &[u8]) -> Vec<Owned> {
    let mut decoder = LineDecoder::new(vec![0; buffer], limit);
    let mut pieces = pieces.iter().cycle();
    let mut frames = Vec::new();
    while !stream.is_empty() {
        if let Some(size) = decoder.wants_room() {
            assert!(decoder.space().is_empty());
            assert!(size > decoder.buffer_len() && size <= limit + 2);
            assert!(decoder.replace_buffer(vec![0; size]).is_ok());
        }
        let space = decoder.space();
        let n = pieces.next().map_or(usize::MAX, |&piece| usize::from(piece)).clamp(1, space.len().max(1));
        let n = n.min(stream.len());
        let (now, later) = stream.split_at(n);
        space.get_mut(..n).expect("after polling there must be space").copy_from_slice(now);
        stream = later;
        decoder.filled(n);
        // Frames may be taken at any time, but once there is no space they must be.
        if n.is_multiple_of(3) && !decoder.space().is_empty() {
            continue;
        }
        while let Some(frame) = decoder.poll_frame() {
            frames.push(frame.into());
        }
        assert!(decoder.pending() <= limit + 1, "more is kept than the limit");
    }
    while let Some(frame) = decoder.poll_frame() {
        frames.push(frame.into());
    }
    frames.extend(decoder.finish().map(Owned::from));
    assert_eq!(decoder.finish(), None);
    assert_eq!(decoder.pending(), 0);
    frames
}
