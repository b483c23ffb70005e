//! Lines as people type them.

use drowse_runtime::record::{OnExpiry, Setting, Settings};
use drowse_runtime::serve::limits::LimitName;
use drowse_runtime::share::WantedFront;
use drowse_runtime::snapshot::{PatternKind, Scope};

use super::*;
use crate::target::Target;

fn line(line: &str) -> Result<(Command, Globals), Failure> {
    parse(line.split_whitespace().map(OsString::from).collect())
}

fn command_of(text: &str) -> Command {
    line(text).unwrap_or_else(|failure| panic!("{text}: {}", failure.message)).0
}

fn refused(text: &str) -> Failure {
    let failure = line(text).expect_err(text);
    assert_eq!(failure.exit as u8, 1, "{text}");
    failure
}

fn name(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

fn connected(text: &str) -> Connect {
    match command_of(text) {
        Command::Connect(connect) => *connect,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn both_word_orders() {
    for (one, other) in [
        ("@s close", "close @s"),
        ("@s restart", "restart @s"),
        ("@s tools-list --full", "tools-list @s --full"),
        ("@s tools-call echo a:=1", "tools-call @s echo a:=1"),
        ("@s logs -n 5", "logs -n 5 @s"),
        ("@s connect -- cat", "connect @s -- cat"),
        ("@s ps", "ps @s"),
    ] {
        assert_eq!(command_of(one), command_of(other), "{one}");
    }
    assert_eq!(command_of("@s close"), Command::Close { session: name("s") });
    assert_eq!(command_of("ps"), Command::Ps { session: None });
}

#[test]
fn flags_may_stand_anywhere() {
    let expected = (
        Command::ToolsCall {
            session: name("s"),
            tool: "echo".into(),
            given: Given { words: vec!["a:=1".into()], output: Some("f".into()), expected: None },
            check: Check::IfKnown,
            task: None,
        },
        Globals { json: true, timeout: Some(Duration::from_secs(5)), ..Globals::default() },
    );
    for text in [
        "@s tools-call echo a:=1 -o f --json --timeout 5",
        "--json --timeout 5 @s tools-call -o f echo a:=1",
        "--timeout=5 @s --json tools-call echo --output f a:=1",
        "-j @s -o f tools-call echo a:=1 --timeout 5s --json",
    ] {
        let (command, globals) = line(text).unwrap();
        assert_eq!((command, Globals { verbose: false, ..globals }), expected, "{text}");
    }
}

#[test]
fn calls_as_tasks() {
    let mode = |text: &str| match command_of(text) {
        Command::ToolsCall { task, given, .. } => (task, given.words.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(mode("@s tools-call x a=b"), (None, 1));
    assert_eq!(mode("@s tools-call x --task a=b"), (Some(TaskMode::Wait), 1));
    assert_eq!(mode("@s tools-call --detach x a=b"), (Some(TaskMode::Detach), 1));
    assert_eq!(mode("@s --task tools-call x --detach"), (Some(TaskMode::Detach), 0));
    for (text, what) in [
        ("@s tasks-list", Tasks::List),
        ("tasks-get @s t-1", Tasks::Get("t-1".into())),
        ("@s tasks-result t-1 -o f", Tasks::Result("t-1".into(), Some("f".into()))),
        ("@s tasks-cancel t-1", Tasks::Cancel("t-1".into())),
    ] {
        assert_eq!(command_of(text), Command::Tasks { session: name("s"), what }, "{text}");
    }
    assert!(refused("@s tasks-get").message.contains("missing"));
}

#[test]
fn list_and_info() {
    assert_eq!(command_of(""), Command::List);
    assert_eq!(command_of("--json"), Command::List);
    assert_eq!(command_of("@s --json"), Command::Info { session: name("s") });
}

#[test]
fn connect_forms() {
    let connect = connected(
        "connect @x --idle-timeout 10m --env A --env B=c=d --lazy --timeout 9 -- npx -y srv --json",
    );
    assert_eq!(
        connect.target,
        Target::Command { program: "npx".into(), args: vec!["-y".into(), "srv".into(), "--json".into()] }
    );
    assert_eq!(connect.name, Some(name("x")));
    assert_eq!(connect.settings.idle_timeout_secs, Some(600));
    assert_eq!(connect.env, [Variable::Pinned("A".into()), Variable::Set("B".into(), "c=d".into())]);
    assert!(connect.lazy);
    assert!(!line("connect -- npx --json").unwrap().1.json);
    assert_eq!(connected("connect -- cat").name, None);
    assert_eq!(connected("connect -- cat").settings.idle_timeout_secs, None);
    assert_eq!(connected("connect --idle-timeout 0 -- cat").settings.idle_timeout_secs, Some(0));
}

#[test]
fn flags_may_stand_between_the_name_and_the_server() {
    let plain = connected("connect http://h/ @s --idle-timeout 5 --lazy");
    for text in [
        "connect @s --idle-timeout 5 http://h/ --lazy",
        "connect @s --idle-timeout 5 --lazy http://h/",
        "connect --lazy http://h/ --idle-timeout 5 @s",
        "--lazy connect --idle-timeout 5 @s http://h/",
    ] {
        assert_eq!(connected(text), plain, "{text}");
    }
    refused("connect @s --lazy http://h/ --idle-timeout 5 http://i/");
}

#[test]
fn connect_takes_the_name_before_or_after_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display();
    for text in
        [format!("connect {path}:fs @x"), format!("connect @x {path}:fs"), format!("@x connect {path}:fs")]
    {
        let connect = connected(&text);
        assert_eq!(connect.name, Some(name("x")), "{text}");
        assert_eq!(connect.target, Target::Entry { file: file.path().into(), entry: "fs".into() });
    }
    assert!(refused(&format!("@a connect {path}:fs @b")).message.contains("two session names"));
    assert!(refused(&format!("connect {path}:fs {path}:fs")).message.contains("two servers"));
}

#[test]
fn a_server_for_one_command() {
    let once = |text: &str| match command_of(text) {
        Command::Once { server, command } => (*server, *command),
        other => panic!("{text}: {other:?}"),
    };
    let expected = Command::ToolsCall {
        session: name("srv"),
        tool: "echo".into(),
        given: Given { words: vec!["a:=1".into()], ..Given::default() },
        check: Check::IfKnown,
        task: None,
    };
    for text in [
        "tools-call echo a:=1 --env A=b -- npx -y srv --json",
        "--env A=b tools-call echo a:=1 -- npx -y srv --json",
    ] {
        let (server, command) = once(text);
        assert_eq!(command, expected, "{text}");
        assert_eq!(server.env, [Variable::Set("A".into(), "b".into())]);
        assert_eq!((server.name, server.typed.as_str()), (name("srv"), "-- npx -y srv --json"));
        assert!(!line(text).unwrap().1.json, "{text}");
    }
    let words = ["--server", "npx -y srv", "tools-call", "echo", "a:=1"].map(OsString::from);
    let Command::Once { server, command } = parse(words.to_vec()).unwrap().0 else { panic!() };
    assert_eq!((*command, server.typed.as_str()), (expected, "--server 'npx -y srv'"));
    let (server, command) = once("-- cat -u");
    assert_eq!((command, server.name), (Command::Info { session: name("cat") }, name("cat")));
    let (_, command) = once("tools-call echo --help -- cat");
    assert_eq!(command, Command::ToolHelp { session: name("cat"), tool: "echo".into() });
    // A session has its server: here -- only ends the flags.
    let words = |text| match command_of(text) {
        Command::ToolsCall { given, .. } => given.words,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(words("@s tools-call echo -- --odd=1"), ["--odd=1"]);
    assert!(refused("close -- cat").message.contains("unexpected argument"));
    assert!(refused("tools-list --env A=1").message.contains("--server"));
}

#[test]
fn checks_and_expectations() {
    let call = |flags: &str| match command_of(&format!("@s tools-call t {flags}")) {
        Command::ToolsCall { given, check, .. } => (given.expected, check),
        other => panic!("{flags}: {other:?}"),
    };
    for (flags, check) in [
        ("", Check::IfKnown),
        ("--check", Check::Always),
        ("--no-check", Check::Never),
        ("--check --no-check", Check::Never),
        ("--no-check --check", Check::Always),
    ] {
        assert_eq!(call(flags).1, check, "{flags}");
    }
    for (flags, mode) in [
        ("--schema f", Mode::Compatible),
        ("--schema f --schema-mode compatible", Mode::Compatible),
        ("--schema-mode strict --schema f", Mode::Strict),
        ("--schema f --schema-mode=ignore", Mode::Ignore),
    ] {
        assert_eq!(call(flags).0, Some(Expected { file: "f".into(), mode }), "{flags}");
    }
    assert!(refused("@s tools-get t --schema f --schema-mode odd").message.contains("`odd`"));
    assert!(refused("@s prompts-get p --schema-mode strict").message.contains("--schema"));
}

#[test]
fn completion() {
    let Command::Complete { asked, .. } = command_of("complete @s resource a://{b} b --with c=d=e --with f=")
    else {
        panic!()
    };
    assert!(asked.of_resource && asked.prefix.is_empty());
    assert_eq!(asked.with, [("c".into(), "d=e".into()), ("f".into(), String::new())]);
}

#[test]
fn connect_to_a_url() {
    let words = "connect mcp.example.com/mcp @x --header A:1 -HB:2 --cacert ca.pem --proxy http://p:1 --insecure \
                 --keepalive 1m --auto-restart --on-expiry fail";
    let connect = connected(words);
    assert_eq!(connect.target, Target::Url("https://mcp.example.com/mcp".into()));
    assert_eq!(connect.name, Some(name("x")));
    let headers: Vec<_> = connect.headers.iter().map(|h| (h.name.as_str(), h.value.as_str())).collect();
    assert_eq!(headers, [("A", "1"), ("B", "2")]);
    let want = Settings {
        keepalive_secs: Some(60),
        auto_restart: Some(true),
        on_expiry: Some(OnExpiry::Fail),
        insecure: Some(true),
        cacert: Some("ca.pem".into()),
        proxy: Some("http://p:1".into()),
        ..Settings::default()
    };
    assert_eq!(connect.settings, want);
    assert_eq!(connected("connect x.example").settings, Settings::default());
    // A header's value is no @name and no flag, and the name may come after it.
    let connect = connected("-H X:@no connect --header Y:--json x.example @yes");
    assert_eq!((connect.name, connect.headers.len()), (Some(name("yes")), 2));
    let last = connected("connect x.example --insecure --no-insecure --no-auto-restart").settings;
    assert_eq!((last.insecure, last.auto_restart), (Some(false), Some(false)));
    assert_eq!(connected("connect x.example --no-insecure --insecure").settings.insecure, Some(true));
}

#[test]
fn what_cannot_be_said_of_a_server() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().display();
    for (text, says) in [
        ("connect x.example -H hush".to_owned(), "-H: a header is written `Name: value`"),
        ("connect x.example -H Host:hush".to_owned(), "-H: the header Host is drowse's own"),
        ("connect x.example -H A:".to_owned(), "-H: the header A has no value"),
        ("connect -H A:hush -- cat".to_owned(), "-H is for servers behind a URL"),
        ("connect --insecure -- cat".to_owned(), "--insecure is for servers behind a URL"),
        ("connect --cacert f -- cat".to_owned(), "--cacert is for servers behind a URL"),
        ("connect x.example --proxy 80800".to_owned(), "a session is shared at [host:]port"),
        ("connect x.example --proxy me:hush@p".to_owned(), "a session is shared at [host:]port"),
        ("connect x.example --proxy 1 --proxy 2".to_owned(), "--proxy is given twice"),
        ("connect x.example --proxy 1 --proxy off".to_owned(), "--proxy is given twice"),
        ("connect x.example --proxy http://p:1 --proxy http://p:2".to_owned(), "--proxy is given twice"),
        ("connect x.example --proxy off --proxy-bearer-token hush".to_owned(), "leave out --proxy off"),
        (
            "connect x.example --proxy 1 --proxy-bearer-token=".to_owned(),
            "an empty one would let everybody in",
        ),
        ("connect x.example --proxy 1 --proxy-bearer-token @/no/such".to_owned(), "cannot read /no/such"),
        ("connect x.example --proxy 1 --proxy-bearer-token ${NO_SUCH}".to_owned(), "NO_SUCH is not set"),
        ("connect x.example --http-limit idle=1".to_owned(), "--http-limit is about sharing the session"),
        ("connect x.example --proxy http://p:1 --http-host h".to_owned(), "give --proxy [host:]port, too"),
        ("connect x.example --http-origin=".to_owned(), "give --proxy [host:]port, too"),
        ("connect x.example --proxy off --http-origin https://o".to_owned(), "leave out --proxy off"),
        (
            "connect x.example --proxy 1 --http-origin o".to_owned(),
            "--http-origin o: an origin is scheme://host",
        ),
        (
            "connect x.example --proxy 1 --http-limit idle".to_owned(),
            "--http-limit idle: it takes NAME=VALUE",
        ),
        ("connect x.example --proxy 1 --http-limit idel=1".to_owned(), "there is no such limit"),
        (
            "tools-list --server x.example --proxy 8080".to_owned(),
            "a session is shared at 127.0.0.1:8080 by `connect`",
        ),
        (format!("connect {file} --proxy 8080"), "would be the address of every session"),
        ("connect x.example --proxy http://me:hush@p".to_owned(), "set HTTPS_PROXY instead"),
        ("connect x.example --proxy ftp://p".to_owned(), "--proxy: a proxy is written"),
        ("connect x.example --keepalive soon".to_owned(), "--keepalive takes a number of seconds"),
        ("connect x.example --on-expiry maybe".to_owned(), "`maybe` is not a value of --on-expiry"),
        ("connect x.example y.example".to_owned(), "two servers"),
        (format!("connect {file} @x"), "@x cannot be the name of all"),
        (format!("connect {file} -H A:hush"), "-H would go to every server"),
    ] {
        let failure = refused(&text);
        let shown = format!("{} {}", failure.message, failure.hint.clone().unwrap_or_default());
        assert!(shown.contains(says) && !shown.contains("hush"), "{text}: {shown}");
    }
    assert!(refused(&format!("connect {file} @x")).hint.clone().unwrap().ends_with(":<entry> @x"));
    assert_eq!(connected(&format!("connect {file}")).target, Target::File(file.to_string().into()));
}

#[test]
fn where_a_session_is_shared() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hush\n").unwrap();
    let at = file.path().display();
    let shared = connected(&format!("connect --proxy 8080 --proxy-bearer-token @{at} -- cat"));
    assert_eq!(shared.share.at.unwrap().unwrap().to_string(), "127.0.0.1:8080");
    assert_eq!((shared.share.token.unwrap().as_deref(), shared.settings.proxy), (Some("hush"), None));
    let both = connected("connect x.example --proxy http://p:1 --proxy [::1]:0 --proxy-bearer-token t");
    assert_eq!(both.settings.proxy.as_deref(), Some("http://p:1"));
    assert_eq!(both.share.at.unwrap().unwrap().to_string(), "[::1]:0");
    assert_eq!(connected("connect x.example --proxy off").share.at, Some(None));
    assert_eq!(connected("connect x.example").share, WantedShare::default());
    let front = connected(
        "connect x.example --proxy 1 --http-origin https://a --http-host=b --http-origin https://c --http-limit idle=2m \
         --http-limit hold=off --http-limit body=default",
    );
    let limits = vec![(LimitName::Idle, Some(120)), (LimitName::Hold, Some(0)), (LimitName::Body, None)];
    let lists = (Some(vec!["b".to_owned()]), Some(vec!["https://a".to_owned(), "https://c".to_owned()]));
    assert_eq!(front.share.front, WantedFront { hosts: lists.0, origins: lists.1, limits });
    let back = connected("connect x.example --proxy 1 --http-host=").share.front;
    assert_eq!(back, WantedFront { hosts: Some(Vec::new()), ..WantedFront::default() });
    assert!(connected(&format!("connect {at} --proxy 0")).share.at.unwrap().is_some(), "a free one for each");
}

#[test]
fn how_a_shared_session_is_set() {
    let of = |text: &str| match command_of(text) {
        Command::Set { changes, share, .. } if changes.is_empty() => share.front,
        other => panic!("{text}: {other:?}"),
    };
    let set = of(
        "@s set http-limit idle=9 http-origin https://a http-limit sessions=default http-origin https://b",
    );
    assert_eq!(set.origins.unwrap(), ["https://a", "https://b"]);
    assert_eq!(set.limits, [(LimitName::Idle, Some(9)), (LimitName::Sessions, None)]);
    assert_eq!(of("set @s http-host default").hosts, Some(Vec::new()));
    assert!(of("set @s http-limit default").limits.iter().all(|(_, value)| value.is_none()));
    for (text, says) in [
        ("@s set http-limit", "http-limit needs a value"),
        ("@s set http-limit idle=0", "http-limit idle=0: it takes a positive number of seconds"),
        ("@s set proxy off http-limit idle=1", "leave out proxy off"),
    ] {
        assert!(refused(text).message.contains(says), "{text}: {}", refused(text).message);
    }
}

#[test]
fn idle_timeouts_that_are_none() {
    for bad in ["-5", "1.5", "ten", "10x", "10ms", "", "+5", "99999999999999999999", "9999999999999", "0x10"]
    {
        let failure = refused(&format!("connect --idle-timeout={bad} -- cat"));
        assert!(failure.message.contains("--idle-timeout"), "{bad}: {}", failure.message);
    }
    assert!(refused("connect --idle-timeout -5 -- cat").message.contains("`-5`"));
    for (good, seconds) in [("600", 600), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)] {
        assert_eq!(
            connected(&format!("connect --idle-timeout {good} -- cat")).settings.idle_timeout_secs,
            Some(seconds)
        );
    }
    for bad in ["0", "-1", "x"] {
        assert!(refused(&format!("@s ping --timeout {bad}")).message.contains("--timeout"), "{bad}");
    }
}

#[test]
fn unknown_flags_are_errors_everywhere() {
    for text in [
        "--bogus",
        "@s --bogus",
        "@s tools-list --bogus",
        "--bogus @s ping",
        "connect --bogus -- cat",
        "@s ping --ful",
        "@s tools-call echo --bogus=3",
    ] {
        assert!(refused(text).message.contains("unexpected flag"), "{text}: {}", refused(text).message);
    }
    assert_eq!(refused("@s tools-list --ful").hint.as_deref(), Some("Did you mean: --full"));
    assert!(refused("@s ping -H a:b").message.contains("belongs to `connect`"));
    assert!(refused("@s ping --insecure").message.contains("belongs to `connect`"));
    assert!(refused("@s ping --proxy-bearer-token t").message.contains("belongs to `connect`"));
    assert!(refused("@s ping extra").message.contains("unexpected argument `extra`"));
}

#[test]
fn searches() {
    let of = |text: &str| match command_of(text) {
        Command::Grep(grep) => *grep,
        other => panic!("{text}: {other:?}"),
    };
    let none = Scope { tools: false, resources: false, prompts: false, instructions: false };
    let usual = Grep {
        session: None,
        pattern: "word".into(),
        kind: PatternKind::default(),
        scope: Scope { tools: true, instructions: true, ..none },
        limit: None,
    };
    assert_eq!(of("grep word"), usual);
    let on_s = Grep { session: Some(name("s")), pattern: "word".into(), ..of("grep word") };
    for text in ["@s grep word", "grep @s word", "grep word @s", "grep -- @s word"] {
        assert_eq!(of(text), on_s, "{text}");
    }
    assert_eq!(of("@s grep @s").pattern, "@s");
    assert_eq!((of("grep @s").pattern.as_str(), of("grep @s").session), ("@s", None));
    assert_eq!(of("grep -- -x").pattern, "-x");
    assert_eq!(of("grep word --prompts").scope, Scope { prompts: true, ..none });
    let all = of("grep --tools --resources -m 3 --prompts --instructions -E --case-sensitive word");
    let every = Scope { tools: true, resources: true, prompts: true, instructions: true };
    assert_eq!((all.scope, all.limit), (every, Some(3)));
    assert_eq!(all.kind, PatternKind { regex: true, case_sensitive: true });
    assert_eq!(
        of("-m 3 -E grep word"),
        Grep { limit: Some(3), kind: PatternKind { regex: true, case_sensitive: false }, ..of("grep word") }
    );
    for (text, says) in [
        ("grep", "missing <pattern>"),
        ("grep a b", "unexpected argument `b`"),
        ("@s grep a b", "unexpected argument `b`"),
        ("@s grep @t b", "unexpected argument `b`"),
        ("grep @not/a/name b", "not a session name"),
        ("grep a b c", "unexpected"),
        ("grep a -m x", "--max-results takes a whole number"),
        ("grep a -m -1", "whole number"),
        ("grep a --bogus", "unexpected flag `--bogus`"),
        ("grep a --cached", "unexpected flag `--cached`"),
        ("grep a --server x", "unexpected flag `--server`"),
    ] {
        let failure = line(text).expect_err(text);
        assert!(failure.message.contains(says), "{text}: {}", failure.message);
        assert_eq!(failure.exit as u8, 2, "{text}: as of grep(1)");
    }
}

#[test]
fn what_a_snapshot_can_answer() {
    for text in [
        "@s",
        "@s tools-list",
        "tools-get @s t",
        "@s resources-list",
        "@s resources-templates-list",
        "@s prompts-list",
    ] {
        assert!(line(&format!("{text} --cached")).unwrap().1.cached, "{text}");
        assert!(!line(text).unwrap().1.cached, "{text}");
    }
    for text in ["@s tools-call t", "@s ping", "@s resources-read u", "@s tasks-list", "clean"] {
        assert!(refused(&format!("{text} --cached")).message.contains("unexpected flag"), "{text}");
    }
    for text in ["--cached", "tools-list --server cat --cached"] {
        assert!(refused(text).message.contains("--cached is about a session"), "{text}");
    }
}

#[test]
fn mistakes_get_an_answer_that_helps() {
    let hint = |text| refused(text).hint.clone().unwrap_or_default();
    assert_eq!(hint("@s list-tools"), "Did you mean: drowse @s tools-list");
    assert_eq!(hint("conect x"), "Did you mean: drowse connect");
    assert!(hint("tools-list").starts_with("drowse @name tools-list [--full]\n"));
    assert!(hint("mysession").starts_with("a session is written with an @: drowse @mysession"));
    assert_eq!(hint("mcp.json:files"), "to use a server: drowse connect mcp.json:files");
    assert!(refused("@s enable").message.contains("later release"));
    assert!(refused("@s tools-call").message.contains("<tool>"));
    assert!(refused("@ ping").message.contains("not a session name"));
    assert!(refused("@a @b ping").message.contains("two sessions"));
    assert!(refused("clean @s").message.contains("`@s`"));
    assert!(refused("@s clean").message.contains("does not take a session"));
    assert!(refused("@s ping --timeout 1 --timeout 2").message.contains("given twice"));
    assert!(refused("@s ping --timeout").message.contains("needs a value"));
    assert!(refused("@s logs -n x").message.contains("whole number"));
    assert!(refused("connect --env =x -- cat").message.contains("NAME"));
}

#[test]
fn help_is_found_wherever_it_is_asked() {
    let shown = |text| match command_of(text) {
        Command::Show(shown) => shown,
        other => panic!("{text}: {other:?}"),
    };
    for text in ["--help", "-h", "help", "help --help", "@s --help"] {
        assert_eq!(shown(text), grammar::overview(), "{text}");
    }
    for text in ["tools-call --help", "@s tools-call -h", "help tools-call", "tools-call x --help"] {
        assert!(shown(text).contains("key=@file"), "{text}");
    }
    assert!(shown("connect --help").contains("--idle-timeout"));
    assert_eq!(
        command_of("@s tools-call echo --help"),
        Command::ToolHelp { session: name("s"), tool: "echo".into() }
    );
    assert_eq!(
        command_of("@s tools-call --timeout 5 echo -h"),
        Command::ToolHelp { session: name("s"), tool: "echo".into() }
    );
    assert!(shown("--version").starts_with("drowse "));
    assert_eq!(
        connected("connect -- npx --help").target,
        Target::Command { program: "npx".into(), args: vec!["--help".into()] }
    );
}

#[test]
fn json_is_guessed_from_lines_that_do_not_parse() {
    let guess =
        |text: &str| Globals::guess(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>()).json;
    assert!(guess("@s --bogus --json") && guess("-j nonsense"));
    assert!(!guess("connect -- npx --json"));
}

#[test]
fn answers_to_questions_of_the_server() {
    let (_, globals) = line("@s tools-call t --elicit decline a:=1").unwrap();
    assert_eq!(globals.elicit, Some(Elicit::Decline));
    assert_eq!(line("@s resources-read a://b").unwrap().1.elicit, None);
    assert_eq!(refused("@s tools-call t --elicit yes").kind, "usage");
    assert_eq!(refused("@s ping --elicit decline").kind, "usage");
    let settings = connected("connect @x --root / --root file:///b --sampling-command cmd -- cat").settings;
    assert_eq!(settings.roots, Some(vec!["file:///".into(), "file:///b".into()]));
    assert_eq!(settings.sampling_command.as_deref(), Some("cmd"));
}

fn changes(text: &str) -> Vec<Change> {
    match command_of(text) {
        Command::Set { changes, .. } => changes,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn settings_are_pairs_in_either_word_order() {
    let idle = |secs| Settings { idle_timeout_secs: Some(secs), ..Settings::default() };
    let to = |setting, settings| Change::To(setting, Box::new(settings));
    for text in ["@s set idle-timeout 5m auto-restart default", "set @s idle-timeout 300 autoRestart default"]
    {
        let wanted = [to(Setting::IdleTimeout, idle(300)), Change::Unset(Setting::AutoRestart)];
        assert_eq!(changes(text), wanted, "{text}");
    }
    assert_eq!(changes("@s set"), []);
    assert_eq!(changes("set @s idle-timeout 0 --json"), [to(Setting::IdleTimeout, idle(0))]);
    assert_eq!(changes("set @s log-level off"), [Change::Unset(Setting::LogLevel)]);
    let roots = Some(vec!["file:///a".to_owned(), "file:///b".to_owned()]);
    let roots = Settings { roots, ..Settings::default() };
    assert_eq!(changes("set @s roots file:///a roots file:///b"), [to(Setting::Roots, roots)]);
}

#[test]
fn settings_that_are_none_say_what_to_do() {
    for (text, part) in [
        ("set idle-timeout 5", "needs a session"),
        ("set @s idle-timeout", "idle-timeout needs a value"),
        ("set @s idle-timeout -1", "0 means never; not `-1`"),
        ("set @s idle-timeout 1.5", "0 means never"),
        ("set @s idle-timeout 99999999999999", "0 means never"),
        ("set @s timeout 0", "a positive number"),
        ("set @s keepalive soon", "a number of seconds"),
        ("set @s auto-restart maybe", "on or off"),
        ("set @s on-expiry never", "fresh or fail"),
        ("set @s insecure 2", "on or off"),
        ("set @s mcp-version 1999", "legacy, modern"),
        ("set @s log-level loud", "debug, info"),
        ("set @s proxy ::", "shared at [host:]port"),
        ("set @s proxy http://", "the URL of a proxy"),
        ("set @s proxy 1 proxy off", "given twice"),
        ("set @s idel-timeout 5", "there is no setting"),
        ("set @s idle-timeout 5 idle-timeout 6", "given twice"),
        ("set @s idle-timeout 5 idle-timeout default", "given twice"),
        ("set @s roots /a roots default", "roots"),
        ("config get", "which setting"),
        ("config get nothing", "there is no setting"),
        ("config set idle-timeout", "needs a value"),
        ("config set idle-timeout x", "a number of seconds"),
        ("config set idle-timeout 5 6", "too many words"),
        ("config set insecure on", "has no default for all"),
        ("config reset", "takes get, set, unset or path"),
        ("@s config", "does not take a session"),
    ] {
        let failure = refused(text);
        assert!(failure.message.contains(part), "{text}: {}", failure.message);
    }
    assert_eq!(refused("set @s idle-time 5").hint.as_deref(), Some("Did you mean: idle-timeout"));
    assert_eq!(refused("set @s http-limt idle=5").hint.as_deref(), Some("Did you mean: http-limit"));
    assert!(
        refused("set @s nothing 5").hint.as_ref().unwrap().ends_with("http-host, http-origin, http-limit")
    );
    assert!(!refused("config get nothing").hint.as_ref().unwrap().contains("http-"));
}

#[test]
fn defaults_of_the_user() {
    let config = |text: &str| match command_of(text) {
        Command::Config(config) => config,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(config("config"), Config::Show);
    assert_eq!(config("config path --json"), Config::Path);
    assert_eq!(config("config get idle-timeout"), Config::Get(Setting::IdleTimeout));
    assert_eq!(config("config unset keepalive"), Config::Unset(Setting::Keepalive));
    assert_eq!(config("config set keepalive default"), Config::Unset(Setting::Keepalive));
    let zero = Settings { idle_timeout_secs: Some(0), ..Settings::default() };
    assert_eq!(config("config set idle-timeout 0"), Config::Set(Setting::IdleTimeout, Box::new(zero)));
}
