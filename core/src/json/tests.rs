#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::borrow::ToOwned;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::JsonErrorKind::{
    ByteOrderMark, ControlCharacter, Empty, ExpectedColon, ExpectedCommaOrEnd, ExpectedKey, ExpectedValue,
    InvalidEscape, InvalidNumber, InvalidUtf8, LoneSurrogate, TooDeep, TrailingBytes, UnexpectedEnd,
};
use super::*;

#[test]
fn accepts_every_kind_of_value() {
    let texts: [&[u8]; 24] = [
        b"null",
        b"true",
        b"false",
        b"0",
        b"-0",
        b"-1",
        b"120",
        b"1.50",
        b"0.1e10",
        b"1E+5",
        b"1e-999",
        b"1e999",
        b"\"\"",
        b"\"a\"",
        b"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
        b"\"\\ud800\\udc00\\udbff\\udfff\"",
        "\"\u{7f}é€😀\"".as_bytes(),
        b"[]",
        b"[ ]",
        b"[1,[2,[]],{}]",
        b"{}",
        b"{\t}",
        b"{\"a\":{\"b\":[null]},\"a\":0}",
        b"[\"\",\"\"]",
    ];
    for text in texts {
        assert_eq!(scan(text), Ok(Span::new(0, text.len())), "{}", text.escape_ascii());
        let padded = [b" \r\n\t", text, b"\t\n\r "].concat();
        assert_eq!(scan(&padded), Ok(Span::new(4, 4 + text.len())), "{}", padded.escape_ascii());
    }
}

#[test]
fn names_what_is_wrong_and_where() {
    let cases: [(&[u8], JsonErrorKind, u32); 64] = [
        (b"", Empty, 0),
        (b" \n", Empty, 2),
        (b"\xef\xbb\xbf{}", ByteOrderMark, 0),
        (b"\xff\xfe{\0}\0", ByteOrderMark, 0),
        (b"\xfe\xff\0{\0}", ByteOrderMark, 0),
        (b" \xef\xbb\xbf{}", ExpectedValue, 1),
        (b"{} {}", TrailingBytes, 3),
        (b"1 \0", TrailingBytes, 2),
        (b"01", TrailingBytes, 1),
        (b"nulll", TrailingBytes, 4),
        (b"[", UnexpectedEnd, 1),
        (b"[1", UnexpectedEnd, 2),
        (b"[1,", UnexpectedEnd, 3),
        (b"{", UnexpectedEnd, 1),
        (b"{\"a\"", UnexpectedEnd, 4),
        (b"{\"a\":", UnexpectedEnd, 5),
        (b"{\"a\":1", UnexpectedEnd, 6),
        (b"{\"a\":1,", UnexpectedEnd, 7),
        (b"\"abc", UnexpectedEnd, 4),
        (b"\"abcdefghijk", UnexpectedEnd, 12),
        (b"\"\\", UnexpectedEnd, 1),
        (b"\"\\u12", UnexpectedEnd, 5),
        (b"\"\\u", UnexpectedEnd, 3),
        (b"tru", UnexpectedEnd, 3),
        (b"-", UnexpectedEnd, 1),
        (b"1.", UnexpectedEnd, 2),
        (b"1e", UnexpectedEnd, 2),
        (b"1e+", UnexpectedEnd, 3),
        (b"]", ExpectedValue, 0),
        (b"[1,]", ExpectedValue, 3),
        (b"[,1]", ExpectedValue, 1),
        (b"{\"a\":}", ExpectedValue, 5),
        (b"'a'", ExpectedValue, 0),
        (b"+1", ExpectedValue, 0),
        (b".5", ExpectedValue, 0),
        (b"NaN", ExpectedValue, 0),
        (b"nul ", ExpectedValue, 0),
        (b"True", ExpectedValue, 0),
        (b"/**/1", ExpectedValue, 0),
        (b"{a:1}", ExpectedKey, 1),
        (b"{1:1}", ExpectedKey, 1),
        (b"{\"a\":1,}", ExpectedKey, 7),
        (b"{,}", ExpectedKey, 1),
        (b"{\"a\" 1}", ExpectedColon, 5),
        (b"{\"a\"}", ExpectedColon, 4),
        (b"[1 2]", ExpectedCommaOrEnd, 3),
        (b"[1}", ExpectedCommaOrEnd, 2),
        (b"{\"a\":1]", ExpectedCommaOrEnd, 6),
        (b"{\"a\":1 \"b\":2}", ExpectedCommaOrEnd, 7),
        (b"-a", InvalidNumber, 1),
        (b"1.e5", InvalidNumber, 2),
        (b"1ex", InvalidNumber, 2),
        (b"\"a\nb\"", ControlCharacter, 2),
        (b"\"abcdefgh\x1f\"", ControlCharacter, 9),
        (b"\"\\x\"", InvalidEscape, 1),
        (b"\"\\u00g0\"", InvalidEscape, 1),
        (b"\"\\u12\"", InvalidEscape, 1),
        (b"\"a\\ud800\"", LoneSurrogate, 2),
        (b"\"\\udc00\\ud800\"", LoneSurrogate, 1),
        (b"\"\\ud800\\u0041\"", LoneSurrogate, 1),
        (b"{\"\\udfff\":1}", LoneSurrogate, 2),
        (b"[\"\xff\"]", InvalidUtf8, 2),
        (b"[\"abcdefgh\xed\xa0\x80\"]", InvalidUtf8, 10),
        (b"\"\xc3\"", InvalidUtf8, 1),
    ];
    for (text, kind, offset) in cases {
        assert_eq!(scan(text), Err(JsonError { kind, offset }), "{}", text.escape_ascii());
    }
    assert_eq!(
        format!("{}", scan(b"\xef\xbb\xbf{}").unwrap_err()),
        "a byte-order mark before the JSON text at byte 0"
    );
    assert!(format!("{}", scan(br#""\ud800""#).unwrap_err()).contains("lone surrogate"));
}

#[test]
fn depth_is_bounded_and_counted_exactly() {
    let nest = |depth: usize, open: &[u8], close: &[u8]| {
        [open.repeat(depth), b"1".to_vec(), close.repeat(depth)].concat()
    };
    for depth in [1, 63, 64, 65, 127, 128, 129, 1023, MAX_DEPTH] {
        for text in [nest(depth, b"[", b"]"), nest(depth, b"{\"a\":", b"}")] {
            assert_eq!(scan(&text), Ok(Span::new(0, text.len())), "{depth}");
        }
    }
    let text = nest(MAX_DEPTH + 1, b"[", b"]");
    assert_eq!(scan(&text), Err(JsonError { kind: TooDeep, offset: 1024 }));
    // Ends without ends, as an attacker would send them.
    assert_eq!(scan(&b"[".repeat(1_000_000)).unwrap_err().kind, TooDeep);
    // Which of the open ones are objects is remembered across the words of the stack.
    let mixed = nest(200, b"[{\"a\":[", b"]}]");
    assert_eq!(scan(&mixed), Ok(Span::new(0, mixed.len())));
    let mut wrong = mixed;
    let last = wrong.len() - 2;
    wrong[last] = b']';
    assert_eq!(scan(&wrong).unwrap_err(), JsonError { kind: ExpectedCommaOrEnd, offset: last as u32 });
}

#[test]
fn walks_objects_and_arrays() {
    let text = br#" { "a" : 1 , "b":[true, {"a":2}] ,"\u0061":3,"":"x"} "#;
    let object = scan(text).unwrap();
    let found: Vec<(&[u8], &[u8])> =
        members(text, object).map(|member| (member.key.of(text), member.value.of(text))).collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"\"a\"", b"1"), (b"\"b\"", br#"[true, {"a":2}]"#), (b"\"\\u0061\"", b"3"), (b"\"\"", b"\"x\"")];
    assert_eq!(found, expected);
    assert_eq!(member(text, object, "a").map(|span| span.of(text)), Some(&b"1"[..]), "the first of two");
    assert_eq!(member(text, object, "").map(|span| span.of(text)), Some(&b"\"x\""[..]));
    assert_eq!(member(text, object, "c"), None);

    let array = member(text, object, "b").unwrap();
    let items: Vec<Span> = elements(text, array).collect();
    assert_eq!(items.iter().map(|item| item.of(text)).collect::<Vec<_>>(), [&b"true"[..], b"{\"a\":2}"]);
    assert_eq!(member(text, items[1], "a").map(|span| span.of(text)), Some(&b"2"[..]));
    assert_eq!(member(text, array, "a"), None);
    assert_eq!(elements(text, object).count(), 0);
    assert_eq!(elements(b"[]", Span::new(0, 2)).count(), 0);
    assert_eq!(members(b"{}", Span::new(0, 2)).count(), 0);
}

#[test]
fn a_name_is_found_under_any_spelling() {
    let text = br#"{"\u005fmeta":1}"#;
    assert_eq!(member(text, scan(text).unwrap(), "_meta"), Some(Span::new(14, 15)));
}

#[test]
fn walks_of_garbage_end() {
    let text = b"{\"a\":1,{]";
    assert_eq!(members(text, Span::new(0, 9)).count(), 1);
    assert_eq!(members(text, Span::new(0, 4)).count(), 0);
    assert_eq!(members(text, Span::new(5, 2)).count(), 0);
    assert_eq!(members(text, Span::new(0, 100)).count(), 0);
    assert_eq!(elements(b"[1,2", Span::new(0, 4)).count(), 2);
}

#[test]
fn a_walk_goes_on_after_any_element() {
    for text in [&b" [ 1 , [2,3] ,{\"a\":4}, \"5,6\" ] "[..], b"[]", b"[1]", b"[1,2"] {
        let array =
            Span::new(text.iter().position(|byte| *byte == b'[').unwrap(), text.trim_ascii_end().len());
        let all: Vec<Span> = elements(text, array).collect();
        for (at, last) in all.iter().enumerate() {
            assert_eq!(elements_after(text, array, *last).collect::<Vec<_>>(), all[at + 1..]);
        }
        // Not one of its elements: nothing outside of it is walked over.
        for end in 0..text.len() + 3 {
            let after = elements_after(text, array, Span::new(end, end));
            assert!(after.into_iter().all(|one| one.end() <= array.end()));
        }
    }
    assert_eq!(elements_after(b"{1,2}", Span::new(0, 5), Span::new(1, 2)).count(), 0);
}

#[test]
fn compares_strings_after_unescaping() {
    assert!(str_eq(b"\"\"", ""));
    assert!(str_eq(br#""a\u0062\n\/\"\\""#, "ab\n/\"\\"));
    assert!(str_eq(r#""é\u00e9\ud83d\ude00😀""#.as_bytes(), "éé😀😀"));
    // What must be escaped stands for nothing where it is not.
    assert!(!str_eq(b"\"a\"b\"", "a\"b"));
    assert!(!str_eq(br#""a\b""#, r"a\b"));
    assert!(!str_eq(b"\"a\nb\"", "a\nb"));
    assert!(!str_eq(b"\"ab\"", "a"));
    // An escape within what is the same so far, and one behind what is not.
    assert!(str_eq(br#""\u005cu00""#, r"\u00"));
    assert!(str_eq(br#""\\\\x""#, r"\\x"));
    assert!(str_eq(br#""abc\u0064""#, "abcd"));
    assert!(!str_eq(br#""abX\u0064""#, "abcd"));
    assert!(!str_eq(br#""abcd\u0065""#, "abcd"));
    // The same in the second word, where escapes are looked for in words.
    assert!(str_eq(br#""12345678abc\u0064""#, "12345678abcd"));
    assert!(str_eq(br#""1234567\u005cu00""#, r"1234567\u00"));
    assert!(str_eq(br#""1234\u0035678abc""#, "12345678abc"));
    assert!(!str_eq(br#""12345678aXc\u0064""#, "12345678abcd"));
    assert!(!str_eq(b"\"12345\t78\"", "12345\t78"));
    assert!(str_eq("\"1234é678é\"".as_bytes(), "1234é678é"));
    assert!(!str_eq(b"\"a\"", "ab"));
    for garbage in [&b""[..], b"\"", b"a", b"\"a", b"a\"", b"\"\\\"", b"\"\\ud800\"", b"\"\\x\"", b"\"a\"a\""]
    {
        for text in ["", "a", "\"", "a\"a", "\u{fffd}"] {
            assert!(!str_eq(garbage, text), "{garbage:?} {text:?}");
        }
    }
}

#[test]
fn unescapes_into_the_buffer_of_the_caller() {
    let mut out = [0; 12];
    assert_eq!(unescape(r#""a\n\u00e9\ud83d\ude00é""#.as_bytes(), &mut out), Some("a\né😀é"));
    assert_eq!(unescape(br#""twelve bytes""#, &mut out), Some("twelve bytes"));
    assert_eq!(unescape(br#""thirteen byte""#, &mut out), None);
    assert_eq!(unescape(br#""elevenbytes\u00e9""#, &mut out), None);
    assert_eq!(unescape(b"\"\"", &mut []), Some(""));
    assert_eq!(unescape(b"1", &mut out), None);
    assert_eq!(unescape(b"\"\xff\"", &mut out), None);
    assert_eq!(unescape(br#""\udc00""#, &mut out), None);
}

#[test]
fn reads_exact_integers_only() {
    assert_eq!(as_u64(b"0"), Some(0));
    assert_eq!(as_u64(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(as_i64(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(as_i64(b"9223372036854775807"), Some(i64::MAX));
    assert_eq!(as_i64(b"-1"), Some(-1));
    for raw in
        [&b""[..], b"-", b"+1", b"01", b"-0", b"-01", b"1.0", b"1e3", b" 1", b"1 ", b"\"1\"", b"0x1", b"--1"]
    {
        assert_eq!((as_u64(raw), as_i64(raw)), (None, None), "{}", raw.escape_ascii());
    }
    assert_eq!(as_u64(b"18446744073709551616"), None);
    assert_eq!(as_u64(b"99999999999999999999999"), None);
    assert_eq!(as_u64(b"-1"), None);
    assert_eq!(as_i64(b"-9223372036854775809"), None);
    assert_eq!(as_i64(b"9223372036854775808"), None);
    for (raw, integer) in [
        (&b"-0"[..], true),
        (b"123456789012345678901234567890", true),
        (b"1.0", false),
        (b"-", false),
        (b"00", false),
    ] {
        assert_eq!(is_integer(raw), integer);
    }
}

#[test]
fn tells_types_apart() {
    let kinds = |raw: &[u8]| (is_object(raw), is_array(raw), is_string(raw));
    assert_eq!(kinds(b"{}"), (true, false, false));
    assert_eq!(kinds(b"[]"), (false, true, false));
    assert_eq!(kinds(b"\"\""), (false, false, true));
    assert_eq!(kinds(b"1"), (false, false, false));
    assert_eq!(kinds(b""), (false, false, false));
}

#[test]
fn finds_the_stop_at_every_position_of_long_strings() {
    // Around the ends of words, and of the windows in which long strings are searched.
    for length in (0..200).chain(535..555).chain(1050..1070) {
        for (stop, result) in [(&b"\""[..], None), (b"\n", Some(ControlCharacter)), (b"\\n\"", None)] {
            let text = [b"\"", &*vec![b'x'; length], stop].concat();
            assert_eq!(scan(&text).err().map(|error| error.kind), result, "{length} {stop:?}");
        }
        let pair = [b"[\"", &*vec![b'x'; length], b"\",\"", &[b'y'; 60], b"\"]"].concat();
        let ends: Vec<usize> = elements(&pair, scan(&pair).unwrap()).map(Span::end).collect();
        assert_eq!(ends, [length + 3, length + 66]);
        let cut = [b"\"", &*vec![b'x'; length]].concat();
        assert_eq!(scan(&cut), Err(JsonError { kind: UnexpectedEnd, offset: length as u32 + 1 }));
        let accented = ["\"", &"x".repeat(length), "é\""].concat();
        assert!(scan(accented.as_bytes()).is_ok());
        let broken = [b"\"", &*vec![b'x'; length], b"\xc3\""].concat();
        assert_eq!(scan(&broken), Err(JsonError { kind: InvalidUtf8, offset: length as u32 + 1 }));
    }
}

#[test]
fn accepts_the_utf8_that_core_accepts() {
    let edges = [0x22, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff];
    for first in 0x7f..=0xff {
        for second in (0x20..=0xff).filter(|&byte| byte != b'\\' && byte != b'"') {
            for third in edges {
                for fourth in edges {
                    let text = [b'"', first, second, third, fourth, b'"'];
                    // The string ends at the first quote behind the two.
                    let end = text.iter().skip(1).position(|&byte| byte == b'"').unwrap() + 2;
                    let error = scan(&text).err().filter(|error| error.kind != TrailingBytes);
                    let valid = core::str::from_utf8(&text[..end]);
                    assert_eq!(error.is_none(), valid.is_ok(), "{}", text.escape_ascii());
                    if let (Some(error), Err(invalid)) = (error, valid) {
                        assert_eq!((error.kind, error.offset as usize), (InvalidUtf8, invalid.valid_up_to()));
                    }
                }
            }
        }
    }
}

#[test]
fn escapes_may_stand_anywhere_in_a_word() {
    // Also next to what a borrow in the search makes look like a find: `#` behind a quote, `]` behind a backslash.
    for escape in
        ["\\\"#", "\\\\]", "\\n", "\\\"\\\"", "\\\\\\\\", "\\u0041", "\\ud83d\\ude00", "é", "\\né\\\""]
    {
        for before in 0..20 {
            for after in 0..20 {
                let text = format!("\"{}{escape}{}\"", "x".repeat(before), "y".repeat(after));
                assert_eq!(scan(text.as_bytes()), Ok(Span::new(0, text.len())), "{text}");
                let wrong = text.replace('y', "\t");
                let at = 1 + before + escape.len();
                let error = JsonError { kind: ControlCharacter, offset: at as u32 };
                assert_eq!(scan(wrong.as_bytes()).err(), (after > 0).then_some(error), "{wrong:?}");
            }
        }
    }
}

proptest! {
    /// Whatever is escaped and wherever they differ.
    #[test]
    fn strings_are_equal_if_what_they_stand_for_is(
        chars in prop::collection::vec((prop::sample::select(vec!['a', 'b', 'u', '0', '\\', 'é']), any::<bool>()), 0..24),
        at in 0..24_usize,
        other in prop::sample::select(vec!['a', 'u', '\\', 'é']),
    ) {
        let raw: String = chars.iter().map(|(char, escaped)| match char {
            '\\' if !escaped => r"\\".to_owned(),
            char if *escaped => format!("\\u{:04x}", u32::from(*char)),
            char => char.to_string(),
        }).collect();
        let raw = format!("\"{raw}\"");
        let text: String = chars.iter().map(|(char, _)| *char).collect();
        prop_assert!(str_eq(raw.as_bytes(), &text), "{raw} {text}");
        let changed: String = text.chars().enumerate().map(|(place, char)| if place == at { other } else { char }).collect();
        prop_assert_eq!(str_eq(raw.as_bytes(), &changed), text == changed, "{} {}", raw, changed);
        let longer = format!("{text}{other}");
        prop_assert!(!str_eq(raw.as_bytes(), &longer), "{raw} {longer}");
    }
}
