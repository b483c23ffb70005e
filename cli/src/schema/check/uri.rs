//! What a reference is, seen from an address (RFC 3986, section 5.2).
//!
//! Nothing is checked and nothing normalised but the dots in a path: two addresses are the same if their characters are.
//! One that differs in any other way is unknown, and then no verdict is the right one.

/// The parts of an address before its path.
#[derive(Debug, Clone, Copy)]
struct Parts<'a> {
    /// With its colon.
    scheme: &'a str,
    /// With its slashes.
    authority: &'a str,
    path: &'a str,
    /// With its question mark.
    query: &'a str,
}

impl<'a> Parts<'a> {
    /// `address` has no fragment.
    fn of(address: &'a str) -> Self {
        let (scheme, rest) = match address.find([':', '/', '?']) {
            Some(at) if at > 0 && address.as_bytes().get(at) == Some(&b':') => address.split_at(at + 1),
            _ => ("", address),
        };
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let authority = match rest.strip_prefix("//") {
            Some(host) => 2 + host.find('/').unwrap_or(host.len()),
            None => 0,
        };
        let (authority, path) = rest.split_at(authority);
        Self { scheme, authority, path, query }
    }
}

/// An address and the fragment that follows it.
pub(super) fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// The address that `reference` has where `base` is the address; both without a fragment.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let (from, to) = (Parts::of(base), Parts::of(reference));
    let whole = |scheme: &str, authority: &str, path: &str, query: &str| {
        // Only paths from a root have dots to remove; `urn:` and relative bases keep theirs.
        let path = if path.starts_with('/') { without_dots(path) } else { path.to_owned() };
        format!("{scheme}{authority}{path}{query}")
    };
    if !to.scheme.is_empty() {
        return whole(to.scheme, to.authority, to.path, to.query);
    }
    if !to.authority.is_empty() {
        return whole(from.scheme, to.authority, to.path, to.query);
    }
    if to.path.is_empty() {
        return whole(from.scheme, from.authority, from.path, to.query);
    }
    if to.path.starts_with('/') {
        return whole(from.scheme, from.authority, to.path, to.query);
    }
    let folder = match from.path.rfind('/') {
        Some(at) => from.path.split_at(at + 1).0,
        None if from.authority.is_empty() => "",
        None => "/",
    };
    whole(from.scheme, from.authority, &format!("{folder}{}", to.path), to.query)
}

/// A path without `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            "." | ".." => {
                if part == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_seen_from_addresses() {
        let base = "http://a.example/b/c/d?q";
        for (base, reference, is) in [
            (base, "", base),
            (base, "g", "http://a.example/b/c/g"),
            (base, "./g?y", "http://a.example/b/c/g?y"),
            (base, "g/", "http://a.example/b/c/g/"),
            (base, "/g", "http://a.example/g"),
            (base, "//h.example/x", "http://h.example/x"),
            (base, "?y", "http://a.example/b/c/d?y"),
            (base, "..", "http://a.example/b/"),
            (base, "../../../g", "http://a.example/g"),
            (base, "./../g/.", "http://a.example/b/g/"),
            (base, "urn:x:y", "urn:x:y"),
            (base, "g/a:b", "http://a.example/b/c/g/a:b"),
            (base, "http://b.example/./x/../y", "http://b.example/y"),
            ("http://a.example", "g", "http://a.example/g"),
            ("http://a.example?q", "?r", "http://a.example?r"),
            ("file:///folder/file.json", "other.json", "file:///folder/other.json"),
            ("urn:example:1", "x", "urn:x"),
            ("", "x", "x"),
            ("", "a/../x", "a/../x"),
            ("list", "item", "item"),
            ("a/list", "item", "a/item"),
            ("tree.json", "/x", "/x"),
        ] {
            assert_eq!(resolve(base, reference), is, "{base} {reference}");
        }
        assert_eq!(split("a#b#c"), ("a", "b#c"));
        assert_eq!(split("a"), ("a", ""));
    }
}
