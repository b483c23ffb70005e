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

/// The file that was set aside for another one.
fn aside(home: &Home, name: &str) -> PathBuf {
    file(home, &format!("{name}.damaged-1"))
}

#[test]
fn state_json_is_damaged() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let session = asleep(&home);
    let path = file(&home, "state.json");
    let spoilt: &[(&str, &dyn Fn())] = &[
        ("cut off", &|| halve(&path)),
        ("edited", &|| fs::write(&path, r#"{"schema":1,"generation":"x","state":[]}"#).unwrap()),
        ("not text", &|| fs::write(&path, b"\xff\0").unwrap()),
        ("deep", &|| fs::write(&path, "[".repeat(1 << 20)).unwrap()),
        ("huge", &|| fs::File::create(&path).unwrap().set_len(3 << 30).unwrap()),
        ("a directory", &|| fs::create_dir(&path).unwrap()),
        ("a pipe", &|| pipe(&path)),
        ("a device", &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap()),
    ];
    for (how, spoil) in spoilt {
        if ["a directory", "a pipe", "a device"].contains(how) {
            fs::remove_file(&path).unwrap();
        }
        spoil();
        assert!(shown(&session).contains("state.json is damaged"), "{how}");
        // The next call writes it anew, and says so.
        let run = session.call("echo", &["text=a"]).ok();
        let notices = run.notices();
        assert!(notices.iter().any(|notice| notice["kind"] == "record-rebuilt"), "{how}: {notices:?}");
        assert!(session.call("echo", &["text=b"]).ok().notices().is_empty(), "{how}");
        assert!(fs::symlink_metadata(aside(&home, "state.json")).is_ok(), "{how}");
        assert!(session.run(["logs"]).out.contains("state.json was damaged"), "{how}");
        session.kill_bridge();
        let aside = aside(&home, "state.json");
        fs::remove_file(&aside).or_else(|_| fs::remove_dir(&aside)).unwrap();
    }
    for way in ["restart", "close"] {
        halve(&path);
        session.run([way]).ok();
        assert_eq!(session.exists(), way == "restart");
        if session.exists() {
            session.call("tag", &["tag=a"]).ok();
            session.kill_bridge();
        }
    }
    // What a power cut may leave of a file that is not synced counts as no file.
    let session = asleep(&home);
    fs::write(&path, "").unwrap();
    session.run(["ping"]).ok();
    // An awake session is served by its bridge, whatever stands in the record.
    halve(&path);
    session.run(["ping"]).ok();
    assert!(!aside(&home, "state.json").exists(), "it is the bridge's to write");
    session.run(["close"]).ok();
    other.noticed_nothing();
}

/// What a generation left that no record tells of is found by the session that it names.
#[test]
fn what_a_lost_generation_left_is_ended() {
    let home = Home::new();
    let other = Bystander::of(&home);
    for way in ["ping", "restart", "close"] {
        let session = home.connect("@s", &[], &[]);
        let server = session.call("pid", &[]).ok().text();
        let bridge = session.state().unwrap().bridge.unwrap();
        // A server that outlives its bridge: as if it had lost it to a kill that came with a new parent.
        session.kill_bridge();
        let place = home.files().session(&SessionName::new("s").unwrap());
        let mut orphan = std::process::Command::new("sleep")
            .arg("1000")
            .env("DROWSE_GENERATION", "of-nobody")
            .env("DROWSE_SESSION", &place)
            .spawn()
            .unwrap();
        let mut stranger = std::process::Command::new("sleep")
            .arg("1000")
            .env("DROWSE_GENERATION", "of-another")
            .env("DROWSE_SESSION", "/elsewhere/sessions/s")
            .spawn()
            .unwrap();
        assert!(!bridge.is_alive(), "{server}");
        halve(&file(&home, "state.json"));
        session.run([way]).ok();
        let left = orphan.try_wait().unwrap();
        let untouched = stranger.try_wait().unwrap().is_none();
        let _ = (orphan.kill(), orphan.wait(), stranger.kill(), stranger.wait());
        assert!(left.is_some(), "{way}");
        assert!(untouched, "{way}");
        if session.exists() {
            session.run(["close"]).ok();
        }
    }
    other.noticed_nothing();
}

fn pipe(path: &PathBuf) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Pipes and devices in the place of each file: no command waits for them, or reads them to their end.
#[test]
fn pipes_and_devices_stand_in_their_place() {
    let home = Home::new();
    let other = Bystander::of(&home);
    for name in ["snapshot.json", "session.json", "life.jsonl", "credentials.json", "log", "config.json"] {
        let session = asleep(&home);
        let path = if name == "config.json" { home.files().config_file() } else { file(&home, name) };
        for make in
            [&pipe as &dyn Fn(&PathBuf), &|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()]
        {
            let _ = fs::remove_file(&path);
            make(&path);
            for words in [
                &["--json"][..],
                &["grep", "--json", "echo"],
                &["stats", "--json"],
                &["top", "--once", "--json"],
                &["ps", "--json"],
                &["config", "--json"],
                &["doctor", "--dry-run", "--json"],
                &["@s", "timeline", "--json"],
                &["@s", "tools-list", "--cached", "--json"],
                &["@s", "set", "--json"],
                &["@s", "logs", "--json"],
                &["@s", "ping", "--json"],
            ] {
                let run = home.run(words.iter().copied());
                assert!((0..=3).contains(&run.code), "{name}: `drowse {}`: {}", run.words, run.err);
            }
            if session.state().and_then(|state| state.bridge).is_some_and(|bridge| bridge.is_alive()) {
                session.kill_bridge();
            }
        }
        fs::remove_file(&path).unwrap();
        // Without its record there is nothing to close.
        let run = session.run(["close"]);
        if name == "session.json" {
            home.run(["clean", "--json"]).ok();
        } else {
            run.ok();
        }
    }
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
    for name in ["session.json", "credentials.json"] {
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
    // Where only a socket is to be, it is out of the way, and kept.
    let session = asleep(&home);
    let _ = fs::remove_file(file(&home, "sock"));
    fs::create_dir(file(&home, "sock")).unwrap();
    session.run(["ping"]).ok();
    assert!(aside(&home, "sock").is_dir());
    session.run(["close"]).ok();
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
