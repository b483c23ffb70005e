#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::string::String;
use std::vec;
use std::vec::Vec;

use super::{Found, Frame, LineDecoder};

/// A frame that outlives the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Owned {
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

/// Gives `stream` to `decoder` in pieces of the sizes that `piece` says, grows the buffer when asked, and checks that
/// the decoder always makes headway.
pub(super) fn decode(
    decoder: &mut LineDecoder<Vec<u8>>,
    mut stream: &[u8],
    mut piece: impl FnMut() -> usize,
    finish: bool,
) -> Vec<Owned> {
    let mut frames = Vec::new();
    loop {
        while let Some(frame) = decoder.poll_frame() {
            frames.push(frame.into());
        }
        if stream.is_empty() {
            break;
        }
        if let Some(size) = decoder.wants_room() {
            assert!(decoder.space().is_empty());
            assert!(size > decoder.buffer_len());
            decoder.replace_buffer(vec![0xee; size]).unwrap();
        }
        let space = decoder.space();
        assert!(!space.is_empty(), "polled, not in want of room, and yet no space");
        let n = piece().clamp(1, space.len()).min(stream.len());
        let (now, later) = stream.split_at(n);
        space[..n].copy_from_slice(now);
        stream = later;
        decoder.filled(n);
    }
    if finish {
        frames.extend(decoder.finish().map(Owned::from));
        assert_eq!(decoder.finish(), None);
        assert_eq!(decoder.pending(), 0);
    }
    frames
}

fn lines(stream: &str, limit: usize, buffer: usize) -> Vec<Owned> {
    let mut decoder = LineDecoder::new(vec![0; buffer], limit);
    decode(&mut decoder, stream.as_bytes(), || usize::MAX, true)
}

fn line(text: &str) -> Owned {
    Owned::Line(text.into())
}

fn oversize(id: Option<&str>, is_response: bool, length: u64) -> Owned {
    Owned::Oversize { id: id.map(|id| id.into()), is_response, length }
}

#[test]
fn splits_lines_and_skips_blank_ones() {
    assert_eq!(lines("{}\n\n \t\r\n[1]\r\n\r\n 2 \n", 100, 100), [line("{}"), line("[1]"), line(" 2 ")],);
    assert_eq!(lines("", 100, 100), []);
}

#[test]
fn only_one_return_belongs_to_the_end() {
    assert_eq!(lines("a\r\r\nb\rc\n", 100, 100), [line("a\r"), line("b\rc")]);
    for buffer in 3..8 {
        assert_eq!(lines("ab\r\r\n", 3, buffer), [line("ab\r")]);
        assert_eq!(lines("abc\r\r\n", 3, buffer), [oversize(None, true, 4)]);
    }
}

#[test]
fn the_last_line_may_lack_its_end() {
    assert_eq!(lines("a\nb", 100, 100), [line("a"), line("b")]);
    assert_eq!(lines("a\nb\r", 100, 100), [line("a"), line("b")]);
    assert_eq!(lines("a\n \r", 100, 100), [line("a")]);
    assert_eq!(lines("a\nabcd", 3, 3), [line("a"), oversize(None, true, 4)]);
    for buffer in 3..7 {
        assert_eq!(lines("abc\r", 3, buffer), [line("abc")]);
        assert_eq!(lines("ab\r\r", 3, buffer), [line("ab\r")]);
    }
}

#[test]
fn a_line_of_just_the_limit_fits_whatever_its_end() {
    for buffer in [4, 5, 6, 7, 20] {
        for end in ["\n", "\r\n"] {
            let stream = std::format!("abcd{end}ef{end}abcde{end}gh{end}");
            let expected = [line("abcd"), line("ef"), oversize(None, true, 5), line("gh")];
            assert_eq!(lines(&stream, 4, buffer), expected, "{buffer} {end:?}");
        }
    }
}

#[test]
fn a_small_buffer_grows_up_to_the_limit() {
    let mut decoder = LineDecoder::new(vec![0; 2], 50);
    let frames = decode(&mut decoder, b"{\"jsonrpc\":\"2.0\"}\nx\n", || 1, false);
    assert_eq!(frames, [line("{\"jsonrpc\":\"2.0\"}"), line("x")]);
    assert_eq!(decoder.buffer_len(), 32);

    assert_eq!(lines("abcd\n", 4, 0), [line("abcd")]);
    assert_eq!(lines("abcde\nx\n", 4, 0), [oversize(None, true, 5), line("x")]);
    assert_eq!(lines("a\n\n", 0, 0), [oversize(None, true, 1)]);
}

#[test]
fn an_oversize_line_gives_its_id_wherever_it_stands() {
    let long = "x".repeat(500);
    let cases = [
        (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"L"}}"#, Some("7"), true),
        (r#"{"jsonrpc":"2.0","result":{"text":"L","id":8},"id":"a-1"}"#, Some(r#""a-1""#), true),
        (r#"{"result":{"a":["L",{"id":1}]}, "id" : -12 }"#, Some("-12"), true),
        (r#"{"id":0,"method":"tools/call","params":{"a":"L\"}"}}"#, Some("0"), false),
        (r#"{"params":["L\\"],"\u0069\u0064":"\u0031","m\u0065thod":"x"}"#, Some(r#""\u0031""#), false),
        (r#"{"method":"notifications/progress","params":{"id":3,"L":1}}"#, None, false),
        // Neither of two, whatever their spelling.
        (r#"{"id":1,"result":"L","\u0069d":2}"#, None, true),
        (r#"{"id":1,"result":"L","id":1}"#, None, true),
        (r#"{"id":null,"error":"L"}"#, None, true),
        (r#"{"id":1.5,"error":"L"}"#, None, true),
        (r#"{"id":01,"error":"L"}"#, None, true),
        (r#"{"id":"\ud800","error":"L"}"#, None, true),
        (r#"{"id":"L","error":1}"#, None, true),
        (r#"{"id":[1],"error":"L"}"#, None, true),
        (r#"[{"id":1,"method":"L"}]"#, None, true),
        // Broken off: before the kind is known a method might still come.
        (r#"{"id":1,"params":{"a":"L"#, None, true),
        (r#"{"id":1,"result":{"a":"L"#, Some("1"), true),
        (r#"{"method":"a","id":1,"params":{"a":"L"#, Some("1"), false),
        (r#"{"params":"L","method":"a","id":1"#, None, false),
        (r#"{"id":1 "method":"L"}"#, None, true),
    ];
    for (text, id, is_response) in cases {
        let text = text.replace('L', &long);
        let stream = std::format!("{text}\nnext\n");
        let expected = [oversize(id, is_response, text.len() as u64), line("next")];
        for buffer in [100, 101, 102, 103, 1000, 10_000] {
            assert_eq!(lines(&stream, 100, buffer), expected, "{buffer} {text}");
        }
    }
}

#[test]
fn an_id_of_256_bytes_is_kept_and_no_longer_one() {
    for (length, kept) in [(254, true), (255, false)] {
        let id = std::format!("\"{}\"", "i".repeat(length));
        let text = std::format!("{{\"id\":{id},\"result\":{{}}}}");
        let expected = oversize(kept.then_some(&*id), true, text.len() as u64);
        assert_eq!(lines(&std::format!("{text}\n"), 20, 20), [expected]);
    }
}

#[test]
fn blank_lines_are_skipped_whatever_their_length() {
    let blank = " \t\r".repeat(100);
    for buffer in [10, 11, 12, 13, 1000] {
        assert_eq!(lines(&std::format!("{blank}\na\n{blank}"), 10, buffer), [line("a")]);
    }
}

#[test]
fn memory_stays_bounded_under_an_endless_line() {
    let mut decoder = LineDecoder::new(vec![0; 64], 64);
    let mut fed = 0u64;
    for byte in b"{\"id\":1,\"result\":\"".iter().chain(core::iter::repeat_n(&b'x', 100_000)) {
        decoder.space()[0] = *byte;
        decoder.filled(1);
        fed += 1;
        assert_eq!(decoder.poll_frame(), None);
        assert!(decoder.pending() <= 64);
        assert_eq!(decoder.wants_room(), None);
    }
    decoder.space()[0] = b'\n';
    decoder.filled(1);
    assert_eq!(decoder.poll_frame().map(Owned::from), Some(oversize(Some("1"), true, fed)));
    assert_eq!(decoder.poll_frame(), None);
}

#[test]
fn replacing_the_buffer_keeps_what_is_pending() {
    let mut decoder = LineDecoder::new(vec![0; 8], 6);
    decoder.space()[..8].copy_from_slice(b"a\nb\ncdef");
    decoder.filled(8);
    assert_eq!(decoder.poll_frame(), Some(Frame::Line(b"a")));
    assert_eq!(decoder.replace_buffer(vec![0; 5]), Err(vec![0; 5]));
    assert_eq!(decoder.pending(), 6);
    assert_eq!(decoder.replace_buffer(vec![0; 6]).map(|old| old.len()), Ok(8));
    assert_eq!(decoder.poll_frame(), Some(Frame::Line(b"b")));
    assert_eq!(decoder.poll_frame(), None);
    assert_eq!(decoder.pending(), 4);
    assert_eq!(decoder.space().len(), 2);

    // Also the `\r` behind a full buffer.
    decoder.space().copy_from_slice(b"gh");
    decoder.filled(2);
    assert_eq!(decoder.poll_frame(), None);
    decoder.space()[0] = b'\r';
    decoder.filled(1);
    assert_eq!(decoder.poll_frame(), None);
    assert_eq!(decoder.pending(), 7);
    decoder.replace_buffer(vec![0; 6]).unwrap();
    assert_eq!(decoder.poll_frame(), None);
    assert_eq!(decoder.pending(), 7);
    decoder.replace_buffer(vec![0; 9]).unwrap();
    assert_eq!(decoder.poll_frame(), None);
    assert_eq!(decoder.pending(), 7);
    decoder.space()[0] = b'\n';
    decoder.filled(1);
    assert_eq!(decoder.poll_frame(), Some(Frame::Line(b"cdefgh")));
    assert_eq!(decoder.pending(), 0);
}

#[test]
fn a_buffer_without_a_byte_can_be_replaced_amid_a_long_line() {
    let mut decoder = LineDecoder::new(vec![0; 4], 2);
    decoder.space().copy_from_slice(b"long");
    decoder.filled(4);
    assert_eq!(decoder.poll_frame(), None);
    decoder.replace_buffer(vec![]).unwrap();
    assert_eq!(decode(&mut decoder, b"er\nx\n", || 1, true), [oversize(None, true, 6), line("x")]);
}

#[test]
fn no_byte_is_searched_twice() {
    let mut decoder = LineDecoder::new(vec![0; 8], 8);
    decoder.space().copy_from_slice(b"abcd\nefg");
    decoder.filled(8);
    assert!(decoder.poll_frame().is_some());
    assert_eq!(decoder.poll_frame(), None);
    assert_eq!(decoder.space().len(), 5, "moved to the front");
    assert_eq!((decoder.start, decoder.searched, decoder.end), (0, 3, 3));
    assert!(decoder.replace_buffer(vec![0; 9]).is_ok());
    assert_eq!((decoder.start, decoder.searched, decoder.end), (0, 3, 3));
}

#[test]
fn lines_may_wait_while_more_is_read() {
    let mut decoder = LineDecoder::new(vec![0; 8], 8);
    decoder.space().copy_from_slice(b"a\nbcd\ne\n");
    decoder.filled(8);
    assert_eq!(decoder.poll_frame(), Some(Frame::Line(b"a")));
    decoder.space().copy_from_slice(b"fg");
    decoder.filled(2);
    let rest: Vec<Owned> = core::iter::from_fn(|| decoder.poll_frame().map(Owned::from)).collect();
    assert_eq!(rest, [line("bcd"), line("e")]);
    assert_eq!(decoder.finish(), Some(Frame::Line(b"fg")));
}

#[test]
fn a_line_may_leave_with_its_buffer() {
    let mut decoder = LineDecoder::new(vec![0; 12], 12);
    decoder.space()[..11].copy_from_slice(b"\nabcd\r\nefg\n");
    decoder.filled(11);
    let Some(Found::Line { start, end }) = decoder.poll_found() else { panic!("a line") };
    let buffer = decoder.replace_buffer(vec![0; 5]).unwrap();
    assert_eq!(&buffer[start..end], b"abcd");
    assert_eq!(decoder.poll_frame(), Some(Frame::Line(b"efg")));
    assert_eq!(decoder.poll_found(), None);
}

#[test]
fn claims_of_too_many_bytes_are_cut() {
    let mut decoder = LineDecoder::new([b'a'; 4], 4);
    decoder.filled(usize::MAX);
    assert_eq!(decoder.pending(), 4);
    assert!(decoder.space().is_empty(), "frames must be taken first");
    assert_eq!(decoder.poll_frame(), None);
    assert_eq!(decoder.space().len(), 1);
    decoder.filled(0);
    assert_eq!(decoder.pending(), 4);
}

#[test]
fn shows_no_bytes_in_debug_output() {
    let mut decoder = LineDecoder::new([0; 16], 16);
    decoder.space()[..6].copy_from_slice(b"secret");
    decoder.filled(6);
    let shown: String = std::format!("{decoder:?}");
    assert!(shown.contains("pending: 6") && !shown.contains("115"), "{shown}");
}
