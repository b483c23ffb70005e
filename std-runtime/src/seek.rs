//! Looking for a few bytes in what is mostly short.
//!
//! `memchr` is quick where there is much to look through. Its first use in a process asks the processor what it can do, which
//! a virtual machine has to ask its host: some 30 microseconds, of a command that takes a thousand.

use memchr::memmem;

/// As much is looked through byte by byte.
const SHORT: usize = 2 << 10;

/// Where the first `byte` is.
pub(crate) fn byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (short, rest) = bytes.split_at_checked(SHORT).unwrap_or((bytes, &[]));
    match short.iter().position(|one| *one == byte) {
        None if !rest.is_empty() => memchr::memchr(byte, rest).map(|at| short.len() + at),
        found => found,
    }
}

/// Whether `part` is somewhere.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    match bytes.len() <= SHORT && !part.is_empty() {
        true => bytes.windows(part.len()).any(|window| window == part),
        false => memmem::find(bytes, part).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_it_is() {
        for length in [0, 1, 7, SHORT - 1, SHORT, SHORT + 1, 3 * SHORT] {
            let mut bytes = vec![b'x'; length];
            assert_eq!((byte(b'\n', &bytes), contains(&bytes, b"\ny")), (None, false));
            for at in [0, 1, length / 2, SHORT - 2, SHORT - 1, SHORT, length.saturating_sub(2)] {
                if at + 2 <= length {
                    bytes[at..at + 2].copy_from_slice(b"\ny");
                    assert_eq!((byte(b'\n', &bytes), contains(&bytes, b"\ny")), (Some(at), true), "{length}");
                    bytes[at..at + 2].copy_from_slice(b"xx");
                }
            }
        }
        assert!(contains(b"", b"") && contains(b"a", b""));
    }
}
