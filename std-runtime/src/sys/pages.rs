//! Giving back the pages of the program itself that were read in to be run.
#![allow(unsafe_code)]

use std::fs;
use std::ops::Range;
use std::sync::OnceLock;

use rustix::mm::{Advice, madvise};

/// Where the program's code is mapped.
static CODE: OnceLock<Option<Range<usize>>> = OnceLock::new();

/// Lets the kernel take this program's code out of our memory: what is run again is mapped again from the page cache, a
/// few dozen faults of less than a microsecond each.
///
/// What waits for hours needs a handful of pages, and the rest of what was run once would be counted as ours.
pub(crate) fn release_code() {
    let Some(code) = CODE.get_or_init(find) else { return };
    // SAFETY: the range is a private mapping of a file that was never writable, so no page of it differs from the file;
    // to drop them loses nothing, and running on maps them again. A failure leaves all as it was.
    let _ = unsafe { madvise(code.start as *mut _, code.len(), Advice::LinuxDontNeed) };
}

/// The executable, never writable mapping of this program's file.
fn find() -> Option<Range<usize>> {
    let program = fs::read_link("/proc/self/exe").ok()?;
    let program = program.to_str()?;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ').map(str::trim);
        let (range, mode) = (fields.next()?, fields.next()?);
        let file = fields.nth(3)?;
        if mode != "r-xp" || file != program {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some(address(start)?..address(end)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_was_given_back_runs_on() {
        let code = find().expect("the code of this test");
        assert!(code.contains(&(code_that_was_given_back_runs_on as *const () as usize)));
        for round in 0..3 {
            release_code();
            assert_eq!(format!("{round}").len(), 1);
        }
    }
}
