//! The progress of one request, as a line on a terminal.
//!
//! Owns what the line says and how often. Costs nothing before the first notification, and shows nothing of what is
//! over before anybody could read it.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::layout::head;
use crate::output;
use crate::text::{duration, one_line};

/// What is over sooner needs no progress.
const QUICK: Duration = Duration::from_millis(300);
/// How often the line may change.
const PACE: Duration = Duration::from_millis(80);
/// The bar.
const BAR: usize = 20;
/// Where the width of the terminal is not known.
const COLUMNS: usize = 80;

/// Progress of a request that began at a certain time.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    shown: Option<Instant>,
    turns: usize,
}

/// Whether stderr is a place where a line can be written over.
pub(crate) fn has_terminal() -> bool {
    output::is_told_to_a_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Shows one line, over the one before; an empty one takes it away.
pub(crate) fn show_line(line: &str) {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    let columns = if columns == 0 { COLUMNS } else { usize::from(columns) };
    let _ = write!(io::stderr(), "\r\u{1b}[K{}", head(line, columns - 1));
}

impl Progress {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, shown: None, turns: 0 }
    }

    /// Shows a `notifications/progress` by its params.
    pub(crate) fn show(&mut self, params: &str) {
        if let Some(line) = self.line(params, Instant::now()) {
            show_line(&line);
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }

    fn line(&mut self, params: &str, now: Instant) -> Option<String> {
        let is_due = match self.shown {
            None => now >= self.began + QUICK,
            Some(shown) => now >= shown + PACE,
        };
        let params = serde_json::from_str::<Value>(params).ok().filter(|_| is_due)?;
        let done = params["progress"].as_f64().filter(|done| done.is_finite())?;
        let head = match params["total"].as_f64().filter(|&total| total > 0.0) {
            Some(total) => {
                let part = (done / total).clamp(0.0, 1.0);
                let full = (part * BAR as f64) as usize;
                format!("[{}{}] {:>3.0} %", "#".repeat(full), "-".repeat(BAR - full), (part * 100.0).floor())
            }
            None => format!("{} {done}", ["|", "/", "-", "\\"].get(self.turns % 4).unwrap_or(&"|")),
        };
        self.shown = Some(now);
        self.turns += 1;
        let message = one_line(params["message"].as_str().unwrap_or_default(), 200);
        let gap = if message.is_empty() { "" } else { "  " };
        let elapsed = Duration::from_secs((now - self.began).as_secs());
        Some(format!("{head}  ({}){gap}{message}", duration(elapsed.max(Duration::from_secs(1)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_what_is_quick_and_little_of_what_is_much() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        let at = |millis| began + Duration::from_millis(millis);
        let mut shown = |millis| progress.line(r#"{"progress":1,"total":4}"#, at(millis));
        assert_eq!(shown(0), None);
        assert_eq!(shown(299), None);
        assert_eq!(shown(300).as_deref(), Some("[#####---------------]  25 %  (1 s)"));
        assert_eq!(shown(379), None);
        assert!(shown(380).is_some());
        assert_eq!(shown(65_000).as_deref(), Some("[#####---------------]  25 %  (1 min 5 s)"));
    }

    #[test]
    fn every_kind_of_progress() {
        let began = Instant::now();
        let mut progress = Progress::new(began);
        for (step, (params, line)) in [
            (r#"{"progress":3,"message":"a\n\u001b[2Jb"}"#, Some(r"| 3  (1 s)  a \x1b[2Jb")),
            (r#"{"progress":0.5,"total":0}"#, Some("/ 0.5  (2 s)")),
            (r#"{"progress":9,"total":3}"#, Some("[####################] 100 %  (3 s)")),
            (r#"{"progress":2.999,"total":3}"#, Some("[###################-]  99 %  (4 s)")),
            (r#"{"progress":-1,"total":3}"#, Some("[--------------------]   0 %  (5 s)")),
            (r#"{"progress":"1"}"#, None),
            ("garbage", None),
        ]
        .into_iter()
        .enumerate()
        {
            let now = began + Duration::from_secs(step as u64 + 1);
            assert_eq!(progress.line(params, now).as_deref(), line, "{params}");
        }
    }
}
