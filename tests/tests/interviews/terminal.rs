//! Questions on a terminal.

use drowse_tests::harness::{Home, Session, Terminal};
use serde_json::{Value, json};

use super::{asks, form, script};

fn call(home: &Home, rounds: &[Value]) -> Terminal {
    Terminal::start(&home.command(["@s", "tools-call", "interview", &script(rounds)]))
}

fn session(home: &Home) -> Session<'_> {
    home.connect("@s", &[], &["--era", "modern"])
}

fn declared(session: &Session<'_>) -> Value {
    let entries = session.journal.entries().unwrap();
    entries.iter().rfind(|entry| entry.event == "interview").unwrap().fields["declared"].clone()
}

/// What the server was told, as the tool says it.
fn answer(terminal: Terminal) -> Value {
    serde_json::from_str(&terminal.end().ok().out).unwrap()
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let home = Home::new();
    let session = session(&home);
    let properties = json!({
        "name": {"type": "string", "title": "Your name", "description": "as in the \u{1b}[2J passport", "minLength": 2},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 18, "maximum": 99, "default": 30},
        "ok": {"type": "boolean"},
        "colour": {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]},
        "tags": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b", "c"]}, "default": ["a"]},
        "note": {"type": "string"},
    });
    let question = form("Who are you\u{7}?", properties, json!(["name", "mail", "ok", "colour"]));
    let mut terminal = call(&home, &[asks(json!({"q": question}), "state")]);
    terminal.sees("@s asks: Who are you\\x07?").sees("Your name — as in the \\x1b[2J passport");
    terminal.sees("(text, at least 2 characters): ").enters("").sees("it is needed");
    terminal.enters("x").sees("fewer than 2 characters").enters("Ann");
    terminal.sees("mail").enters("ann at home").sees("not an e-mail address").enters("ann@home.example");
    terminal.sees("(whole number, 18 to 99, optional) [30]: ").enters("7").sees("less than 18").enters("");
    terminal.sees("(y/n): ").enters("perhaps").sees("not y or n").enters("yes");
    terminal.sees("1  #f00 (Red)").sees("(one of them): ").enters("Green").sees("not one of").enters("Blue");
    terminal.sees("[a]: ").enters("c, 1");
    terminal.sees("note").enters("");
    terminal.sees("This goes to @s:").sees("Your name: Ann").sees("tags: c, a").sees("note: (nothing)");
    // Once more, with what was said as defaults.
    terminal.sees("Send it?").enters("e");
    terminal.sees("[Ann]: ").enters("!!decline").sees("[ann@home.example]: ").enters("");
    terminal.sees("[30]: ").enters("31").sees("[y]: ").enters("n").sees("[#00f]: ").enters("1");
    terminal.sees("[c, a]: ").enters("").sees("note").enters("\"\"");
    terminal.sees("Send it?").enters("");
    let content = json!({
        "name": "!decline", "mail": "ann@home.example", "age": 31, "ok": false, "colour": "#f00", "tags": ["c", "a"],
        "note": "",
    });
    let said = answer(terminal);
    assert_eq!(said.to_string(), json!({"q": {"action": "accept", "content": content}}).to_string());
    assert_eq!(declared(&session), json!({"elicitation": {"form": {}, "url": {}}}));
}

#[test]
fn every_way_to_say_no() {
    let home = Home::new();
    let session = session(&home);
    let question = form("Name?", json!({"name": {"type": "string"}}), json!(["name"]));
    let rounds = [asks(json!({"q": question}), "state")];
    for (keys, action) in [
        ("!decline\n", "decline"),
        ("!cancel\n", "cancel"),
        ("\u{4}", "cancel"),
        ("x\nd\n", "decline"),
        ("x\nc\n", "cancel"),
    ] {
        let mut terminal = call(&home, &rounds);
        terminal.sees("(text): ").types(keys);
        assert_eq!(answer(terminal), json!({"q": {"action": action}}), "{keys:?}");
    }
    let before = session.journal.entries().unwrap().iter().filter(|entry| entry.event == "interview").count();
    let mut terminal = call(&home, &rounds);
    terminal.sees("(text): ").types("half a na\u{3}");
    let run = terminal.end().exits(130);
    assert_eq!(run.out, "");
    assert!(run.err.contains("interrupted"), "{}", run.err);
    let after = session.journal.entries().unwrap().iter().filter(|entry| entry.event == "interview").count();
    assert_eq!(after, before + 1, "nothing was sent after Ctrl-C");
}

#[test]
fn addresses_are_shown_whole_and_wait_for_a_yes() {
    let home = Home::new();
    let _session = session(&home);
    let visit = |url: &str| {
        let params = json!({"mode": "url", "message": "Log in, please", "url": url});
        [asks(json!({"q": {"method": "elicitation/create", "params": params}}), "state")]
    };
    let url = "https://good.example@evil.example/a?b=c#d";
    for (typed, action) in
        [("y", "accept"), ("d", "decline"), ("", "cancel"), ("c", "cancel"), ("nonsense\ny", "accept")]
    {
        let mut terminal = call(&home, &visit(url));
        terminal
            .sees("@s asks: Log in, please")
            .sees(url)
            .sees("Host: evil.example")
            .sees("Warning: what stands before");
        terminal.sees("cancel [c] ").enters(typed);
        assert_eq!(answer(terminal), json!({"q": {"action": action}}), "{typed:?}");
    }
    let mut terminal = call(&home, &visit("file:///etc/passwd"));
    terminal.sees("Warning: this is not the address of a web page").sees("y: accept").enters("o").enters("d");
    assert_eq!(answer(terminal), json!({"q": {"action": "decline"}}));
}

#[test]
fn a_browser_is_opened_only_on_request() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let _session = session(&home);
    let (opened, bin) = (home.path().join("opened"), home.path().join("bin"));
    std::fs::create_dir(&bin).unwrap();
    let browser = bin.join("xdg-open");
    std::fs::write(
        &browser,
        format!("#!/bin/sh\nprintf %s \"$1\" > '{0}.part'\nmv '{0}.part' '{0}'\n", opened.display()),
    )
    .unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let url = "https://x.example/?a=$(touch%20x)&b='";
    let params = json!({"mode": "url", "message": "m", "url": url});
    let rounds = [asks(json!({"q": {"method": "elicitation/create", "params": params}}), "state")];
    for (typed, opens) in [("y", false), ("o", true)] {
        let mut command = home.command(["@s", "tools-call", "interview", &script(&rounds)]);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", bin.display()));
        let mut terminal = Terminal::start(&command);
        terminal.sees("cancel [c] ");
        assert!(!opened.exists(), "nothing is opened unasked");
        terminal.enters(typed);
        assert_eq!(answer(terminal), json!({"q": {"action": "accept"}}));
        if opens {
            let found = drowse_tests::harness::Watch::on(home.path()).and_then(|mut watch| {
                let deadline = std::time::Instant::now() + drowse_tests::harness::LIMIT;
                while !opened.exists() && watch.changed(deadline)? {}
                std::fs::read_to_string(&opened)
            });
            assert_eq!(found.unwrap(), url);
        } else {
            assert!(!opened.exists());
        }
    }
}

#[test]
fn with_json_nobody_is_asked() {
    let home = Home::new();
    let session = session(&home);
    let question = form("Name?", json!({"name": {"type": "string", "default": "x"}}), json!(["name"]));
    let rounds = script(&[asks(json!({"q": question}), "state")]);
    let terminal = Terminal::start(&home.command(["@s", "tools-call", "interview", &rounds, "--json"]));
    let run = terminal.end().exits(2);
    assert!(!run.err.contains("asks:"), "{}", run.err);
    assert_eq!(declared(&session), json!({}));
    // And with --elicit, neither.
    let terminal = Terminal::start(&home.command([
        "@s",
        "tools-call",
        "interview",
        &rounds,
        "--elicit",
        "accept-defaults",
    ]));
    assert_eq!(answer(terminal), json!({"q": {"action": "accept", "content": {"name": "x"}}}));
}
