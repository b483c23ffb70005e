//! Snapshots that cannot be used are said, and harm nothing else.

use std::fs;

use serde_json::{Value, json};

use super::{dormant, snapshot, write};
use drowse_runtime::home::SessionName;
use drowse_tests::harness::Home;

#[test]
fn files_that_cannot_be_used_are_said_and_the_others_searched() {
    let home = Home::new();
    let tools = [json!({"name": "wanted"})];
    for name in ["@good", "@cut", "@newer", "@huge", "@bytes", "@pipe", "@empty"] {
        dormant(&home, name, &tools);
    }
    let file = |name: &str| home.files().snapshot_file(&SessionName::new(name).unwrap());
    let whole = fs::read(file("@cut")).unwrap();
    fs::write(file("@cut"), &whole[..whole.len() - 9]).unwrap();
    fs::write(file("@newer"), r#"{"schema":7,"tools":{}}"#).unwrap();
    fs::File::create(file("@huge")).unwrap().set_len(1 << 40).unwrap();
    fs::write(file("@bytes"), b"\xff\xfe\x00wanted").unwrap();
    fs::remove_file(file("@pipe")).unwrap();
    fs::create_dir(file("@pipe")).unwrap();
    fs::write(file("@empty"), "").unwrap();

    let run = home.run(["grep", "wanted"]).ok();
    assert_eq!(run.out, "@good  tool  wanted  (dormant, 3 h old)\n");
    let said = |name: &str| {
        let line = run.err.lines().find(|line| line.contains(&format!("warning: {name} was not searched")));
        line.unwrap_or_else(|| panic!("{name}: {}", run.err)).to_owned()
    };
    for (name, what) in [
        ("@cut", "it is cut off"),
        ("@newer", "written by a newer drowse (schema 7"),
        ("@huge", "larger than any snapshot"),
        ("@bytes", "not JSON"),
        ("@pipe", "it is not a file"),
        ("@empty", "it is cut off"),
    ] {
        let line = said(name);
        assert!(line.contains(what) && line.contains("snapshot.json"), "{line}");
        assert!(line.contains(&format!("drowse restart {name}")), "{line}");
        let failure = home.session(name).run(["tools-list", "--cached"]).fails(3);
        assert!(failure["error"].as_str().unwrap().contains(what), "{failure}");
    }
    assert_eq!(fs::read(file("@bytes")).unwrap(), b"\xff\xfe\x00wanted", "left as it is");
    assert_eq!(home.list().len(), 7);
    fs::remove_dir(file("@pipe")).unwrap();
}

#[test]
fn files_that_somebody_edited_are_read_as_they_are() {
    let home = Home::new();
    for name in ["@pretty", "@line"] {
        dormant(&home, name, &[json!({"name": "other"}), json!({"name": "wanted", "x": [{"y": 1}, 2]})]);
    }
    let file = |name: &str| home.files().snapshot_file(&SessionName::new(name).unwrap());
    let value = |name: &str| serde_json::from_slice::<Value>(&fs::read(file(name)).unwrap()).unwrap();
    fs::write(file("@line"), value("@line").to_string()).unwrap();
    fs::write(file("@pretty"), serde_json::to_vec_pretty(&value("@pretty")).unwrap()).unwrap();
    let found = home.run(["grep", "WANTED", "--json"]).ok().json();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found[1]["tool"], json!({"name": "wanted", "x": [{"y": 1}, 2]}));
    assert_eq!(home.run(["@pretty", "tools-list", "--cached"]).ok().out, "other\nwanted\n");
}

#[test]
fn a_snapshot_of_something_else_is_not_used() {
    let home = Home::new();
    dormant(&home, "@s", &[json!({"name": "wanted"})]);
    let mut other = snapshot(&home, "@s", &[json!({"name": "wanted"})]);
    other.header.identity = "what it ran before".into();
    write(&home, "@s", &other);
    let run = home.run(["grep", "wanted"]).exits(1);
    assert!(run.out.is_empty() && run.err.contains("1 session was not searched"), "{}", run.err);
    let failure = home.session("@s").run(["tools-list", "--cached"]).fails(1);
    assert_eq!(failure["kind"], "no-snapshot");
    assert!(failure["error"].as_str().unwrap().contains("what it ran before"), "{failure}");
}

#[test]
fn a_session_whose_record_is_damaged_is_said() {
    let home = Home::new();
    for name in ["@a", "@b"] {
        dormant(&home, name, &[json!({"name": "wanted"})]);
    }
    let record = home.files().session_file(&SessionName::new("@a").unwrap());
    let whole = fs::read(&record).unwrap();
    fs::write(&record, "{").unwrap();
    let run = home.run(["grep", "wanted"]).ok();
    assert!(run.out.starts_with("@b  tool  wanted"), "{}", run.out);
    assert!(
        run.err.contains("warning: @a was not searched") && run.err.contains("drowse close @a"),
        "{}",
        run.err
    );
    fs::write(&record, whole).unwrap();
}
