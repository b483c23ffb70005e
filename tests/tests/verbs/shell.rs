//! `shell`: lines from a pipe and from a terminal.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use drowse_tests::harness::{Home, Terminal};

#[test]
fn a_script_ends_with_its_first_failure() {
    let home = Home::new();
    home.connect("@s", &[], &[]);
    let script = |lines: &str, words: &[&str]| {
        let mut child = home
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = script(
        "tools-call echo text=a\n\n# a remark\ndrowse @s tools-call echo 'text=b c'\nuse\nuse @s\n\
         tools-call echo text=d\nexit\ntools-call echo text=never\n",
        &["@s", "shell"],
    );
    assert_eq!((code, out.as_str()), (0, "a\nb c\nd\n"), "{err}");

    let (code, out, err) = script("@s tools-call nothing\n@s tools-call echo text=never\n", &["shell"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    let (code, _, err) = script("tools-call 'x\n", &["shell", "@s"]);
    assert_eq!(code, 1);
    assert!(err.contains("has no end"), "{err}");
    // What a command could read is the script: it gets nothing of it.
    let (code, _, err) = script("tools-call echo -\n{\"text\":\"x\"}\n", &["shell", "@s"]);
    assert_eq!(code, 1, "{err}");
    // The shell's flags are those of its lines.
    let (code, out, _) = script("ping\n", &["@s", "shell", "--json"]);
    assert!(code == 0 && out.starts_with("{\"success\":true"), "{out}");
}

#[test]
fn a_dialogue_on_a_terminal() {
    let home = Home::new();
    home.connect("@s", &[], &[]);
    let mut terminal = Terminal::start(&home.command(["@s", "shell"]));
    terminal.sees("drowse @s> ").types("tools-call slow ms:=60000\r").sees("\n");
    home.session("@s").wait_for(|entries| entries.iter().any(|entry| format!("{entry:?}").contains("slow")));
    terminal.types("\u{3}").sees("drowse @s> ").types("nonsense\r").sees("no command").sees("drowse @s> ");
    terminal.types("connect u.test @x -H 'A: secret' --lazy\r").sees("drowse @s> ");
    // Tab: the rest of the word.
    terminal.types("tools-c\techo text=tabbed\r").sees("drowse @s> ");
    terminal.types("use @other\r").sees("drowse @other> ").types("\u{4}");
    let run = terminal.end();
    assert_eq!(run.code, 0, "{}", run.err);
    let history = fs::read_to_string(home.files().root().join("history")).unwrap();
    assert!(history.contains("tools-call slow") && history.contains("use @other"), "{history}");
    assert!(history.contains("tools-call echo text=tabbed"), "{history}");
    assert!(!history.contains("secret"), "{history}");

    // The next shell remembers: up, up: the last line but one that was kept.
    let mut terminal = Terminal::start(&home.command(["@s", "shell"]));
    terminal.sees("drowse @s> ").types("\u{1b}[A").sees("use @other").types("\u{3}");
    terminal.sees("drowse @s> ").types("\u{4}");
    assert_eq!(terminal.end().code, 0);
}
