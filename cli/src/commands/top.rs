//! `top`: what all sessions do and cost, once or again each second.
//!
//! Asks bridges how they are, which starts nothing and counts as no use; what sleeps is known from its record.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use drowse_runtime::caller::{Gauge, Listed, Poll, Sessions, Wait};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::now_ms;

use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Style, paint};
use crate::render::top::{Row, Sort, Totals, sort, table, to_json};
use crate::screen::{Event, Key, Screen, width};
use crate::text::one_line;

/// How often the table is made anew.
const PERIOD: Duration = Duration::from_secs(1);
/// How long bridges may take to answer, all of them together: where there is one table, and where there are many.
const ANSWER_ONCE: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(250);
/// What measuring memory may cost each time.
const MEASURE: Duration = Duration::from_millis(20);

/// `top`.
pub(super) fn top(context: &Context, once: bool) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let live = !once && !context.output.json && io::stdout().is_terminal();
    // Before anything is changed at the terminal.
    let interrupt = if live { Interrupt::catch_all().ok() } else { None };
    let screen = interrupt.and_then(|interrupt| Some((Screen::enter().ok()?, interrupt)));
    if let Some((screen, interrupt)) = screen {
        return watch(&sessions, screen, &interrupt);
    }
    let mut watched = Watched::new(&sessions);
    let rows = watched.look(ANSWER_ONCE, Wait::default(), Duration::MAX)?;
    if context.output.json {
        context.output.document(&to_json(&rows))?;
        return Ok(Status::Done);
    }
    let mut text = table(&rows, now_ms(), width()).join("\n");
    text.push_str(&format!("\n{}\n", Totals::of(&rows).line()));
    context.output.layout(&text)?;
    Ok(Status::Done)
}

/// What is kept from one look to the next.
struct Watched<'s> {
    sessions: &'s Sessions,
    poll: Poll<'s>,
    gauge: Gauge,
}

impl<'s> Watched<'s> {
    fn new(sessions: &'s Sessions) -> Self {
        Self { sessions, poll: Poll::new(sessions), gauge: Gauge::default() }
    }

    /// All sessions, by name.
    fn look(&mut self, bound: Duration, wait: Wait<'_>, budget: Duration) -> Result<Vec<Row>, Failure> {
        let listed = self.sessions.list()?;
        let awake = |listed: &Listed| Some((listed.name.clone(), listed.bridge_pid?));
        let bridges: Vec<(SessionName, u32)> = listed.iter().filter_map(awake).collect();
        let names: Vec<SessionName> = bridges.iter().map(|(name, _)| name.clone()).collect();
        let standings = self.poll.ask(&names, bound, wait)?;
        // What memory costs is worth less than the rest of the table.
        let loads = self.gauge.read(&bridges, budget).unwrap_or_default();
        let row =
            |listed: &Listed| Row::new(listed, standings.get(&listed.name), loads.get(&listed.name).copied());
        Ok(listed.iter().map(row).collect())
    }
}

/// The live table, until somebody has seen enough.
fn watch(sessions: &Sessions, mut screen: Screen, interrupt: &Interrupt) -> Result<Status, Failure> {
    let broken = |error: io::Error| Failure::new(Exit::Usage, "output", format!("the terminal: {error}"));
    let mut watched = Watched::new(sessions);
    let mut view = View::default();
    let mut rows = Vec::new();
    let mut next = Instant::now();
    loop {
        if Instant::now() >= next {
            let wait = Wait { deadline: None, interrupt: Some(interrupt.fd()) };
            match watched.look(ANSWER, wait, MEASURE) {
                Ok(seen) => {
                    rows = seen;
                    view.trouble = None;
                }
                Err(failure) => view.trouble = Some(failure.message.clone()),
            }
            sort(&mut rows, view.sort);
            next = Instant::now() + PERIOD;
        }
        screen.draw(&view.lines(&rows, screen.size())).map_err(broken)?;
        match screen.next(next, interrupt).map_err(broken)? {
            Event::Key(Key::Char('q' | 'Q')) => return Ok(Status::Done),
            Event::Key(Key::Char('s')) => {
                view.sort = view.sort.next();
                sort(&mut rows, view.sort);
            }
            Event::Key(key) => view.scroll(key),
            Event::Redraw | Event::Time => {}
            Event::Interrupt => return Ok(Status::Bad(Exit::Interrupted)),
            Event::Gone => return Ok(Status::Done),
        }
    }
}

/// What of the table is seen.
#[derive(Debug, Default)]
struct View {
    sort: Sort,
    /// The first line of it.
    top: usize,
    /// How many fit, when it was drawn last.
    page: usize,
    /// Why it could not be made anew.
    trouble: Option<String>,
}

impl View {
    /// Where it may not go, the next drawing puts right.
    fn scroll(&mut self, key: Key) {
        let page = self.page.max(1);
        self.top = match key {
            Key::Up | Key::Char('k') => self.top.saturating_sub(1),
            Key::Down | Key::Char('j') => self.top.saturating_add(1),
            Key::PageUp => self.top.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => self.top.saturating_add(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            Key::Char(_) => self.top,
        };
    }

    /// The whole screen.
    fn lines(&mut self, rows: &[Row], (columns, lines): (usize, usize)) -> Vec<String> {
        let cut = |text: &str| one_line(text, columns);
        let mut table = table(rows, now_ms(), Some(columns)).into_iter();
        let titles = table.next().unwrap_or_default();
        // The totals, the titles and the last line.
        self.page = lines.saturating_sub(3);
        self.top = self.top.min(rows.len().saturating_sub(self.page));
        let mut shown = vec![cut(&Totals::of(rows).line()), titles];
        shown.extend(table.skip(self.top).take(self.page));
        let last = match &self.trouble {
            Some(trouble) => paint(Style::Red, &cut(trouble)),
            None => {
                let more = rows.len().saturating_sub(self.top + self.page);
                let more = if more > 0 { format!("{more} more below · ") } else { String::new() };
                let keys = format!("{more}by {} · s: sort · ↑↓ jk: scroll · q: quit", self.sort.name());
                paint(Style::Dim, &cut(&keys))
            }
        };
        // At the bottom, where it stays while sessions come and go.
        while shown.len() + 1 < lines {
            shown.push(String::new());
        }
        shown.push(last);
        shown.truncate(lines);
        shown
    }
}

#[cfg(test)]
mod tests {
    use drowse_runtime::record::State;

    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        let name = |number| SessionName::new(&format!("s{number:03}")).unwrap();
        let row =
            |number| Row { name: name(number), state: State::Idle, since: None, era: None, awake: None };
        (0..count).map(row).collect()
    }

    #[test]
    fn a_screen_is_full_and_never_more() {
        let mut view = View::default();
        for (count, size) in
            [(0, (80, 24)), (5, (80, 24)), (100, (80, 24)), (100, (20, 5)), (3, (10, 2)), (3, (1, 1))]
        {
            let lines = view.lines(&rows(count), size);
            assert_eq!(lines.len(), size.1);
            assert!(lines.iter().all(|line| line.chars().count() <= size.0), "{size:?}: {lines:?}");
        }
    }

    #[test]
    fn scrolling_stops_at_both_ends() {
        let mut view = View::default();
        let rows = rows(30);
        let mut first = |key| {
            view.scroll(key);
            view.lines(&rows, (80, 13))[2].chars().take(5).collect::<String>()
        };
        assert_eq!(first(Key::Up), "@s000");
        assert_eq!(first(Key::Down), "@s001");
        assert_eq!(first(Key::PageDown), "@s011");
        assert_eq!(first(Key::End), "@s020");
        assert_eq!(first(Key::Char('j')), "@s020");
        assert_eq!(first(Key::Char('k')), "@s019");
        assert_eq!(first(Key::Char('x')), "@s019");
        assert_eq!(first(Key::Home), "@s000");
    }
}
