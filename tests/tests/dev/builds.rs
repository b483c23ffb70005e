//! `--build`: what a build changes, and what it does not.

use drowse_tests::harness::in_both_eras;
use serde_json::json;

use super::client::{Place, text};

/// A server that is a script in a directory of its own.
fn script(place: &Place) -> Vec<String> {
    place.write("dist/server.sh", &format!("exec {}", place.server(&[]).join(" ")));
    vec!["sh".into(), "dist/server.sh".into()]
}

#[test]
fn a_failed_build_changes_nothing_and_says_why() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &["--build", "echo no such thing >&2; exit 7"], &[]);
        let first = client.text("pid", json!({}));
        let failed = client.restart(json!({"rebuild": true}));
        assert_eq!(failed["structuredContent"]["outcome"], "build-failed");
        assert_eq!(failed["isError"], true);
        let said = text(&failed);
        assert!(said.contains("exit status 7") && said.contains("no such thing"), "{said}");
        assert_eq!(client.text("pid", json!({})), first);
        assert_eq!(client.status()["lastBuild"]["outcome"], "failed");
        assert!(client.text("dev_logs", json!({})).contains("build: no such thing"));
        assert_eq!(client.restart(json!({}))["structuredContent"]["outcome"], "restarted", "not poisoned");
        client.close();
    });
}

#[test]
fn the_environment_of_a_restart_that_did_not_come_to_it_is_forgotten() {
    let place = Place::new();
    let mut client = place.fixture("modern", &["--build", "test -e good", "--env", "X=old"], &[]);
    client.tools();
    let failed = client.restart(json!({"rebuild": true, "env": {"X": "new"}}));
    assert_eq!(failed["structuredContent"]["outcome"], "build-failed");
    assert_eq!(client.status()["env"], json!(["X"]));
    assert_eq!(client.restart(json!({}))["structuredContent"]["outcome"], "restarted");
    assert_eq!(client.text("env", json!({"name": "X"})), "old");
    place.write("good", "");
    client.restart(json!({"rebuild": true, "env": {"X": "newer"}}));
    assert_eq!(client.text("env", json!({"name": "X"})), "newer");
    client.close();
}

#[test]
fn a_build_that_changed_nothing_restarts_nothing_and_one_that_did_does() {
    let place = Place::new();
    let server = script(&place);
    let mut client =
        place.dev("legacy", &["--build", "test -e wanted && cp wanted dist/more; true"], &server);
    client.tools();
    let skipped = client.restart(json!({"rebuild": true}));
    assert_eq!(skipped["structuredContent"]["outcome"], "unchanged");
    assert!(text(&skipped).contains("without rebuild"), "it says what to do");
    assert_eq!(client.status()["lastBuild"]["outcome"], "unchanged");
    assert_eq!(place.starts(), 1);
    let forced = client.restart(json!({"rebuild": true, "env": {}}));
    assert_eq!(forced["structuredContent"]["outcome"], "restarted", "another environment is wanted");
    place.write("wanted", "x");
    let changed = client.restart(json!({"rebuild": true}));
    assert_eq!(changed["structuredContent"]["outcome"], "restarted");
    assert_eq!(client.status()["lastBuild"]["outcome"], "succeeded");
    assert_eq!(place.starts(), 3);
    client.close();
}

#[test]
fn while_a_build_runs_the_old_server_serves() {
    let place = Place::new();
    let build = "until test -e go; do sleep 0.05; done; echo x > dist/new";
    let server = script(&place);
    let mut client = place.dev("modern", &["--build", build], &server);
    let first = client.text("pid", json!({}));
    let restart = client.send_call("dev_restart", json!({"rebuild": true}));
    client.wait_for_status(|status| status["building"] == true);
    assert_eq!(client.text("pid", json!({})), first);
    place.write("go", "");
    assert_eq!(client.answer(restart)["result"]["structuredContent"]["outcome"], "restarted");
    client.close();
}

#[test]
fn a_build_that_takes_too_long_is_ended_with_its_whole_tree() {
    let place = Place::new();
    let build = "(setsid sleep 600 &) ; sleep 600";
    let mut client = place.fixture("legacy", &["--build", build, "--build-timeout", "1"], &[]);
    client.tools();
    let answer = client.restart(json!({"rebuild": true}));
    assert_eq!(answer["structuredContent"]["outcome"], "build-timed-out");
    let status = client.status();
    assert_eq!((&status["building"], &status["lastBuild"]["outcome"]), (&json!(false), &json!("ended")));
    assert_eq!(client.text("echo", json!({"text": "x"})), "x");
    client.close();
    // That nothing is left is seen when the place goes.
}

#[test]
fn the_end_of_the_connection_breaks_a_build_off() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &["--build", "touch begun; sleep 600"], &[]);
    client.tools();
    client.send_call("dev_restart", json!({"rebuild": true}));
    place.wait_until(|place| place.at("begun").exists());
    client.close();
    assert_eq!(place.starts(), 1);
}

#[test]
fn a_build_that_floods_is_cut_and_its_last_lines_are_shown() {
    let place = Place::new();
    let build = "yes 0123456789012345678901234567890123456789 | head -n 100000; echo the end; exit 1";
    let mut client = place.fixture("legacy", &["--build", build], &[]);
    client.tools();
    let said = text(&client.restart(json!({"rebuild": true})));
    assert!(said.trim_end().ends_with("the end") && said.len() < 8000, "{} bytes", said.len());
    let errors = client.close();
    assert!(errors.len() < 1 << 20, "{} bytes", errors.len());
    assert!(errors.contains("more than is shown"));
}

#[test]
fn without_a_build_command_rebuild_is_refused() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &[], &[]);
    let refused = client.restart(json!({"rebuild": true}));
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains("--build"));
    assert_eq!(place.starts(), 0);
    client.close();
}
