//! How long ago, how long still: times for people, in one unit each.
//!
//! A time that lies in the future, as after a clock that was set back, is no time to show: it counts as now.

/// A span of so many milliseconds: "5 s", "3 min", "3 h", "2 d".
pub(crate) fn ago(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The same for what is still to come: never less than it is.
pub(crate) fn left(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..5_400 => format!("{} min", seconds.div_ceil(60)),
        5_400..129_600 => format!("{} h", seconds.div_ceil(3_600)),
        _ => format!("{} d", seconds.div_ceil(86_400)),
    }
}

/// How long it has been since then; `None` where that is no time to speak of, or none that can be known.
pub(crate) fn since(at: u64, now: u64) -> Option<u64> {
    now.checked_sub(at).filter(|age| *age >= 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 60_000;

    #[test]
    fn one_unit_says_enough() {
        let spans =
            [(0, "0 s"), (59_999, "59 s"), (MIN, "1 min"), (59 * MIN + 59_999, "59 min"), (60 * MIN, "1 h")];
        for (ms, text) in spans {
            assert_eq!(ago(ms), text);
        }
        assert_eq!((ago(47 * 60 * MIN).as_str(), ago(u64::MAX).ends_with(" d")), ("1 d", true));
    }

    #[test]
    fn what_is_left_is_never_understated() {
        for (ms, text) in [(0, "0 s"), (1, "1 s"), (90_000, "90 s"), (90_001, "2 min"), (239_500, "4 min")] {
            assert_eq!(left(ms), text);
        }
        assert_eq!(left(600_000), "10 min");
        assert_eq!(left(90 * MIN), "2 h");
        assert!(left(u64::MAX).ends_with(" d"));
    }

    #[test]
    fn a_time_to_come_is_now() {
        assert_eq!(since(5_000, 9_000), Some(4_000));
        assert_eq!(since(5_000, 5_999), None);
        assert_eq!(since(9_000, 5_000), None);
        assert_eq!(since(u64::MAX, 0), None);
    }
}
