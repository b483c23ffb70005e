//! Giving back the pages of the program itself that were read in to be run or read.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;

use rustix::mm::{Advice, madvise};

/// Where the parts of the program are that nobody ever writes to: code and constants.
static PARTS: OnceLock<Vec<Range<usize>>> = OnceLock::new();

/// Lets the kernel take this program's code and constants out of our memory: what is used again is mapped again from the
/// page cache, a few dozen faults of less than a microsecond each.
///
/// What waits for hours needs a handful of pages, and the rest of what was used once would be counted as ours.
pub(crate) fn release_program() {
    for part in PARTS.get_or_init(find) {
        // SAFETY: the range is a private mapping of a file by a segment that is not writable, not even while the program
        // is being linked, so no page of it differs from the file; to drop them loses nothing, and using them maps them
        // again. A failure leaves all as it was.
        let _ = unsafe { madvise(part.start as *mut _, part.len(), Advice::LinuxDontNeed) };
    }
}

/// Gives free memory of the heap back.
pub(crate) fn release_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it touches only what is free.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The loaded segments of this program that are not writable. Those that are protected once they are relocated are
/// writable ones.
fn find() -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    // SAFETY: the callback is called before this returns, with a pointer to `parts`, which nothing else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(of_program), (&raw mut parts).cast()) };
    parts
}

/// Gets what is loaded, the program first.
unsafe extern "C" fn of_program(info: *mut libc::dl_phdr_info, _size: usize, parts: *mut c_void) -> c_int {
    // SAFETY: the linker passes what it describes, and `find` a pointer to its list.
    let (info, parts) = unsafe { (&*info, &mut *parts.cast::<Vec<Range<usize>>>()) };
    if info.dlpi_phdr.is_null() {
        return 1;
    }
    // SAFETY: that is where the headers are, so many of them, for as long as the program runs.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let page = rustix::param::page_size();
    for header in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_W == 0) {
        let start = (info.dlpi_addr + header.p_vaddr) as usize;
        let end = start + header.p_memsz as usize;
        // Whole pages that hold nothing else.
        let (start, end) = (start.next_multiple_of(page), end / page * page);
        if start < end {
            parts.push(start..end);
        }
    }
    // The libraries after it are shared with others.
    1
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    static WORDS: [&str; 3] = ["one", "two", "three"];

    #[test]
    fn a_program_without_its_pages_runs_on() {
        let parts = find();
        let holds = |address: usize| parts.iter().any(|part| part.contains(&address));
        assert!(holds(a_program_without_its_pages_runs_on as *const () as usize), "code");
        assert!(holds(WORDS[0].as_ptr() as usize), "constants");
        // Pointers are written into it when the program is linked.
        assert!(!holds(WORDS.as_ptr() as usize), "what is relocated");
        for round in 0..3 {
            release_program();
            assert_eq!((format!("{round}").len(), WORDS.concat().as_str()), (1, "onetwothree"));
        }
    }

    #[test]
    fn only_what_is_mapped_without_a_right_to_write() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        for part in find() {
            let line = maps.lines().find(|line| {
                let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
                let address = |text| usize::from_str_radix(text, 16).unwrap();
                (address(start)..address(end)).contains(&part.start)
            });
            let mode = line.unwrap().split(' ').nth(1).unwrap();
            assert!(matches!(mode, "r-xp" | "r--p"), "{line:?}");
        }
    }
}
