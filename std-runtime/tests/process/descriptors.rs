//! What a bridge does first: letting go of everything it inherited.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::process::Stdio;

use drowse_runtime::process::{close_descriptors_from, detach_standard_streams};

use crate::alone::again;

#[test]
fn a_bridge_holds_nothing_of_its_starter_but_what_it_keeps() {
    const INNER: &str = "process::descriptors::a_bridge_with_much_inherited";
    let log = tempfile::NamedTempFile::new().unwrap();
    let output = again(INNER).env("DROWSE_TEST_LOG", log.path()).stdin(Stdio::piped()).output().unwrap();
    let mut text = String::new();
    log.as_file().read_to_string(&mut text).unwrap();
    assert!(output.status.success(), "{text} {output:?}");
    assert!(text.contains("to the log"), "{text}");
    for stream in [output.stdout, output.stderr] {
        let stream = String::from_utf8(stream).unwrap();
        assert!(!stream.contains("to the log") && !stream.contains("to nowhere"), "{stream}");
    }
}

#[test]
fn a_bridge_with_much_inherited() {
    let Some(log) = std::env::var_os("DROWSE_TEST_LOG") else { return };
    let first = 100;
    close_descriptors_from(first, &[]).unwrap();
    let leak = || rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), first).unwrap().into_raw_fd();
    let leaked: Vec<RawFd> = (0..20).map(|_| leak()).collect();
    let open = || -> Vec<RawFd> {
        let mut open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .filter(|fd| *fd >= first)
            .collect();
        open.sort_unstable();
        open
    };
    assert_eq!(open(), leaked);
    // Neither sorted nor without repetition, and partly below.
    close_descriptors_from(first, &[leaked[7], leaked[3], leaked[7], leaked[4], 0]).unwrap();
    assert_eq!(open(), [leaked[3], leaked[4], leaked[7]]);
    close_descriptors_from(first, &[]).unwrap();
    assert!(open().is_empty());

    let log = std::fs::File::options().append(true).open(log).unwrap();
    detach_standard_streams(Some(log.as_fd())).unwrap();
    println!("to nowhere");
    eprintln!("to the log");
    let null = std::fs::canonicalize("/dev/null").unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/self/fd/{}", std::io::stdin().as_raw_fd())).unwrap(), null);
    assert_eq!(std::io::stdin().read(&mut [0; 1]).unwrap(), 0);
}
