//! `resources-subscribe --sync`: a file that the session keeps equal to a resource, whatever happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use drowse_tests::harness::{Home, LIMIT, Session, drowse, in_both_eras};
use serde_json::{Value, json};

use super::{COUNTER, TOUCH, everywhere};

/// A directory of the user's, and a file in it that may be there one day.
fn place(home: &Home) -> PathBuf {
    let directory = fs::canonicalize(home.path()).unwrap().join("synced");
    fs::create_dir(&directory).unwrap();
    directory.join("counter")
}

#[track_caller]
fn begins(session: &Session<'_>, file: &Path) {
    let document =
        session.run(["resources-subscribe", COUNTER, "--sync", file.to_str().unwrap()]).ok().json();
    assert_eq!(document, json!({"uri": COUNTER, "file": file, "synced": true}));
}

/// Waits until the file holds that.
#[track_caller]
fn holds(file: &Path, content: &str) {
    let end = Instant::now() + LIMIT;
    while fs::read_to_string(file).ok().as_deref() != Some(content) {
        assert!(Instant::now() < end, "{:?}, not {content:?}", fs::read_to_string(file));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn standing(session: &Session<'_>) -> Value {
    session.status()["syncs"][0].clone()
}

#[test]
fn it_is_equal_at_once_and_after_every_update_until_it_is_unsubscribed() {
    everywhere(&["--idle-timeout", "1"], |home, session, _| {
        let file = place(home);
        session.wait_until_asleep();
        begins(&session, &file);
        assert_eq!(fs::read_to_string(&file).unwrap(), "0", "equal when the command returns");
        assert_eq!(session.status()["idleInMs"], json!(null), "it keeps the server awake");
        for count in ["1", "2", "3"] {
            let _ = session.call(TOUCH, &[]).ok();
            holds(&file, count);
        }
        assert_eq!(session.record().syncs.len(), 1);
        begins(&session, &file);
        assert_eq!(session.record().syncs.len(), 1, "twice is once");
        let document = session.run(["resources-unsubscribe", COUNTER]).ok().json();
        assert_eq!(document, json!({"uri": COUNTER, "files": [file], "unsubscribed": true}));
        assert_eq!(session.status()["syncs"], json!([]));
        let _ = session.run(["resources-unsubscribe", COUNTER]).fails(1);
        session.wait_until_asleep();
        assert_eq!(fs::read_to_string(&file).unwrap(), "3", "it stays as it is");
        let beside = fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "nothing is left beside it");
    });
}

#[test]
fn it_outlives_the_server_and_the_bridge() {
    everywhere(&[], |home, session, server| {
        let file = place(home);
        begins(&session, &file);
        let _ = session.call(TOUCH, &[]).ok();
        holds(&file, "1");
        let kept = |count: &'static str| if server.is_some() { count } else { "0" };
        let _ = home.run(["restart", "@s"]).ok();
        holds(&file, kept("1"));
        session.kill_bridge();
        fs::write(&file, "stale").unwrap();
        // Whatever wakes the session.
        let count = session.call(TOUCH, &[]).ok().text();
        holds(&file, &count);
        // A connect with other settings starts another bridge, and forgets nothing.
        let name = ["connect", "@s", "--timeout", "77"].map(str::to_owned);
        let mut words: Vec<String> = name.into();
        match server {
            Some(server) => words.push(server.url()),
            None => {
                words.push("--".into());
                words.extend(session.server(&["--era", &session.state().unwrap().era.unwrap().era]));
            }
        }
        let _ = home.run(words).ok();
        let count = session.call(TOUCH, &[]).ok().text();
        holds(&file, &count);
    });
}

#[test]
fn a_directory_that_goes_and_comes_back() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let file = place(&home);
        begins(&session, &file);
        let (directory, elsewhere) = (file.parent().unwrap(), file.parent().unwrap().with_extension("away"));
        fs::rename(directory, &elsewhere).unwrap();
        let _ = session.call(TOUCH, &[]).ok();
        let end = Instant::now() + LIMIT;
        while standing(&session)["error"].is_null() {
            assert!(Instant::now() < end, "{}", standing(&session));
        }
        let error = standing(&session)["error"].as_str().unwrap().to_owned();
        assert!(error.contains("cannot write") && error.contains("No such file"), "{error}");
        let shown = home.run(["@s"]).ok().out;
        assert!(shown.contains(&format!("Cannot keep {} equal", file.display())), "{shown}");
        assert!(!directory.exists(), "it is not made");
        fs::rename(&elsewhere, directory).unwrap();
        // Tried again by itself, or at the next update.
        holds(&file, "1");
        let _ = session.call(TOUCH, &[]).ok();
        holds(&file, "2");
        assert_eq!(standing(&session)["error"], json!(null));
        let shown = home.run(["@s"]).ok().out;
        assert!(shown.contains(&format!("Keeps {} equal to {COUNTER}", file.display())), "{shown}");
    });
}

#[test]
fn what_cannot_be_is_not_remembered() {
    let home = Home::new();
    let server = drowse().to_str().unwrap().to_owned();
    let _ = home.run(["connect", "@b", "--json", "--", &server, "demo-server"]).ok();
    let session = home.session("@b");
    let failed = session.run(["resources-subscribe", "demo://nothing", "--sync", "file"]).fails(2);
    assert_eq!(failed["kind"], "unsupported");
    assert_eq!((session.record().syncs, session.status()["syncs"].clone()), (vec![], json!([])));
    for bad in ["/", "no/such/file", "."] {
        let failed = session.run(["resources-subscribe", "demo://nothing", "--sync", bad]).fails(1);
        assert_eq!(failed["kind"], "usage");
    }
}
