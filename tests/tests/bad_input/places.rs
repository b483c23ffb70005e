//! Homes in places where none can be, or where one can be with some care.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use drowse_runtime::home::{HomeError, network_file_system};
use drowse_tests::harness::{Home, Run, Running};

use super::bystander::{Bystander, failure};

/// Runs the binary with these variables.
fn run(home: &Home, variables: &[(&str, &Path)], words: &[&str]) -> Run {
    let mut command = home.command(words);
    command.envs(variables.iter().copied());
    Running::start(command).end()
}

fn connect<'a>(server: &'a [String], name: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    let words = ["connect", name, "--json"].into_iter().chain(flags.iter().copied()).chain(["--"]);
    words.chain(server.iter().map(String::as_str)).collect()
}

/// A session in a home of that place, from its first start over a sleep to its end.
fn lives_in(home: &Home, variables: &[(&str, &Path)]) {
    let name = format!("@{}", "n".repeat(64));
    let session = home.session(&format!("@{}", variables[0].1.as_os_str().len()));
    let server = session.server(&[]);
    run(home, variables, &connect(&server, &name, &["--idle-timeout", "1"])).ok();
    run(home, variables, &[&name, "tools-call", "tag", "tag=a", "--json"]).ok();
    session.wait_for(|entries| entries.iter().any(|entry| entry.event == "exit"));
    run(home, variables, &[&name, "tools-call", "tag", "tag=b", "--json"]).ok();
    assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (2, 1, 1));
    run(home, variables, &["close", &name]).ok();
    let list = run(home, variables, &["--json"]).ok().json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 0);
}

#[test]
fn a_path_longer_than_a_sockets() {
    let home = Home::new();
    let long = home.path().join("d".repeat(200)).join("e".repeat(250)).join("home");
    fs::create_dir_all(long.parent().unwrap()).unwrap();
    lives_in(&home, &[("DROWSE_HOME", &long)]);
    // Just as long as one may be, and the first that is too long, with this name: 107 bytes and 108.
    for length in [107, 108] {
        let home = Home::new();
        let taken = "/sessions/".len() + 64 + "/sock".len() + home.path().as_os_str().len() + 1;
        let Some(rest @ 1..) = usize::checked_sub(length, taken) else {
            return eprintln!("skipped: the temporary directory is too deep");
        };
        lives_in(&home, &[("DROWSE_HOME", &home.path().join("x".repeat(rest)))]);
    }
}

#[test]
fn a_path_longer_than_any_may_be() {
    let home = Home::new();
    let mut long = home.path().to_owned();
    while long.as_os_str().len() < 5000 {
        long.push("f".repeat(200));
    }
    let server = home.session("@s").server(&[]);
    for words in [connect(&server, "@s", &[]), vec!["--json"], vec!["@s", "ping", "--json"]] {
        let document =
            failure(&run(&home, &[("DROWSE_HOME", &long)], &words), 3, "storage", &["DROWSE_HOME"]);
        assert!(
            document["error"].as_str().unwrap().contains("the path of the home is too long"),
            "{document}"
        );
    }
}

#[test]
fn another_place_for_locks_and_sockets() {
    let home = Home::new();
    let runtime = home.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    lives_in(&home, &[("DROWSE_RUNTIME", &runtime)]);
    assert!(!home.files().root().join("locks").exists(), "the locks are there and not here");
    lives_in(&home, &[("DROWSE_RUNTIME", &home.path().join("r".repeat(200)))]);
}

#[test]
fn a_network_file_system() {
    // No mount of one at hand: what statfs tells, and what is said then.
    assert_eq!(network_file_system(0x6969), Some("NFS"));
    let error = HomeError::Network { path: PathBuf::from("/net/home/locks"), kind: "NFS" }.to_string();
    for says in
        ["/net/home/locks", "network file system (NFS)", "set DROWSE_RUNTIME to a directory on a local disk"]
    {
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn places_where_none_can_be() {
    let home = Home::new();
    let server = home.session("@s").server(&[]);
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let taken = home.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("sessions"), "").unwrap();
    let relative = Path::new("some/where");
    for (variable, place, says) in [
        ("DROWSE_HOME", relative, "must be an absolute path"),
        ("DROWSE_RUNTIME", relative, "must be an absolute path"),
        ("DROWSE_HOME", &file, "is not a directory: move it away"),
        ("DROWSE_RUNTIME", &file, "is not a directory: move it away"),
        ("DROWSE_HOME", &file.join("deeper"), "is not a directory"),
        ("DROWSE_HOME", &taken, "is not a directory: move it away"),
        ("DROWSE_HOME", &open, "chmod go-w"),
        ("DROWSE_HOME", Path::new("/proc/1/drowse"), "cannot create /proc/1/drowse"),
    ] {
        let words = connect(&server, "@s", &[]);
        let document = failure(&run(&home, &[(variable, place)], &words), 3, "storage", &[says]);
        assert_eq!(document["ran"], "no");
    }
    assert!(fs::read_dir(&open).unwrap().next().is_none(), "nothing is put where others can change it");
    let mut command = home.command(["--json"]);
    command.env_remove("DROWSE_HOME").env_remove("HOME");
    failure(&Running::start(command).end(), 3, "storage", &["no home directory", "set DROWSE_HOME"]);
}

#[test]
fn a_home_of_another_user() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::new();
    let us = rustix::process::geteuid().as_raw();
    let place = if us == 0 {
        let place = home.path().join("theirs");
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::chown(&place, Some(65_534), None).unwrap();
        place
    } else {
        PathBuf::from("/")
    };
    assert_ne!(fs::metadata(&place).unwrap().uid(), us);
    let server = home.session("@s").server(&[]);
    for words in [connect(&server, "@s", &[]), vec!["--json"], vec!["@s", "ping", "--json"]] {
        let says = ["belongs to another user", "set DROWSE_HOME to a directory of your own"];
        failure(&run(&home, &[("DROWSE_HOME", &place)], &words), 3, "storage", &says);
    }
}

#[test]
fn a_directory_that_is_opened_to_others_later() {
    let home = Home::new();
    let session = home.connect("@s", &[], &[]);
    let sessions = home.files().sessions();
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o755)).unwrap();
    let says = [format!("chmod 700 {}", sessions.display())];
    failure(&session.run(["ping"]), 3, "storage", &[&says[0]]);
    fs::set_permissions(&sessions, fs::Permissions::from_mode(0o700)).unwrap();
    session.run(["ping"]).ok();
    Bystander::of(&home).noticed_nothing();
}
