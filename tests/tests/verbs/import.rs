//! `import`: what hosts and mcpc know becomes sessions, once it is agreed to.

use std::fs;
use std::process::Command;

use drowse_tests::harness::{Home, belonging_to};
use serde_json::{Value, json};

/// A user's home directory beside drowse's own, with a session of mcpc and two files of hosts in it.
struct Desk {
    home: Home,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { home: Home::new() };
        let server = desk.home.session("@fix").server(&[]);
        let (program, args) = server.split_first().unwrap();
        let mcpc = json!({"sessions": {
            "@old": {"server": {"command": program, "args": args, "env": {"GREETING": "hi"}, "timeout": 7}},
            "@web": {"server": {"url": "https://h.test/mcp", "headers": {"X-Known": "<redacted>", "X-Lost": "<redacted>"}},
                     "profileName": "p"},
            "@odd": {"server": {}},
        }});
        desk.write(".mcpc/sessions.json", &mcpc);
        desk.write(".mcpc/credentials.json", &json!({"session:@web:headers": r#"{"X-Known":"sesame"}"#}));
        desk.write(".cursor/mcp.json", &json!({"mcpServers": {"cur": {"command": program, "args": args}}}));
        fs::write(desk.user().join(".claude.json"), "{").unwrap();
        desk
    }

    fn user(&self) -> std::path::PathBuf {
        self.home.path().join("user")
    }

    fn write(&self, file: &str, content: &Value) {
        let path = self.user().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.to_string()).unwrap();
    }

    fn import(&self, words: &[&str]) -> Command {
        let mut command = self.home.command(["import"].iter().chain(words));
        command.env("HOME", self.user()).env_remove("XDG_CONFIG_HOME").env_remove("MCPC_HOME_DIR");
        command
    }

    fn names(&self) -> Vec<String> {
        self.home.list().iter().map(|session| session["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn the_plan_comes_first_and_changes_nothing() {
    let desk = Desk::new();
    let run = desk.home.finish(desk.import(&[])).ok();
    for wanted in [
        "+ @old",
        "+ @web",
        "+ @cur",
        "! @odd",
        "no `command` and no `url`",
        "value of X-Lost",
        "without its login",
    ] {
        assert!(run.out.contains(wanted), "{wanted}: {}", run.out);
    }
    assert!(run.err.contains("drowse import --yes"), "{}", run.err);
    assert!(
        run.err.contains(".claude.json is not valid JSON"),
        "a damaged file is said, and harms no other: {}",
        run.err
    );
    assert!(!format!("{}{}", run.out, run.err).contains("sesame"), "no secret is shown");
    assert_eq!(desk.names(), [] as [&str; 0]);
}

#[test]
fn what_was_agreed_to_is_made_and_starts_with_its_first_use() {
    let desk = Desk::new();
    let run = desk.home.finish(desk.import(&["--yes", "--json"])).ok();
    let documents: Vec<Value> = serde_json::from_str(&run.out).unwrap();
    let actions: Vec<_> = documents
        .iter()
        .map(|d| (d["name"].as_str().unwrap(), d["_drowse"]["action"].as_str().unwrap()))
        .collect();
    assert_eq!(actions, [("@old", "created"), ("@web", "created"), ("@odd", "skip"), ("@cur", "created")]);
    assert_eq!(desk.names(), ["@cur", "@old", "@web"]);
    assert_eq!(belonging_to(desk.home.path()), [] as [u32; 0], "nothing is started");
    let record = desk.home.session("@web").record();
    assert_eq!(
        (record.url.as_deref(), record.given_headers.as_slice()),
        (Some("https://h.test/mcp"), &["X-Known".to_owned()][..])
    );
    assert_eq!(desk.home.session("@old").record().settings.timeout_ms, Some(7000));

    let called = desk.home.run(["@old", "tools-call", "env", "name=GREETING"]).ok();
    assert_eq!(called.out, "hi\n", "its environment came along");
    assert_eq!(desk.home.run(["@cur", "tools-call", "echo", "text=x"]).ok().out, "x\n");

    let again = desk.home.finish(desk.import(&["--yes"])).ok();
    assert!(again.out.contains("= @old") && again.out.contains("= @cur"), "{}", again.out);
    assert!(again.err.contains("nothing to import"), "{}", again.err);
    assert_eq!(desk.names().len(), 3);
}

#[test]
fn a_taken_name_and_a_missing_file() {
    let desk = Desk::new();
    desk.home.connect("@old", &[], &["--era", "legacy"]);
    let run = desk.home.finish(desk.import(&[])).ok();
    assert!(
        run.out.contains("! @old") && run.out.contains("the name is taken by another session"),
        "{}",
        run.out
    );
    let run = desk.home.finish(desk.import(&["nowhere.json"]));
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("there is no file"), "{}", run.err);
}
