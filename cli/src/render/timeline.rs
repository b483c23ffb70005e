//! A session's life to look at: a bar of states with what happened below it, in text; the same as JSON; and as SVG.

use std::fmt::Write as _;

use drowse_runtime::caller::LifeNow;
use drowse_runtime::life::{Line, Period};
use drowse_runtime::log::Timestamp;
use drowse_runtime::record::State;
use serde_json::{Map, Value, json};

use super::stats;
use crate::output::{Style, paint};
use crate::text::{memory_size, one_line};

mod svg;

/// Fewer cells tell nothing.
const LEAST_CELLS: usize = 10;
/// So many events are listed; of more, the last ones.
const EVENTS: usize = 100;
/// What precedes the reason in the list of events.
const BEFORE_REASON: usize = 35;
/// With less room than this the reason has a line of its own.
const NARROW: usize = 60;

/// A part of a session's life.
#[derive(Debug)]
pub(crate) struct Timeline<'a> {
    life: &'a LifeNow,
    /// When the part begins, in milliseconds since 1970.
    from: u64,
    /// Its periods, cut to it.
    periods: Vec<Period>,
    /// What happened in it.
    events: Vec<&'a Line>,
}

impl<'a> Timeline<'a> {
    /// The last `since` milliseconds, or all that is written down.
    pub(crate) fn new(life: &'a LifeNow, since: Option<u64>) -> Self {
        let mut periods = life.periods();
        let begins = periods.first().map_or(life.now, |first| first.from).min(life.now);
        let from = since.map_or(begins, |since| life.now.saturating_sub(since).max(begins));
        for period in &mut periods {
            period.from = period.from.clamp(from, life.now);
            period.to = period.to.clamp(from, life.now);
        }
        periods.retain(|period| period.from < period.to);
        let events = life.life.lines.iter().filter(|line| line.at >= from).collect();
        Self { life, from, periods, events }
    }

    /// What is drawn: the states that occur, in the order of their rank, and how long each lasted.
    fn states(&self) -> Vec<(Option<State>, u64)> {
        let mut found: Vec<(Option<State>, u64)> = Vec::new();
        for period in &self.periods {
            let lasted = period.to - period.from;
            match found.iter_mut().find(|(state, _)| *state == period.state) {
                Some((_, sum)) => *sum += lasted,
                None => found.push((period.state, lasted)),
            }
        }
        found.sort_by_key(|(state, _)| std::cmp::Reverse(rank(*state)));
        found
    }

    /// The events worth a line: not the second of two starts that only differ in the era that was tried.
    fn told(&self) -> Vec<&'a Line> {
        let mut told: Vec<&Line> = Vec::with_capacity(self.events.len());
        for line in &self.events {
            let again = told.last().is_some_and(|last| last.state == line.state);
            if !(again && line.state == Some(State::Connecting) && about(line).is_empty()) {
                told.push(line);
            }
        }
        told
    }

    /// The bar: what is most notable in each of so many equal parts.
    fn cells(&self, count: usize) -> Vec<Option<Option<State>>> {
        let mut cells = vec![None; count];
        let whole = u128::from(self.life.now.saturating_sub(self.from)).max(1);
        for period in &self.periods {
            let at = |time: u64| u128::from(time - self.from) * count as u128;
            let (first, end) = (at(period.from) / whole, at(period.to).div_ceil(whole));
            let (first, end) = (first as usize, (end as usize).min(count));
            for cell in cells.get_mut(first..end).into_iter().flatten() {
                if cell.is_none_or(|state| rank(state) < rank(period.state)) {
                    *cell = Some(period.state);
                }
            }
        }
        cells
    }

    /// For people.
    pub(crate) fn to_text(&self, width: usize) -> String {
        let listed = &self.life.listed;
        let mut text = format!("{}  {}\n", paint(Style::Bold, &listed.name.to_string()), listed.state.name());
        if self.periods.is_empty() {
            text.push_str("nothing is written down\n");
            return text;
        }
        let count = width.saturating_sub(1).max(LEAST_CELLS);
        for cell in self.cells(count) {
            match cell {
                None => text.push(' '),
                Some(state) => text.push_str(&paint(style(state), &letter(state).to_string())),
            }
        }
        text.push('\n');
        text.push_str(&paint(Style::Dim, self.axis(count).trim_end()));
        text.push_str("\n\n");
        for (state, lasted) in self.states() {
            let head = paint(style(state), &format!("{} {:<12}", letter(state), word(state)));
            let _ = writeln!(text, "  {head}  {}", stats::span(lasted));
        }
        text.push('\n');
        let events = self.told();
        let left_out = events.len().saturating_sub(EVENTS);
        if left_out > 0 {
            let _ = writeln!(text, "  … {left_out} earlier ones: --json has them");
        }
        for line in events.iter().skip(left_out) {
            text.push_str(&event(line, width));
        }
        if let Some(folded) = &self.life.life.folded {
            let _ =
                writeln!(text, "  {} changes before {} are only in `stats`", folded.lines, moment(folded.at));
        }
        text
    }

    /// When the bar begins, has its middle, and ends.
    fn axis(&self, count: usize) -> String {
        let span = self.life.now.saturating_sub(self.from);
        let short = |at: u64| {
            let text = Timestamp(at).to_string();
            // Of a long time the day, of a short one the hour.
            let part = if span > 2 * 86_400_000 { text.get(..10) } else { text.get(11..19) };
            part.unwrap_or_default().to_owned()
        };
        let (first, middle) = (short(self.from), short(self.from + span / 2));
        let mut axis = first;
        let at = (count / 2).saturating_sub(middle.len() / 2);
        if at > axis.len() + 1 && at + middle.len() + 5 < count {
            let _ = write!(axis, "{:>gap$}{middle}", "", gap = at - axis.len());
        }
        if axis.len() + 4 < count {
            let _ = write!(axis, "{:>gap$}now", "", gap = count - axis.len() - 3);
        }
        axis
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        let life = &self.life.life;
        let periods = self.periods.iter().map(
            |period| json!({"from": period.from, "to": period.to, "state": period.state.map(State::name)}),
        );
        let events: Vec<Value> = self.events.iter().map(|line| event_to_json(line)).collect();
        json!({
            "name": self.life.listed.name.to_string(),
            "status": self.life.listed.state.name(),
            "since": self.from,
            "until": self.life.now,
            "periods": periods.collect::<Vec<_>>(),
            "events": events,
            "foldedEvents": life.folded.as_ref().map_or(0, |folded| folded.lines),
            "damagedLines": self.life.totals.damaged + life.damaged,
            "newerLines": life.newer,
        })
    }

    /// As a picture.
    pub(crate) fn to_svg(&self) -> String {
        svg::draw(self)
    }
}

/// What happened: a line, or two where there is little room.
fn event(line: &Line, width: usize) -> String {
    let what = match (line.state, line.did.as_deref()) {
        (Some(state), _) => paint(style(Some(state)), &format!("{:<12}", state.name())),
        (None, did) => format!("{:<12}", one_line(did.unwrap_or_default(), 12)),
    };
    let head = format!("  {} {what}", paint(Style::Dim, &moment(line.at)));
    let about = about(line);
    if about.is_empty() {
        return head.trim_end().to_owned() + "\n";
    }
    if width < NARROW {
        let about = one_line(&about, width.saturating_sub(4).max(LEAST_CELLS));
        return format!("{}\n    {about}\n", head.trim_end());
    }
    format!("{head} {}\n", one_line(&about, width - BEFORE_REASON))
}

/// What there is to say of an event.
fn about(line: &Line) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let (Some(_), Some(did)) = (line.state, &line.did) {
        parts.push(did.clone());
    }
    parts.extend(line.why.clone());
    match (line.calls, line.errors.total()) {
        (0, _) => {}
        (1, 0) => parts.push("1 call".to_owned()),
        (calls, 0) => parts.push(format!("{calls} calls")),
        (calls, _) => parts.push(format!("{calls} calls ({})", stats::kinds(&line.errors))),
    }
    if let Some(memory) = line.memory {
        parts.push(memory_size(memory as f64));
    }
    parts.join("; ")
}

fn event_to_json(line: &Line) -> Value {
    let mut event = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            event.insert(name.to_owned(), value);
        }
    };
    put("at", line.at.into());
    put("state", line.state.map(State::name).into());
    put("did", line.did.clone().into());
    put("generation", line.generation.into());
    put("why", line.why.clone().into());
    if line.calls > 0 {
        put("calls", line.calls.into());
        put("errors", stats::errors_to_json(&line.errors));
        put("latencyMs", stats::latency_to_json(&line.latency.histogram()));
    }
    put("memoryBytes", line.memory.into());
    if line.told {
        put("told", true.into());
    }
    event.into()
}

/// A point in time, to the second.
fn moment(at: u64) -> String {
    let text = Timestamp(at).to_string();
    match text.split_once('.') {
        Some((seconds, _)) => seconds.replace('T', " "),
        None => text,
    }
}

/// What is to be seen where several states fall into one cell.
fn rank(state: Option<State>) -> u32 {
    match state {
        Some(State::Crashed) => 10,
        Some(State::Unauthorized) => 9,
        Some(State::Expired) => 8,
        Some(State::Disconnected) => 7,
        Some(State::Live) => 6,
        Some(State::Suspended) => 5,
        Some(State::Reconnecting) => 4,
        Some(State::Connecting) => 3,
        None => 2,
        Some(State::Idle) => 1,
        Some(State::Dormant | State::Closed) => 0,
    }
}

fn word(state: Option<State>) -> &'static str {
    state.map_or("unknown", State::name)
}

fn letter(state: Option<State>) -> char {
    match state {
        Some(State::Dormant | State::Closed) => '.',
        Some(State::Connecting) => 'c',
        Some(State::Live) => 'L',
        Some(State::Suspended) => 'S',
        Some(State::Idle) => '-',
        Some(State::Disconnected) => 'D',
        Some(State::Reconnecting) => 'r',
        Some(State::Crashed) => 'X',
        Some(State::Unauthorized) => 'U',
        Some(State::Expired) => 'E',
        None => '?',
    }
}

fn style(state: Option<State>) -> Style {
    match state {
        Some(State::Live) => Style::Green,
        Some(State::Connecting | State::Reconnecting) => Style::Cyan,
        Some(State::Disconnected | State::Unauthorized | State::Expired) => Style::Yellow,
        Some(State::Crashed) => Style::Red,
        None => Style::Bold,
        Some(State::Idle | State::Dormant | State::Closed | State::Suspended) => Style::Dim,
    }
}

#[cfg(test)]
mod tests;
