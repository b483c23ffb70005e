//! Sharing a session otherwise, or no more, while its server runs or sleeps: `set proxy`, and `connect --lazy`.
//!
//! As with settings, the record is written first, under L. Where the address cannot be had, all is as it was: the old
//! listener stays, and so does the old record.

use std::time::Duration;

use serde_json::Value;

use super::error::CallError;
use super::link::{Greeting, Link};
use super::pin::{Pinned, reshared};
use super::settings::Heard;
use super::wake::{Met, NotMet, Present, Shared, known_if_readable};
use super::{Caller, Request, Sessions, WantedShare};
use crate::credential;
use crate::home::SessionName;
use crate::life;
use crate::lock::Lock;
use crate::record::{self, SessionRecord};
use crate::share::{self, Sharing};
use crate::wait::Wait;
use crate::wire::{BridgeSettings, Keep, METHOD_SET, Reshare};

/// How long a bridge may take to take an address.
const TELLING: Duration = Duration::from_secs(5);

impl Sessions {
    /// Shares a session otherwise, or no more. A server that runs is not disturbed, and none is started; the listener is,
    /// also for a session that sleeps. The last that is answered is whether one that is not shared keeps its bearer token.
    ///
    /// # Errors
    /// If there is no such session, or the address cannot be had. Nothing is changed then.
    pub fn share(
        &self,
        name: &SessionName,
        wanted: &WantedShare,
        wait: Wait<'_>,
    ) -> Result<(SessionRecord, Heard, bool), CallError> {
        let (record, _) = self.settings(name)?;
        self.home.prepare()?;
        let lock = self.lock(name, &record.settings, wait)?;
        let record = self.record(name)?;
        let credentials = credential::read(&self.home, name)?.unwrap_or_default();
        let new = reshared(&record, &credentials, wanted)?;
        let differs = (&new.record, &new.credentials) != (&record, &credentials);
        if differs {
            credential::write(&self.home, name, &new.credentials)?;
            record::write_session(&self.home, name, &new.record)?;
        }
        match self.offer(name, &lock, &new, wait) {
            Ok(heard) => {
                life::note(&self.home, name, "set", Some("proxy"));
                let keeps = new.record.share.is_none() && new.credentials.share_token.is_some();
                Ok((new.record, heard, keeps))
            }
            Err(NotMet { error, bridge }) => {
                if let Some(bridge) = bridge {
                    bridge.release();
                }
                if differs {
                    credential::write(&self.home, name, &credentials)?;
                    record::write_session(&self.home, name, &record)?;
                }
                Err(error)
            }
        }
    }

    /// Sees to it that the session is shared as its records say, with L held.
    pub(super) fn offer(
        &self,
        name: &SessionName,
        lock: &Lock,
        new: &Pinned,
        wait: Wait<'_>,
    ) -> Result<Heard, NotMet> {
        if new.record.share.is_none() {
            return match self.greet(name, wait, TELLING)? {
                Greeting::Welcome(link) => match self.tell_sharing(name, new, link, wait) {
                    // It was there for nothing else.
                    Err(CallError::BridgeLost { .. }) => Ok(Heard::Asleep),
                    told => Ok(told?),
                },
                Greeting::Absent => Ok(Heard::Asleep),
                Greeting::Refused(_) | Greeting::Silent(_) => Ok(Heard::No),
            };
        }
        match self.meet(name, lock.share(), &new.record, Present::Use, Shared::Only, wait)? {
            Met::Running(link) => Ok(self.tell_sharing(name, new, link, wait)?),
            Met::Started(bridge) => {
                bridge.release();
                Ok(Heard::Yes)
            }
            Met::Gone(error) => Err(error.into()),
        }
    }

    fn tell_sharing(
        &self,
        name: &SessionName,
        new: &Pinned,
        link: Link,
        wait: Wait<'_>,
    ) -> Result<Heard, CallError> {
        let last = known_if_readable(self, name)?.and_then(|known| known.shared_at);
        let at = new.record.share.clone().map(|share| Sharing {
            share,
            last: last.as_deref().and_then(share::port_of),
            token: new.credentials.share_token.clone(),
            required: false,
        });
        let settings = BridgeSettings::of(&new.record.settings);
        let keep = Keep { settings, log_level: None, share: Some(Reshare { at }) };
        let Ok(params) = serde_json::to_string(&keep) else { return Ok(Heard::No) };
        let request = Request { method: METHOD_SET, params: &params, timeout: None, progress: None };
        let reply = Caller::on(self, name, wait, link).call_here(request)?;
        let said = serde_json::from_slice::<Value>(reply.as_bytes()).unwrap_or_default();
        Ok(if said.get("sharedAt").is_some() { Heard::Yes } else { Heard::No })
    }
}
