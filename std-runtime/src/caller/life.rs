//! Lives of sessions, up to this moment: what is written down, and what the bridges that run have counted since.
//! Starts nothing and counts as no use.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::error::CallError;
use super::poll::{Poll, Standing};
use super::{Listed, Sessions};
use crate::home::{HomeError, SessionName};
use crate::life::{Life, Period, Totals};
use crate::process;
use crate::record::{State, now_ms};
use crate::wait::Wait;
use crate::wire::Status;

/// How often the file is read again because something happened meanwhile.
const LOOKS: u32 = 3;
/// A bridge that takes longer to say what it counted is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many are asked at a time: each takes a descriptor. Those that come after silent ones are still given this long.
const AT_ONCE: usize = 200;
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// A session's life up to a moment.
#[derive(Debug)]
pub struct LifeNow {
    /// The session.
    pub listed: Listed,
    /// What is written down.
    pub life: Life,
    /// The moment, in milliseconds since 1970.
    pub now: u64,
    /// What it all came to.
    pub totals: Totals,
    /// Since when the server is awake, in milliseconds since 1970, if it is.
    pub awake_since: Option<u64>,
    /// Its bridge did not say what it counted since the last line.
    pub silent: bool,
    /// What its server's processes use now, or used when they were let go last, in bytes.
    pub memory: Option<u64>,
}

impl LifeNow {
    /// What it was when.
    #[must_use]
    pub fn periods(&self) -> Vec<Period> {
        self.life.periods(self.now, self.listed.bridge_pid.is_some(), self.recorded())
    }

    fn recorded(&self) -> Option<(State, u64)> {
        self.listed.known.as_ref().map(|known| (known.state, known.since))
    }
}

impl Sessions {
    /// The life of a session.
    ///
    /// # Errors
    /// If there is no such session, or its life cannot be read.
    pub fn life(&self, name: &SessionName) -> Result<LifeNow, CallError> {
        self.life_of(self.get(name)?)
    }

    /// The life of a session that was listed.
    ///
    /// # Errors
    /// If its life cannot be read.
    pub fn life_of(&self, mut listed: Listed) -> Result<LifeNow, CallError> {
        let name = listed.name.clone();
        let mut life = Life::read(&self.home, &name)?;
        let mut status = None;
        let mut silent = false;
        for _ in 0..LOOKS {
            if listed.bridge_pid.is_some() {
                let asked = self.status(&name, Wait::at_most(PATIENCE));
                silent = asked.is_err();
                status = asked.ok().flatten();
            }
            // What it counted is in the file as soon as the awake period is over: not to be counted twice.
            let again = Life::read(&self.home, &name)?;
            let same = again.totals == life.totals;
            life = again;
            if same {
                break;
            }
            listed = self.get(&name)?;
            status = None;
        }
        Ok(reckon(listed, life, status.as_ref(), silent))
    }

    /// The lives of sessions that were listed. Their bridges are asked all at once: those that do not answer are waited
    /// for together.
    #[must_use]
    pub fn lives_of(&self, all: Vec<Listed>) -> Vec<(SessionName, Result<LifeNow, CallError>)> {
        let first: Vec<_> = all.iter().map(|listed| Life::read(&self.home, &listed.name)).collect();
        let awake = all.iter().filter(|listed| listed.bridge_pid.is_some());
        let awake: Vec<SessionName> = awake.map(|listed| listed.name.clone()).collect();
        let until = Instant::now() + PATIENCE;
        let mut standings = HashMap::new();
        for some in awake.chunks(AT_ONCE) {
            let left = until.saturating_duration_since(Instant::now()).max(LEAST_PATIENCE);
            // What cannot be asked has not answered.
            standings.extend(Poll::new(self).ask(some, left, Wait::default()).unwrap_or_default());
        }
        let mut life = |listed: Listed, first: Result<Life, HomeError>| {
            let again = Life::read(&self.home, &listed.name)?;
            // See `life_of`.
            if first?.totals != again.totals {
                return self.life(&listed.name);
            }
            let (status, silent) = match standings.remove(&listed.name) {
                Some(Standing::Answers(answer)) => (Some(answer.status), false),
                Some(Standing::Absent) => (None, false),
                Some(Standing::Silent | Standing::Refuses) => (None, true),
                None => (None, listed.bridge_pid.is_some()),
            };
            Ok(reckon(listed, again, status.as_ref(), silent))
        };
        all.into_iter().zip(first).map(|(listed, first)| (listed.name.clone(), life(listed, first))).collect()
    }
}

fn reckon(listed: Listed, life: Life, status: Option<&Status>, silent: bool) -> LifeNow {
    let now = now_ms();
    let known = listed.known.as_ref().map(|known| (known.state, known.since));
    let mut totals = life.totals.until(now, listed.bridge_pid.is_some(), known);
    let tally = status.and_then(|status| status.tally.as_ref());
    if let Some(tally) = tally {
        totals.count(tally.calls, &tally.errors, &tally.latency);
    }
    let awake_since = tally.and_then(|tally| tally.since).filter(|_| listed.state.is_awake());
    let memory = listed
        .bridge_pid
        .filter(|_| status.is_some_and(|status| status.server_pid.is_some()))
        .and_then(process::memory_below)
        .or(totals.memory);
    LifeNow { listed, life, now, totals, awake_since, silent, memory }
}
