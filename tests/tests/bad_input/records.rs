//! Records that are cut off, damaged, of another release, or something else altogether.

use std::fs;
use std::path::PathBuf;

use drowse_runtime::home::SessionName;
use drowse_tests::harness::{Home, Session};
use serde_json::Value;

use super::bystander::{Bystander, failure};

fn file(home: &Home, name: &str) -> PathBuf {
    home.files().session(&SessionName::new("s").unwrap()).join(name)
}

/// A session that sleeps, so that its records are read and not only its socket.
fn asleep(home: &Home) -> Session<'_> {
    let session = home.connect("@s", &["--env", "MINE=secret"], &[]);
    session.kill_bridge();
    session
}

/// What the list says is wrong with it.
fn shown(session: &Session<'_>) -> String {
    let listed = session.listed();
    listed["_drowse"]["error"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned()
}

/// Cuts a file in half.
fn halve(path: &PathBuf) {
    let text = fs::read(path).unwrap();
    fs::write(path, &text[..text.len() / 2]).unwrap();
}

/// Makes a record one that a later release may have written.
fn age(path: &PathBuf) {
    let mut record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    record["schema"] = 2.into();
    record["more"] = serde_json::json!({"than": "we know"});
    fs::write(path, record.to_string()).unwrap();
}

#[test]
fn session_json_is_damaged() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let path = |home: &Home| file(home, "session.json");
    for spoilt in [None, Some(""), Some("{\"schema\":1,\"target\":\"moon\"}")] {
        let session = asleep(&home);
        match spoilt {
            None => halve(&path(&home)),
            Some(text) => fs::write(path(&home), text).unwrap(),
        }
        for words in [&["ping"][..], &["restart"], &["tools-call", "echo", "text=a"], &[]] {
            let document = failure(
                &session.run(words.iter().copied()),
                3,
                "storage",
                &["session.json", "drowse close @s"],
            );
            assert_eq!(document["ran"], "no");
        }
        let words = ["connect", "@s", "--json", "--", "cat"];
        failure(&home.run(words), 3, "storage", &["session.json", "drowse close @s"]);
        assert!(shown(&session).contains("damaged"));
        // The way out that it names works.
        session.run(["close"]).ok();
        assert!(!session.exists());
    }
    other.noticed_nothing();
}

#[test]
fn state_json_is_damaged() {
    let home = Home::new();
    let other = Bystander::of(&home);
    for way in ["restart", "close"] {
        let session = asleep(&home);
        halve(&file(&home, "state.json"));
        failure(
            &session.run(["ping"]),
            3,
            "storage",
            &["state.json", "drowse restart @s", "drowse close @s"],
        );
        assert!(shown(&session).contains("damaged"));
        session.run([way]).ok();
        if session.exists() {
            session.call("tag", &["tag=a"]).ok();
            session.run(["close"]).ok();
        }
    }
    // What a power cut may leave of a file that is not synced counts as no file.
    let session = asleep(&home);
    fs::write(file(&home, "state.json"), "").unwrap();
    session.run(["ping"]).ok();
    // An awake session is served by its bridge, whatever stands in the record.
    halve(&file(&home, "state.json"));
    session.run(["ping"]).ok();
    session.run(["close"]).ok();
    other.noticed_nothing();
}

#[test]
fn credentials_are_damaged() {
    let home = Home::new();
    let session = asleep(&home);
    halve(&file(&home, "credentials.json"));
    let document = failure(&session.run(["ping"]), 3, "storage", &["credentials.json", "drowse close @s"]);
    assert!(!document.to_string().contains("secret"), "{document}");
    session.run(["close"]).ok();
    let session = asleep(&home);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(file(&home, "credentials.json"), mode).unwrap();
    failure(&session.run(["ping"]), 3, "storage", &["open to other users", "chmod 600"]);
}

#[test]
fn records_of_a_later_release() {
    let home = Home::new();
    let other = Bystander::of(&home);
    for name in ["session.json", "state.json", "credentials.json"] {
        let session = asleep(&home);
        age(&file(&home, name));
        let before = fs::read(file(&home, name)).unwrap();
        for words in [&["ping"][..], &["restart"]] {
            let run = session.run(words.iter().copied());
            failure(&run, 3, "storage", &[name, "newer drowse", "schema 2", "update drowse"]);
        }
        assert_eq!(fs::read(file(&home, name)).unwrap(), before, "it is not written over");
        if name != "credentials.json" {
            assert!(shown(&session).contains("newer drowse"));
        }
        if name == "state.json" {
            // What still runs of it cannot be told, so its end would be a guess.
            failure(&session.run(["close"]), 3, "storage", &[name, "update drowse"]);
            fs::remove_file(file(&home, name)).unwrap();
        }
        session.run(["close"]).ok();
        assert!(!session.exists());
    }
    other.noticed_nothing();
}

#[test]
fn something_else_stands_in_their_place() {
    let home = Home::new();
    let other = Bystander::of(&home);
    for name in ["session.json", "state.json", "credentials.json", "sock"] {
        let session = asleep(&home);
        let path = file(&home, name);
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).unwrap();
        failure(&session.run(["ping"]), 3, "storage", &[&path.display().to_string()]);
        // It is the user's to look at; once it is gone, all is well or can be closed.
        fs::remove_dir(&path).unwrap();
        if session.run(["close"]).code != 0 {
            assert_eq!(name, "session.json", "without it there is no session");
            home.run(["clean", "--json"]).ok();
        }
        assert!(!session.exists());
    }
    // Strangers' files beside the sessions are nobody's sessions.
    fs::write(home.files().sessions().join("README"), "hello").unwrap();
    fs::create_dir(home.files().sessions().join("not a name")).unwrap();
    assert_eq!(home.list().len(), 1);
    home.run(["clean", "all", "--json"]).ok();
    assert!(home.files().sessions().join("not a name").exists());
    fs::remove_file(home.files().sessions().join("README")).unwrap();
    fs::remove_dir(home.files().sessions().join("not a name")).unwrap();
    let _ = other;
}
