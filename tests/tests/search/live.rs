//! `@name grep` wakes the server and asks it.

use serde_json::json;

use super::{snapshot, write};
use drowse_tests::harness::{Home, in_both_eras};

#[test]
fn a_session_that_is_named_is_woken_and_asked() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "1"], &["--era", era]);
        session.wait_until_asleep();
        write(&home, "@s", &snapshot(&home, "@s", &[json!({"name": "echo_of_old"})]));
        let starts = session.starts();
        let found = session.run(["grep", "echo"]).ok().json();
        assert_eq!(session.starts(), starts + 1, "woken");
        let names: Vec<&str> =
            found.as_array().unwrap().iter().map(|one| one["tool"]["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"echo") && !names.contains(&"echo_of_old"), "{found}");
        assert_eq!((&found[0]["session"], &found[0]["status"]), (&json!("@s"), &json!("live")));
        assert!(found[0]["_drowse"].get("cachedAt").is_none());
        let text = home.run(["grep", "@s", "^echo$", "-E"]).ok().out;
        assert!(text.starts_with("@s  tool  echo\n"), "{text}");
        let others = session.run(["grep", "counter", "--resources", "-m", "1"]).ok().json();
        assert_eq!(others.as_array().unwrap().len(), 1, "{others}");
        let prompts = session.run(["grep", "hello", "--prompts"]).ok().json();
        assert_eq!(prompts[0]["prompt"]["name"], "hello");
        assert_eq!(session.run(["grep", "no such word"]).exits(1).json(), json!([]));
        let _ = session.run(["grep", "(", "-E"]).fails(2);
    });
}

#[test]
fn a_server_that_cannot_be_started_is_an_error_of_grep() {
    let home = Home::new();
    let run = home.run(["connect", "@bad", "--lazy", "--", "/nonexistent/server"]);
    let _ = run.ok();
    let failure = home.session("@bad").run(["grep", "x"]).fails(2);
    assert_eq!(failure["ran"], "no");
}
