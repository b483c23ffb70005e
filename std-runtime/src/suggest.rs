//! "Did you mean …?": the closest of a set of words to a mistyped one.

/// The candidate that a person most likely meant by `word`, if any is close enough to say so.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = word.to_lowercase().chars().collect();
    let limit = (wanted.len() / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other: Vec<char> = candidate.to_lowercase().chars().collect();
            // A word that is the start of just one other is as good as a typo.
            let distance = if wanted.len() >= 3 && other.starts_with(&wanted) {
                1
            } else if wanted.len().abs_diff(other.len()) > limit {
                return None;
            } else {
                distance(&wanted, &other)
            };
            (distance <= limit).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits between two words; swapping two neighbours is one edit.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_found_and_far_ones_are_not() {
        let names = ["files", "github", "everything"];
        assert_eq!(nearest("fiels", names), Some("files"));
        assert_eq!(nearest("GitHub", names), Some("github"));
        assert_eq!(nearest("gitub", names), Some("github"));
        assert_eq!(nearest("every", names), Some("everything"));
        assert_eq!(nearest("slack", names), None);
        assert_eq!(nearest("f", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn edits() {
        let d = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(d("", ""), 0);
        assert_eq!(d("abc", ""), 3);
        assert_eq!(d("kitten", "sitting"), 3);
        assert_eq!(d("ab", "ba"), 1);
    }
}
