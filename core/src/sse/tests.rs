#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use core::time::Duration;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::{Event, EventDecoder};

/// An event that outlives the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Owned {
    Message(String, String),
    Primed,
    Oversize { id: Option<String>, is_response: bool, length: u64 },
}

impl From<Event<'_>> for Owned {
    fn from(event: Event<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match event {
            Event::Message { name, data } => Self::Message(text(name), text(data)),
            Event::Primed => Self::Primed,
            Event::Oversize(oversize) => Self::Oversize {
                id: oversize.id.map(text),
                is_response: oversize.is_response,
                length: oversize.length,
            },
        }
    }
}

/// Gives `stream` to `decoder` in pieces of `piece` bytes, grows the buffer when asked, and checks that the decoder
/// always makes headway.
fn decode(decoder: &mut EventDecoder<Vec<u8>>, mut stream: &[u8], piece: usize) -> Vec<Owned> {
    let mut events = Vec::new();
    loop {
        while let Some(event) = decoder.poll_event() {
            events.push(event.into());
        }
        if stream.is_empty() {
            return events;
        }
        if let Some(size) = decoder.wants_room() {
            assert!(decoder.space().is_empty());
            assert!(size > decoder.buffer_len());
            decoder.replace_buffer(vec![0xee; size]).unwrap();
        }
        let space = decoder.space();
        assert!(!space.is_empty(), "polled, not in want of room, and yet no space");
        let n = piece.min(space.len()).min(stream.len());
        let (now, later) = stream.split_at(n);
        space[..n].copy_from_slice(now);
        stream = later;
        decoder.filled(n);
    }
}

/// The events of `stream`, which are the same however it arrives.
fn events_within(stream: &str, limit: usize) -> Vec<Owned> {
    let all = decode(&mut EventDecoder::new(vec![0; 1000], limit), stream.as_bytes(), usize::MAX);
    for buffer in [0, limit, limit + 1, 1000] {
        for piece in [1, 2, 3, 7] {
            let mut decoder = EventDecoder::new(vec![0; buffer], limit);
            assert_eq!(decode(&mut decoder, stream.as_bytes(), piece), all, "{buffer} {piece}");
        }
    }
    all
}

fn events(stream: &str) -> Vec<Owned> {
    events_within(stream, 100)
}

fn data(text: &str) -> Owned {
    named("message", text)
}

fn named(name: &str, text: &str) -> Owned {
    Owned::Message(name.into(), text.into())
}

fn oversize(id: Option<&str>, is_response: bool, length: u64) -> Owned {
    Owned::Oversize { id: id.map(Into::into), is_response, length }
}

/// A decoder that has read `stream` to its end.
fn after(stream: &str) -> EventDecoder<Vec<u8>> {
    let mut decoder = EventDecoder::new(vec![0; 100], 90);
    decode(&mut decoder, stream.as_bytes(), 5);
    decoder
}

#[test]
fn an_event_ends_with_a_blank_line() {
    assert_eq!(events("data: {}\n\ndata:[]\n\n\n\ndata: 1\n"), [data("{}"), data("[]")]);
    assert_eq!(events(""), []);
}

#[test]
fn lines_end_in_three_ways() {
    let expected = [data("a\nb"), data("c")];
    assert_eq!(events("data: a\ndata: b\n\ndata: c\n\n"), expected);
    assert_eq!(events("data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"), expected);
    assert_eq!(events("data: a\rdata: b\r\rdata: c\r\r"), expected);
    assert_eq!(events("data: a\r\ndata: b\n\r\ndata: c\r\n\r"), expected);
    // One `\n` belongs to a `\r`, not two.
    assert_eq!(events("data: a\r\n\ndata: c\n\n"), [data("a"), data("c")]);
}

#[test]
fn a_return_ends_an_event_before_more_is_known() {
    let mut decoder = EventDecoder::new(vec![0; 20], 10);
    assert_eq!(decode(&mut decoder, b"data: a\r\r", 1), [data("a")]);
    assert_eq!(decode(&mut decoder, b"\ndata: b\r\n\r", 1), [data("b")]);
    assert_eq!(decode(&mut decoder, b"\n", 1), []);
}

#[test]
fn fields_as_the_standard_reads_them() {
    // One space behind the colon does not count.
    assert_eq!(events("data:  a \n\ndata:b\n\ndata:\tc\n\n"), [data(" a "), data("b"), data("\tc")]);
    // Colons in the value do, and names are exact.
    assert_eq!(events("data: a: b\n\nDATA: a\n\n data: a\n\ndata : a\n\ndatas: a\n\n"), [data("a: b")]);
    // Without a colon a field has an empty value.
    assert_eq!(events("data: a\ndata\n\ndata\ndata\n\n"), [data("a\n"), data("\n")]);
    assert_eq!(events("data\ndata: a\n\n"), [data("\na")]);
}

#[test]
fn comments_and_unknown_fields_go_by() {
    let long = "x".repeat(5000);
    let stream =
        std::format!(": {long}\n\n:\ndata: a\n:{long}\nfoo: {long}\n{long}\n{long}: y\ndata: b\n:\n\n:\n\n");
    assert_eq!(events(&stream), [data("a\nb")]);
}

#[test]
fn events_without_data_are_no_messages() {
    assert_eq!(events("data:\n\ndata\n\nevent: x\n\nretry: 1\n\n:\n\ndata: a\n\n"), [data("a")]);
    assert_eq!(
        events("id: 1\ndata:\n\nid: 2\n\nid: 3\ndata: a\n\n"),
        [Owned::Primed, Owned::Primed, data("a")]
    );
}

#[test]
fn the_type_is_that_of_one_event() {
    assert_eq!(
        events("event: endpoint\ndata: /x\n\ndata: a\n\nevent: x\n\ndata: b\n\n"),
        [named("endpoint", "/x"), data("a"), data("b")]
    );
    assert_eq!(
        events("event: a\nevent: b\ndata: 1\n\nevent: a\nevent\ndata: 2\n\n"),
        [named("b", "1"), data("2")]
    );
    let long = "t".repeat(300);
    let expected = [named(&long[..64], "1"), data("2")];
    assert_eq!(events(&std::format!("event: {long}\ndata: 1\n\ndata: 2\n\n")), expected);
}

#[test]
fn one_mark_at_the_start_is_no_part_of_the_stream() {
    assert_eq!(events("\u{feff}data: a\n\n"), [data("a")]);
    assert_eq!(events("\u{feff}\u{feff}data: a\n\ndata: b\n\n"), [data("b")]);
    assert_eq!(events("data: a\n\n\u{feff}data: b\n\n"), [data("a")]);
    assert_eq!(
        decode(&mut EventDecoder::new(vec![0; 50], 50), b"\xef\xbbdata: a\n\ndata: b\n\n", 1),
        [data("b")]
    );
    assert_eq!(decode(&mut EventDecoder::new(vec![0; 50], 50), b"\xef\ndata: b\n\n", 1), [data("b")]);
}

#[test]
fn the_id_stays_until_another_one_comes() {
    assert_eq!(after("data: a\n\n").last_event_id(), None);
    assert_eq!(after("id: 1\ndata: a\n\ndata: b\n\n:\n\n").last_event_id(), Some(&b"1"[..]));
    assert_eq!(after("id: 1\nid: 2\n\n").last_event_id(), Some(&b"2"[..]));
    // Not before its event is complete.
    assert_eq!(after("id: 1\n\nid: 2\ndata: b\n").last_event_id(), Some(&b"1"[..]));
    // An empty one takes it back.
    assert_eq!(after("id: 1\n\nid\ndata: b\n\n").last_event_id(), None);
    // One with a NUL does not count.
    assert_eq!(after("id: 1\nid: 2\0\n\nid: \0\n\n").last_event_id(), Some(&b"1"[..]));
    assert_eq!(events("id: \0\n\n"), []);
}

#[test]
fn an_id_of_256_bytes_can_be_resumed_from_and_no_longer_one() {
    let id = "i".repeat(256);
    let decoder = after(&std::format!("id: {id}\n\n"));
    assert_eq!(decoder.last_event_id(), Some(id.as_bytes()));
    assert!(!decoder.last_event_id_is_too_long());
    let mut decoder = after(&std::format!("id: 1\n\nid: {id}i\n\n"));
    assert_eq!(decoder.last_event_id(), None);
    assert!(decoder.last_event_id_is_too_long());
    decode(&mut decoder, b"id: 2\n\n", 1);
    assert_eq!(decoder.last_event_id(), Some(&b"2"[..]));
    // Also where the NUL is not kept.
    assert_eq!(after(&std::format!("id: 1\n\nid: {id}\0\n\n")).last_event_id(), Some(&b"1"[..]));
}

#[test]
fn retry_is_a_number_of_milliseconds() {
    let cases = [
        ("retry: 500\n", Some(500)),
        ("retry: 500", None),
        ("retry:0\n", Some(0)),
        ("retry: 007\n", Some(7)),
        ("retry\nretry:\nretry: -1\nretry: 1.5\nretry: 1 \nretry:  1\nretry: +1\nretry: 1e3\n", None),
        ("retry: 1\nretry: x\n", Some(1)),
        ("retry: 18446744073709551615\nretry: 18446744073709551616\n", Some(u64::MAX)),
    ];
    for (stream, expected) in cases {
        assert_eq!(after(stream).retry(), expected.map(Duration::from_millis), "{stream}");
    }
}

#[test]
fn a_stream_is_primed_as_servers_do_it() {
    let mut decoder = EventDecoder::new(vec![0; 100], 90);
    assert_eq!(decode(&mut decoder, b"id: event-1\nretry: 500\ndata:\n\n", 1), [Owned::Primed]);
    assert_eq!(decoder.last_event_id(), Some(&b"event-1"[..]));
    assert_eq!(decoder.retry(), Some(Duration::from_millis(500)));
    assert!(!decoder.is_amid_event());
}

#[test]
fn an_event_that_is_not_complete_does_not_count() {
    for stream in ["data: a", "data: a\n", "data", "da", "id: 1\n", "event: x\r\n", "data: a\n\nid:"] {
        assert!(after(stream).is_amid_event(), "{stream}");
    }
    for stream in
        ["", ":", ": a", "\n", "data: a\n\n", "data: a\r\n\r", ":\n", "foo: bar\n", "foo", "\u{feff}"]
    {
        assert!(!after(stream).is_amid_event(), "{stream}");
    }
}

#[test]
fn another_connection_continues() {
    let mut decoder = after("id: 1\nretry: 5\n\nid: 2\nevent: x\ndata: lost\n\u{feff}da");
    decoder.restart();
    assert_eq!((decoder.pending(), decoder.is_amid_event()), (0, false));
    assert_eq!(decoder.last_event_id(), Some(&b"1"[..]));
    assert_eq!(decoder.retry(), Some(Duration::from_millis(5)));
    assert_eq!(decode(&mut decoder, "\u{feff}data: a\n\n".as_bytes(), 1), [data("a")]);
    assert_eq!(decoder.last_event_id(), Some(&b"1"[..]));
}

#[test]
fn data_of_just_the_limit_fits() {
    assert_eq!(
        events_within(
            "data: abcd\nid: x\n:\n\ndata: abcde\n\ndata: ab\ndata: c\n\ndata: ab\ndata: cd\n\n",
            4
        ),
        [data("abcd"), oversize(None, true, 5), data("ab\nc"), oversize(None, true, 5)]
    );
    assert_eq!(events_within("data: abcd\ndata\n\n", 4), [oversize(None, true, 5)]);
    assert_eq!(events_within("data: a\n\ndata:\n\n", 0), [oversize(None, true, 1)]);
}

#[test]
fn a_small_buffer_grows_up_to_the_limit() {
    let mut decoder = EventDecoder::new(vec![0; 2], 50);
    assert_eq!(decode(&mut decoder, b"data: {\"jsonrpc\":\"2.0\"}\n\n", 1), [data("{\"jsonrpc\":\"2.0\"}")]);
    assert_eq!(decoder.buffer_len(), 32);
}

#[test]
fn an_oversize_event_gives_its_id_wherever_it_stands() {
    let long = "x".repeat(500);
    let cases = [
        (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"L"}}"#, Some("7"), true),
        (r#"{"jsonrpc":"2.0","result":{"text":"L","id":8},"id":"a-1"}"#, Some(r#""a-1""#), true),
        (r#"{"id":0,"method":"tools/call","params":{"a":"L\"}"}}"#, Some("0"), false),
        (r#"{"id":1,"result":"L","\u0069d":2}"#, None, true),
    ];
    for (text, id, is_response) in cases {
        let text = text.replace('L', &long);
        let stream = std::format!("id: e\nevent: x\ndata: {text}\n:\nfoo: 1\n\ndata: next\n\n");
        let expected = [oversize(id, is_response, text.len() as u64), data("next")];
        assert_eq!(events_within(&stream, 100), expected, "{text}");
        assert_eq!(after(&stream).last_event_id(), Some(&b"e"[..]));
        // The same on several lines.
        let stream = std::format!("data: {}\n\ndata: next\n\n", text.replace(',', ",\ndata: "));
        let length = text.len() as u64 + text.matches(',').count() as u64;
        let expected = [oversize(id, is_response, length), data("next")];
        assert_eq!(events_within(&stream, 100), expected, "{stream}");
    }
}

#[test]
fn memory_stays_bounded_under_an_endless_stream() {
    let endless: [(&[u8], &[u8]); 5] = [
        (b"data: {\"id\":1,\"result\":\"", b"x"),
        (b"", b"data:x\n"),
        (b": ", b"x"),
        (b"", b"x"),
        (b"event: a\ndata: a\n", b"id: x\r"),
    ];
    for (start, again) in endless {
        let mut decoder = EventDecoder::new(vec![0; 65], 64);
        for byte in start.iter().chain(again.iter().cycle().take(100_000)) {
            decoder.space()[0] = *byte;
            decoder.filled(1);
            assert_eq!(decoder.poll_event(), None);
            assert!(decoder.pending() <= 64);
            assert_eq!(decoder.wants_room(), None);
        }
        let last = decode(&mut decoder, b"\n\ndata: a\n\n", 1).pop();
        assert_eq!(last, Some(data("a")));
    }
}

#[test]
fn replacing_the_buffer_keeps_what_is_pending() {
    let mut decoder = EventDecoder::new(vec![0; 40], 30);
    decoder.space()[..31].copy_from_slice(b"data: a\n\ndata: bc\n:\ndata:d\n\ndat");
    decoder.filled(31);
    assert_eq!(decoder.poll_event(), Some(Event::Message { name: b"message", data: b"a" }));
    assert_eq!(decoder.pending(), 22);
    assert_eq!(decoder.replace_buffer(vec![0; 21]), Err(vec![0; 21]));
    assert_eq!(decoder.replace_buffer(vec![0; 22]).map(|old| old.len()), Ok(40));
    assert!(decoder.space().is_empty(), "events must be taken first");
    assert_eq!(decoder.poll_event(), Some(Event::Message { name: b"message", data: b"bc\nd" }));
    assert_eq!(decoder.poll_event(), None);
    assert_eq!(decode(&mut decoder, b"a: ef", 1), []);
    assert_eq!(decoder.replace_buffer(vec![0; 2]).map(|old| old.len()), Ok(22));
    assert_eq!(decode(&mut decoder, b"g\ndata: h\n\n", 1), [data("efg\nh")]);
}

#[test]
fn one_line_of_data_is_not_moved() {
    let mut decoder = EventDecoder::new(vec![0; 100], 100);
    let stream = b"event: x\ndata: abc\nid: 1\n\n";
    decoder.space()[..stream.len()].copy_from_slice(stream);
    decoder.filled(stream.len());
    let at = decoder.buffer.as_ptr().addr();
    let Some(Event::Message { data, .. }) = decoder.poll_event() else { panic!() };
    assert_eq!((data, data.as_ptr().addr() - at), (&b"abc"[..], 15));
}

#[test]
fn claims_of_too_many_bytes_are_cut() {
    let mut decoder = EventDecoder::new(*b"data", 3);
    decoder.filled(usize::MAX);
    assert_eq!(decoder.pending(), 4);
    assert!(decoder.space().is_empty(), "events must be taken first");
    assert_eq!(decoder.poll_event(), None);
    assert_eq!(decoder.space().len(), 4);
    decoder.filled(0);
    assert_eq!(decoder.pending(), 0);
}

#[test]
fn shows_no_bytes_in_debug_output() {
    let mut decoder = EventDecoder::new([0; 16], 16);
    decoder.space()[..11].copy_from_slice(b"data: secre");
    decoder.filled(11);
    assert_eq!(decoder.poll_event(), None);
    let shown = std::format!("{decoder:?}");
    assert!(shown.contains("data: 5") && !shown.contains("115"), "{shown}");
}
