//! How long ago something was, in a word or two.

/// How long ago, given in milliseconds: `5 s`, `3 min`, `3 h`, `2 d`.
pub(crate) fn ago(ms_since: u64) -> String {
    let seconds = ms_since / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_unit_that_is_full() {
        for (ms, text) in [
            (0, "0 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (3_599_999, "59 min"),
            (3 * 3_600_000, "3 h"),
            (86_400_000 * 2 + 5, "2 d"),
            (u64::MAX, "213503982334 d"),
        ] {
            assert_eq!(ago(ms), text);
        }
    }
}
