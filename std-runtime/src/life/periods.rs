//! What a session was when: its life as a sequence of states.

use super::Life;
use crate::record::State;

/// A time in which the state was the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Its beginning, in milliseconds since 1970.
    pub from: u64,
    /// Its end; not before its beginning, whatever the clock did.
    pub to: u64,
    /// The state; `None` if nobody knows.
    pub state: Option<State>,
}

impl Life {
    /// What it was when, up to now. What is known beside the file is as in [`super::Totals::until`].
    #[must_use]
    pub fn periods(&self, now: u64, alive: bool, known: Option<(State, u64)>) -> Vec<Period> {
        let mut found: Vec<Period> = Vec::new();
        let folded = self.folded.as_ref().and_then(|folded| Some((folded.at, folded.state?)));
        if let Some((from, state)) = folded {
            found.push(Period { from, to: from, state: Some(state) });
        }
        for line in &self.lines {
            let Some(state) = line.state else { continue };
            if let Some(last) = found.last_mut() {
                last.to = line.at.max(last.from);
                if line.fresh && last.state.is_some_and(State::is_awake) {
                    // Nobody wrote its end.
                    last.state = None;
                } else if last.state == Some(state) {
                    continue;
                }
            }
            found.push(Period { from: line.at, to: line.at, state: Some(state) });
        }
        let Some(last) = found.last_mut() else { return found };
        last.to = now.max(last.from);
        if last.state.is_some_and(State::is_awake) && !alive {
            match known.filter(|(state, since)| !state.is_awake() && *since >= last.from) {
                Some((state, since)) => {
                    last.to = since;
                    found.push(Period { from: since, to: now.max(since), state: Some(state) });
                }
                None => last.state = None,
            }
        }
        found
    }
}
