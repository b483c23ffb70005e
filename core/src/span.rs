//! A byte range of a frame.
//!
//! Payloads stay in the buffers of the caller; what the core hands out are ranges of them. A span knows nothing of
//! the frame that it belongs to: applied to another one it gives other bytes, or none, and never panics.

/// Half-open byte range `start..end` of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The range `start..end`. An `end` before `start` gives an empty range; positions past `u32::MAX` are clamped (no
    /// reader of this crate accepts a frame that long).
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        let start = clamp(start);
        let end = clamp(end);
        Self { start, end: if end < start { start } else { end } }
    }

    /// Position of the first byte.
    #[must_use]
    pub const fn start(self) -> usize {
        self.start as usize
    }

    /// Position after the last byte.
    #[must_use]
    pub const fn end(self) -> usize {
        self.end as usize
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether there is no byte in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The bytes of `bytes` in this range; empty if the range is not inside of it.
    #[must_use]
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start()..self.end()).unwrap_or_default()
    }

    /// This range moved by `by` bytes towards the end: a span of an item, as a span of the frame that holds the item.
    #[must_use]
    pub const fn shifted(self, by: usize) -> Self {
        Self::new(self.start().saturating_add(by), self.end().saturating_add(by))
    }
}

const fn clamp(position: usize) -> u32 {
    if position > u32::MAX as usize { u32::MAX } else { position as u32 }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn gives_its_bytes() {
        let span = Span::new(2, 5);
        assert_eq!(span.of(b"abcdefg"), b"cde");
        assert_eq!((span.start(), span.end(), span.len(), span.is_empty()), (2, 5, 3, false));
        assert_eq!(span.shifted(3), Span::new(5, 8));
    }

    #[test]
    fn out_of_range_is_empty() {
        assert_eq!(Span::new(2, 5).of(b"abcd"), b"");
        assert_eq!(Span::new(9, 9).of(b"abcd"), b"");
        assert_eq!(Span::new(4, 4).of(b"abcd"), b"");
        assert_eq!(Span::new(5, 2), Span::new(5, 5));
        assert!(Span::new(5, 2).is_empty());
        assert!(Span::default().is_empty());
        let far = Span::new(usize::MAX, usize::MAX);
        assert_eq!(far.of(b"abcd"), b"");
        assert_eq!(far.shifted(usize::MAX), far);
    }
}
