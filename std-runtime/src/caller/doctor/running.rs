//! Bridges that run.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use super::{Doctor, Finding, Held, Verdict};
use crate::caller::error::CallError;
use crate::caller::poll::{Poll, Standing};
use crate::caller::wake::ending;
use crate::home::SessionName;
use crate::lock;
use crate::process::ProcessIdentity;
use crate::record::{self, Settings};
use crate::sys::procfs::Stat;

/// How long bridges may take to answer, all of them together.
const ANSWER: Duration = Duration::from_secs(2);

impl Doctor<'_> {
    pub(super) fn bridges(&mut self) -> Result<(), CallError> {
        let names = self.sessions.names_with_locks()?;
        let running: Vec<(SessionName, ProcessIdentity)> = names
            .into_iter()
            .filter_map(|name| self.sessions.running_bridge(&name).map(|bridge| (name, bridge)))
            .collect();
        let (there, gone): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|(name, _)| self.sessions.home().session_file(name).exists());
        for (name, bridge) in gone {
            self.without_session(&name, &bridge)?;
        }
        let names: Vec<SessionName> = there.iter().map(|(name, _)| name.clone()).collect();
        let standings = Poll::new(self.sessions).ask(&names, ANSWER, self.wait)?;
        let mut well = 0;
        for (name, bridge) in there {
            match self.diagnose(&name, &bridge, &standings) {
                Some(finding) => self.add(finding.of(&name)),
                None => well += 1,
            }
        }
        let what = match well {
            0 => return Ok(()),
            1 => "one bridge runs, and answers".to_owned(),
            well => format!("{well} bridges run, and answer"),
        };
        self.add(Finding::fine("bridges", what));
        Ok(())
    }

    /// What is to be said of a bridge, if it is not just well.
    fn diagnose(
        &self,
        name: &SessionName,
        bridge: &ProcessIdentity,
        standings: &HashMap<SessionName, Standing>,
    ) -> Option<Finding> {
        // It has ended since.
        if !bridge.is_alive() {
            return None;
        }
        let restart = format!("drowse restart {name}");
        let pid = bridge.pid;
        let ours = env!("CARGO_PKG_VERSION");
        match standings.get(name) {
            Some(Standing::Answers(answer)) => {
                let version = &answer.version;
                let why = if version != ours {
                    format!("its bridge is of drowse {version}, this is {ours}")
                } else if is_replaced(pid) {
                    "the program that its bridge runs was replaced or removed since".to_owned()
                } else {
                    return None;
                };
                Some(if self.falls_asleep(name) {
                    Finding::fine("bridges", format!("{why}: the next one, after its sleep, will be new"))
                } else {
                    let what =
                        format!("{why}, and it has no idle timeout after which there would be a new one");
                    Finding::needs_user("bridges", what, Some(restart))
                })
            }
            Some(Standing::Refuses) => {
                let what = format!("its bridge (process {pid}) and this drowse do not understand each other");
                Some(Finding::needs_user("bridges", what, Some(restart)))
            }
            Some(Standing::Silent) => {
                let stopped = matches!(Stat::read(pid), Ok(Some(stat)) if matches!(stat.state, b'T' | b't'));
                let why = if stopped {
                    format!(
                        "its bridge (process {pid}) is stopped by a signal: `kill -CONT {pid}` lets it go on"
                    )
                } else {
                    format!("its bridge (process {pid}) does not answer")
                };
                let next = format!("{restart}, which ends it and starts a fresh one");
                Some(Finding::needs_user("bridges", why, Some(next)))
            }
            Some(Standing::Absent) | None => {
                let home = self.sessions.home();
                // On its way: it is being started, or is about to end.
                let starting = !lock::holders(&home.start_lock(name)).is_empty()
                    || lock::is_open_in(&home.start_lock(name), pid) == Some(true);
                if starting || home.socket_file(name).exists() {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(500));
                if !bridge.is_alive() || home.socket_file(name).exists() {
                    return None;
                }
                let what = format!("its bridge (process {pid}) runs, but its socket is gone");
                Some(Finding::needs_user("bridges", what, Some(restart)))
            }
        }
    }

    fn falls_asleep(&self, name: &SessionName) -> bool {
        let record = record::read_session(self.sessions.home(), name).ok().flatten();
        record.is_some_and(|record| record.settings.idle_timeout_secs.is_some_and(|seconds| seconds > 0))
    }

    /// A bridge whose session was removed under it: nobody can reach it, or end it, by its name.
    fn without_session(&mut self, name: &SessionName, bridge: &ProcessIdentity) -> Result<(), CallError> {
        let what =
            format!("its bridge (process {}) runs, but the session does not exist any more", bridge.pid);
        if !self.mend {
            self.put_right("bridges", Some(name), what, || Ok(String::new()));
            return Ok(());
        }
        let held = self.hold(name)?;
        // Somebody made the session anew meanwhile, or it ended by itself.
        if self.sessions.home().session_file(name).exists() || !bridge.is_alive() {
            return Ok(());
        }
        if let Held::Busy(who) = held {
            let next = Some("drowse doctor".to_owned());
            self.add(Finding::needs_user("bridges", format!("{what}; {who}"), next).of(name));
            return Ok(());
        }
        // It holds the session's lock, which tells it from any other process that may have its number.
        if lock::is_open_in(&self.sessions.home().bridge_lock(name), bridge.pid) != Some(true) {
            return Ok(());
        }
        let ended = bridge.end(ending(&Settings::default()));
        let left = self.sessions.reap(name);
        self.put_right("bridges", Some(name), what, || {
            ended.and(left).map(|()| "ended, with its server".to_owned()).map_err(|e| e.to_string())
        });
        if self.findings.last().is_some_and(|finding| finding.verdict == Verdict::Mended) {
            self.sessions.unlink_socket(name)?;
        }
        Ok(())
    }
}

/// Whether the program that a process runs is not what stands at its path any more.
fn is_replaced(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|path| path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)"))
}
