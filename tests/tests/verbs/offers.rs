//! Prompts, templates and completion through a session, and lists in pages.

use drowse_tests::harness::{Home, in_both_eras};
use serde_json::{Value, json};

#[test]
fn prompts_templates_and_completion() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let json = |words: &[&str]| session.run(words.iter().copied()).ok().json();
        let prompts = json!([{"name": "hello", "arguments": [{"name": "name", "required": true}]}]);
        assert_eq!(json(&["prompts-list"]), prompts);
        let hello = json(&["prompts-get", "hello", "name:=5"]);
        assert_eq!(hello["messages"][0]["content"], json!({"type": "text", "text": "hello 5"}), "a string");
        let templates = json(&["resources-templates-list"]);
        assert_eq!(templates[0]["uriTemplate"], "counter://{name}");
        for words in [
            &["complete", "prompt", "hello", "name", "an"][..],
            &["complete", "resource", "counter://{name}", "name", "an", "--with", "a=b"],
        ] {
            assert_eq!(json(words)["completion"]["values"], json!(["ann", "anna"]), "{words:?}");
        }
        let text = |words: &[&str]| home.run(words).ok().out;
        assert_eq!(text(&["@s", "prompts-list"]), "hello name:=string\n");
        assert_eq!(text(&["@s", "prompts-get", "hello", "name=you"]), "hello you\n");
        assert_eq!(text(&["@s", "complete", "prompt", "hello", "name"]), "ann\nanna\nbob\n");
        assert_eq!(text(&["@s", "resources-templates-list"]), "counter://{name}  counters\n");
        let failure = session.run(["prompts-get", "helo"]).fails(2);
        assert_eq!(
            (&failure["kind"], &failure["_drowse"]["hint"]),
            (&json!("server-error"), &json!("Did you mean: hello"))
        );
        let _ = session.run(["complete", "tool", "hello", "name"]).fails(1);
    });
}

#[test]
fn lists_of_many_pages_are_whole() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era, "--page-size", "1"]);
        session.wait_until_saved();
        let before = session.methods().len();
        let tools = session.run(["tools-list"]).ok().json();
        let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!((names.len(), names[0], names[15]), (16, &json!("echo"), &json!("flip_tools")));
        let pages = session.methods().iter().skip(before).filter(|method| *method == "tools/list").count();
        assert_eq!(pages, 16);
    });
}
