//! How much memory a process costs.

use std::fs;
use std::ops::AddAssign;

/// How memory was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Pages that several processes share are divided among them, so that sums are true.
    Proportional,
    /// All pages that are there, shared ones too: what is left where the kernel does not tell more.
    Resident,
}

/// The memory of a process, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In bytes.
    pub bytes: u64,
    /// How that was measured; of several, the less exact way.
    pub measure: Measure,
}

impl Memory {
    /// That of the process that has this number now; `None` if there is none, it may not be looked into, or it is a
    /// zombie, which has none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let proportional = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .ok()
            .and_then(|text| field(&text, "Pss:"))
            .map(|bytes| Self { bytes, measure: Measure::Proportional });
        proportional.or_else(|| {
            let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            Some(Self { bytes: field(&text, "VmRSS:")?, measure: Measure::Resident })
        })
    }

    /// None at all.
    pub const NONE: Self = Self { bytes: 0, measure: Measure::Proportional };
}

impl AddAssign for Memory {
    fn add_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        if other.measure == Measure::Resident {
            self.measure = Measure::Resident;
        }
    }
}

/// A field of a file in `/proc` that counts in kB, in bytes.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "7f00-7fff ---p 00000000 00:00 0  [rollup]\nRss:  10 kB\nPss:      7 kB\nPss_Anon: 3 kB\n";
        assert_eq!(field(text, "Pss:"), Some(7 << 10));
        assert_eq!(field(text, "VmRSS:"), None);
        assert_eq!(field("Pss: much", "Pss:"), None);
    }

    #[test]
    fn ours_is_known_and_that_of_nobody_is_not() {
        assert!(Memory::of(std::process::id()).unwrap().bytes > 100 << 10);
        assert_eq!(Memory::of(u32::MAX), None);
    }

    #[test]
    fn sums_are_as_exact_as_their_worst_part() {
        let mut sum = Memory::NONE;
        sum += Memory { bytes: 5, measure: Measure::Proportional };
        assert_eq!(sum, Memory { bytes: 5, measure: Measure::Proportional });
        sum += Memory { bytes: 1, measure: Measure::Resident };
        sum += Memory { bytes: 1, measure: Measure::Proportional };
        assert_eq!(sum, Memory { bytes: 7, measure: Measure::Resident });
    }
}
