//! Sessions: the list, one line each, and the same as JSON.

use std::time::Duration;

use drowse_runtime::caller::Listed;
use drowse_runtime::record::{SessionRecord, State, Target};
use serde_json::{Map, Value, json};

use crate::output::{Style, paint};
use crate::text::{duration, one_line, shell_quoted};

/// How much of a target fits a line.
const TARGET_WIDTH: usize = 60;

/// The list for people: a line per session, and below it what to do next where there is something to do.
pub(crate) fn list(sessions: &[Listed]) -> String {
    let width = sessions.iter().map(|session| session.name.to_string().len()).max().unwrap_or(0);
    sessions.iter().map(|session| entry(session, width)).collect()
}

/// One session with its state word, its target, and what to do next.
pub(crate) fn entry(session: &Listed, width: usize) -> String {
    let (dot, style) = dot(session.state);
    let name = format!("{:<width$}", session.name.to_string());
    let state = format!("{:<12}  ", session.state.name());
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
    for hint in hints(session) {
        line.push_str(&paint(Style::Dim, &format!("  ↳ {hint}")));
        line.push('\n');
    }
    line
}

/// One session for `--json`. Keys beyond the documented ones stand under `_drowse`.
pub(crate) fn to_json(session: &Listed) -> Map<String, Value> {
    let mut entry = Map::new();
    let mut extra = Map::new();
    entry.insert("name".into(), session.name.to_string().into());
    entry.insert("status".into(), session.state.name().into());
    if let Some(pid) = session.bridge_pid {
        entry.insert("pid".into(), pid.into());
    }
    match &session.record {
        Ok(record) => {
            entry.insert("target".into(), target(record).into());
            if let Some(seconds) = record.settings.idle_timeout_secs {
                entry.insert("idleTimeoutSecs".into(), seconds.into());
            }
            settings(record, &mut extra);
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
        extra.insert("since".into(), known.since.into());
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
    }
    entry.insert("_drowse".into(), extra.into());
    entry
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

/// What to do next. A session that works needs nothing.
fn hints(session: &Listed) -> Vec<String> {
    let name = &session.name;
    if session.record.is_err() {
        return vec![format!("drowse close {name}")];
    }
    if let Some(error) = &session.state_error {
        return vec![one_line(&error.to_string(), 200)];
    }
    let because = session.known.as_ref().and_then(|known| known.message.as_deref());
    let because = because.map(|message| one_line(message, 160));
    match session.state {
        State::Live | State::Connecting | State::Reconnecting | State::Suspended | State::Closed => {
            Vec::new()
        }
        State::Idle => vec![format!("wakes on next use, e.g. drowse {name} tools-list")],
        State::Dormant => vec![format!("starts on first use, e.g. drowse {name} tools-list")],
        State::Disconnected => vec![format!("does not answer; drowse {name} restart")],
        State::Crashed => because
            .into_iter()
            .chain([format!("starts again on next use, e.g. drowse {name} ping; why: drowse {name} logs")])
            .collect(),
        State::Unauthorized => because
            .into_iter()
            .chain([
                format!("new credentials: {}", reconnect(session)),
                format!("the same once more: drowse {name} restart"),
            ])
            .collect(),
        State::Expired if session.record.as_ref().is_ok_and(|record| record.settings.fails_on_expiry()) => {
            vec![format!("its state is gone; begin a fresh one: drowse {name} restart")]
        }
        State::Expired => {
            vec![format!("its state is gone; starts fresh on next use, e.g. drowse {name} tools-list")]
        }
    }
}

/// How to give a session other credentials.
fn reconnect(session: &Listed) -> String {
    let target = session.record.as_ref().map(target).unwrap_or_default();
    let target = one_line(&shell_quoted(&target), 160);
    format!("drowse connect {target} {} -H 'Authorization: …'", session.name)
}

#[cfg(test)]
mod tests {
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
        }
    }

    #[test]
    fn json_has_the_documented_keys_and_extras_under_one() {
        let entry = Value::from(to_json(&session(State::Live)));
        assert_eq!(
            entry,
            json!({
                "name": "@s", "status": "live", "pid": 6, "target": r"npx -y 'a b' 'it'\''s'", "idleTimeoutSecs": 0,
                "_drowse": {"created": 5, "serverPid": 7, "generation": 3, "since": 9},
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
    fn every_state_has_its_word_and_a_next_command_where_one_is_needed() {
        for state in [
            State::Dormant,
            State::Idle,
            State::Disconnected,
            State::Crashed,
            State::Unauthorized,
            State::Expired,
        ] {
            let text = entry(&session(state), 2);
            assert!(text.contains(state.name()), "{text}");
            assert!(text.contains("\n  ↳ ") && text.contains("drowse @s "), "{text}");
        }
        for state in [State::Live, State::Connecting, State::Reconnecting, State::Suspended] {
            assert_eq!(entry(&session(state), 2).lines().count(), 1);
        }
    }

    #[test]
    fn a_hostile_target_stays_on_its_line() {
        let mut hostile = session(State::Live);
        hostile.record.as_mut().unwrap().args = vec!["\u{1b}[2J\nx".into()];
        let text = entry(&hostile, 2);
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
    }
}
