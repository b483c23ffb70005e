//! Listing sessions from their records and the process table, and where that is wanted from what bridges say of
//! themselves. Starts nothing, and takes no lock: a lock that is only looked at could make somebody else fail to take it.

use std::time::Duration;

use super::error::CallError;
use super::inquiry::Inquiry;
use super::{Listed, Listener, Sessions};
use crate::home::SessionName;
use crate::process::ProcessIdentity;
use crate::record::{self, State, StateRecord};

impl Sessions {
    /// All sessions, by name.
    ///
    /// # Errors
    /// If the home cannot be read. A session whose records cannot be read is listed with its error.
    pub fn list(&self) -> Result<Vec<Listed>, CallError> {
        if !self.home.check()? {
            return Ok(Vec::new());
        }
        let here = ProcessIdentity::of_self().ok();
        let names = record::names(&self.home)?;
        Ok(names.into_iter().filter_map(|name| self.listed(name, here.as_ref())).collect())
    }

    /// One session as a list shows it.
    ///
    /// # Errors
    /// If there is no such session, or the home cannot be read.
    pub fn get(&self, name: &SessionName) -> Result<Listed, CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        let here = ProcessIdentity::of_self().ok();
        self.listed(name.clone(), here.as_ref()).ok_or_else(|| self.no_session(name))
    }

    /// All sessions, by name, with what the bridges of those that are awake, and will sleep, say of themselves. They are asked all at
    /// once; who does not answer within `patience` of them all is shown by its record alone.
    ///
    /// # Errors
    /// If the home cannot be read.
    pub fn list_live(&self, patience: Duration) -> Result<Vec<Listed>, CallError> {
        if !self.home.check()? {
            return Ok(Vec::new());
        }
        let here = ProcessIdentity::of_self().ok();
        let mut inquiry = Inquiry::new(self, patience);
        let mut all = Vec::new();
        for name in record::names(&self.home)? {
            let Some(listed) = self.listed(name, here.as_ref()) else { continue };
            // What never sleeps has nothing to say of it. The others answer while more records are read.
            if listed.record.as_ref().is_ok_and(|record| record.settings.idle_timeout_secs > Some(0)) {
                inquiry.ask(&mut all, listed);
            } else {
                all.push(listed);
            }
        }
        inquiry.finish(&mut all);
        Ok(all)
    }

    /// One session as a list shows it, with what its bridge says of itself.
    ///
    /// # Errors
    /// If there is no such session, or the home cannot be read.
    pub fn get_live(&self, name: &SessionName, patience: Duration) -> Result<Listed, CallError> {
        let listed = self.get(name)?;
        let mut inquiry = Inquiry::new(self, patience);
        let mut all = Vec::with_capacity(1);
        inquiry.ask(&mut all, listed);
        inquiry.finish(&mut all);
        all.pop().ok_or_else(|| self.no_session(name))
    }

    fn listed(&self, name: SessionName, here: Option<&ProcessIdentity>) -> Option<Listed> {
        let record = record::read_session(&self.home, &name).transpose()?;
        let (known, state_error) = match record::read_state(&self.home, &name) {
            Ok(known) => (known, None),
            Err(error) => (None, Some(error)),
        };
        let alive = known.as_ref().is_some_and(|known| self.bridge_lives(&name, known, here));
        let state = known.as_ref().map_or(State::Dormant, |known| seen(known, alive, here));
        let lives = known.as_ref().filter(|_| alive);
        let pid = lives.and_then(|known| known.bridge.as_ref()).map(|bridge| bridge.pid);
        // One that only listens has nothing of the server.
        let bridge_pid = pid.filter(|_| lives.is_some_and(has_server));
        let url = lives.and_then(|known| known.shared_at.clone());
        let listener = pid.zip(url).map(|(pid, url)| Listener { pid, url });
        Some(Listed { name, record, state, known, state_error, bridge_pid, status: None, listener })
    }

    fn bridge_lives(&self, name: &SessionName, known: &StateRecord, here: Option<&ProcessIdentity>) -> bool {
        let Some(bridge) = &known.bridge else { return false };
        // Nothing runs any more by its own account: not worth a look, and a pid to show helps nobody.
        if !has_server(known) && known.shared_at.is_none() {
            return false;
        }
        match here {
            // A number of another container's: only the socket can tell.
            Some(here) if here.boot_id == bridge.boot_id && here.pid_ns != bridge.pid_ns => self
                .home
                .socket(name)
                .is_ok_and(|address| std::os::unix::net::UnixStream::connect(address.as_path()).is_ok()),
            _ => bridge.is_alive(),
        }
    }
}

/// Whether anything of a server runs, by the record.
pub(super) fn has_server(known: &StateRecord) -> bool {
    known.state.is_awake() || !known.ended
}

/// The state that a record comes to, given whether its bridge lives.
pub(super) fn seen(known: &StateRecord, alive: bool, here: Option<&ProcessIdentity>) -> State {
    if alive {
        return known.state;
    }
    let rebooted =
        matches!((here, &known.bridge), (Some(here), Some(bridge)) if here.boot_id != bridge.boot_id);
    known.state.bereft(rebooted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_bridge_leaves_is_told_by_the_boot() {
        let here = ProcessIdentity::of_self().unwrap();
        let known = |state, bridge| StateRecord { state, bridge, ..StateRecord::dormant() };
        let live = known(State::Live, Some(here.clone()));
        assert_eq!(seen(&live, true, Some(&here)), State::Live);
        assert_eq!(seen(&live, false, Some(&here)), State::Crashed);
        let old = ProcessIdentity { boot_id: "another".into(), ..here.clone() };
        assert_eq!(seen(&known(State::Live, Some(old)), false, Some(&here)), State::Idle);
        assert_eq!(seen(&known(State::Live, None), false, Some(&here)), State::Crashed);
        for state in [State::Idle, State::Crashed, State::Expired, State::Dormant] {
            assert_eq!(seen(&known(state, None), false, Some(&here)), state);
        }
    }
}
