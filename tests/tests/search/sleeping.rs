//! Sessions that sleep are found by what is on disk, and sleep on.

use serde_json::json;

use super::{dormant, files, snapshot, write};
use drowse_tests::harness::Home;

#[test]
fn a_sleeping_session_is_found_and_sleeps_on() {
    let home = Home::new();
    let session = home.connect("@asleep", &["--idle-timeout", "1"], &[]);
    session.wait_until_asleep();
    let tool = json!({"name": "send_mail", "description": "Sends.\nAt once.", "n": 1.5});
    let mut all = snapshot(&home, "@asleep", std::slice::from_ref(&tool));
    all.header.instructions = Some("Mail is for people.".into());
    write(&home, "@asleep", &all);
    let (before, journal) = (files(&home, "@asleep"), session.journal.entries().unwrap());

    let text = home.run(["grep", "MAIL"]).ok();
    assert_eq!(
        text.out,
        "@asleep  instructions  (idle, 3 h old)\n    Mail is for people.\n\
         @asleep  tool          send_mail  (idle, 3 h old)\n    Sends.\n"
    );
    assert_eq!(text.err, "");
    let found = home.run(["grep", "mail", "--json"]).ok().json();
    let taken = all.header.taken;
    assert_eq!(
        found,
        json!([
            {"session": "@asleep", "status": "idle", "kind": "instructions", "instructions": "Mail is for people.",
                "_drowse": {"cachedAt": taken, "matched": ["instructions"]}},
            {"session": "@asleep", "status": "idle", "kind": "tool", "tool": tool,
                "_drowse": {"cachedAt": taken, "matched": ["name"]}},
        ])
    );
    assert_eq!(home.run(["grep", "mail", "--tools"]).ok().out.lines().count(), 2);
    let nothing = home.run(["grep", "nothing like it"]).exits(1);
    assert_eq!((nothing.out.as_str(), nothing.err.as_str()), ("", ""));
    assert_eq!(home.run(["grep", "nothing like it", "--json"]).exits(1).json(), json!([]));
    let cached = home.run(["@asleep", "tools-list", "--cached"]).ok();
    assert_eq!(cached.out, "send_mail\n    Sends.\n");

    assert_eq!(files(&home, "@asleep"), before, "nothing was written");
    assert_eq!(session.journal.entries().unwrap(), journal, "and nobody was asked");
    assert_eq!(session.listed()["status"], "idle");
}

#[test]
fn an_awake_session_is_live_and_not_kept_awake() {
    let home = Home::new();
    let session = home.connect("@up", &["--idle-timeout", "600"], &[]);
    let echo = json!({"name": "echo", "description": "Says it again"});
    write(&home, "@up", &snapshot(&home, "@up", &[echo]));
    let calls = || session.methods().iter().filter(|method| *method == "tools/call").count();
    let (before, calls_before) = (session.deadline().unwrap(), calls());
    let found = home.run(["grep", "^echo$", "-E", "--json"]).ok().json();
    assert_eq!((&found[0]["session"], &found[0]["status"]), (&json!("@up"), &json!("live")));
    assert_eq!(found[0]["_drowse"], json!({"matched": ["name"]}), "no age");
    assert!(home.run(["grep", "echo"]).ok().out.starts_with("@up  tool  echo\n"));
    let after = session.deadline().unwrap();
    assert!(after.0 <= before.1, "its idle period did not start anew: {before:?} {after:?}");
    assert_eq!(calls(), calls_before);
}

#[test]
fn several_sessions_in_order_and_no_more_than_wanted() {
    let home = Home::new();
    for name in ["@c", "@a", "@b"] {
        dormant(&home, name, &[json!({"name": "one"}), json!({"name": "two", "title": "One more"})]);
    }
    home.connect("@empty", &["--lazy"], &[]);
    home.connect("@void", &["--lazy"], &[]);
    let all = home.run(["grep", "one"]).ok();
    let heads: Vec<&str> = all.out.lines().filter(|line| line.starts_with('@')).collect();
    let expected: Vec<String> = ["@a", "@a", "@b", "@b", "@c", "@c"]
        .iter()
        .zip(["one", "two"].iter().cycle())
        .map(|(session, tool)| format!("{session}  tool  {tool}  (dormant, 3 h old)"))
        .collect();
    assert_eq!(heads, expected);
    assert!(
        all.err.starts_with("2 sessions were not searched, as they have no snapshot yet: @empty, @void\n"),
        "{}",
        all.err
    );
    let few = home.run(["grep", "one", "-m", "3", "--json"]).ok();
    let sessions: Vec<String> =
        few.json().as_array().unwrap().iter().map(|one| one["session"].to_string()).collect();
    assert_eq!(sessions, [r#""@a""#, r#""@a""#, r#""@b""#]);
    assert_eq!(few.err, "", "JSON is all that is said");
    assert_eq!(home.run(["grep", "one", "-m", "0", "--json"]).exits(1).json(), json!([]));
}

#[test]
fn every_kind_and_its_flag() {
    let home = Home::new();
    home.connect("@s", &["--lazy"], &[]);
    let mut all = snapshot(&home, "@s", &[json!({"name": "word_tool"})]);
    let raw = super::raw;
    all.header.instructions = Some("a word".into());
    all.prompts = vec![raw(&json!({"name": "p", "arguments": [{"name": "word"}]}))];
    all.resources = vec![raw(&json!({"uri": "word://a", "name": "a"}))];
    all.resource_templates = vec![raw(&json!({"uriTemplate": "word://{a}", "name": "b"}))];
    write(&home, "@s", &all);
    for (flags, kinds) in [
        (&[][..], &["instructions", "tool"][..]),
        (&["--tools"], &["tool"]),
        (&["--prompts"], &["prompt"]),
        (&["--resources"], &["resource", "resourceTemplate"]),
        (&["--instructions", "--prompts"], &["instructions", "prompt"]),
    ] {
        let words = ["grep", "word", "--json"].into_iter().chain(flags.iter().copied());
        let found = home.run(words).ok().json();
        let found = found.as_array().unwrap();
        let shown: Vec<&str> = found.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(shown, kinds, "{flags:?}");
        for one in found {
            assert!(one.get(one["kind"].as_str().unwrap()).is_some(), "{one}");
        }
    }
    let text = home.run(["grep", "word", "--resources", "--prompts"]).ok().out;
    assert_eq!(
        text,
        "@s  prompt    p  (dormant, 3 h old)\n    argument word: word\n\
         @s  resource  word://a  (dormant, 3 h old)\n\
         @s  template  word://{a}  (dormant, 3 h old)\n"
    );
}

#[test]
fn patterns_and_exit_statuses() {
    let home = Home::new();
    let none = home.run(["grep", "x"]).exits(1);
    assert!(none.out.is_empty() && none.err.starts_with("no sessions\n"), "{}", none.err);
    assert!(!home.files().root().exists(), "a search makes nothing");
    dormant(&home, "@s", &[json!({"name": "Ärger", "description": "a.b (c"})]);
    for (words, code) in [
        (&["grep", "ärger"][..], 0),
        (&["grep", "ärger", "--case-sensitive"], 1),
        (&["grep", "Ärger", "--case-sensitive"], 0),
        (&["grep", "a.b (c"], 0),
        (&["grep", "a.b (c", "-E"], 2),
        (&["grep", "axb"], 1),
        (&["grep", "^a.b", "-E"], 0),
        (&["grep", r"(\w{999}){999}", "-E"], 2),
        (&["grep", "(?=a)", "-E"], 2),
        (&["grep", ""], 0),
        (&["grep"], 2),
        (&["grep", "a", "--bogus"], 2),
        (&["grep", "a", "-m", "x"], 2),
        (&["@nobody", "grep", "a"], 2),
    ] {
        let run = home.run(words).exits(code);
        assert_eq!(run.err.starts_with("error: "), code == 2, "{words:?}: {}", run.err);
        if code == 2 {
            let failure = home.run(words.iter().copied().chain(["--json"])).fails(2);
            assert_ne!(failure["error"], "", "{words:?}");
        }
    }
    let bad = home.run(["grep", "-E", "a(", "--json"]).fails(2);
    assert_eq!(bad["error"], "`a(` is not a regular expression: unclosed group");
    assert_eq!(bad["kind"], "usage");
}

#[test]
fn hostile_words_do_not_steer_the_terminal() {
    let home = Home::new();
    let evil = "evil\u{1b}[2J\u{7}\r\n@fake  tool  \u{202e}x\u{9b}";
    dormant(&home, "@s", &[json!({"name": evil, "description": format!("d {evil}")})]);
    let run = home.run(["grep", "evil"]).ok();
    assert_eq!(run.out.lines().filter(|line| line.starts_with('@')).count(), 1, "{:?}", run.out);
    assert!(!run.out.contains(['\u{1b}', '\u{7}', '\r', '\u{202e}', '\u{9b}']), "{:?}", run.out);
    let pattern = "\u{1b}[2J(";
    let run = home.run(["grep", "-E", pattern]).exits(2);
    assert!(!run.err.contains('\u{1b}'), "{:?}", run.err);
    let found = home.run(["grep", "evil\u{1b}", "--json"]).ok().json();
    assert_eq!(found[0]["tool"]["name"], evil);
}
