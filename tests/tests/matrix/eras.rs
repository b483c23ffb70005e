//! Every kind of server that has to be told from the others: what it is found to be, with what questions, and that
//! they are not put again the next time.

use std::time::Duration;

use drowse_tests::harness::{Home, Session, at_once, in_both_eras};
use serde_json::{Value, json};

const DISCOVER: &str = "server/discover";
const INITIALIZE: &str = "initialize";
const INITIALIZED: &str = "notifications/initialized";
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN: &str = "2026-07-28";

/// A server's flags, what it is, and what it is asked the first time and the second.
struct Case {
    flags: &'static [&'static str],
    version: &'static str,
    first: &'static [&'static str],
    second: &'static [&'static str],
}

const PLAIN_LEGACY: &[&str] = &[DISCOVER, INITIALIZE, INITIALIZED];
const KNOWN_LEGACY: &[&str] = &[INITIALIZE, INITIALIZED];
/// Silent or slow ones are asked both, and whichever answers decides.
const BOTH: &[&str] = &[DISCOVER, INITIALIZE];
const BOTH_AND_AGAIN: &[&str] = &[DISCOVER, INITIALIZE, DISCOVER];

fn cases() -> Vec<Case> {
    let modern = |flags, first, second| Case { flags, version: MODERN, first, second };
    let legacy = |flags, first| Case { flags, version: "2025-11-25", first, second: KNOWN_LEGACY };
    vec![
        legacy(&["--era", "legacy"], PLAIN_LEGACY),
        modern(&["--era", "modern"], &[DISCOVER], &[DISCOVER]),
        modern(&["--era", "dual"], &[DISCOVER], &[DISCOVER]),
        modern(&["--modern-only-refuses-initialize"], &[DISCOVER], &[DISCOVER]),
        modern(&["--initialize-answers-32022"], &[DISCOVER], &[DISCOVER]),
        modern(&["--era", "modern", "--no-result-type"], &[DISCOVER], &[DISCOVER]),
        // It dies on what it does not know: started once more, straight into what it does know.
        legacy(&["--era", "legacy", "--die-on-probe"], &[DISCOVER, INITIALIZE, INITIALIZED]),
        // It takes no notice of what it does not know.
        legacy(&["--era", "legacy", "--silent-before-initialize"], &[DISCOVER, INITIALIZE, INITIALIZED]),
        // Refusals of every kind: those of the modern era prove a modern server, no other code proves anything.
        legacy(&["--era", "legacy", "--probe-error", "-32601"], PLAIN_LEGACY),
        legacy(&["--era", "legacy", "--probe-error", "-32602"], PLAIN_LEGACY),
        legacy(&["--era", "legacy", "--probe-error", "-32600"], PLAIN_LEGACY),
        legacy(&["--era", "legacy", "--probe-error", "-32000"], PLAIN_LEGACY),
        legacy(&["--era", "legacy", "--probe-error", "-32001"], PLAIN_LEGACY),
        legacy(&["--era", "legacy", "--probe-error", "-32603"], PLAIN_LEGACY),
        legacy(&["--era", "legacy", "--probe-error", "1"], PLAIN_LEGACY),
        legacy(&["--era", "dual", "--probe-error", "-32603"], PLAIN_LEGACY),
        modern(&["--era", "modern", "--probe-error", "-32020"], &[DISCOVER], &[DISCOVER]),
        modern(&["--era", "modern", "--probe-error", "-32021"], &[DISCOVER], &[DISCOVER]),
        // The false-legacy trap: a modern server that is slower than the patience of the one who asks. What it is
        // counts, not what it is asked: each time, both, because it is slow each time.
        modern(&["--era", "modern", "--start-delay", "2600"], BOTH, BOTH),
        modern(&["--initialize-answers-32022", "--start-delay", "2600"], BOTH, BOTH),
        modern(&["--modern-only-refuses-initialize", "--start-delay", "2600"], BOTH, BOTH),
        // Its refusal of `initialize` says what it is before its late answer does.
        modern(&["--era", "modern", "--probe-delay", "2600"], BOTH_AND_AGAIN, BOTH_AND_AGAIN),
        modern(&["--era", "dual", "--probe-delay", "2300"], BOTH, BOTH),
        // And a legacy one that is slow.
        Case {
            flags: &["--era", "legacy", "--start-delay", "2600"],
            version: "2025-11-25",
            first: PLAIN_LEGACY,
            second: &[INITIALIZE, DISCOVER, INITIALIZED],
        },
    ]
}

fn version_of(session: &Session<'_>) -> String {
    session.run([]).ok().json()["_drowse"]["protocolVersion"].as_str().unwrap().to_owned()
}

/// What of the messages a server got was about who it is: the questions, in order, and late ones too.
fn questions(session: &Session<'_>, from: usize) -> Vec<String> {
    let mut methods = session.methods().split_off(from);
    methods.retain(|method| [DISCOVER, INITIALIZE, INITIALIZED].contains(&method.as_str()));
    methods
}

/// That it was asked just this. On a machine so busy that a server was slow through no fault of its own, it was asked
/// more, as slow ones are.
#[track_caller]
fn check_questions(session: &Session<'_>, from: usize, expected: &[&str], case: &Case) {
    let is_slow = case.flags.iter().any(|flag| flag.ends_with("-delay") || flag.starts_with("--silent"));
    let (entries, started) = (session.journal.entries().unwrap(), session.last("start"));
    let heard = entries.iter().filter(|entry| entry.event == "in");
    let heard = heard.filter_map(|entry| entry.fields["at"].as_u64()).find(|at| *at >= started);
    if is_slow || heard.is_some_and(|at| at < started + 1500) {
        assert_eq!(questions(session, from), expected, "{:?}: {:?}", case.flags, session.methods());
    }
}

#[test]
fn every_kind_of_server_is_known_for_what_it_is() {
    let cases = cases().into_iter().map(|case| (case.flags.join(" "), case));
    at_once(cases, |case| {
        let home = Home::new();
        let session = home.connect("@s", &[], case.flags);
        assert_eq!(version_of(&session), case.version, "{:?}", case.flags);
        let call = session.call("echo", &["text=hi"]).ok();
        assert_eq!(call.text(), "hi");
        check_questions(&session, 0, case.first, &case);
        let died = case.flags.contains(&"--die-on-probe");
        assert_eq!(session.starts(), 1 + usize::from(died), "the probe runs on the process itself");
        // The next time it is asked only what it understands.
        let (before, starts) = (session.methods().len(), session.starts());
        session.kill_server();
        session.wait_until(|state| state.ended);
        session.call("tag", &["tag=again"]).ok();
        check_questions(&session, before, case.second, &case);
        assert_eq!(
            (session.starts(), session.executions("again")),
            (starts + 1, 1),
            "not even one that dies"
        );
        assert_eq!(version_of(&session), case.version);
    });
}

#[test]
fn every_legacy_revision() {
    at_once(LEGACY.map(|version| (version, version)), |version| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", "legacy", "--legacy-version", version]);
        assert_eq!(version_of(&session), version);
        assert_eq!(session.call("echo", &["text=hi"]).ok().text(), "hi");
        let tools = session.run(["tools-list"]).ok().json();
        assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "slow"));
        let state = session.state().unwrap().era.unwrap();
        assert_eq!((state.era.as_str(), state.protocol_version.as_str()), ("legacy", version));
        // A pin offers it from the start.
        let pinned = home.connect_entry("@p", &[], json!({"mcpVersion": version}), &["--era", "legacy"]);
        assert_eq!(
            (version_of(&pinned).as_str(), questions(&pinned, 0).as_slice()),
            (version, [INITIALIZE, INITIALIZED].map(str::to_owned).as_slice())
        );
    });
}

#[test]
fn pins_ask_nothing_else_and_accept_nothing_else() {
    let pin = |name: &'static str, flags: &'static [&'static str], accepted: Option<&'static str>| {
        (format!("{name} {flags:?}"), (name, flags, accepted))
    };
    let cases = [
        pin("legacy", &["--era", "dual"], Some("2025-11-25")),
        pin("modern", &["--era", "dual"], Some(MODERN)),
        pin(MODERN, &["--era", "dual"], Some(MODERN)),
        pin("2025-06-18", &["--era", "dual"], Some("2025-06-18")),
        pin("legacy", &["--era", "legacy", "--legacy-version", "2024-11-05"], Some("2024-11-05")),
        pin("2025-06-18", &["--era", "legacy", "--legacy-version", "2024-11-05"], None),
        pin("legacy", &["--initialize-answers-32022"], None),
        pin("modern", &["--era", "legacy"], None),
        pin(MODERN, &["--era", "legacy"], None),
        // It would die on the probe, and is never asked.
        pin("legacy", &["--era", "legacy", "--die-on-probe"], Some("2025-11-25")),
    ];
    at_once(cases, |(version, flags, accepted)| {
        let home = Home::new();
        let (session, run) = home.try_connect_entry("@s", &[], json!({"mcpVersion": version}), flags);
        let only = if [MODERN, "modern"].contains(&version) { DISCOVER } else { INITIALIZE };
        match accepted {
            Some(accepted) => {
                let entry = run.ok().json()[0].clone();
                assert_eq!(entry["_drowse"]["protocolVersion"], accepted);
                assert_eq!(session.call("echo", &["text=hi"]).ok().text(), "hi");
            }
            None => {
                let failed = run.fails(2);
                assert_eq!((&failed["kind"], &failed["ran"]), (&json!("start-failed"), &json!("no")));
                assert!(!session.exists(), "a first connect that fails leaves no session");
            }
        }
        assert_eq!(session.starts(), 1);
        let other = if only == DISCOVER { INITIALIZE } else { DISCOVER };
        assert!(!session.methods().contains(&other.to_owned()), "{:?}", session.methods());
    });
}

#[test]
fn a_pin_that_means_nothing_is_said_before_anything_starts() {
    let home = Home::new();
    let (session, run) = home.try_connect_entry("@s", &[], json!({"mcpVersion": "2025-13-32"}), &[]);
    let failed = run.fails(1);
    assert_eq!(failed["kind"], "config");
    assert!(failed["error"].as_str().unwrap().contains("mcpVersion"), "{failed}");
    assert_eq!((session.starts(), session.exists()), (0, false));
}

/// A server that is another one by now: what was remembered is checked, and found out again.
#[test]
fn what_is_remembered_is_only_where_to_begin() {
    in_both_eras(|era| {
        let (now, other, version) = match era {
            "legacy" => ("legacy", "modern", MODERN),
            _ => ("modern", "legacy", "2025-11-25"),
        };
        let home = Home::new();
        let session = home.connect_entry("@s", &[], json!({}), &["--era", now]);
        // The entry is edited; a restart reads it, and this is still the same command.
        let target = home.write_entry("@s", json!({}), &["--era", other]);
        let before = session.methods().len();
        home.run(["restart", "@s", "--json"]).ok();
        assert_eq!(version_of(&session), version, "{target}: {:?}", session.methods());
        assert!(questions(&session, before).len() >= 2 || other == "modern");
        assert_eq!(session.call("echo", &["text=hi"]).ok().text(), "hi");
    });
}

#[test]
fn servers_that_cannot_be_negotiated_with_fail_the_connect() {
    let case = |flags: &'static [&'static str], code: i32, kind: &'static str| {
        (format!("{flags:?}"), (flags, code, kind))
    };
    let cases = [
        case(&["--silent"], 3, "timeout"),
        case(&["--die-on-probe-always"], 2, "start-failed"),
        case(&["--crash-in-handshake", "99"], 2, "start-failed"),
        case(&["--era", "legacy", "--legacy-version", "2023-01-01"], 2, "start-failed"),
        case(&["--no-such-flag"], 2, "start-failed"),
        case(
            &["--era", "modern", "--probe-error", "-32601", "--modern-only-refuses-initialize"],
            2,
            "start-failed",
        ),
    ];
    at_once(cases, |(flags, code, kind)| {
        let home = Home::new();
        let entry = json!({"connectTimeoutSecs": 4});
        let mut flags = flags.to_vec();
        flags.extend(["--stderr", "the reason is here"]);
        let (session, run) = home.try_connect_entry("@s", &[], entry, &flags);
        assert!(run.took < Duration::from_secs(30));
        let failed = run.fails(code);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!(kind), &json!("no")), "{failed}");
        if !flags.contains(&"--no-such-flag") {
            let stderr = failed["_drowse"]["stderr"].as_str().unwrap_or_default();
            assert!(stderr.contains("the reason is here"), "{failed}");
        }
        assert!(!session.exists(), "a first connect that fails leaves no session");
        assert_eq!(home.list(), [] as [Value; 0]);
    });
}

#[test]
fn a_server_that_crashes_once_in_the_handshake_works_the_next_time() {
    let home = Home::new();
    let (_, run) = home.try_connect("@s", &[], &["--crash-in-handshake", "2"]);
    // The first was asked what it may not know, so it is started once more.
    assert_eq!(run.fails(2)["kind"], "start-failed");
    let session = home.connect("@s", &[], &["--crash-in-handshake", "2"]);
    assert_eq!(session.call("echo", &["text=hi"]).ok().text(), "hi");
}
