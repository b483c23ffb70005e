//! Which members or items of one value some keyword has judged: what `unevaluatedProperties` and `unevaluatedItems` ask
//! for.

use serde_json::Value as Json;

/// One bit for each member of an object or item of an array, by position.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
}

impl Seen {
    /// None of them, yet.
    pub(super) fn none_of(value: &Json) -> Self {
        let parts = match value {
            Json::Array(items) => items.len(),
            Json::Object(members) => members.len(),
            _ => 0,
        };
        Self { words: vec![0; parts.div_ceil(64)] }
    }

    /// How much work it is to make or to add one.
    pub(super) fn cost(&self) -> usize {
        1 + self.words.len()
    }

    pub(super) fn mark(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    pub(super) fn mark_all(&mut self) {
        self.words.fill(u64::MAX);
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.words.get(index / 64).is_none_or(|word| word & (1 << (index % 64)) != 0)
    }

    /// Adds what another has of the same value.
    pub(super) fn add(&mut self, other: &Self) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_kept_by_position_and_added() {
        let value = Json::from(vec![0; 130]);
        let (mut one, mut other) = (Seen::none_of(&value), Seen::none_of(&value));
        one.mark(0);
        one.mark(64);
        other.mark(129);
        other.mark(1000);
        one.add(&other);
        let seen: Vec<usize> = (0..130).filter(|index| one.has(*index)).collect();
        assert_eq!(seen, [0, 64, 129]);
        assert_eq!((other.has(0), one.cost()), (false, 4));
        one.mark_all();
        assert!((0..130).all(|index| one.has(index)));
    }
}
