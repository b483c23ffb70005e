//! Which value goes where.

use std::path::PathBuf;

use super::*;
use crate::record::Settings;
use crate::serve::limits::LimitName;
use crate::share::WantedFront;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(k, v)| (OsString::from(*k), OsString::from(*v))).collect()
}

fn wanted(target: WantedTarget, environment: Environment) -> Wanted {
    Wanted {
        name: crate::home::SessionName::new("x").unwrap(),
        target,
        settings: Settings::default(),
        pins: Vec::new(),
        headers: Vec::new(),
        cwd: "/work-dir".into(),
        environment,
        lazy: None,
        share: WantedShare::default(),
    }
}

/// No defaults of the user's.
fn none() -> Settings {
    Settings::default()
}

fn command() -> WantedTarget {
    WantedTarget::Command { command: "./serve".into(), args: vec!["${NOT_EXPANDED}".into()] }
}

fn file(text: &str) -> (tempfile::TempDir, WantedTarget) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mcp.json");
    std::fs::write(&file, text).unwrap();
    (dir, WantedTarget::Entry { file, entry: "e".into() })
}

#[test]
fn the_allow_list_is_pinned_and_nothing_else() {
    let environment = environment(&[
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("XDG_DATA_HOME", "/d"),
        ("https_proxy", "p"),
        ("HTTP_PROXY", "p"),
        ("HTTPS_PROXY", "p"),
        ("ALL_PROXY", "p"),
        ("NO_PROXY", "p"),
        ("http_proxy", "p"),
        ("all_proxy", "p"),
        ("no_proxy", "p"),
        ("SSL_CERT_FILE", "f"),
        ("SSL_CERT_DIR", "d"),
        ("SECRET", "s"),
        ("PATHS", "no"),
    ]);
    let pinned = pin(&wanted(command(), environment), &none()).unwrap();
    let names: Vec<_> = pinned.credentials.ambient.keys().map(String::as_str).collect();
    let proxies = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "LC_ALL", "NO_PROXY", "PATH", "SSL_CERT_DIR"];
    let more = ["SSL_CERT_FILE", "XDG_DATA_HOME", "all_proxy", "http_proxy", "https_proxy", "no_proxy"];
    assert_eq!(names, [&proxies[..], &more].concat());
    assert_eq!(pinned.record.args, ["${NOT_EXPANDED}"]);
    assert!(!pinned.record.is_template());
}

#[test]
fn values_never_reach_the_record() {
    let (_dir, target) = file(
        r#"{"mcpServers":{"e":{"command":"run","args":["--key=${KEY}","${WITH:-fallback}"],
        "env":{"LITERAL":"lit-secret","FROM":"x${TOKEN}"},"cwd":"sub","idleTimeoutSecs":60}}}"#,
    );
    let mut wanted =
        wanted(target, environment(&[("KEY", "key-secret"), ("TOKEN", "tok-secret"), ("P", "pin-secret")]));
    wanted.pins = vec![Pin::Name("P".into()), Pin::Value("Q".into(), "q-secret".into())];
    let Pinned { record, credentials } = pin(&wanted, &none()).unwrap();
    let json = serde_json::to_string(&record).unwrap();
    assert!(!json.contains("secret"), "{json}");
    assert!(json.contains("--key=${KEY}") && json.contains("x${TOKEN}"), "{json}");
    assert_eq!(record.pins, ["P", "Q"]);
    assert_eq!(record.env["LITERAL"], None);
    assert_eq!(credentials.entry["LITERAL"], "lit-secret");
    assert_eq!(credentials.variables.keys().collect::<Vec<_>>(), ["KEY", "TOKEN"]);
    assert_eq!(record.settings.idle_timeout_secs, Some(60));
    assert!(record.cwd.ends_with("/sub") && record.cwd.starts_with('/'));
    assert!(!format!("{credentials:?}{:?}", wanted.environment).contains("secret"));
}

#[test]
fn what_is_given_beats_the_entry_zero_included() {
    let (_dir, target) = file(r#"{"servers":{"e":{"command":"run","idleTimeoutSecs":60,"timeout":5}}}"#);
    let mut wanted = wanted(target, Environment::default());
    wanted.settings.idle_timeout_secs = Some(0);
    let pinned = pin(&wanted, &none()).unwrap();
    assert_eq!(pinned.record.settings.idle_timeout_secs, Some(0));
    assert_eq!(pinned.record.settings.timeout_ms, Some(5_000));
    assert_eq!(pinned.record.given, wanted.settings);
}

#[test]
fn an_unset_variable_is_an_error_that_names_it_and_its_place() {
    for (member, body) in [
        ("args[0]", r#"{"command":"c","args":["${GONE}"]}"#),
        ("command", r#"{"command":"${GONE}"}"#),
        ("env.A", r#"{"command":"c","env":{"A":"${env:GONE}"}}"#),
        ("cwd", r#"{"command":"c","cwd":"${GONE}/x"}"#),
    ] {
        let (_dir, target) = file(&format!(r#"{{"servers":{{"e":{body}}}}}"#));
        let error = pin(&wanted(target, Environment::default()), &none()).unwrap_err().to_string();
        assert!(
            error.contains("GONE is not set") && error.contains(member) && error.contains('e'),
            "{error}"
        );
    }
    let mut unset = wanted(command(), Environment::default());
    unset.pins = vec![Pin::Name("GONE".into())];
    assert!(pin(&unset, &none()).unwrap_err().to_string().contains("--env GONE"));
}

#[test]
fn empty_commands_and_urls_that_are_none_are_refused() {
    let empty = WantedTarget::Command { command: String::new(), args: vec![] };
    assert!(pin(&wanted(empty, Environment::default()), &none()).is_err());
    for url in ["ftp://h", "https://me:hush@h/", "https://h/#hush"] {
        let error =
            pin(&wanted(WantedTarget::Url { url: url.into() }, Environment::default()), &none()).unwrap_err();
        assert!(error.exit() == crate::caller::ExitClass::Usage && !error.to_string().contains("hush"));
    }
}

fn given(name: &str, value: &str) -> Header {
    Header { name: name.into(), value: value.into() }
}

#[test]
fn a_url_is_kept_as_typed_and_its_headers_apart() {
    let mut wanted =
        wanted(WantedTarget::Url { url: "Mcp.Example.com/x".into() }, environment(&[("https_proxy", "p")]));
    wanted.headers =
        vec![given("Authorization", "Bearer s3cret"), given("X-A", "s3cret-1"), given("x-a", "s3cret-2")];
    let Pinned { record, credentials } = pin(&wanted, &none()).unwrap();
    assert_eq!((&record.target, record.url.as_deref()), (&Target::Url, Some("https://Mcp.Example.com/x")));
    assert_eq!(record.given_headers, ["Authorization", "X-A", "x-a"]);
    let json = serde_json::to_string(&record).unwrap();
    assert!(!json.contains("s3cret") && !format!("{wanted:?}{credentials:?}").contains("s3cret"), "{json}");
    // Those of the same name are replaced, all of them; others stay.
    wanted.headers = vec![given("X-a", "s3cret-3")];
    let again = change(&record, &credentials, &wanted).unwrap();
    assert_ne!(difference((&record, &credentials), &again), Difference::None);
    let headers = [("Authorization", "Bearer s3cret"), ("X-a", "s3cret-3")];
    assert_eq!(again.credentials.headers, headers.map(|(name, value)| (name.into(), value.into())));
    assert_eq!(again.record.given_headers, ["Authorization", "X-a"]);
    for (name, value, says) in
        [("X-B", "hush\nX-C: x", "line break"), ("Host", "hush", "-H: the header Host is drowse's own")]
    {
        wanted.headers = vec![given(name, value)];
        let error = pin(&wanted, &none()).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("hush"), "{error}");
    }
}

#[test]
fn an_entry_behind_a_url_keeps_templates_and_no_literal_header() {
    let body = r#"{"url":"https://${HOST}/mcp","headers":{"Authorization":"Bearer ${TOKEN}","X-Lit":"lit-secret"},
        "autoRestart":true}"#;
    let (dir, target) = file(&format!(r#"{{"mcpServers":{{"e":{body}}}}}"#));
    let mut wanted = wanted(target, environment(&[("HOST", "h.example"), ("TOKEN", "tok-secret\n")]));
    wanted.settings.auto_restart = Some(false);
    wanted.headers = vec![given("x-lit", "given-secret")];
    let Pinned { record, credentials } = pin(&wanted, &none()).unwrap();
    let json = serde_json::to_string(&record).unwrap();
    assert!(!json.contains("secret"), "{json}");
    assert_eq!(record.url.as_deref(), Some("https://${HOST}/mcp"));
    assert_eq!((record.command.as_str(), record.settings.auto_restart), ("", Some(false)));
    assert_eq!(record.headers["Authorization"].as_deref(), Some("Bearer ${TOKEN}"));
    assert_eq!(record.headers["X-Lit"], None);
    assert_eq!(credentials.entry_headers["X-Lit"], "lit-secret");
    assert_eq!(credentials.variables.keys().collect::<Vec<_>>(), ["HOST", "TOKEN"]);
    // An entry may become a command, and then has nothing of the URL any more, save what was given.
    std::fs::write(dir.path().join("mcp.json"), r#"{"mcpServers":{"e":{"command":"run"}}}"#).unwrap();
    let again = pin_again(&record, &credentials, &Environment::default(), &none()).unwrap();
    assert_eq!((again.record.command.as_str(), &again.record.url), ("run", &None));
    assert!(again.record.headers.is_empty() && again.credentials.entry_headers.is_empty());
    assert_eq!(again.record.given_headers, ["x-lit"]);
}

#[test]
fn an_entry_behind_a_url_is_checked_as_it_expands() {
    let environment =
        environment(&[("USER_HOST", "me:hush@h"), ("LINES", "hush\nX: y"), ("BARE", "localhost:9")]);
    for (body, says) in [
        (r#"{"url":"https://${USER_HOST}/"}"#, "url: a URL must not hold"),
        (r#"{"url":"https://${GONE}/"}"#, "url: the variable GONE is not set"),
        (r#"{"url":"ws://h"}"#, "url: drowse speaks"),
        (
            r#"{"url":"https://h","headers":{"X-A":"${LINES}"}}"#,
            "headers.X-A: the value of the header X-A holds a line",
        ),
        (r#"{"url":"https://h","headers":{"X-A":"${input:token}"}}"#, "headers.X-A: ${input:token}"),
        (r#"{"url":"https://h","cacert":"none.pem"}"#, "cacert: cannot read"),
    ] {
        let (_dir, target) = file(&format!(r#"{{"servers":{{"e":{body}}}}}"#));
        let error = pin(&wanted(target, environment.clone()), &none()).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("hush"), "{error}");
    }
    let (_dir, target) = file(r#"{"servers":{"e":{"url":"${BARE}"}}}"#);
    assert!(pin(&wanted(target, environment), &none()).is_ok());
}

#[test]
fn what_only_urls_have_is_refused_for_commands() {
    let mut header = wanted(command(), Environment::default());
    header.headers = vec![given("X-A", "hush")];
    let mut insecure = wanted(command(), Environment::default());
    insecure.settings.insecure = Some(true);
    let (_dir, target) = file(r#"{"servers":{"e":{"command":"run"}}}"#);
    let mut proxy = wanted(target, Environment::default());
    proxy.settings.proxy = Some("http://p:1".into());
    for (wanted, flag) in [(header, "-H"), (insecure, "--insecure"), (proxy, "--proxy")] {
        let error = pin(&wanted, &none()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{flag} is for servers behind a URL")), "{error}");
    }
}

#[test]
fn certificates_are_found_now_and_from_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let mut wanted = wanted(WantedTarget::Url { url: "https://h".into() }, Environment::default());
    wanted.cwd = dir.path().into();
    wanted.settings.cacert = Some("ca.pem".into());
    let pinned = pin(&wanted, &none()).unwrap();
    assert_eq!(pinned.record.settings.cacert.as_deref(), Some(dir.path().join("ca.pem").as_path()));
    wanted.settings.cacert = Some("none.pem".into());
    let error = change(&pinned.record, &pinned.credentials, &wanted).unwrap_err().to_string();
    assert!(error.contains("--cacert: cannot read") && error.contains("none.pem"), "{error}");
}

#[test]
fn an_edited_entry_takes_effect_but_pins_and_given_settings_stay() {
    let (dir, target) = file(r#"{"servers":{"e":{"command":"one","env":{"A":"${A}"},"idleTimeoutSecs":1}}}"#);
    let mut wanted = wanted(target, environment(&[("A", "old"), ("PATH", "/old")]));
    wanted.settings.timeout_ms = Some(7);
    wanted.pins = vec![Pin::Value("P".into(), "p".into())];
    let first = pin(&wanted, &none()).unwrap();
    std::fs::write(
        dir.path().join("mcp.json"),
        r#"{"servers":{"e":{"command":"two","env":{"A":"${A}","B":"${B}"},"idleTimeoutSecs":2,"timeout":9}}}"#,
    )
    .unwrap();
    let later = environment(&[("A", "new"), ("B", "b"), ("PATH", "/new")]);
    let again = pin_again(&first.record, &first.credentials, &later, &none()).unwrap();
    assert_eq!(again.record.command, "two");
    assert_eq!(again.record.settings.idle_timeout_secs, Some(2));
    assert_eq!(again.record.settings.timeout_ms, Some(7));
    assert_eq!(again.credentials.variables["A"], "old");
    assert_eq!(again.credentials.variables["B"], "b");
    assert_eq!(again.credentials.ambient["PATH"], "/old");
    assert_eq!(again.credentials.pins["P"], "p");
    std::fs::remove_file(dir.path().join("mcp.json")).unwrap();
    assert!(pin_again(&first.record, &first.credentials, &later, &none()).is_err());
}

#[test]
fn given_is_before_entry_before_the_users_default() {
    let (_dir, target) =
        file(r#"{"servers":{"e":{"command":"one","idleTimeoutSecs":60,"keepaliveSecs":7}}}"#);
    let defaults = Settings {
        idle_timeout_secs: Some(600),
        keepalive_secs: Some(8),
        stop_grace_ms: Some(9000),
        proxy: Some("http://p:1".into()),
        ..none()
    };
    let mut wanted = wanted(target, environment(&[]));
    wanted.settings.idle_timeout_secs = Some(0);
    let record = pin(&wanted, &defaults).unwrap().record;
    assert_eq!(record.settings.idle_timeout_secs, Some(0), "an explicit 0 is 0");
    assert_eq!((record.settings.keepalive_secs, record.settings.stop_grace_ms), (Some(7), Some(9000)));
    assert_eq!(record.settings.proxy, None, "a command has no use for it");
    let source = |setting| record.source(setting, &defaults).name();
    let sources = [Setting::IdleTimeout, Setting::Keepalive, Setting::StopGrace, Setting::Proxy].map(source);
    assert_eq!(sources, ["given", "entry", "user default", "built-in"]);
    // The next start has the defaults of then.
    assert_eq!(record.wanted(&none()).stop_grace_ms, None);
    // What an older drowse wrote does not tell the entry's from others: all that was not given is.
    let old = SessionRecord { entry: None, ..record };
    assert_eq!(old.wanted(&none()).stop_grace_ms, Some(9000));
    assert_eq!(old.source(Setting::IdleTimeout, &none()).name(), "given");
}

#[test]
fn only_some_changes_need_a_new_bridge() {
    let old = pin(&wanted(WantedTarget::Url { url: "h.example".into() }, environment(&[])), &none()).unwrap();
    let with = |settings: Settings| {
        let mut now = wanted(WantedTarget::Url { url: "h.example".into() }, environment(&[]));
        now.settings = settings;
        difference((&old.record, &old.credentials), &change(&old.record, &old.credentials, &now).unwrap())
    };
    let idle = Settings { idle_timeout_secs: Some(5), keepalive_secs: Some(1), ..none() };
    assert_eq!(with(idle.clone()), Difference::Live);
    assert_eq!(with(Settings { insecure: Some(true), ..idle }), Difference::Start);
    let mut credentials = old.credentials.clone();
    credentials.pins.insert("A".into(), "a".into());
    let other = Pinned { record: old.record.clone(), credentials };
    assert_eq!(difference((&old.record, &old.credentials), &other), Difference::Start);
}

#[test]
fn changing_a_session_touches_only_what_is_given() {
    let mut first = wanted(command(), environment(&[("PATH", "/old"), ("T", "1")]));
    first.settings.idle_timeout_secs = Some(5);
    first.pins = vec![Pin::Name("T".into())];
    let old = pin(&first, &none()).unwrap();
    let mut second = wanted(command(), environment(&[("PATH", "/new")]));
    let same = change(&old.record, &old.credentials, &second).unwrap();
    assert_eq!(difference((&old.record, &old.credentials), &same), Difference::None);
    second.settings.timeout_ms = Some(3);
    second.pins = vec![Pin::Value("U".into(), "u".into())];
    let new = change(&old.record, &old.credentials, &second).unwrap();
    assert_ne!(difference((&old.record, &old.credentials), &new), Difference::None);
    assert_eq!(new.record.settings.idle_timeout_secs, Some(5));
    assert_eq!(new.record.settings.timeout_ms, Some(3));
    assert_eq!(new.record.pins, ["T", "U"]);
    assert_eq!(new.credentials.ambient["PATH"], "/old");
}

#[test]
fn who_comes_in_stays_as_it_was_said_until_it_is_said_otherwise() {
    let first = pin(&wanted(command(), Environment::default()), &none()).unwrap();
    let named = |limits: &[(LimitName, Option<u64>)]| WantedFront {
        limits: limits.to_vec(),
        ..WantedFront::default()
    };
    let to = |old: &Pinned, at: Option<&str>, front: WantedFront| {
        let at = at.map(|at| (at != "off").then(|| Share::parse(at).unwrap()));
        reshared(&old.record, &old.credentials, &WantedShare { at, token: None, front })
    };
    assert!(matches!(
        to(&first, None, named(&[(LimitName::Idle, Some(1))])),
        Err(CallError::Config(ConfigError::Share(ShareError::NoFront)))
    ));
    let front = WantedFront {
        hosts: Some(vec!["box".into()]),
        origins: Some(vec!["https://o".into()]),
        limits: vec![(LimitName::Sessions, Some(1)), (LimitName::Hold, Some(5)), (LimitName::Hold, Some(0))],
    };
    let second = to(&first, Some("0"), front).unwrap();
    let (old, new) = ((&first.record, &first.credentials), &second);
    assert_eq!(difference(old, new), Difference::Start);
    // Elsewhere, and with one more limit.
    let third = to(&second, Some("127.0.0.2:9"), named(&[(LimitName::Idle, Some(60))])).unwrap();
    let share = third.record.share.clone().unwrap();
    assert_eq!((share.to_string().as_str(), &share.hosts[..]), ("127.0.0.2:9", &["box".to_owned()][..]));
    assert_eq!(share.origins, ["https://o"]);
    let limits: Vec<_> = share.limits.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(limits, [("hold", 0), ("idle", 60), ("sessions", 1)]);
    let usual = WantedFront { hosts: Some(Vec::new()), ..named(&[(LimitName::Sessions, None)]) };
    let share = to(&third, None, usual).unwrap().record.share.unwrap();
    assert!(share.hosts.is_empty() && !share.origins.is_empty() && !share.limits.contains_key("sessions"));
    // What is no more shared begins anew.
    let ended = to(&third, Some("off"), WantedFront::default()).unwrap();
    let again = to(&ended, Some("0"), WantedFront::default()).unwrap();
    assert_eq!(again.record.share, Some(Share::parse("0").unwrap()));
}

#[test]
fn targets_are_the_same_by_command_line_or_by_file_and_entry() {
    let pinned = pin(&wanted(command(), Environment::default()), &none()).unwrap();
    assert!(same_target(&pinned.record, &command()).unwrap());
    let other = WantedTarget::Command { command: "./serve".into(), args: vec![] };
    assert!(!same_target(&pinned.record, &other).unwrap());
    let url = |url: &str| WantedTarget::Url { url: url.into() };
    assert!(!same_target(&pinned.record, &url("https://h")).unwrap());
    let remote = pin(&wanted(url("h.example"), Environment::default()), &none()).unwrap();
    assert!(same_target(&remote.record, &url("https://H.example:443/")).unwrap());
    assert!(!same_target(&remote.record, &url("http://h.example")).unwrap());
    let entry = WantedTarget::Entry { file: PathBuf::from("/c.json"), entry: "e".into() };
    assert!(!same_target(&pinned.record, &entry).unwrap());
}
