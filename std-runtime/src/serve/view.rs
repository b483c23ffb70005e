//! The headers of a request for the core.

use ::http::header::{HeaderMap, HeaderValue};
use drowse_core::front::http::Headers;

/// Those that each request is asked for.
const ASKED: [&str; 9] = [
    "host",
    "origin",
    "accept",
    "content-type",
    "content-encoding",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
];

/// The headers of a request. All that are asked for are found in one go: to look each up would cost more.
pub(super) struct View<'h> {
    map: &'h HeaderMap,
    found: [Found<'h>; ASKED.len()],
}

#[derive(Clone, Copy)]
enum Found<'h> {
    Not,
    Once(&'h HeaderValue),
    Often,
}

fn place(name: &str) -> Option<usize> {
    ASKED.iter().position(|asked| *asked == name)
}

impl<'h> View<'h> {
    pub(super) fn new(map: &'h HeaderMap) -> Self {
        let mut found = [Found::Not; ASKED.len()];
        for (name, value) in map {
            if let Some(found) = place(name.as_str()).and_then(|place| found.get_mut(place)) {
                *found = match found {
                    Found::Not => Found::Once(value),
                    Found::Once(_) | Found::Often => Found::Often,
                };
            }
        }
        Self { map, found }
    }
}

impl Headers for View<'_> {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let found = place(name).and_then(|place| self.found.get(place));
        let (once, often) = match found {
            Some(Found::Not) => (None, None),
            Some(Found::Once(value)) => (Some(*value), None),
            Some(Found::Often) | None => (None, Some(self.map.get_all(name))),
        };
        once.into_iter().chain(often.into_iter().flatten()).map(HeaderValue::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_of_a_name_are_found() {
        let mut map = HeaderMap::new();
        for (name, value) in [("accept", "a"), ("x", "1"), ("Host", "h"), ("Accept", "b"), ("x", "2")] {
            let name = ::http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_static(value));
        }
        let view = View::new(&map);
        let all = |name| view.all(name).map(|value| str::from_utf8(value).unwrap()).collect::<Vec<_>>();
        assert_eq!(all("accept"), ["a", "b"]);
        assert_eq!(all("host"), ["h"]);
        assert_eq!(all("x"), ["1", "2"]);
        for none in ["mcp-name", "origin", "y"] {
            assert_eq!(all(none), [""; 0], "{none}");
        }
    }
}
