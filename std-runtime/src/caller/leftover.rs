//! What is left of a session whose bridge is gone and whose record does not tell of it: found by the session that its
//! processes name, and ended.
//!
//! L is held by whoever calls this, so that nobody starts a server meanwhile whose processes would have to be told from
//! these. Those below a bridge that lives are never touched.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Sessions;
use super::census::{Counted, Role};
use super::error::CallError;
use super::wake::known_if_readable;
use crate::home::SessionName;
use crate::life;
use crate::log::{DEFAULT_CAP, SessionLog};
use crate::process::sweep_found;
use crate::record::{self, RecordError, StateRecord, aside};
use crate::sys::procfs;

/// How long a process that is left over may take to end after TERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long ending all that is left of a session may take after that.
const SWEEP: Duration = Duration::from_secs(10);

/// A record that was damaged, and was written anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The session.
    pub session: SessionName,
    /// Where the damaged one is now.
    pub aside: PathBuf,
}

impl Sessions {
    /// What is known of a session that is about to be started, with L held and B free. A damaged record is set aside and
    /// written anew, once nothing runs any more of whatever it told of.
    pub(super) fn known_or_rebuilt(&self, name: &SessionName) -> Result<Option<StateRecord>, CallError> {
        match record::read_state(&self.home, name) {
            Err(RecordError::Malformed { what, .. }) => {
                self.reap_unknown(name)?;
                let (state, aside) = aside::rebuild_state(&self.home, name)?;
                let place = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let text = format!("state.json was damaged ({what}): set aside as {place}, and written anew");
                life::note(&self.home, name, "rebuild", Some(&text));
                // The bridge does not write yet.
                if let Ok(mut log) = SessionLog::open(self.home.log_file(name), DEFAULT_CAP) {
                    let _ = log.drowse(&text);
                }
                if let Ok(mut rebuilt) = self.rebuilt.lock() {
                    rebuilt.push(Rebuilt { session: name.clone(), aside });
                }
                Ok(Some(state))
            }
            other => Ok(other?),
        }
    }

    /// The records that were found damaged and written anew since this was asked last.
    #[must_use]
    pub fn take_rebuilt(&self) -> Vec<Rebuilt> {
        self.rebuilt.lock().map(|mut rebuilt| std::mem::take(&mut *rebuilt)).unwrap_or_default()
    }

    /// What is known of a session that is ended, with L held and B free: nothing, if its record is damaged, and then
    /// nothing of it runs any more.
    pub(super) fn known_or_reaped(&self, name: &SessionName) -> Result<Option<StateRecord>, CallError> {
        if let Err(RecordError::Malformed { .. }) = record::read_state(&self.home, name) {
            self.reap_unknown(name)?;
        }
        known_if_readable(self, name)
    }

    fn reap_unknown(&self, name: &SessionName) -> Result<(), CallError> {
        self.reap(name).map_err(|source| CallError::Leftover { name: name.clone(), source })
    }

    /// Ends what is left of a session: TERM, and KILL for those that do not go. L is held.
    pub(super) fn reap(&self, name: &SessionName) -> io::Result<()> {
        let look = || {
            let (snapshot, gaps) = procfs::snapshot_with_gaps()?;
            let found = self.census(&snapshot).map_err(io::Error::other)?;
            let members = orphans(found).filter(|one| one.session == *name).map(|one| one.member);
            Ok((members.collect::<Vec<_>>(), gaps))
        };
        let until = Instant::now() + TERM_GRACE;
        let mut held = Vec::new();
        for member in look()?.0 {
            // Refused, or gone: what follows tells.
            if let Ok(Some(process)) = member.signal(rustix::process::Signal::TERM) {
                held.push(process);
            }
        }
        for process in held {
            process.wait(until)?;
        }
        sweep_found(Instant::now() + SWEEP, look).map(drop)
    }
}

/// Those whose bridge is gone.
pub(super) fn orphans(found: Vec<Counted>) -> impl Iterator<Item = Counted> {
    found.into_iter().filter(|one| matches!(one.role, Role::Orphan(_)))
}
