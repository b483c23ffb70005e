//! A server that writes what steers terminals into everything that people are shown.

use drowse_tests::fixture::hostile::EVIL;
use drowse_tests::harness::{Home, in_both_eras};

use super::terminals::on_terminal;

/// What may not reach a terminal. Lines may be ended, and a line of progress may be taken away.
#[track_caller]
fn is_harmless(what: &str, shown: &str) {
    let rest = shown.replace("\r\n", "\n").replace("\r\u{1b}[K", "");
    let found = rest
        .chars()
        .find(|c| c.is_control() && !"\n\t".contains(*c) || ('\u{202a}'..='\u{202e}').contains(c));
    assert_eq!(found, None, "{what}: {rest:?}");
}

#[test]
fn nothing_that_a_server_says_steers_the_terminal() {
    in_both_eras(|era| {
        let home = Home::new();
        let flags = ["--era", era, "--hostile", "--tasks", "--stderr", EVIL];
        let session = home.connect("@s", &[], &flags);
        let url = format!("counter://{EVIL}");
        let tool = format!("none{EVIL}");
        let text = format!("text={EVIL}");
        let mut lines: Vec<(Vec<&str>, bool)> = vec![
            (vec!["@s"], true),
            (vec!["@s", "tools-list"], true),
            (vec!["@s", "tools-list", "--full"], true),
            (vec!["@s", "tools-call", "echo", &text], true),
            (vec!["@s", "tools-call", "echo", &text, "--json"], true),
            (vec!["@s", "tools-call", "fail"], true),
            (vec!["@s", "tools-call", "rpc_error"], true),
            (vec!["@s", "tools-call", "rpc_error", "--json"], true),
            (vec!["@s", "tools-call", "slow", "ms:=700"], true),
            (vec!["@s", "tools-call", "notify", "--verbose"], true),
            (vec!["@s", "tools-call", &tool], false),
            (vec!["@s", "tools-get", &tool], false),
            (vec!["@s", "prompts-list"], true),
            (vec!["@s", "prompts-get", "hello", &text], false),
            (vec!["@s", "prompts-get", "hello", "name=x"], true),
            (vec!["@s", "resources-list"], true),
            (vec!["@s", "resources-read", "counter://main"], true),
            (vec!["@s", "resources-read", &url], false),
            (vec!["@s", "complete", "prompt", &tool, "name"], false),
            (vec!["@s", "logs"], true),
            (vec![&tool], false),
            (vec!["help", &tool], false),
            (vec!["connect", &url], false),
            (vec!["connect", "@x", "--", &tool], false),
            (vec!["@s", "tools-list", &text], false),
            (vec!["--timeout", &text], false),
            (vec![], false),
        ];
        if era == "legacy" {
            lines.push((vec!["@s", "tasks-list"], false));
        }
        for (words, answers) in lines {
            let shown = on_terminal(&home, &words, &[("NO_COLOR", "1")], None);
            is_harmless(&words.join(" "), &shown);
            // It was there, and is spelled out.
            assert!(
                !answers || shown.contains("\\u{202e}") || shown.contains("\\u202e"),
                "{words:?}: {shown:?}"
            );
        }
        let _ = session.run(["close"]).ok();
    });
}

#[test]
fn what_is_laid_out_is_harmless_in_a_pipe_too() {
    let home = Home::new();
    let _session = home.connect("@s", &[], &["--hostile"]);
    for words in
        [&["@s"][..], &["@s", "tools-list", "--full"], &["@s", "prompts-list"], &["@s", "resources-list"]]
    {
        let run = home.run(words).ok();
        is_harmless(&words.join(" "), &format!("{}{}", run.out, run.err));
        assert!(run.out.contains("\\x1b]0;owned"), "{}", run.out);
    }
    // A result in a pipe is data, and passes as it is.
    let run = home.run(["@s", "tools-call", "echo", "text=x"]).ok();
    assert_eq!(run.out, format!("x{EVIL}\n"));
}

#[test]
fn a_server_that_cannot_start_says_its_last_words_harmlessly() {
    let home = Home::new();
    let script = format!("printf '%s\\n' '{EVIL}' >&2; exit 3");
    let shown = on_terminal(&home, &["connect", "@s", "--", "sh", "-c", &script], &[("NO_COLOR", "1")], None);
    is_harmless("connect", &shown);
    assert!(shown.contains("last words"), "{shown}");
    assert!(!home.session("@s").exists());
}
