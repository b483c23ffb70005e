//! "Did you mean …?", for every kind of name.

use std::fs;

use drowse_tests::harness::Home;
use serde_json::json;

#[test]
fn every_kind_of_name() {
    let home = Home::new();
    let _session = home.connect("@files", &[], &[]);
    for (words, code, hint) in [
        (&["@files", "tools-lsit"][..], 1, "Did you mean: drowse @files tools-list"),
        (&["@fiels", "tools-list"], 1, "@files"),
        (&["@files", "tools-list", "--fulll"], 1, "Did you mean: --full"),
        (&["@files", "tools-call", "ehco", "text=x"], 2, "Did you mean: echo"),
        (&["@files", "tools-get", "ehco"], 1, "Did you mean: echo"),
        (&["@files", "prompts-get", "helo"], 2, "Did you mean: hello"),
        (&["@files", "resources-read", "counter://mian"], 2, "Did you mean: counter://main"),
        (&["@files", "tools-call", "echo", "txet:=5", "--check"], 1, "text"),
        (&["@files", "logging-set-level", "warnin"], 1, "Did you mean: warning"),
        (&["completions", "bsh"], 1, "Did you mean: bash"),
        (&["help", "activty"], 1, "Did you mean: drowse help activity"),
        (&["help", "tools-lsit"], 1, "Did you mean: drowse help tools-list"),
        (&["man", "conect"], 1, "Did you mean: drowse man connect"),
    ] {
        let run = home.run(words.iter().copied().chain(["--json"]));
        let failure = run.fails(code);
        let said = format!("{} {}", failure["error"], failure["_drowse"]["hint"]);
        assert!(said.contains(hint), "{words:?}: {said}");
    }
}

#[test]
fn members_of_an_entry() {
    let home = Home::new();
    let target = home.write_entry("@files", json!({"idleTimeoutSec": 5, "disabled": false}), &[]);
    let run = home.run(["connect", &target, "--lazy"]).ok();
    assert!(
        run.err.contains("`idleTimeoutSec`") && run.err.contains("did you mean `idleTimeoutSecs`?"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("disabled"), "{}", run.err);
    let mistyped = target.replace(":files", ":fiels");
    let run = home.run(["connect", &mistyped, "@x"]);
    assert!(run.code == 1 && run.err.contains("did you mean `files`"), "{}", run.err);
    let file = home.path().join("files.json");
    let run = home.run(["connect", file.to_str().unwrap(), "--lazy"]);
    assert!(run.err.contains("did you mean `idleTimeoutSecs`?"), "{}", run.err);
    fs::remove_file(file).unwrap();
}
