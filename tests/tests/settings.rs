//! `set` and `config` end to end: what a server that runs goes by at once, what waits for its next start, what survives,
//! and what comes from where.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::fs;
use std::thread;
use std::time::Duration;

use drowse_runtime::record::{Settings, State};
use drowse_tests::harness::{ERAS, Home, HttpServer, Session, at_once};
use serde_json::{Value, json};

#[path = "tasks/places.rs"]
mod places;

use places::everywhere;

fn set(session: &Session<'_>, pairs: &[&str]) -> Value {
    session.run(["set"].iter().chain(pairs).copied()).ok().json()
}

/// How long the bridge would wait from now, in whole thousands of seconds.
fn thousands(session: &Session<'_>) -> Option<u64> {
    session.status()["idleInMs"].as_u64().map(|ms| ms.div_ceil(1_000_000))
}

fn server(session: &Session<'_>) -> (u64, Option<u32>) {
    let state = session.state().unwrap();
    (state.generation, state.server_pid)
}

#[test]
fn a_period_takes_effect_at_once_and_stays() {
    everywhere(&["--idle-timeout", "2000"], |session, _| {
        let first = server(session);
        assert_eq!(thousands(session), Some(2));
        let longer = set(session, &["idle-timeout", "5000"]);
        assert_eq!(longer["settings"]["idleTimeoutSecs"], json!({"value": 5000, "source": "given"}));
        assert_eq!((&longer["changed"], &longer["awake"]), (&json!(["idle-timeout"]), &json!(true)));
        assert_eq!(longer["afterRestart"], json!([]));
        assert_eq!(thousands(session), Some(5));
        set(session, &["idle-timeout", "0"]);
        assert_eq!((thousands(session), server(session)), (None, first), "never, and the same server");
        assert_eq!(session.listed()["idleTimeoutSecs"], 0);
        // What is over already is over now: nobody used it since.
        set(session, &["idle-timeout", "1"]);
        session.wait_until_asleep();
        let started = session.starts();
        let asleep = set(session, &["idle-timeout", "3000"]);
        assert_eq!(asleep["awake"], false);
        assert_eq!(session.state().unwrap().state, State::Idle, "it is not woken");
        assert_eq!(session.starts(), started);
        session.run(["ping"]).ok();
        assert_eq!(thousands(session), Some(3));
        session.run(["restart"]).ok();
        assert_eq!(thousands(session), Some(3));
        let unset = set(session, &["idle-timeout", "default"]);
        assert_eq!(unset["settings"]["idleTimeoutSecs"], json!({"value": 0, "source": "built-in"}));
        assert_eq!((thousands(session), session.record().settings.idle_timeout_secs), (None, None));
    });
}

#[test]
fn several_settings_at_once_and_limits_for_requests_from_then_on() {
    everywhere(&[], |session, _| {
        let first = server(session);
        let done =
            set(session, &["timeout", "1", "max-timeout", "2", "stop-grace", "1", "auto-restart", "on"]);
        assert_eq!(done["changed"], json!(["timeout", "max-timeout", "stop-grace", "auto-restart"]));
        let failed = session.call("slow", &["ms:=20000"]).fails(3);
        assert_eq!(failed["kind"], "timeout");
        assert_eq!(server(session), first, "the server lives");
        set(session, &["timeout", "default", "max-timeout", "default"]);
        session.call("slow", &["ms:=1500"]).ok();
        // All or nothing.
        let failed = session.run(["set", "timeout", "5", "on-expiry", "later"]).fails(1);
        assert!(failed["error"].as_str().unwrap().contains("fresh or fail"), "{failed}");
        assert_eq!(session.record().settings.timeout_ms, None);
        let all = session.run(["set"]).ok().json();
        assert_eq!(all["settings"]["autoRestart"], json!({"value": true, "source": "given"}));
        assert_eq!(all["settings"]["timeoutSecs"], json!({"value": 300, "source": "built-in"}));
        assert_eq!(all["settings"].get("proxy").is_some(), session.record().url.is_some());
    });
}

#[test]
fn a_keepalive_is_armed_and_disarmed() {
    at_once(ERAS.map(|era| (era, era)), |era| {
        let http = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--keepalive", "0"], &http);
        let question = if era == "legacy" { "ping" } else { "server/discover" };
        let asked = || session.methods().iter().filter(|method| *method == question).count();
        let before = asked();
        set(&session, &["keepalive", "1"]);
        session.wait_for(|_| asked() >= before + 2);
        set(&session, &["keepalive", "0"]);
        let after = asked();
        // A whole period, and the server is asked for something else meanwhile.
        session.call("slow", &["ms:=3200"]).ok();
        assert!(asked() <= after + 1, "one may have been on its way");
        assert_eq!(session.record().settings.keepalive_secs, Some(0));
    });
}

#[test]
fn what_cannot_be_changed_now_waits_for_a_restart() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--era", "dual"]);
    let first = server(&session);
    assert_eq!(session.state().unwrap().era.unwrap().era, "modern");
    let done = set(&session, &["mcp-version", "legacy", "idle-timeout", "4000"]);
    assert_eq!(done["afterRestart"], json!(["mcp-version"]));
    assert_eq!((server(&session), thousands(&session)), (first, Some(4)));
    let said = home.run(["set", "@s", "mcp-version", "modern"]).ok();
    assert!(said.err.contains("drowse restart @s"), "{}", said.err);
    home.run(["@s", "set", "mcp-version", "legacy"]).ok();
    session.run(["restart"]).ok();
    assert_eq!(session.state().unwrap().era.unwrap().era, "legacy");
    for (words, part) in [
        (["set", "proxy", "http://p:1"], "servers behind a URL"),
        (["set", "idle-time", "5"], "there is no setting"),
        (["set", "idle-timeout", "soon"], "a number of seconds"),
        (["set", "roots", "/no/such/directory"], "roots takes"),
    ] {
        let failed = session.run(words).fails(1);
        assert!(failed["error"].as_str().unwrap().contains(part), "{failed}");
    }
    let failed = home.run(["set", "@nobody", "idle-timeout", "5", "--json"]).fails(1);
    assert_eq!(failed["kind"], "no-session");
}

#[test]
fn a_log_level_is_told_to_the_server_that_runs() {
    everywhere(&[], |session, _| {
        let first = server(session);
        set(session, &["log-level", "error"]);
        let log = |level: &str| session.call("notify", &["n:=1", &format!("level={level}")]).ok().text();
        assert_eq!((log("warning").as_str(), log("critical").as_str()), ("0", "1"));
        assert_eq!(server(session), first);
    });
}

#[test]
fn connect_reuses_a_session_with_the_same_target() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "2000", "--keepalive", "7"], &[]);
    let first = server(&session);
    let again = |flags: &[&str]| home.try_connect("@s", flags, &[]).1;
    let same = again(&[]).ok().json();
    assert_eq!(same[0]["_drowse"]["outcome"], "already-awake");
    let changed = again(&["--idle-timeout", "3000"]).ok().json();
    assert_eq!(changed[0]["_drowse"]["outcome"], "changed");
    assert_eq!((server(&session), thousands(&session)), (first, Some(3)), "its server stays");
    assert_eq!(session.record().settings.keepalive_secs, Some(7), "and what is not given now");
    let lazy = again(&["--lazy", "--idle-timeout", "4000"]).ok().json();
    assert_eq!(lazy[0]["_drowse"]["outcome"], "changed");
    assert_eq!(thousands(&session), Some(4));
    // A variable needs another server.
    let other = again(&["--env", "A=b"]).ok().json();
    assert_eq!(other[0]["_drowse"]["outcome"], "restarted");
    assert_ne!(server(&session), first);
    let taken = home.run(["connect", "@s", "--json", "--", "cat"]).fails(1);
    assert_eq!(taken["kind"], "name-taken");
    assert!(taken["error"].as_str().unwrap().contains("@s"), "{taken}");
}

#[test]
fn flag_before_entry_before_the_users_default() {
    let home = Home::new();
    let set = home.run(["config", "set", "idle-timeout", "3000s"]);
    assert!(set.ok().err.contains("next start"));
    assert_eq!(home.run(["config", "get", "idle-timeout", "--json"]).ok().json()["value"], 3000);
    let file = home.files().config_file();
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["defaults"], json!({"idleTimeoutSecs": 3000}));
    let session = home.connect("@s", &[], &[]);
    assert_eq!((thousands(&session), session.listed()["idleTimeoutSecs"].as_u64()), (Some(3), Some(3000)));
    let zero = home.connect("@z", &["--idle-timeout", "0"], &[]);
    assert_eq!((thousands(&zero), zero.record().settings.idle_timeout_secs), (None, Some(0)));
    let entry = home.connect_entry("@e", &[], json!({"idleTimeoutSecs": 6000}), &[]);
    assert_eq!(thousands(&entry), Some(6));
    let shown =
        |session: &Session<'_>| session.run(["set"]).ok().json()["settings"]["idleTimeoutSecs"].clone();
    assert_eq!(shown(&session), json!({"value": 3000, "source": "user default"}));
    assert_eq!(shown(&zero), json!({"value": 0, "source": "given"}));
    assert_eq!(shown(&entry), json!({"value": 6000, "source": "entry"}));
    // In bulk a flag is before every entry, too, and is kept as 0.
    let path = home.path().join("e.json").display().to_string();
    home.run(["connect", &path, "--idle-timeout", "0", "--json"]).ok();
    assert_eq!((thousands(&entry), entry.record().settings.idle_timeout_secs), (None, Some(0)));
    entry.run(["set", "idle-timeout", "default"]).ok();
    assert_eq!(thousands(&entry), Some(6), "its entry's again");
    // Those that are there have another default at their next start.
    home.run(["config", "set", "idle-timeout", "9000"]).ok();
    assert_eq!(thousands(&session), Some(3));
    assert_eq!(shown(&session), json!({"value": 9000, "source": "user default", "running": 3000}));
    let first = server(&session);
    home.try_connect("@s", &[], &[]).1.ok();
    assert_eq!((server(&session), thousands(&session)), (first, Some(3)), "not by a connect while it runs");
    session.run(["restart"]).ok();
    assert_eq!(thousands(&session), Some(9));
    home.run(["config", "unset", "idle-timeout"]).ok();
    session.run(["restart"]).ok();
    assert_eq!((thousands(&session), session.record().settings), (None, Settings::default()));
}

#[test]
fn a_damaged_default_stops_starts_and_nothing_else() {
    let home = Home::new();
    let awake = home.connect("@a", &[], &[]);
    let asleep = home.connect("@b", &["--lazy"], &[]);
    let file = home.files().config_file();
    fs::write(&file, "{\"defaults\": {\"idleTimeoutSecs\": \"soon\"}}").unwrap();
    let is_clear = |failed: Value| {
        assert_eq!(failed["kind"], "config", "{failed}");
        let error = failed["error"].as_str().unwrap();
        assert!(error.contains(file.to_str().unwrap()) && error.contains("mend"), "{error}");
    };
    is_clear(home.try_connect("@c", &[], &[]).1.fails(1));
    is_clear(asleep.run(["ping"]).fails(1));
    is_clear(awake.run(["restart"]).fails(1));
    is_clear(home.run(["config", "--json"]).fails(1));
    is_clear(home.run(["config", "set", "idle-timeout", "1", "--json"]).fails(1));
    assert_eq!(home.list().len(), 2);
    awake.run(["ping"]).ok();
    asleep.run(["close"]).ok();
    let path = home.run(["config", "path"]).ok();
    fs::remove_file(path.out.trim_end()).unwrap();
    awake.run(["restart"]).ok();
}

/// Whatever meets whatever: nothing is lost, and the record and the bridge agree in the end.
#[test]
fn sets_and_restarts_and_calls_at_once() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "1000"], &[]);
    thread::scope(|scope| {
        let session = &session;
        for worker in 0..3_u64 {
            scope.spawn(move || {
                for round in 0..6_u64 {
                    let period = ((worker * 6 + round + 2) * 1000).to_string();
                    session.run(["set", "idle-timeout", &period]).ok();
                }
            });
        }
        scope.spawn(move || {
            for number in 0..10 {
                let tag = format!("tag=t{number}");
                let run = session.call("tag", &[&tag]);
                // A restart ends what it meets, and says so.
                assert!(run.code == 0 || run.err.contains("shutting-down"), "{run:?}");
            }
        });
        scope.spawn(move || {
            for _ in 0..3 {
                session.run(["restart"]).ok();
            }
        });
    });
    let wanted = session.record().settings.idle_timeout_secs.unwrap();
    session.run(["ping"]).ok();
    assert_eq!(thousands(&session), Some(wanted / 1000));
    for number in 0..10 {
        assert!(session.executions(&format!("t{number}")) <= 1);
    }
}

#[test]
fn a_set_that_meets_the_idle_deadline_is_not_lost() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "1"], &[]);
    for round in 0..6_u64 {
        let period = (round + 2) * 1000;
        session.run(["ping"]).ok();
        // Before, at and after the moment at which its server is let go.
        thread::sleep(Duration::from_millis(850 + 60 * round));
        set(&session, &["idle-timeout", &period.to_string()]);
        assert_eq!(session.record().settings.idle_timeout_secs, Some(period));
        session.run(["ping"]).ok();
        assert_eq!(thousands(&session), Some(period / 1000));
        set(&session, &["idle-timeout", "1"]);
    }
}

#[test]
fn a_set_that_meets_a_close_brings_nothing_back() {
    let home = Home::new();
    for round in 0..4 {
        let session = home.connect("@s", &[], &[]);
        let setting = session.start(["set", "idle-timeout", "5"]);
        if round % 2 == 1 {
            thread::yield_now();
        }
        session.run(["close"]).ok();
        let set = setting.end();
        assert!(set.code == 0 || set.err.contains("no-session"), "{set:?}");
        assert!(!session.exists());
    }
}
