//! The processes of sessions.

use std::time::Duration;

use drowse_runtime::caller::{Role, SessionProcess};
use drowse_runtime::process::{Measure, Memory};
use serde_json::{Value, json};

use super::age::ago;
use super::columns::{Cell, Column, lay_out};
use crate::output::{Style, paint};
use crate::text::{memory_size, one_line, shell_quoted};

const COLUMNS: [Column; 8] = [
    Column { title: "SESSION", right: false, keep: 255 },
    Column { title: "ROLE", right: false, keep: 255 },
    Column { title: "PID", right: true, keep: 255 },
    Column { title: "STATE", right: false, keep: 5 },
    Column { title: "SINCE", right: true, keep: 3 },
    Column { title: "MEMORY", right: true, keep: 4 },
    Column { title: "CPU", right: true, keep: 2 },
    Column { title: "COMMAND", right: false, keep: 255 },
];

/// How much of a command line is shown where nothing limits the line.
const COMMAND_WIDTH: usize = 1000;

/// The table for people, and below it what to do about what is left over.
pub(crate) fn table(processes: &[SessionProcess], now: u64, width: Option<usize>) -> String {
    let rows: Vec<Vec<Cell>> = processes.iter().map(|process| row(process, now)).collect();
    let mut text = lay_out(&COLUMNS, &rows, width).join("\n");
    text.push('\n');
    let orphans = processes.iter().filter(|process| matches!(process.role, Role::Orphan(_)));
    let mut reasons: Vec<(String, &str)> = orphans
        .filter_map(|process| match process.role {
            Role::Orphan(why) => Some((process.session.to_string(), why.describe())),
            _ => None,
        })
        .collect();
    reasons.dedup();
    for (session, why) in &reasons {
        text.push_str(&paint(Style::Yellow, &format!("  ! left over of {session}: {why}")));
        text.push('\n');
    }
    if !reasons.is_empty() {
        text.push_str(&paint(Style::Dim, "  ↳ drowse doctor ends what is left over"));
        text.push('\n');
    }
    text
}

fn row(process: &SessionProcess, now: u64) -> Vec<Cell> {
    let style = match process.role {
        Role::Bridge | Role::Listener => Style::Cyan,
        Role::Server => Style::Green,
        Role::Child => Style::Dim,
        Role::Orphan(_) => Style::Yellow,
    };
    let state = if process.state == "stopped" {
        Cell::styled(process.state, Style::Yellow)
    } else {
        process.state.into()
    };
    let words: Vec<String> = process.command.iter().map(|word| shell_quoted(word)).collect();
    vec![
        Cell::styled(process.session.to_string(), Style::Bold),
        Cell::styled(process.role.name(), style),
        process.pid.to_string().into(),
        state,
        ago(now.saturating_sub(process.since)).into(),
        memory(process.memory).into(),
        processor(process.used).into(),
        one_line(&words.join(" "), COMMAND_WIDTH).into(),
    ]
}

/// An amount of memory; `~` where shared pages are counted in full.
pub(crate) fn memory(memory: Option<Memory>) -> String {
    memory.map_or_else(
        || "-".to_owned(),
        |memory| {
            let text = memory_size(memory.bytes as f64);
            if memory.measure == Measure::Resident { format!("~{text}") } else { text }
        },
    )
}

fn processor(used: Duration) -> String {
    match used.as_secs() {
        0..600 => format!("{:.1} s", used.as_secs_f64()),
        seconds => format!("{} min", seconds / 60),
    }
}

/// The document of `ps --json`.
pub(crate) fn to_json(processes: &[SessionProcess]) -> String {
    let all: Vec<Value> = processes
        .iter()
        .map(|process| {
            let mut entry = json!({
                "session": process.session.to_string(),
                "role": process.role.name(),
                "pid": process.pid,
                "parent": process.parent,
                "state": process.state,
                "since": process.since,
                "cpuMs": u64::try_from(process.used.as_millis()).unwrap_or(u64::MAX),
                "memory": memory_json(process.memory),
                "command": process.command,
            });
            if let Role::Orphan(why) = process.role {
                entry["why"] = why.describe().into();
                entry["next"] = "drowse doctor".into();
            }
            entry
        })
        .collect();
    json!({"processes": all}).to_string()
}

/// Bytes, and how they were measured: `{"bytes": …, "measure": "pss" | "rss"}`.
pub(crate) fn memory_json(memory: Option<Memory>) -> Value {
    memory.map_or(Value::Null, |memory| {
        let measure = match memory.measure {
            Measure::Proportional => "pss",
            Measure::Resident => "rss",
        };
        json!({"bytes": memory.bytes, "measure": measure})
    })
}

#[cfg(test)]
mod tests {
    use drowse_runtime::caller::Orphaned;
    use drowse_runtime::home::SessionName;

    use super::*;

    fn process(role: Role) -> SessionProcess {
        SessionProcess {
            session: SessionName::new("s").unwrap(),
            role,
            pid: 77,
            parent: 1,
            state: "waiting",
            since: 1_000,
            used: Duration::from_millis(1_250),
            memory: Some(Memory { bytes: 2_500_000, measure: Measure::Resident }),
            command: vec!["sh".into(), "-c".into(), "a \u{1b}[2J".into()],
        }
    }

    #[test]
    fn orphans_come_with_the_reason_and_the_next_step() {
        let live = table(&[process(Role::Bridge)], 61_000, None);
        assert_eq!(live.lines().count(), 2, "{live}");
        assert!(live.contains("1 min") && live.contains("~2.4 MiB") && !live.contains('\u{1b}'), "{live:?}");
        let left =
            [process(Role::Orphan(Orphaned::BridgeEnded)), process(Role::Orphan(Orphaned::BridgeEnded))];
        let text = table(&left, 61_000, None);
        assert_eq!(text.matches("its bridge has ended").count(), 1, "{text}");
        assert!(text.contains("↳ drowse doctor"), "{text}");
    }

    #[test]
    fn json_has_numbers_and_the_whole_command() {
        let document: Value = serde_json::from_str(&to_json(&[process(Role::Server)])).unwrap();
        assert_eq!(
            document["processes"][0],
            json!({
                "session": "@s", "role": "server", "pid": 77, "parent": 1, "state": "waiting", "since": 1000,
                "cpuMs": 1250, "memory": {"bytes": 2_500_000, "measure": "rss"}, "command": ["sh", "-c", "a \u{1b}[2J"],
            })
        );
    }
}
