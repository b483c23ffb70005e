//! `--cached`: lists from the snapshot.

use serde_json::json;

use super::{dormant, raw, snapshot, write};
use drowse_tests::harness::Home;

#[test]
fn lists_and_info_without_a_start() {
    let home = Home::new();
    home.connect("@s", &["--lazy"], &[]);
    let tool = json!({"name": "get-item", "description": "Gets it", "x": 1.5});
    let mut all = snapshot(&home, "@s", std::slice::from_ref(&tool));
    all.header.instructions = Some("Be kind.".into());
    all.prompts = vec![raw(&json!({"name": "p"}))];
    all.resources = vec![raw(&json!({"uri": "a://b", "name": "b"}))];
    all.resource_templates = vec![raw(&json!({"uriTemplate": "a://{b}", "name": "c"}))];
    write(&home, "@s", &all);
    let session = home.session("@s");
    let json = |words: &[&str]| session.run(words.iter().copied()).ok().json();
    assert_eq!(json(&["tools-list", "--cached"]), json!([tool]));
    assert_eq!(json(&["prompts-list", "--cached"])[0]["name"], "p");
    assert_eq!(json(&["resources-list", "--cached"])[0]["uri"], "a://b");
    assert_eq!(json(&["resources-templates-list", "--cached"])[0]["name"], "c");
    let mut with_age = tool.clone();
    with_age["_drowse"] = json!({"cachedAt": all.header.taken});
    assert_eq!(json(&["tools-get", "get-item", "--cached"]), with_age);
    let info = json(&["--cached"]);
    assert_eq!(info["serverInfo"], json!({"name": "kept", "version": "1"}));
    assert_eq!((&info["instructions"], &info["protocolVersion"]), (&json!("Be kind."), &json!("2026-07-28")));
    assert_eq!(info["_drowse"]["cachedAt"], all.header.taken);
    assert_eq!((&info["_drowse"]["name"], &info["_drowse"]["status"]), (&json!("@s"), &json!("dormant")));

    let text = home.run(["@s", "tools-list", "--cached"]).ok();
    assert_eq!(text.out, "get-item\n    Gets it\n");
    assert_eq!(text.err, "@s, dormant: as its server was 3 h ago\n");
    let text = home.run(["@s", "--cached"]).ok();
    assert!(text.out.contains("Server: kept 1\n") && text.out.contains("  Be kind.\n"), "{}", text.out);
    assert!(text.err.starts_with("@s, dormant: as its server was 3 h ago\n"), "{}", text.err);
    assert!(home.run(["@s", "tools-get", "get-item", "--cached"]).ok().out.starts_with("get-item\n"));

    let failure = session.run(["tools-get", "get-itm", "--cached"]).fails(1);
    assert_eq!(failure["_drowse"]["hint"], "Did you mean: get-item");
    assert_eq!(session.starts(), 0, "nothing was started");
    assert_eq!(session.listed()["status"], "dormant");
}

#[test]
fn without_a_snapshot_it_is_said_what_to_do() {
    let home = Home::new();
    home.connect("@s", &["--lazy"], &[]);
    for words in [&["tools-list", "--cached"][..], &["--cached"], &["tools-get", "x", "--cached"]] {
        let failure = home.session("@s").run(words.iter().copied()).fails(1);
        assert_eq!(failure["kind"], "no-snapshot", "{failure}");
        assert!(failure["_drowse"]["hint"].as_str().unwrap().contains("drowse @s ping"), "{failure}");
    }
    let failure = home.session("@nobody").run(["tools-list", "--cached"]).fails(1);
    assert!(failure["error"].as_str().unwrap().contains("@nobody"), "{failure}");
    assert_eq!(home.session("@s").starts(), 0);
    dormant(&home, "@t", &[]);
    assert_eq!(home.run(["@t", "tools-list", "--cached"]).ok().out, "");
    let _ = home.run(["tools-list", "--server", "cat", "--cached", "--json"]).fails(1);
}
