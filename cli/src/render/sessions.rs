//! Sessions: the list, one line each, and the same as JSON.

use std::time::Duration;

use drowse_runtime::caller::Listed;
use drowse_runtime::record::{self, SessionRecord, State, Target, states};
use drowse_runtime::serve::limits::Shown;
use drowse_runtime::share::Share;
use drowse_runtime::wire::Status;
use serde_json::{Map, Value, json};

use super::age;
use crate::output::{Style, paint};
use crate::text::{duration, one_line, shell_quoted};

/// How much of a target fits a line.
const TARGET_WIDTH: usize = 60;
/// How much of what went wrong does.
const REASON_WIDTH: usize = 160;
/// Room for what may become of one of several.
pub(crate) const OUTCOME_WIDTH: usize = 7;

/// The list for people: a line per session, and below it what to do next.
pub(crate) fn list(sessions: &[Listed]) -> String {
    let now = record::now_ms();
    let width = sessions.iter().map(|session| session.name.to_string().len()).max().unwrap_or(0);
    let states: Vec<String> = sessions.iter().map(|session| aged(session, now)).collect();
    let room = states.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (session, state) in sessions.iter().zip(&states) {
        text.push_str(&line(session, width, state, room));
        text.push_str(&below(session, now));
    }
    text
}

/// One session with its state and since when it is so, its target, and what to do next.
pub(crate) fn entry(session: &Listed, width: usize) -> String {
    let now = record::now_ms();
    line(session, width, &aged(session, now), 0) + &below(session, now)
}

/// One session that was dealt with just now: its line, with the state in so many columns, and what to do next unless it
/// is at work.
pub(crate) fn outcome(session: &Listed, width: usize, room: usize) -> String {
    let line = line(session, width, session.state.name(), room);
    if session.state != State::Live {
        return line + &below(session, record::now_ms());
    }
    let shared = shared(session).map(|shared| paint(Style::Dim, &format!("  ↳ {shared}")) + "\n");
    line + &shared.unwrap_or_default()
}

fn line(session: &Listed, width: usize, state: &str, room: usize) -> String {
    let (dot, style) = dot(session.state);
    let name = format!("{:<width$}", session.name.to_string());
    let state = format!("{state:<room$}  ");
    let mut line = format!("{} {}  {}", paint(style, dot), paint(Style::Bold, &name), paint(style, &state));
    match &session.record {
        Ok(record) => {
            line.push_str(&one_line(&target(record), TARGET_WIDTH));
            if let Some(seconds) = record.settings.idle_timeout_secs.filter(|&seconds| seconds > 0) {
                let idle = format!("  sleeps after {}", duration(Duration::from_secs(seconds)));
                line.push_str(&paint(Style::Dim, &idle));
            }
        }
        Err(error) => line.push_str(&paint(Style::Red, &one_line(&error.to_string(), 200))),
    }
    line.push('\n');
    line
}

fn below(session: &Listed, now: u64) -> String {
    let hints = hints(session, now).into_iter();
    hints.map(|hint| paint(Style::Dim, &format!("  ↳ {hint}")) + "\n").collect()
}

/// The state, and for how long: "idle for 3 h", "crashed 2 min ago".
fn aged(session: &Listed, now: u64) -> String {
    let state = session.state;
    let Some(since) = begun(session) else { return state.name().to_owned() };
    match age::since(since, now) {
        None => format!("{state} just now"),
        Some(span) if matches!(state, State::Crashed | State::Expired) => {
            format!("{state} {} ago", age::ago(span))
        }
        Some(span) => format!("{state} for {}", age::ago(span)),
    }
}

/// Since when it is in the state that is shown, where that is known.
pub(crate) fn begun(session: &Listed) -> Option<u64> {
    match &session.known {
        // What became of a bridge that is gone was written down by nobody.
        Some(known) => Some(known.since).filter(|at| known.state == session.state && *at > 0),
        None => session.record.as_ref().ok().map(|record| record.created),
    }
}

/// When a server that is awake sleeps, or why it does not.
fn sleep(session: &Listed) -> Option<String> {
    if !session.state.is_awake() {
        return None;
    }
    let record = session.record.as_ref().ok()?;
    let never = record.settings.idle_timeout_secs.is_none_or(|seconds| seconds == 0);
    match &session.status {
        Some(Status { idle_in_ms: Some(left), .. }) => Some(format!("sleeps in {}", age::left(*left))),
        _ if never => Some("never sleeps".to_owned()),
        Some(Status { deferred_by, .. }) if session.state != State::Connecting => match &deferred_by[..] {
            [] => None,
            [one] => Some(format!("kept awake by {}", one_line(one, REASON_WIDTH))),
            [one, two] => Some(format!(
                "kept awake by {} and {}",
                one_line(one, REASON_WIDTH),
                one_line(two, REASON_WIDTH)
            )),
            [one, more @ ..] => {
                Some(format!("kept awake by {} and {} more", one_line(one, REASON_WIDTH), more.len()))
            }
        },
        _ => None,
    }
}

/// What to do next, as the core's table has it.
fn next_step(session: &Listed) -> String {
    states::of(session.state).next.replace('`', "").replace("@s", &session.name.to_string())
}

/// One session for `--json`. Keys beyond the documented ones stand under `_drowse`.
pub(crate) fn to_json(session: &Listed) -> Map<String, Value> {
    let now = record::now_ms();
    let mut entry = Map::new();
    let mut extra = Map::new();
    entry.insert("name".into(), session.name.to_string().into());
    entry.insert("status".into(), session.state.name().into());
    let listener = session.listener.as_ref();
    if let Some(pid) = session.bridge_pid.or(listener.map(|listener| listener.pid)) {
        entry.insert("pid".into(), pid.into());
    }
    match &session.record {
        Ok(record) => {
            entry.insert("target".into(), target(record).into());
            if let Some(seconds) = record.settings.idle_timeout_secs {
                entry.insert("idleTimeoutSecs".into(), seconds.into());
            }
            settings(record, &mut extra);
            sharing(session, record, &mut extra);
            extra.insert("created".into(), record.created.into());
        }
        Err(error) => {
            entry.insert("target".into(), Value::Null);
            extra.insert("error".into(), error.to_string().into());
        }
    }
    if let Some(error) = &session.state_error {
        extra.insert("error".into(), error.to_string().into());
    }
    if let Some(known) = &session.known {
        if let Some(pid) = known.server_pid.filter(|_| session.bridge_pid.is_some()) {
            extra.insert("serverPid".into(), pid.into());
        }
        extra.insert("generation".into(), known.generation.into());
        if let Some(era) = &known.era {
            extra.insert("era".into(), era.era.as_str().into());
            extra.insert("protocolVersion".into(), era.protocol_version.as_str().into());
        }
        if let Some(retry_at) = known.retry_at.filter(|_| session.state == State::Crashed) {
            extra.insert("retryAt".into(), retry_at.into());
        }
        if let Some(message) = &known.message {
            extra.insert("message".into(), message.as_str().into());
        }
        if let Some(stderr) = known.stderr.as_deref().filter(|_| session.state == State::Crashed) {
            extra.insert("stderr".into(), stderr.into());
        }
    }
    if let Some(since) = begun(session) {
        extra.insert("since".into(), since.into());
    }
    if let Some(status) = &session.status {
        extra.insert("inFlight".into(), status.in_flight.into());
        if let Some(left) = status.idle_in_ms {
            extra.insert("idleInMs".into(), left.into());
            extra.insert("sleepsAt".into(), now.saturating_add(left).into());
        }
        if !status.deferred_by.is_empty() {
            extra.insert("deferredBy".into(), json!(status.deferred_by));
        }
    }
    extra.insert("nextStep".into(), steps(session, now).join("; ").into());
    entry.insert("_drowse".into(), extra.into());
    entry
}

/// Where it is shared, and by which process; of the token no more than that there is one.
fn sharing(session: &Listed, record: &SessionRecord, extra: &mut Map<String, Value>) {
    if let Some(share) = &record.share {
        extra.insert("share".into(), share_json(share));
    }
    if let Some(listener) = &session.listener {
        extra.insert("listener".into(), json!({"pid": listener.pid, "url": listener.url}));
    }
    if let Some(why) = not_shared(session) {
        extra.insert("notShared".into(), why.into());
    }
}

/// What was said of sharing it; of the token no more than that there is one.
pub(crate) fn share_json(share: &Share) -> Value {
    let mut said = json!({"address": share.to_string(), "bearerToken": share.token});
    if !share.hosts.is_empty() {
        said["hosts"] = json!(share.hosts);
    }
    if !share.origins.is_empty() {
        said["origins"] = json!(share.origins);
    }
    if !share.limits.is_empty() {
        said["limits"] = json!(share.limits);
    }
    said
}

/// Who else comes in, and what is limited otherwise than usual, for people; begins with a semicolon if there is any.
pub(crate) fn front_words(share: &Share) -> String {
    let mut words = String::new();
    for (what, names) in [("also as", &share.hosts), ("for pages of", &share.origins)] {
        if !names.is_empty() {
            words += &format!("; {what} {}", names.join(", "));
        }
    }
    let limits: Vec<_> = share.limits.iter().map(|(name, value)| Shown(name, *value).to_string()).collect();
    if !limits.is_empty() {
        words += &format!("; {}", limits.join(" "));
    }
    one_line(&words, REASON_WIDTH)
}

/// Why it is not shared though it is to be, if its bridge said so.
fn not_shared(session: &Listed) -> Option<&str> {
    session.known.as_ref()?.not_shared.as_deref().filter(|_| session.bridge_pid.is_some())
}

/// Where it is shared, for people.
fn shared(session: &Listed) -> Option<String> {
    let share = session.record.as_ref().ok().and_then(|record| record.share.as_ref());
    let token = share.is_some_and(|share| share.token);
    let front = share.map(front_words).unwrap_or_default();
    match (&session.listener, not_shared(session)) {
        (Some(listener), _) => {
            let who = if session.bridge_pid.is_some() { "its bridge" } else { "its listener" };
            let token = if token { ", for clients with its bearer token" } else { "" };
            Some(format!("shared at {}{token}{front} ({who} is process {})", listener.url, listener.pid))
        }
        (None, why) => why.map(|why| one_line(why, REASON_WIDTH)),
    }
}

/// What was set of a session, and how a server behind a URL is reached. Of headers no more than their names.
fn settings(record: &SessionRecord, extra: &mut Map<String, Value>) {
    let set = &record.settings;
    let mut insert = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            extra.insert(name.into(), value);
        }
    };
    insert("timeoutMs", set.timeout_ms.map(Into::into));
    insert("keepaliveSecs", set.keepalive_secs.map(Into::into));
    insert("autoRestart", set.auto_restart.map(Into::into));
    insert("onExpiry", set.on_expiry.map(|choice| choice.as_str().into()));
    let Some(url) = &record.url else { return };
    insert("url", Some(url.as_str().into()));
    let given = record.given_headers.iter();
    let is_given = |name: &str| given.clone().any(|given| given.eq_ignore_ascii_case(name));
    let entry = record.headers.keys().filter(|name| !is_given(name));
    let names: Vec<&String> = entry.chain(given.clone()).collect();
    insert("headers", (!names.is_empty()).then(|| json!(names)));
    insert("insecure", set.insecure.map(Into::into));
    insert("cacert", set.cacert.as_ref().map(|file| file.display().to_string().into()));
    insert("proxy", set.proxy.as_deref().map(Into::into));
}

/// The whole answer of `drowse --json`.
pub(crate) fn list_to_json(sessions: &[Listed]) -> String {
    let sessions: Vec<Value> = sessions.iter().map(|session| to_json(session).into()).collect();
    json!({"sessions": sessions, "profiles": []}).to_string()
}

/// What a session runs, as it could be typed.
pub(crate) fn target(record: &SessionRecord) -> String {
    match &record.target {
        Target::Entry { .. } | Target::Url => record.describe(),
        Target::Command => {
            let words = std::iter::once(&record.command).chain(&record.args);
            words.map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ")
        }
    }
}

/// The mark of a state, and its colour.
pub(crate) fn dot(state: State) -> (&'static str, Style) {
    match state {
        State::Live => ("●", Style::Green),
        State::Suspended => ("●", Style::Dim),
        State::Connecting | State::Reconnecting => ("◐", Style::Cyan),
        State::Disconnected => ("●", Style::Yellow),
        State::Idle | State::Dormant | State::Closed => ("○", Style::Dim),
        State::Crashed => ("○", Style::Red),
        State::Unauthorized | State::Expired => ("○", Style::Yellow),
    }
}

/// What there is to know below its line, the next command last.
fn hints(session: &Listed, now: u64) -> Vec<String> {
    let mut hints =
        if session.record.is_err() || session.state_error.is_some() { Vec::new() } else { why(session) };
    hints.extend(shared(session));
    hints.extend(steps(session, now));
    hints
}

/// What to do next.
fn steps(session: &Listed, now: u64) -> Vec<String> {
    let name = &session.name;
    if session.record.is_err() {
        return vec![format!("drowse close {name}")];
    }
    if let Some(error) = &session.state_error {
        return vec![one_line(&error.to_string(), 200)];
    }
    let mut hints = Vec::new();
    let fails = session.record.as_ref().is_ok_and(|record| record.settings.fails_on_expiry());
    match session.state {
        State::Crashed if rests_for(session, now).is_some() => {
            let wait = rests_for(session, now).map(age::left).unwrap_or_default();
            hints.push(format!(
                "keeps crashing, so it is not started for {wait}; at once: drowse {name} restart; why: drowse {name} logs"
            ));
        }
        State::Unauthorized => {
            hints.push(format!("new credentials: {}", reconnect(session)));
            hints.push(format!("the same once more: drowse {name} restart"));
        }
        State::Expired if fails => {
            hints.push(format!("its state is gone; begin a fresh one: drowse {name} restart"));
        }
        State::Expired => {
            hints.push(format!("its state is gone; starts fresh on next use, e.g. drowse {name} tools-list"));
        }
        _ => {
            let sleep = sleep(session).map_or_else(String::new, |sleep| sleep + "; ");
            hints.push(sleep + &next_step(session));
        }
    }
    hints
}

/// What went wrong: in drowse's words, and the server's last ones.
fn why(session: &Listed) -> Vec<String> {
    let Some(known) = &session.known else { return Vec::new() };
    if !matches!(session.state, State::Crashed | State::Unauthorized) {
        return Vec::new();
    }
    // Nobody is left who could have written down more.
    if session.state == State::Crashed && known.state != State::Crashed {
        return vec!["its bridge was killed, and could not say when".to_owned()];
    }
    let message = known.message.as_deref().map(|message| one_line(message, REASON_WIDTH));
    let last = known.stderr.as_deref().and_then(|tail| tail.lines().rfind(|line| !line.trim().is_empty()));
    let last = last.map(|line| format!("its last words: {}", one_line(line, REASON_WIDTH)));
    message.into_iter().chain(last).collect()
}

/// How long a server that keeps crashing is not started yet. A wait longer than any means that the clock was set back.
fn rests_for(session: &Listed, now: u64) -> Option<u64> {
    let known = session.known.as_ref().filter(|known| known.state == State::Crashed)?;
    let longest = u64::try_from(record::CRASH_WINDOW.as_millis()).unwrap_or(u64::MAX);
    known.retry_at?.checked_sub(now).filter(|left| (1..=longest).contains(left))
}

/// How to give a session other credentials.
fn reconnect(session: &Listed) -> String {
    let target = session.record.as_ref().map(target).unwrap_or_default();
    let target = one_line(&shell_quoted(&target), 160);
    format!("drowse connect {target} {} -H 'Authorization: …'", session.name)
}

#[cfg(test)]
mod tests {
    use drowse_runtime::caller::Listener;
    use drowse_runtime::home::SessionName;
    use drowse_runtime::record::StateRecord;

    use super::*;

    fn session(state: State) -> Listed {
        let record = serde_json::from_value(json!({
            "schema": 1, "target": "command", "command": "npx", "args": ["-y", "a b", "it's"], "cwd": "/",
            "settings": {"idleTimeoutSecs": 0}, "created": 5,
        }));
        let known =
            StateRecord { server_pid: Some(7), generation: 3, state, since: 9, ..StateRecord::dormant() };
        Listed {
            name: SessionName::new("s").unwrap(),
            record: Ok(record.unwrap()),
            state,
            state_error: None,
            known: Some(known),
            bridge_pid: state.is_awake().then_some(6),
            status: None,
            listener: None,
        }
    }

    fn status(session: &mut Listed, said: Value) {
        let mut status =
            json!({"state": session.state.name(), "generation": 3, "serverPid": 7, "inFlight": 0});
        for (key, value) in said.as_object().unwrap() {
            status[key] = value.clone();
        }
        session.status = Some(serde_json::from_value(status).unwrap());
    }

    /// With this idle period, in seconds.
    fn sleepy(state: State, seconds: u64) -> Listed {
        let mut listed = session(state);
        listed.record.as_mut().unwrap().settings.idle_timeout_secs = Some(seconds);
        listed
    }

    fn age_of(state: State, age: i64) -> String {
        let mut listed = session(state);
        let now = 1_000_000_000;
        listed.known.as_mut().unwrap().since = u64::try_from(now - age).unwrap();
        aged(&listed, u64::try_from(now).unwrap())
    }

    #[test]
    fn the_age_of_a_state_is_said_and_one_to_come_is_no_nonsense() {
        assert_eq!(age_of(State::Idle, 3 * 3_600_000), "idle for 3 h");
        assert_eq!(age_of(State::Crashed, 120_000), "crashed 2 min ago");
        assert_eq!(age_of(State::Expired, 59_000), "expired 59 s ago");
        assert_eq!(age_of(State::Live, 999), "live just now");
        assert_eq!(age_of(State::Live, -86_400_000), "live just now");
        assert_eq!(age_of(State::Unauthorized, 5_000), "unauthorized for 5 s");
        // Its bridge was killed, and nobody wrote down when.
        let mut killed = session(State::Live);
        killed.state = State::Crashed;
        assert_eq!(aged(&killed, 10_000_000), "crashed");
        assert!(hints(&killed, 0)[0].starts_with("its bridge was killed"), "{:?}", hints(&killed, 0));
        let extra = to_json(&killed)["_drowse"].clone();
        assert!(
            extra.get("since").is_none() && extra["nextStep"].as_str().unwrap().starts_with("starts again")
        );
        let mut never = session(State::Dormant);
        never.known = None;
        assert_eq!(aged(&never, 3_600_005), "dormant for 1 h");
        never.record = serde_json::from_str("7").map_err(|error: serde_json::Error| {
            record::RecordError::Malformed { path: "x".into(), what: error.to_string(), fix: String::new() }
        });
        assert_eq!(aged(&never, 3_600_005), "dormant");
    }

    #[test]
    fn where_it_is_shared_and_by_whom() {
        let mut listed = sleepy(State::Idle, 600);
        listed.record.as_mut().unwrap().share =
            serde_json::from_value(json!({"host": "127.0.0.1", "port": 0, "token": true})).unwrap();
        assert!(!hints(&listed, 0).iter().any(|hint| hint.contains("shared")), "its bridge was killed");
        listed.listener = Some(Listener { pid: 6, url: "http://127.0.0.1:7/mcp".into() });
        let [shared, next] = &hints(&listed, 0)[..] else { panic!() };
        assert_eq!(
            shared,
            "shared at http://127.0.0.1:7/mcp, for clients with its bearer token (its listener is process 6)"
        );
        assert!(next.starts_with("wakes on next use"), "{next}");
        let document = to_json(&listed);
        assert_eq!((&document["pid"], &document["status"]), (&json!(6), &json!("idle")));
        let extra = &document["_drowse"];
        assert_eq!(extra["share"], json!({"address": "127.0.0.1:0", "bearerToken": true}));
        assert_eq!(extra["listener"], json!({"pid": 6, "url": "http://127.0.0.1:7/mcp"}));
        assert!(extra.get("serverPid").is_none());
        listed.record.as_mut().unwrap().share = serde_json::from_value(json!({
            "host": "127.0.0.1", "port": 0, "hosts": ["box"], "origins": ["https://a", "https://b"],
            "limits": {"sessions": 1, "idle": 60, "hold": 0},
        }))
        .unwrap();
        assert!(
            hints(&listed, 0)[0].contains(
                "/mcp; also as box; for pages of https://a, https://b; hold=off idle=60s sessions=1 (its listener"
            ),
            "{:?}",
            hints(&listed, 0)
        );
        let said = &to_json(&listed)["_drowse"]["share"];
        assert_eq!((&said["hosts"], &said["limits"]["idle"]), (&json!(["box"]), &json!(60)));
        let mut failed = session(State::Live);
        failed.known.as_mut().unwrap().not_shared = Some("port 7 is in use".into());
        assert_eq!(hints(&failed, 0)[0], "port 7 is in use");
        assert_eq!(to_json(&failed)["_drowse"]["notShared"], "port 7 is in use");
    }

    #[test]
    fn the_time_left_or_why_there_is_none() {
        let said = |listed: &Listed| hints(listed, 0).pop().unwrap();
        let mut live = sleepy(State::Live, 600);
        assert_eq!(said(&live), "use it, e.g. drowse @s tools-list", "nobody was asked");
        status(&mut live, json!({"idleInMs": 239_500}));
        assert_eq!(said(&live), "sleeps in 4 min; use it, e.g. drowse @s tools-list");
        for (reasons, text) in [
            (json!(["a subscription to file:///x"]), "kept awake by a subscription to file:///x; "),
            (json!(["2 operations in flight"]), "kept awake by 2 operations in flight; "),
            (json!(["the task a", "the task b"]), "kept awake by the task a and the task b; "),
            (json!(["the task a", "b", "c"]), "kept awake by the task a and 2 more; "),
            (json!(["the task \u{1b}[2J\nx"]), "kept awake by the task \\x1b[2J x; "),
        ] {
            status(&mut live, json!({"deferredBy": reasons}));
            assert!(said(&live).starts_with(text), "{}", said(&live));
        }
        let mut ever = sleepy(State::Live, 0);
        assert!(said(&ever).starts_with("never sleeps; "));
        status(&mut ever, json!({"deferredBy": ["an operation in flight"]}));
        assert!(said(&ever).starts_with("never sleeps; "));
        let mut starting = sleepy(State::Connecting, 600);
        status(&mut starting, json!({"deferredBy": ["an operation in flight"]}));
        assert_eq!(said(&starting), "wait until it answers: drowse @s ping");
        let mut away = sleepy(State::Reconnecting, 600);
        status(&mut away, json!({"idleInMs": 1}));
        assert!(said(&away).starts_with("sleeps in 1 s; is being started again"));
        assert!(!said(&sleepy(State::Idle, 600)).contains("sleeps in"));
    }

    #[test]
    fn json_says_the_same() {
        let mut live = sleepy(State::Live, 600);
        status(&mut live, json!({"idleInMs": 5_000, "inFlight": 1, "deferredBy": ["the task a"]}));
        let extra = to_json(&live)["_drowse"].clone();
        assert_eq!((&extra["idleInMs"], &extra["inFlight"]), (&json!(5_000), &json!(1)));
        assert_eq!(extra["deferredBy"], json!(["the task a"]));
        assert!(extra["sleepsAt"].as_u64().unwrap() >= record::now_ms());
        assert_eq!(extra["nextStep"], "sleeps in 5 s; use it, e.g. drowse @s tools-list");
        let asleep = to_json(&session(State::Idle))["_drowse"].clone();
        assert_eq!(asleep["nextStep"], "wakes on next use, e.g. drowse @s tools-list");
        assert!(asleep.get("idleInMs").is_none() && asleep.get("deferredBy").is_none());
    }

    #[test]
    fn a_crash_says_why_and_for_how_long_it_is_not_started() {
        let mut crashed = session(State::Crashed);
        let known = crashed.known.as_mut().unwrap();
        known.message = Some("the server ended by itself (exit status 3)".into());
        known.stderr = Some("one\nTypeError: x\u{1b}\n\n".into());
        known.retry_at = Some(40_000);
        assert_eq!(
            hints(&crashed, 28_500),
            [
                "the server ended by itself (exit status 3)",
                "its last words: TypeError: x\\x1b",
                "keeps crashing, so it is not started for 12 s; at once: drowse @s restart; why: drowse @s logs",
            ]
        );
        for now in [40_000, 50_000, 9_999] {
            let next = hints(&crashed, now).pop().unwrap();
            assert!(next.starts_with("starts again on next use"), "{now}: {next}");
        }
        assert_eq!(to_json(&crashed)["_drowse"]["stderr"], "one\nTypeError: x\u{1b}\n\n");
    }

    #[test]
    fn json_has_the_documented_keys_and_extras_under_one() {
        let entry = Value::from(to_json(&session(State::Live)));
        assert_eq!(
            entry,
            json!({
                "name": "@s", "status": "live", "pid": 6, "target": r"npx -y 'a b' 'it'\''s'", "idleTimeoutSecs": 0,
                "_drowse": {
                    "created": 5, "serverPid": 7, "generation": 3, "since": 9,
                    "nextStep": "never sleeps; use it, e.g. drowse @s tools-list",
                },
            })
        );
        let asleep = to_json(&session(State::Idle));
        assert!(!asleep.contains_key("pid") && asleep["_drowse"].get("serverPid").is_none());
        assert_eq!(list_to_json(&[]), r#"{"sessions":[],"profiles":[]}"#);
    }

    fn behind_a_url(state: State) -> Listed {
        let mut listed = session(state);
        listed.record = serde_json::from_value(json!({
            "schema": 1, "target": "url", "url": "https://mcp.example.com/mcp?a=1", "cwd": "/", "created": 5,
            "headers": {"Authorization": "Bearer ${T}", "X-Entry": null}, "givenHeaders": ["authorization", "X-A"],
            "settings": {"insecure": true, "keepaliveSecs": 0, "onExpiry": "fail", "proxy": "http://p:1"},
        }))
        .map_err(|_| unreachable!());
        listed
    }

    #[test]
    fn a_url_is_its_target_and_headers_are_names_only() {
        let entry = Value::from(to_json(&behind_a_url(State::Live)));
        assert_eq!(entry["target"], "https://mcp.example.com/mcp?a=1");
        assert_eq!(
            entry["_drowse"],
            json!({
                "keepaliveSecs": 0, "onExpiry": "fail", "url": "https://mcp.example.com/mcp?a=1",
                "headers": ["X-Entry", "authorization", "X-A"], "insecure": true, "proxy": "http://p:1",
                "created": 5, "serverPid": 7, "generation": 3, "since": 9,
                "nextStep": "never sleeps; use it, e.g. drowse @s tools-list",
            })
        );
        let text = super::entry(&behind_a_url(State::Unauthorized), 2);
        let next =
            "↳ new credentials: drowse connect 'https://mcp.example.com/mcp?a=1' @s -H 'Authorization: …'";
        assert!(text.contains(next) && text.contains("drowse @s restart"), "{text}");
        let text = super::entry(&behind_a_url(State::Expired), 2);
        assert!(text.contains("begin a fresh one: drowse @s restart"), "{text}");
    }

    #[test]
    fn every_state_has_its_word_and_a_next_command() {
        for state in State::ALL {
            let text = entry(&session(state), 2);
            assert!(text.contains(state.name()), "{text}");
            assert!(text.contains("\n  ↳ ") && text.contains("@s") && !text.contains('`'), "{text}");
            let lines = outcome(&session(state), 2, 0).lines().count();
            assert_eq!(
                lines == 1,
                state == State::Live,
                "{state}: what was dealt with just now needs no more"
            );
        }
    }

    #[test]
    fn a_hostile_target_stays_on_its_line() {
        let mut hostile = session(State::Live);
        hostile.record.as_mut().unwrap().args = vec!["\u{1b}[2J\nx".into()];
        let text = entry(&hostile, 2);
        assert!(text.lines().count() == 2 && !text.contains('\u{1b}'), "{text:?}");
    }
}
