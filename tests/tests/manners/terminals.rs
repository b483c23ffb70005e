//! Colours, narrow terminals, wide characters.

use std::process::Command;

use drowse_tests::harness::{Home, Terminal, drowse};

/// What is seen of a command whose standard streams are a terminal, so many columns wide.
pub(super) fn on_terminal(
    home: &Home,
    words: &[&str],
    env: &[(&str, &str)],
    columns: Option<usize>,
) -> String {
    let plain = home.command(words);
    let mut command = Command::new("sh");
    let size = columns.map_or_else(String::new, |columns| format!("stty cols {columns} rows 50 && "));
    command.arg("-c").arg(format!("{size}exec \"$@\" >/dev/tty")).arg("sh").arg(drowse()).args(words);
    command.env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TERM", "xterm").envs(env.iter().copied());
    command.current_dir(home.path());
    Terminal::start(&command).end().err
}

#[test]
fn colours_are_shown_where_they_are_wanted() {
    let home = Home::new();
    let _session = home.connect("@s", &["--lazy"], &[]);
    for (env, coloured) in [
        (&[][..], true),
        (&[("NO_COLOR", "1")], false),
        (&[("CLICOLOR", "0")], false),
        (&[("TERM", "dumb")], false),
        (&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
    ] {
        let shown = on_terminal(&home, &[], env, None);
        assert!(shown.contains("@s"), "{shown:?}");
        assert_eq!(shown.contains('\u{1b}'), coloured, "{env:?}: {shown:?}");
    }
    let mut piped = home.command([] as [&str; 0]);
    assert!(
        !home
            .finish({
                piped.env("TERM", "xterm");
                piped
            })
            .out
            .contains('\u{1b}')
    );
    let mut forced = home.command([] as [&str; 0]);
    assert!(
        home.finish({
            forced.env("CLICOLOR_FORCE", "1");
            forced
        })
        .out
        .contains('\u{1b}')
    );
}

#[test]
fn narrow_terminals_break_lines_between_words() {
    let home = Home::new();
    let _session = home.connect("@s", &["--idle-timeout", "600"], &[]);
    let wide = [
        "connect",
        "@wide",
        "--lazy",
        "--",
        "echo",
        "漢字漢字漢字",
        "🐎🐎🐎",
        "e\u{301}e\u{301}e\u{301}",
        "more",
        "words",
    ];
    let _ = home.run(wide).ok();
    for words in [
        &[][..],
        &["@s"],
        &["@s", "tools-list"],
        &["@s", "tools-list", "--full"],
        &["@s", "resources-list"],
        &["@s", "prompts-list"],
        &["help"],
        &["help", "states"],
        &["help", "activity"],
        &["help", "connect"],
        &["connect", "nonsense"],
    ] {
        let whole = on_terminal(&home, words, &[("NO_COLOR", "1")], Some(500));
        for columns in [20, 40, 1, 3] {
            let shown = on_terminal(&home, words, &[("NO_COLOR", "1")], Some(columns));
            let all = |text: &str| text.split_whitespace().map(str::len).sum::<usize>();
            if !words.contains(&"help") {
                assert_eq!(all(&shown), all(&whole), "{words:?} at {columns}: {shown}");
            }
            if columns < 20 || words == ["help", "connect"] || words.contains(&"nonsense") {
                continue;
            }
            // A line is longer only for one word, or for a command to be copied. Here a character has a column or two.
            let columns_of = |line: &str| {
                line.chars().map(|c| 1 + usize::from(c >= '\u{1100}' && c != '…')).sum::<usize>()
            };
            for line in shown.lines().map(str::trim_end) {
                let fits = line.chars().count() <= columns
                    || line.split_whitespace().count() <= 1
                    || line.contains('↳');
                assert!(fits, "{words:?} at {columns}: {line:?} ({})", columns_of(line));
            }
        }
    }
}
