//! What the other tests rely on: a home that is left with something in it fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::Duration;

use drowse_tests::harness::{Home, belonging_to};

fn fails_when_dropped(home: Home) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(home))).is_err()
}

#[test]
fn a_home_in_which_all_is_closed_is_fine() {
    let home = Home::new();
    home.connect("@awake", &[], &["--grandchild-setsid"]);
    home.connect("@asleep", &["--lazy"], &[]);
    assert_ne!(belonging_to(home.path()), [] as [u32; 0]);
    let path = home.path().to_owned();
    assert!(!fails_when_dropped(home));
    assert_eq!(belonging_to(&path), [] as [u32; 0]);
}

#[test]
fn a_process_that_is_left_fails_the_test_and_is_ended() {
    let home = Home::new().with_patience(Duration::from_millis(100));
    let mut sleeper = Command::new("sleep");
    let mut sleeper =
        sleeper.arg("600").env("HOME", home.path()).stdin(Stdio::null()).spawn().expect("a process");
    assert!(belonging_to(home.path()).contains(&sleeper.id()));
    assert!(fails_when_dropped(home));
    assert!(!sleeper.wait().unwrap().success(), "it was killed");
}

#[test]
fn a_record_that_is_left_fails_the_test() {
    let home = Home::new();
    home.connect("@s", &["--lazy"], &[]);
    std::fs::create_dir(home.files().sessions().join("not a name")).unwrap();
    assert!(fails_when_dropped(home));
}
