//! Trees that fork faster than they can be looked at.

use std::path::PathBuf;

use drowse_runtime::process::Launch;
use tokio::io::BufReader;

use crate::alone::{alone, line, program, rest, script, soon, start};

/// Lets the server do its worst until it has written this many lines, kills it, and sees that nobody is left.
/// What is left, if anything, is looked for when the test ends.
async fn outlive(wanted: &Launch, lines: usize) {
    let mut tree = start(wanted);
    let mut output = BufReader::new(&mut tree.stdout);
    for _ in 0..lines {
        line(&mut output).await;
    }
    // No end of output while it could block the server: what is read here are the hops and forks it announces.
    let drain = async {
        rest(&mut tree.stdout).await;
    };
    tree.control.kill();
    let ended = async { soon("gone", tree.control.gone()).await };
    tokio::join!(ended, drain);
    assert!(tree.control.is_gone());
}

/// A script that runs itself as `sh "$0"`, and counts: no hop is to come near its last.
fn self_running(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("self");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

alone! {
    async fn a_fork_storm_in_its_own_group_ends() {
        outlive(&script("storm() { for n in $(seq 500); do sleep 1000 & echo; done; sleep 1000; }; storm & storm & storm & storm"), 40).await;
    }

    async fn a_fork_storm_over_many_sessions_ends() {
        let text = "storm() { for n in $(seq 500); do setsid sleep 1000 & echo; done; sleep 1000; }; storm & storm & storm & storm";
        outlive(&script(text), 40).await;
    }

    async fn a_fork_storm_of_orphans_without_environment_ends() {
        let text = "storm() { for n in $(seq 500); do (setsid env -i sleep 1000 &); echo; done; sleep 1000; }; storm & storm & storm & storm";
        outlive(&script(text), 40).await;
    }

    async fn a_process_that_moves_on_by_forking_is_caught() {
        // Each lives for one fork only, and ends before it can be looked up: the group is what catches it.
        let text = "hop() { echo; if [ $1 -gt 0 ]; then hop $(($1 - 1)) & fi; exit 0; }; hop 1000000";
        outlive(&script(text), 40).await;
    }

    async fn a_process_that_moves_on_to_another_session_each_time_is_caught() {
        let (_directory, path) = self_running("echo; setsid sh \"$0\" & exit 0\n");
        outlive(&program("sh", &[path.to_str().unwrap()]), 40).await;
    }

    async fn a_process_that_moves_on_to_another_group_each_time_is_caught() {
        // Job control gives each background job a group of its own, without the delay of an exec.
        let text = "hop() { echo; set -m; hop & exit 0; }; hop";
        outlive(&program("bash", &["-c", text]), 40).await;
    }

    async fn processes_that_start_each_other_again_are_ended() {
        // Each of the two restarts the other, in another session, as soon as it is missing.
        let (_directory, path) = self_running(
            "echo $$; other=$1\nwhile :; do if ! kill -0 $other 2>/dev/null; then setsid sh \"$0\" $$ & other=$!; fi; sleep 0.001; done\n",
        );
        outlive(&program("sh", &[path.to_str().unwrap(), "nobody"]), 2).await;
    }
}
