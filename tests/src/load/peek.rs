//! Finds the few members of a message that a hop has to know, and steps over the rest without looking at it.
//!
//! For messages of programs that are trusted to write JSON: it does not validate.

use std::ops::Range;

use memchr::memchr2;

/// Where the members of a message are.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The id, raw.
    pub id: Option<Range<usize>>,
    /// The method, without its quotes.
    pub method: Option<Range<usize>>,
    /// The parameters, or the result.
    pub body: Option<Range<usize>>,
    /// It is an error.
    pub is_error: bool,
}

/// The members of a message; `None` if it is no object.
#[must_use]
pub fn peek(line: &[u8]) -> Option<Peek> {
    let mut peek = Peek::default();
    let start = space(line, 0);
    walk(line, start, |key, value| {
        match key {
            b"id" => peek.id = Some(value),
            b"method" => peek.method = Some(value.start + 1..value.end - 1),
            b"params" | b"result" => peek.body = Some(value),
            b"error" => peek.is_error = true,
            _ => {}
        }
        true
    })?;
    Some(peek)
}

/// The value of a member of the object that starts at `object`.
#[must_use]
pub fn member(line: &[u8], object: usize, name: &[u8]) -> Option<Range<usize>> {
    let mut found = None;
    walk(line, object, |key, value| {
        let is_it = key == name;
        if is_it {
            found = Some(value);
        }
        !is_it
    })?;
    found
}

/// Shows the members of the object at `at` one by one, as long as that is wanted.
fn walk(line: &[u8], at: usize, mut show: impl FnMut(&[u8], Range<usize>) -> bool) -> Option<()> {
    if line.get(at) != Some(&b'{') {
        return None;
    }
    let mut at = space(line, at + 1);
    while line.get(at) == Some(&b'"') {
        let key_end = string(line, at)?;
        let colon = space(line, key_end);
        if line.get(colon) != Some(&b':') {
            return None;
        }
        let value = space(line, colon + 1);
        let end = skip(line, value)?;
        if !show(line.get(at + 1..key_end - 1)?, value..end) {
            return Some(());
        }
        at = space(line, end);
        if line.get(at) == Some(&b',') {
            at = space(line, at + 1);
        }
    }
    (line.get(at) == Some(&b'}')).then_some(())
}

/// Where the value that starts at `at` ends.
fn skip(line: &[u8], at: usize) -> Option<usize> {
    match line.get(at)? {
        b'"' => string(line, at),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0, at);
            loop {
                match line.get(at)? {
                    b'"' => {
                        at = string(line, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let rest = line.get(at..)?;
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
            Some(at + rest.iter().position(is_end).unwrap_or(rest.len()))
        }
    }
}

/// Where the string that starts at `at` ends, after its quote.
fn string(line: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        let found = at + memchr2(b'"', b'\\', line.get(at..)?)?;
        match line.get(found)? {
            b'"' => return Some(found + 1),
            _ => at = found + 2,
        }
    }
}

fn space(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The number that raw bytes are.
#[must_use]
pub fn number(raw: &[u8]) -> Option<u64> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_wherever_they_stand() {
        let line = br#" {"result" : {"a":[{"id":9}, "}\"{"], "text":"x"} ,"id":"7\"" , "jsonrpc":"2.0"}"#;
        let found = peek(line).unwrap();
        assert_eq!(&line[found.id.unwrap()], br#""7\"""#);
        let body = found.body.unwrap();
        assert_eq!(&line[member(line, body.start, b"text").unwrap()], br#""x""#);
        assert_eq!(member(line, body.start, b"id"), None);
        let asked = br#"{"method":"tools/call","id":12}"#;
        let found = peek(asked).unwrap();
        assert_eq!(
            (&asked[found.method.unwrap()], number(&asked[found.id.unwrap()])),
            (&b"tools/call"[..], Some(12))
        );
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        let line = br#"{"id":1,"result":{"text":"\\"}}"#;
        assert!(peek(line).is_some());
        for end in 0..line.len() {
            assert_eq!(peek(&line[..end]), None, "{end}");
        }
    }
}
