//! `grep` on a terminal: matches are marked, and lines fit.

use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;

use drowse_runtime::home::{Home as Files, SessionName};
use drowse_runtime::record::read_session;
use drowse_runtime::snapshot::{self, Header, SCHEMA, Snapshot};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::home::Home;

/// What a command shows on a terminal that has so many columns.
fn on_terminal(home: &Home, columns: u16, variable: Option<(&str, &str)>, words: &[&str]) -> String {
    let mut ours = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 25, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    let mut command = home.command(words);
    command.envs(variable).stdout(theirs).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut seen = Vec::new();
    // It ends with an error when the last one that has it open is gone.
    let mut piece = [0; 1024];
    while let Ok(size @ 1..) = ours.read(&mut piece) {
        seen.extend_from_slice(&piece[..size]);
    }
    child.wait().unwrap();
    String::from_utf8(seen).unwrap().replace("\r\n", "\n")
}

fn home_with(tools: &[serde_json::Value]) -> Home {
    let home = Home::new();
    let connected = home.run("connect @s --lazy -- cat");
    assert_eq!(connected.code, 0, "{}", connected.err);
    let files = Files::new(home.path().join("home"), None);
    let name = SessionName::new("s").unwrap();
    let record = read_session(&files, &name).unwrap().unwrap();
    let header = Header {
        schema: SCHEMA,
        identity: record.identity,
        taken: 0,
        generation: 0,
        era: "modern".into(),
        protocol_version: "2026-07-28".into(),
        server_info: None,
        capabilities: None,
        instructions: None,
        incomplete: Vec::new(),
    };
    let tools = tools.iter().map(|tool| RawValue::from_string(tool.to_string()).unwrap()).collect();
    let lists = (Vec::new(), Vec::new(), Vec::new());
    let all = Snapshot { header, tools, prompts: lists.0, resources: lists.1, resource_templates: lists.2 };
    snapshot::write(&files, &name, &all).unwrap();
    assert!(fs::metadata(files.snapshot_file(&name)).is_ok());
    home
}

#[test]
fn matches_are_marked_on_a_terminal_only() {
    let home = home_with(&[json!({"name": "read_file", "description": "Reads a file"})]);
    let shown = on_terminal(&home, 80, None, &["grep", "FILE"]);
    assert!(shown.contains("\u{1b}[1mread_\u{1b}[0m\u{1b}[31mfile\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("    Reads a \u{1b}[31mfile\u{1b}[0m\n"), "{shown:?}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!on_terminal(&home, 80, Some(variable), &["grep", "FILE"]).contains('\u{1b}'));
    }
    assert!(!home.run("grep FILE").out.contains('\u{1b}'));
}

#[test]
fn lines_fit_a_narrow_terminal() {
    let text = format!("{}needle {}", "before ".repeat(40), "after ".repeat(40));
    let home = home_with(&[
        json!({"name": "a".repeat(70), "description": text}),
        json!({"name": "evil\u{1b}[2J\nneedle", "description": "\u{9b}"}),
    ]);
    for columns in [60, 100] {
        let shown = on_terminal(&home, columns, Some(("NO_COLOR", "1")), &["grep", "needle"]);
        for line in shown.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line}");
        }
        assert!(shown.contains(" before needle after "), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    // Nothing fits there, and nothing breaks.
    assert!(on_terminal(&home, 1, None, &["grep", "needle"]).contains("needle"));
}
