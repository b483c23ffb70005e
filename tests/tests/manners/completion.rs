//! Completion, asked for as shells ask, and by shells.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use drowse_runtime::home::SessionName;
use drowse_runtime::snapshot::{self, Header, Snapshot};
use drowse_tests::harness::{Home, Run, Running, Terminal, drowse};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

/// Leaves a snapshot for a session, with names that shells have to quote.
fn offer(home: &Home, name: &str) {
    let record = fs::read(home.files().session_file(&SessionName::new(name).unwrap())).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let schema = json!({"type": "object", "required": ["text"], "properties":
        {"text": {"type": "string"}, "kind": {"enum": ["one", "it's two"]}, "deep": {"type": "boolean"}}});
    let tools = [
        json!({"name": "echo", "description": "Returns\tthe \u{1b}[31mtext", "inputSchema": schema}),
        json!({"name": "evil $(touch owned); `x` \"q\" 'p'"}),
        json!({"name": "evil\u{1b}[2J"}),
    ];
    let snapshot = Snapshot {
        header: Header {
            schema: snapshot::SCHEMA,
            identity: record["identity"].as_str().unwrap_or_default().to_owned(),
            taken: 1,
            generation: 1,
            era: "modern".into(),
            protocol_version: "2026-07-28".into(),
            server_info: None,
            capabilities: None,
            instructions: None,
            incomplete: Vec::new(),
        },
        tools: tools.iter().map(raw).collect(),
        prompts: vec![raw(&json!({"name": "hello", "arguments": [{"name": "name"}]}))],
        resources: vec![raw(&json!({"uri": "counter://main", "name": "c"}))],
        resource_templates: vec![],
    };
    snapshot::write(home.files(), &SessionName::new(name).unwrap(), &snapshot).unwrap();
}

/// A home with two sessions that were never started.
fn with_sessions() -> Home {
    let home = Home::new();
    for name in ["@files", "@far"] {
        let _ = home.run(["connect", name, "--lazy", "--", "cat"]).ok();
        offer(&home, name);
    }
    home
}

fn asked(home: &Home, words: &[&str]) -> Run {
    let run = home.run(["complete-words"].into_iter().chain(words.iter().copied())).ok();
    assert_eq!(run.err, "", "{words:?}");
    run
}

fn values(home: &Home, words: &[&str]) -> Vec<String> {
    let all = asked(home, &[&["json"], words].concat()).json();
    all.as_array().unwrap().iter().map(|one| one["value"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_may_follow() {
    let home = with_sessions();
    fs::write(home.path().join("mcp.json"), r#"{"mcpServers": {"alpha": {"command": "x"}}}"#).unwrap();
    for (words, expected) in [
        (&["@"][..], &["@far", "@files"][..]),
        (&["@files", "tools-call", "ech"], &["echo"]),
        (&["@files", "tools-call", "echo", ""], &["text=", "kind=", "deep:="]),
        (&["@files", "tools-call", "echo", "kind="], &["kind=one", "kind=it's two"]),
        (&["@files", "tools-call", "echo", "text=@m"], &["text=@mcp.json"]),
        (&["connect", "mcp"], &["mcp.json"]),
        (&["connect", "mcp.json:"], &["mcp.json:alpha"]),
        (&["tools-list", "--server", "mcp.json:a"], &["mcp.json:alpha"]),
        (&["@files", "resources-read", "c"], &["counter://main"]),
        (&["@files", "prompts-get", "hello", ""], &["name="]),
    ] {
        assert_eq!(values(&home, words), expected, "{words:?}");
    }
    // What cannot be shown is left out; what can is described on one line.
    let tools = asked(&home, &["json", "@files", "tools-call", ""]).json();
    assert_eq!(tools.as_array().unwrap().len(), 2, "{tools}");
    assert_eq!(tools[0]["about"], "Returns the \\x1b[31mtext");
}

#[test]
fn nonsense_gets_silence() {
    let home = with_sessions();
    for words in
        [&[][..], &["bash"], &["tcsh", "x"], &["zsh"], &["fish"], &["powershell"], &["json", "nope", ""]]
    {
        let out = asked(&home, words).out;
        assert!(out.is_empty() || out == "[]\n", "{words:?}: {out:?}");
    }
    fs::write(home.files().snapshot_file(&SessionName::new("files").unwrap()), "{\"tools\":[{").unwrap();
    assert!(values(&home, &["@files", "tools-call", ""]).is_empty());
    fs::write(home.files().session_file(&SessionName::new("far").unwrap()), "broken").unwrap();
    assert_eq!(values(&home, &["@f"]), ["@far", "@files"]);
    let _ = home.run(["close", "@far"]);
    let mut lost = home.command(["complete-words", "json", "@"]);
    lost.env("DROWSE_HOME", "/nonexistent/home");
    let run = home.finish(lost).ok();
    assert_eq!((run.out.as_str(), run.err.as_str()), ("[]\n", ""));
}

#[test]
fn a_tab_starts_nothing_and_is_no_use() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "1"], &[]);
    offer(&home, "@s");
    let asleep = session.wait_until_asleep();
    let starts = session.journal.starts().unwrap().len();
    for words in
        [&["@"][..], &["@s", "tools-call", ""], &["@s", "tools-call", "echo", "t"], &["tools-get", "@s", "e"]]
    {
        assert!(!values(&home, words).is_empty(), "{words:?}");
    }
    let now = session.state().unwrap();
    assert_eq!((now.generation, now.since, now.state), (asleep.generation, asleep.since, asleep.state));
    assert_eq!(session.journal.starts().unwrap().len(), starts);
}

/// The limit is a loose one: machines are busy, and this is a build without optimisation.
#[test]
fn a_thousand_sessions_are_no_wait() {
    let home = with_sessions();
    let record = fs::read(home.files().session_file(&SessionName::new("files").unwrap())).unwrap();
    for number in 0..1000 {
        let directory = home.files().sessions().join(format!("many-{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("session.json"), &record).unwrap();
    }
    let best = |words: &[&str]| {
        let took = (0..5).map(|_| {
            let begun = Instant::now();
            let _ = values(&home, words);
            begun.elapsed()
        });
        took.min().unwrap()
    };
    assert_eq!(values(&home, &["@many"]).len(), 1000);
    for words in [&["@"][..], &["@many-77"], &["@files", "tools-call", "e"]] {
        let took = best(words);
        eprintln!("{words:?}: {took:?}");
        assert!(took < Duration::from_millis(500), "{words:?}: {took:?}");
    }
    for number in 0..1000 {
        fs::remove_dir_all(home.files().sessions().join(format!("many-{number}"))).unwrap();
    }
}

/// A shell in that home, which finds the binary by its name.
fn shell(home: &Home, program: &str, words: &[&str]) -> Command {
    let plain = home.command([] as [&str; 0]);
    let mut command = Command::new(program);
    command.args(words).env_clear().current_dir(home.path()).stdin(Stdio::null());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut path = OsString::from(drowse().parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    command.env("PATH", path).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
    command
}

/// Whether that shell is there. Those that are not are said to be untested.
fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    if !there {
        eprintln!("{program} is not there: its script is not run");
    }
    there
}

#[test]
fn bash_completes_on_a_terminal() {
    let home = with_sessions();
    fs::write(home.path().join("mcp.json"), r#"{"mcpServers": {"alpha": {"command": "x"}}}"#).unwrap();
    let mut terminal = Terminal::start(&shell(&home, "bash", &["--norc", "--noprofile", "-i"]));
    terminal.enters(
        "PS1='> '; bind 'set bell-style none'; source <(drowse completions bash); complete -p drowse >&2",
    );
    terminal.sees("complete -F _drowse_complete drowse");
    for (typed, becomes) in [
        ("drowse @fi", "drowse @files "),
        ("echo 1; drowse tools-list @fa", "drowse tools-list @far "),
        ("drowse @files tools-call ech", "drowse @files tools-call echo "),
        ("drowse @files tools-call echo de", "drowse @files tools-call echo deep:="),
        ("drowse @files tools-call echo deep:=t", "drowse @files tools-call echo deep:=true "),
        ("drowse @files tools-call echo kind=i", "drowse @files tools-call echo kind=it\\'s\\ two "),
        ("drowse connect mcp.json:a", "drowse connect mcp.json:alpha "),
        ("drowse @files resources-read c", "drowse @files resources-read counter://main "),
        ("drowse clean ", "drowse clean all "),
    ] {
        terminal.types(&format!("{typed}\t#"));
        terminal.sees(&format!("{becomes}#"));
        // Away with the line.
        terminal.types("\u{15}");
    }
    // A hostile name is a word, whatever is in it.
    terminal.types("drowse @files tools-call ev\t\u{1}>&2 echo \n");
    terminal.sees("drowse @files tools-call evil $(touch owned); `x` \"q\" 'p'");
    terminal.enters("exit");
    let _ = terminal.end();
    assert!(!home.path().join("owned").exists());
}

#[test]
fn zsh_completes_on_a_terminal() {
    if !is_there("zsh") {
        return;
    }
    let home = with_sessions();
    // It draws on its standard output, which is to be the terminal.
    let mut terminal = Terminal::start(&shell(&home, "sh", &["-c", "exec zsh -f -i >/dev/tty 2>&1"]));
    terminal
        .enters("PS1='> '; unsetopt beep; autoload -U compinit; compinit -u -D; print rea''dy1")
        .sees("ready1");
    terminal.enters("source <(drowse completions zsh); print rea''dy2").sees("ready2");
    // What it draws is not what the line is: Enter says that.
    for (typed, becomes) in [
        ("drowse @fi", "[drowse][@files]"),
        ("drowse @files tools-call ech", "[drowse][@files][tools-call][echo]"),
        ("drowse @files tools-call echo kind=i", "[drowse][@files][tools-call][echo][kind=it's two]"),
        ("drowse @files tools-call ev", "[drowse][@files][tools-call][evil $(touch owned); `x` \"q\" 'p']"),
        ("drowse clean ", "[drowse][clean][all]"),
    ] {
        // A tab, to the start of the line, a command that shows the words.
        terminal.types(&format!("{typed}\t\u{1}printf '[%s]' \n"));
        terminal.sees(becomes);
    }
    terminal.enters("exit");
    let _ = terminal.end();
    assert!(!home.path().join("owned").exists());
}

#[test]
fn fish_completes() {
    if !is_there("fish") {
        return;
    }
    let home = with_sessions();
    let ask = |line: &str| {
        let script = format!("drowse completions fish | source; complete -C '{line}'");
        let run = Running::start(shell(&home, "fish", &["--no-config", "-c", &script])).end().ok();
        assert_eq!(run.err, "", "{line}");
        run.out
    };
    assert_eq!(ask("drowse @fi"), "@files\tdormant, cat\n");
    assert_eq!(ask("drowse clean "), "all\n");
    assert_eq!(ask("drowse @files tools-call ech"), "echo\tReturns the \\x1b[31mtext\n");
    assert!(ask("drowse @files tools-call echo ").starts_with("text=\tstring, required\n"));
}

#[test]
fn every_script_is_sound_where_its_shell_is() {
    let home = with_sessions();
    for (program, name) in [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")] {
        let script = home.run(["completions", name]).ok().out;
        assert!(script.contains(&format!("drowse complete-words {name}")), "{script}");
        let file = home.path().join(name);
        fs::write(&file, script).unwrap();
        if is_there(program) {
            let run = Running::start(shell(&home, program, &["-n", file.to_str().unwrap()])).end().ok();
            assert_eq!(run.err, "", "{name}");
        }
    }
    let script = home.run(["completions", "powershell"]).ok().out;
    assert!(script.contains("Register-ArgumentCompleter -Native -CommandName drowse"), "{script}");
    assert!(script.contains("$env:DROWSE_COMPLETE_LINE"), "{script}");
    assert_eq!(script.matches('{').count(), script.matches('}').count());
    let _ = home.run(["completions", "tcsh", "--json"]).fails(1);
    let _ = home.run(["completions", "--json"]).fails(1);
}

#[test]
fn powershell_is_answered_by_its_line() {
    let home = with_sessions();
    let ask = |line: &str| {
        let mut command = home.command(["complete-words", "powershell"]);
        command.env("DROWSE_COMPLETE_LINE", line);
        home.finish(command).ok().out
    };
    assert_eq!(ask("drowse '@fi"), "'@files'\t@files\tdormant, cat\n");
    assert_eq!(ask("drowse '@files' tools-call ech"), "echo\techo\tReturns the \\x1b[31mtext\n");
    assert_eq!(
        ask("drowse '@files' tools-call echo kind=i"),
        "'kind=it''s two'\tkind=it's two\tkind=it's two\n"
    );
    assert_eq!(ask("drowse clean "), "all\tall\tall\n");
}
