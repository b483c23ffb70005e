//! `--watch`: files that change.

use std::process::Command;
use std::time::Duration;

use drowse_tests::harness::drowse;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::client::Place;

/// How many builds there were.
fn builds(place: &Place) -> usize {
    place.read("builds").lines().count()
}

#[test]
fn a_change_builds_and_restarts_once_and_other_files_do_not() {
    let place = Place::new();
    place.write("src/a.txt", "1");
    place.write("dist/server.sh", &format!("exec {}", place.server(&[]).join(" ")));
    let build = "cp src/a.txt dist/; echo begun >> builds; until test -e go; do sleep 0.05; done; rm go";
    let flags = ["--build", build, "--watch", "src/**/*.txt"];
    let mut client = place.dev("legacy", &flags, &["sh", "dist/server.sh"].map(str::to_owned));
    client.tools();
    client.notes.clear();
    place.write("src/a.log", "other");
    // Several while it is built are one more build.
    for (build, texts) in [(1, &["2"][..]), (2, &["3", "4"]), (3, &["5", "6", "7"])] {
        for text in texts {
            place.write("src/a.txt", text);
        }
        if build > 1 {
            place.open_gate();
        }
        place.wait_until(|place| builds(place) >= build);
        assert_eq!((builds(&place), place.starts()), (build, build));
        assert_eq!(&place.read("dist/a.txt"), texts.last().unwrap());
    }
    place.open_gate();
    place.wait_until(|place| place.starts() == 4);
    client.wait_for("notifications/tools/list_changed");
    assert_eq!(client.text("echo", json!({"text": "x"})), "x");
    assert_eq!((builds(&place), place.starts()), (3, 4));
    client.close();
}

#[test]
fn a_server_that_rests_is_not_started_by_a_change() {
    let place = Place::new();
    place.write("src/a.txt", "1");
    let flags = ["--build", "echo built >> builds", "--watch", "src"];
    let mut client = place.fixture("modern", &flags, &[]);
    assert_eq!(client.status()["state"], "stopped");
    place.write("src/a.txt", "2");
    place.wait_until(|place| builds(place) > 0);
    client.wait_for_status(|status| status["building"] == false);
    assert_eq!(client.status()["state"], "stopped");
    assert_eq!(place.starts(), 0);
    client.close();
}

#[test]
fn a_server_that_failed_is_started_by_the_change_that_mends_it() {
    let place = Place::new();
    place.write("server.sh", "exit 3");
    let mut client = place.dev("legacy", &["--watch", "*.sh"], &["sh", "server.sh"].map(str::to_owned));
    client.tools();
    client.wait_for_status(|status| status["state"] == "crashed");
    place.write("server.sh", "echo tried >> tries; exit 4");
    place.wait_until(|place| !place.read("tries").is_empty());
    client.wait_for_status(|status| status["state"] == "crashed");
    client.notes.clear();
    place.write("server.sh", &format!("exec {}", place.server(&[]).join(" ")));
    client.wait_for_status(|status| status["state"] == "running");
    client.wait_for("notifications/tools/list_changed");
    assert_eq!(client.text("echo", json!({"text": "x"})), "x");
    // One that had run is no other matter.
    let status = client.status();
    let pid = status["pid"].as_i64().unwrap_or_else(|| panic!("{status}"));
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    client.wait_for_status(|status| status["state"] == "crashed");
    place.write("server.sh", &format!("exec {} # again", place.server(&[]).join(" ")));
    client.wait_for_status(|status| status["state"] == "running");
    client.close();
}

#[test]
fn a_pattern_that_cannot_be_watched_is_refused() {
    let place = Place::new();
    for pattern in ["gone/**", "[", ""] {
        let run = Command::new(drowse())
            .args(["dev", "--watch", pattern, "--", "true"])
            .current_dir(place.at(""))
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(1), "{pattern}");
        assert!(String::from_utf8_lossy(&run.stderr).contains("--watch"), "{run:?}");
    }
}

#[test]
fn a_build_whose_output_is_watched_is_done_once_more_at_most() {
    let place = Place::new();
    place.write("src/a.txt", "1");
    place.write("src/out", "0");
    // The same output each time.
    let flags = ["--build", "cat src/a.txt > src/out; echo built >> builds", "--watch", "src"];
    let mut client = place.fixture("legacy", &flags, &[]);
    client.tools();
    place.write("src/a.txt", "2");
    place.wait_until(|place| builds(place) >= 2);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(builds(&place), 2);
    // What it wrote is known by now.
    place.write("src/a.txt", "2");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(builds(&place), 2, "the same content is no change");
    assert_eq!(client.status().get("watchStalled"), None);
    client.close();
}

#[test]
fn a_build_that_changes_what_is_watched_each_time_is_left_alone_and_that_is_said_once() {
    let place = Place::new();
    place.write("src/a.txt", "1");
    let flags = ["--build", "date +%s%N > src/out; echo built >> builds", "--watch", "src"];
    let mut client = place.fixture("modern", &flags, &[]);
    client.tools();
    place.write("src/a.txt", "2");
    let stalled = client.wait_for_status(|status| status.get("watchStalled").is_some());
    let said = stalled["watchStalled"].as_str().unwrap();
    assert!(said.contains("(src/out)") && said.contains("--watch"), "{said}");
    // Exactly four, unless the system is late to say that files changed: then they are somebody else's.
    let first = builds(&place);
    assert!(first >= 4, "{first}");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(builds(&place), first);
    // Another file is another matter.
    place.write("src/a.txt", "3");
    place.wait_until(|place| builds(place) >= first + 2);
    client.wait_for_status(|status| status.get("watchStalled").is_some());
    let errors = client.close();
    assert_eq!(errors.matches("change with every build").count(), 1, "{errors}");
}
