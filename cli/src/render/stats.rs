//! What sessions were used for, and what their sleep saved: one in full, or a table.

use std::time::Duration;

use drowse_runtime::caller::LifeNow;
use drowse_runtime::life::{Errors, Totals};
use drowse_runtime::log::Timestamp;
use serde_json::{Map, Value, json};

use crate::output::{Style, columns, paint};
use crate::text::{duration, memory_size};

/// One session, a line for each thing.
pub(crate) fn one(life: &LifeNow) -> String {
    let totals = &life.totals;
    let mut text =
        format!("{}  {}", paint(Style::Bold, &life.listed.name.to_string()), life.listed.state.name());
    if let Some(since) = totals.since {
        text.push_str(&paint(Style::Dim, &format!("  counted since {}", Timestamp(since))));
    }
    text.push('\n');
    let mut line = |name: &str, value: String| {
        text.push_str(&format!("  {} {value}\n", paint(Style::Dim, &format!("{name:<8}"))));
    };
    let errors = match totals.errors.total() {
        0 => String::new(),
        1 => format!(" (1 error: {})", kinds(&totals.errors)),
        errors => format!(" ({errors} errors: {})", kinds(&totals.errors)),
    };
    line("calls", format!("{}{errors}", totals.calls));
    let latency = totals.latency.histogram();
    if let (Some(half), Some(most), Some(longest)) =
        (latency.quantile(500), latency.quantile(950), latency.longest())
    {
        line(
            "latency",
            format!(
                "half within {}, 95 % within {}, longest {}",
                duration(half),
                duration(most),
                duration(longest)
            ),
        );
    }
    let more = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {what} {count}"),
    };
    line(
        "wakes",
        format!(
            "{}, sleeps {}, crashes {}{}{}",
            totals.wakes,
            totals.sleeps,
            totals.crashes,
            more(totals.expiries, "expiries"),
            more(totals.lost, "bridges killed"),
        ),
    );
    let known = totals.awake_ms + totals.asleep_ms + totals.down_ms;
    let share = |ms: u64| match known {
        0 => String::new(),
        known => format!(" ({})", percent(ms as f64 / known as f64)),
    };
    line("awake", format!("{}{}", span(totals.awake_ms), share(totals.awake_ms)));
    line("asleep", format!("{}{}", span(totals.asleep_ms), share(totals.asleep_ms)));
    if totals.down_ms > 0 {
        line("down", format!("{}{}", span(totals.down_ms), share(totals.down_ms)));
    }
    if totals.unknown_ms > 0 {
        line("unknown", format!("{} in which nobody wrote what happened", span(totals.unknown_ms)));
    }
    if let Some(memory) = life.memory {
        line("memory", format!("{} when awake", memory_size(memory as f64)));
        line("saved", saved(totals));
    }
    text
}

/// A line for each session, and one for all of them.
pub(crate) fn table(lives: &[LifeNow]) -> String {
    const HEAD: [&str; 11] = [
        "SESSION", "STATE", "CALLS", "ERRORS", "ASLEEP", "SAVED", "WAKES", "CRASHES", "P50", "P95", "MEMORY",
    ];
    let mut rows: Vec<[String; 11]> = vec![HEAD.map(ToOwned::to_owned)];
    let mut sum = Totals::default();
    for life in lives {
        let totals = &life.totals;
        let latency = totals.latency.histogram();
        let told = |latency: Option<Duration>| latency.map_or_else(|| "-".to_owned(), duration);
        rows.push([
            life.listed.name.to_string(),
            life.listed.state.name().to_owned(),
            totals.calls.to_string(),
            totals.errors.total().to_string(),
            totals.share_asleep().map_or_else(|| "-".to_owned(), percent),
            if life.memory.is_some() { saved(totals) } else { "-".to_owned() },
            totals.wakes.to_string(),
            totals.crashes.to_string(),
            told(latency.quantile(500)),
            told(latency.quantile(950)),
            life.memory.map_or_else(|| "-".to_owned(), |memory| memory_size(memory as f64)),
        ]);
        sum.count(totals.calls, &totals.errors, &totals.latency);
        for (sum, more) in [
            (&mut sum.awake_ms, totals.awake_ms),
            (&mut sum.asleep_ms, totals.asleep_ms),
            (&mut sum.down_ms, totals.down_ms),
            (&mut sum.wakes, totals.wakes),
            (&mut sum.crashes, totals.crashes),
            (&mut sum.saved_kib_ms, totals.saved_kib_ms),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
    if lives.len() > 1 {
        rows.push([
            "all".to_owned(),
            String::new(),
            sum.calls.to_string(),
            sum.errors.total().to_string(),
            sum.share_asleep().map_or_else(|| "-".to_owned(), percent),
            saved(&sum),
            sum.wakes.to_string(),
            sum.crashes.to_string(),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    lay_out(&rows, columns())
}

/// Columns as wide as they need; those at the end are left out where there is no room.
fn lay_out(rows: &[[String; 11]], room: Option<usize>) -> String {
    let mut widths = [0; 11];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut columns = widths.len();
    let needed = |columns: usize| widths.iter().take(columns).sum::<usize>() + 2 * (columns - 1);
    while columns > 3 && room.is_some_and(|room| needed(columns) > room) {
        columns -= 1;
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).take(columns).enumerate() {
            // Words to the left, numbers to the right.
            line.push_str(&if column < 2 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") });
            if column == 0 {
                line.push_str("  ");
            }
        }
        let line = line.trim_end();
        text.push_str(&if number == 0 { paint(Style::Dim, line) } else { line.to_owned() });
        text.push('\n');
    }
    text
}

/// One session for `--json`.
pub(crate) fn to_json(life: &LifeNow) -> Value {
    let totals = &life.totals;
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    put("name", life.listed.name.to_string().into());
    put("status", life.listed.state.name().into());
    put("calls", totals.calls.into());
    put("errors", errors_to_json(&totals.errors));
    for (name, count) in [
        ("wakes", totals.wakes),
        ("sleeps", totals.sleeps),
        ("crashes", totals.crashes),
        ("expiries", totals.expiries),
        ("bridgesKilled", totals.lost),
        ("awakeMs", totals.awake_ms),
        ("asleepMs", totals.asleep_ms),
        ("downMs", totals.down_ms),
        ("unknownMs", totals.unknown_ms),
    ] {
        put(name, count.into());
    }
    put("shareAsleep", totals.share_asleep().into());
    put("latencyMs", latency_to_json(&totals.latency.histogram()));
    put("memoryBytes", life.memory.into());
    put("savedMibHours", totals.saved_mib_hours().into());
    put("since", totals.since.into());
    put("awakeSince", life.awake_since.into());
    put("damagedLines", (totals.damaged + life.life.damaged).into());
    put("newerLines", life.life.newer.into());
    entry.into()
}

/// Errors by kind, and all of them.
pub(crate) fn errors_to_json(errors: &Errors) -> Value {
    json!({
        "total": errors.total(), "theirs": errors.theirs, "ours": errors.ours,
        "timedOut": errors.timed_out, "cancelled": errors.cancelled,
    })
}

/// The latencies that are worth a look; `null` if there is none.
pub(crate) fn latency_to_json(latency: &drowse_runtime::life::Histogram) -> Value {
    let millis = |latency: Option<Duration>| latency.map(|latency| latency.as_secs_f64() * 1e3);
    match latency.longest() {
        None => Value::Null,
        longest => json!({
            "p50": millis(latency.quantile(500)), "p95": millis(latency.quantile(950)), "max": millis(longest),
        }),
    }
}

/// Errors by kind, in words.
pub(crate) fn kinds(errors: &Errors) -> String {
    let named = [
        (errors.theirs, "of the server"),
        (errors.ours, "of drowse"),
        (errors.timed_out, "timed out"),
        (errors.cancelled, "cancelled"),
    ];
    let named = named.iter().filter(|(count, _)| *count > 0);
    named.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// A time of so many milliseconds.
pub(crate) fn span(ms: u64) -> String {
    // Of what takes minutes, nobody wants to know the milliseconds.
    match ms {
        0 => "0 s".to_owned(),
        1..60_000 => duration(Duration::from_millis(ms)),
        172_800_000.. => format!("{} d {} h", ms / 86_400_000, ms / 3_600_000 % 24),
        _ => duration(Duration::from_secs(ms / 1000)),
    }
}

fn saved(totals: &Totals) -> String {
    let hours = totals.saved_mib_hours();
    if hours < 10_000.0 { format!("{hours:.1} MiB·h") } else { format!("{:.1} GiB·h", hours / 1024.0) }
}

fn percent(share: f64) -> String {
    // Neither all nor nothing unless it is.
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        "<0.1 %".to_owned()
    } else if (99.95..100.0).contains(&percent) {
        ">99.9 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> [String; 11] {
        let mut row = [(); 11].map(|()| "12345678".to_owned());
        row[0] = name.to_owned();
        row
    }

    #[test]
    fn a_table_leaves_out_what_has_no_room() {
        let rows = [row("SESSION"), row("@a")];
        let widths = |room| {
            let text = lay_out(&rows, room);
            text.lines().map(|line| line.chars().count()).max().unwrap()
        };
        assert_eq!(widths(None), 7 + 10 * 10);
        for room in [40, 60, 80, 100, 107] {
            assert!(widths(Some(room)) <= room, "{room}");
        }
        // Below that nothing would be left.
        assert_eq!(widths(Some(1)), 27);
    }

    #[test]
    fn shares_and_times_for_people() {
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.99999), ">99.9 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(span(0), "0 s");
        assert_eq!(span(1500), "1.5 s");
        assert_eq!(span(61_500), "1 min 1 s");
        assert_eq!(span(180_000_000), "2 d 2 h");
        assert_eq!(
            kinds(&Errors { theirs: 2, cancelled: 1, ..Errors::default() }),
            "2 of the server, 1 cancelled"
        );
    }
}
