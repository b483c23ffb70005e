//! `set` and `config`: the settings of one session, and the user's defaults for all.

use drowse_runtime::caller::{CallError, Change, Heard, Listed, WantedShare};
use drowse_runtime::config::ConfigError;
use drowse_runtime::defaults::{DefaultsError, UserDefaults};
use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::record::{SessionRecord, Setting, Settings, Source};
use serde_json::{Map, Value, json};

use super::connect::warn_of_sharing;
use super::{Context, Status};
use crate::args::Config;
use crate::error::Failure;
use crate::layout::{pad, width};
use crate::output::{Style, paint};
use crate::render::sessions::{front_words, share_json};
use crate::text::one_line;

/// How much of a value fits a line.
const WIDTH: usize = 100;
/// Wider values have no column.
const VALUE_WIDTH: usize = 40;

/// `set`: shows all settings, or changes some.
pub(super) fn set(
    context: &Context,
    session: &SessionName,
    changes: &[Change],
    share: &WantedShare,
) -> Result<Status, Failure> {
    let sessions = super::open()?;
    if changes.is_empty() && !share.is_given() {
        let (record, defaults) = sessions.settings(session)?;
        let listed = sessions.get(session)?;
        return show(context, &listed, &record, defaults.settings());
    }
    let interrupt = context.interrupt();
    let wait = context.wait(interrupt.as_deref());
    // What may fail for what others do comes first: then nothing is changed.
    let shared = share.is_given().then(|| sessions.share(session, share, wait)).transpose();
    let done = match shared {
        Ok(shared) => sessions.set(session, changes, wait).map(|done| (shared, done)),
        Err(error) => Err(error),
    };
    interrupt.iter().for_each(|interrupt| interrupt.release());
    let (shared, done) = done?;
    let listed = sessions.get(session)?;
    let named: Vec<Setting> = changes
        .iter()
        .map(|change| match change {
            Change::To(setting, _) | Change::Unset(setting) => *setting,
        })
        .collect();
    let awake = done.heard != Heard::Asleep;
    let later: Vec<&str> = done
        .changed
        .iter()
        .filter(|setting| awake && (!setting.is_live() || done.heard == Heard::No))
        .map(|setting| setting.name())
        .collect();
    let defaults = done.defaults.settings();
    let warn = || {
        match &shared {
            Some((_, Heard::No, _)) => context.output.warning(
                "not-shared",
                format_args!("the bridge of {session} does not take that\n  ↳ drowse restart {session}"),
            ),
            Some((record, ..)) if record.share.is_some() => warn_of_sharing(context, &listed),
            _ => {}
        }
        if done.heard == Heard::No {
            context.output.warning("config", format_args!("the bridge of {session} does not take settings"));
        }
    };
    let keeps_token = shared.as_ref().is_some_and(|(.., keeps)| *keeps);
    if context.output.json {
        warn();
        let mut document = document(session, &done.record, defaults, &named, false);
        document
            .insert("changed".into(), done.changed.iter().map(|one| one.name()).collect::<Vec<_>>().into());
        document.insert("afterRestart".into(), json!(later));
        document.insert("awake".into(), awake.into());
        sharing(&mut document, &listed);
        if shared.is_some() {
            document.insert("keptToken".into(), keeps_token.into());
        }
        context.output.document(&Value::from(document).to_string())?;
        return Ok(Status::Done);
    }
    if !named.is_empty() {
        context.output.layout(&table(&done.record, defaults, &named, false))?;
    }
    if shared.is_some() {
        let line = shared_line(&listed).unwrap_or_else(|| format!("{session} is not shared"));
        context.output.layout(&format!("{line}\n"))?;
        if keeps_token {
            context.output.notice(format_args!(
                "its bearer token is kept, and asked for when it is shared again\n  ↳ forget it: drowse set {session} \
                 proxy-bearer-token off"
            ));
        }
    }
    if shared.is_none()
        && named.contains(&Setting::Proxy)
        && let Some(line) = shared_line(&listed)
    {
        // The other thing of that name.
        context.output.notice(format_args!("still {line}\n  ↳ no more: drowse {session} set proxy off"));
    }
    warn();
    if !later.is_empty() {
        let (what, verb) = (later.join(", "), if later.len() == 1 { "takes" } else { "take" });
        context
            .output
            .notice(format_args!("{what} {verb} effect at the next start\n  ↳ drowse restart {session}"));
    }
    Ok(Status::Done)
}

/// Where the session is shared, as the list has it.
fn sharing(document: &mut Map<String, Value>, listed: &Listed) {
    let share = listed.record.as_ref().ok().and_then(|record| record.share.as_ref());
    let share = share.map(share_json);
    document.insert("share".into(), share.into());
    let listener = listed.listener.as_ref();
    let listener = listener.map(|listener| json!({"url": listener.url, "pid": listener.pid}));
    document.insert("listener".into(), listener.into());
}

/// The same for people.
fn shared_line(listed: &Listed) -> Option<String> {
    let share = listed.record.as_ref().ok()?.share.as_ref()?;
    let token = if share.token { ", with its bearer token" } else { ", without a bearer token" };
    let front = front_words(share);
    Some(match &listed.listener {
        Some(listener) => format!("shared at {}{token}{front}", listener.url),
        None => format!("to be shared at {share}{token}{front}"),
    })
}

fn show(
    context: &Context,
    listed: &Listed,
    record: &SessionRecord,
    defaults: &Settings,
) -> Result<Status, Failure> {
    let (session, awake) = (&listed.name, listed.bridge_pid.is_some());
    let of_server = |setting: &Setting| record.url.is_some() || !setting.is_for_urls();
    let all: Vec<Setting> = Setting::ALL.into_iter().filter(of_server).collect();
    if context.output.json {
        let mut document = document(session, record, defaults, &all, awake);
        sharing(&mut document, listed);
        context.output.document(&Value::from(document).to_string())?;
    } else {
        let mut text = table(record, defaults, &all, awake);
        text.extend(shared_line(listed).map(|line| format!("{line}\n")));
        context.output.layout(&text)?;
        context
            .output
            .notice(format_args!("↳ drowse {session} set <setting> <value>, or default to take it back"));
    }
    Ok(Status::Done)
}

/// What the server that runs goes by, where its next start will go by something else: the user's defaults were changed.
fn running(setting: Setting, record: &SessionRecord, next: &Settings, awake: bool) -> Option<Value> {
    let (now, next) = (setting.value(&record.settings), setting.value(next));
    (awake && setting.is_live() && now != next).then(|| now.unwrap_or_else(|| setting.built_in()))
}

fn document(
    session: &SessionName,
    record: &SessionRecord,
    defaults: &Settings,
    which: &[Setting],
    awake: bool,
) -> Map<String, Value> {
    let next = record.wanted(defaults);
    let mut settings = Map::new();
    for setting in which {
        let value = setting.value(&next).unwrap_or_else(|| setting.built_in());
        let mut entry = json!({"value": value, "source": record.source(*setting, defaults).name()});
        if let Some(now) = running(*setting, record, &next, awake) {
            entry["running"] = now;
        }
        settings.insert(setting.member().into(), entry);
    }
    let mut document = Map::new();
    document.insert("name".into(), session.to_string().into());
    document.insert("settings".into(), settings.into());
    document
}

fn table(record: &SessionRecord, defaults: &Settings, which: &[Setting], awake: bool) -> String {
    let next = record.wanted(defaults);
    let rows: Vec<_> = which
        .iter()
        .map(|setting| {
            let mut from = record.source(*setting, defaults).name().to_owned();
            if let Some(now) = running(*setting, record, &next, awake) {
                from.push_str(&format!("; until the next start: {}", setting.show(&now)));
            }
            (*setting, setting.value(&next), from)
        })
        .collect();
    rows_of(&rows)
}

/// A line for each: its name, its value, and where that comes from.
fn rows_of(rows: &[(Setting, Option<Value>, String)]) -> String {
    let shown = |setting: Setting, value: &Option<Value>| {
        one_line(&setting.show(value.as_ref().unwrap_or(&setting.built_in())), WIDTH)
    };
    let rows: Vec<_> =
        rows.iter().map(|(setting, value, from)| (setting, shown(*setting, value), from)).collect();
    let names = rows.iter().map(|(setting, ..)| setting.name().len()).max().unwrap_or(0);
    // One long value moves its own line only.
    let values = rows.iter().map(|(_, value, _)| width(value)).filter(|width| *width <= VALUE_WIDTH).max();
    let values = values.unwrap_or(0);
    let line = |(setting, value, from): &(&Setting, String, &String)| {
        format!("{:<names$}  {}  {}\n", setting.name(), pad(value, values), paint(Style::Dim, from))
    };
    rows.iter().map(line).collect()
}

/// `config`.
pub(super) fn config(context: &Context, what: &Config) -> Result<Status, Failure> {
    let home = Home::from_env().map_err(CallError::from)?;
    match what {
        Config::Path => {
            let path = home.config_file();
            let path = path.display().to_string();
            if context.output.json {
                context.output.document(&json!({"path": path}).to_string())?;
            } else {
                context.output.text(&path)?;
            }
        }
        Config::Show => {
            let defaults = UserDefaults::read(&home).map_err(CallError::from)?;
            config_show(context, &defaults)?;
        }
        Config::Get(setting) => {
            let defaults = UserDefaults::read(&home).map_err(CallError::from)?;
            config_one(context, *setting, &defaults)?;
        }
        Config::Set(setting, to) => {
            if let Some(file) = &to.cacert {
                drowse_runtime::remote::check_certificates(file).map_err(|source| {
                    CallError::from(ConfigError::Certificate { place: setting.name().to_owned(), source })
                })?;
            }
            changed(context, *setting, UserDefaults::change(&home, *setting, Some(to)))?;
        }
        Config::Unset(setting) => changed(context, *setting, UserDefaults::change(&home, *setting, None))?,
    }
    Ok(Status::Done)
}

fn changed(
    context: &Context,
    setting: Setting,
    defaults: Result<UserDefaults, DefaultsError>,
) -> Result<(), Failure> {
    let defaults = defaults.map_err(|error| match error {
        DefaultsError::Config(error) => CallError::from(error),
        DefaultsError::Home(error) => error.into(),
    })?;
    config_one(context, setting, &defaults)?;
    context.output.notice(
        "new sessions have it at once, others at their next start, unless they or their entries say otherwise",
    );
    Ok(())
}

fn of(setting: Setting, defaults: &UserDefaults) -> (Option<Value>, &'static str) {
    let value = setting.value(defaults.settings());
    let source = if value.is_some() { Source::User } else { Source::BuiltIn };
    (value, source.name())
}

fn config_one(context: &Context, setting: Setting, defaults: &UserDefaults) -> Result<(), Failure> {
    let (value, source) = of(setting, defaults);
    let value = value.unwrap_or_else(|| setting.built_in());
    if context.output.json {
        let document = json!({"key": setting.name(), "value": value, "source": source});
        return context.output.document(&document.to_string());
    }
    context.output.text(&setting.show(&value))
}

fn config_show(context: &Context, defaults: &UserDefaults) -> Result<(), Failure> {
    let all = || Setting::ALL.into_iter().filter(|setting| setting.has_user_default());
    let path = defaults.path().display().to_string();
    if context.output.json {
        let mut entries = Map::new();
        for setting in all() {
            let (value, source) = of(setting, defaults);
            let value = value.unwrap_or_else(|| setting.built_in());
            entries.insert(setting.member().into(), json!({"value": value, "source": source}));
        }
        let document = json!({
            "path": path, "exists": defaults.exists(), "defaults": entries, "unknown": defaults.unknown(),
        });
        return context.output.document(&document.to_string());
    }
    let rows: Vec<_> = all()
        .map(|setting| {
            let (value, source) = of(setting, defaults);
            (setting, value, source.to_owned())
        })
        .collect();
    context.output.layout(&rows_of(&rows))?;
    context.output.notice(format_args!("{path}{}", if defaults.exists() { "" } else { " (not there yet)" }));
    if !defaults.unknown().is_empty() {
        context.output.warning(
            "config",
            format_args!(
                "defaults in it that this drowse does not know, or has for no more than one server: {}",
                defaults.unknown().join(", ")
            ),
        );
    }
    Ok(())
}
