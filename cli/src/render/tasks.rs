//! Tasks of a server.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::output::{Style, paint};
use crate::text::one_line;

/// How much of a status message is shown on one line.
const MESSAGE_WIDTH: usize = 80;

/// A task, in the words of either era.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task<'a> {
    #[serde(borrow)]
    pub(crate) task_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) status: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) status_message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    created_at: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    last_updated_at: Option<Cow<'a, str>>,
    #[serde(default, alias = "ttlMs")]
    ttl: Value,
    #[serde(default, alias = "pollIntervalMs")]
    pub(crate) poll_interval: Option<f64>,
    #[serde(borrow, default)]
    pub(crate) input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

impl Task<'_> {
    /// Whether nothing changes any more.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.status.as_ref(), "completed" | "failed" | "cancelled")
    }

    /// Its status and what the server says of it.
    pub(crate) fn line(&self) -> String {
        let status = one_line(&self.status, 20).replace('_', " ");
        match self.status_message.as_deref().filter(|message| !message.is_empty()) {
            Some(message) => format!("{status}: {}", one_line(message, MESSAGE_WIDTH)),
            None => status,
        }
    }
}

/// One line of the list.
pub(crate) fn summary(task: &Task<'_>) -> String {
    format!("{}  {}\n", paint(Style::Bold, &one_line(&task.task_id, 200)), coloured(task))
}

/// One task with everything that is known.
pub(crate) fn details(task: &Task<'_>) -> String {
    let mut text = summary(task);
    for (what, when) in [("created", &task.created_at), ("updated", &task.last_updated_at)] {
        if let Some(when) = when {
            let _ = writeln!(text, "  {what} {}", one_line(when, 40));
        }
    }
    if let Some(millis) = task.ttl.as_f64() {
        let _ = writeln!(text, "  kept for {} s from its creation", millis / 1000.0);
    }
    text
}

fn coloured(task: &Task<'_>) -> String {
    let style = match task.status.as_ref() {
        "completed" => Style::Green,
        "failed" | "cancelled" => Style::Red,
        "input_required" => Style::Yellow,
        _ => Style::Cyan,
    };
    paint(style, &task.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_both_eras() {
        let old: Task<'_> = serde_json::from_str(
            r#"{"taskId":"t","status":"input_required","statusMessage":"Which\none?","ttl":60000,"pollInterval":5}"#,
        )
        .unwrap();
        assert_eq!((old.line().as_str(), old.poll_interval), ("input required: Which one?", Some(5.0)));
        assert_eq!(details(&old), "t  input required: Which one?\n  kept for 60 s from its creation\n");
        let new: Task<'_> = serde_json::from_str(
            r#"{"resultType":"complete","taskId":"t\u001b","status":"failed","ttlMs":null,"pollIntervalMs":1.5,
                "createdAt":"2026-01-01T00:00:00Z","error":{"code": 1}}"#,
        )
        .unwrap();
        assert!(new.is_final() && new.poll_interval == Some(1.5));
        assert_eq!(new.error.map(RawValue::get), Some(r#"{"code": 1}"#));
        let text = details(&new);
        assert!(text.contains("created 2026-01-01T00:00:00Z") && !text.contains('\u{1b}'), "{text:?}");
    }
}
