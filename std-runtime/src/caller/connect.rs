//! `connect` and `restart`: making, changing and starting sessions.
//!
//! Owns what exists after a failure: a session that is new is gone again, one that was there stays.

use std::time::{Duration, Instant};

use super::end::Ending;
use super::error::CallError;
use super::link::{Greeting, Link};
use super::pin::{Difference, Environment, Pinned, change, difference, pin, pin_again, same_target};
use super::settings::Heard;
use super::start::Started;
use super::wake::{MAX_STARTS, Met, NotMet, Present, Shared, known_if_readable};
use super::{Caller, Connected, Outcome, Reply, Request, Sessions, Wanted};
use crate::credential;
use crate::home::SessionName;
use crate::life::{self, Line};
use crate::lock::Lock;
use crate::record::{self, SessionRecord, State, StateRecord, now_ms};
use crate::wait::Wait;
use crate::wire::{Failed, Kind, METHOD_INFO};

/// How long a bridge that said that it is ready may take to answer a hello.
const GREETING: Duration = Duration::from_secs(10);

impl Sessions {
    /// Makes a session, or changes and wakes the one of that name.
    ///
    /// # Errors
    /// If the name has another target, the configuration cannot be used, or the server does not start; a
    /// session that is new is then not there.
    pub fn connect(&self, wanted: &Wanted, wait: Wait<'_>) -> Result<Connected, CallError> {
        let name = &wanted.name;
        // What can be wrong without looking at any session is said before one is touched.
        let pinned = match record::read_session(&self.home, name) {
            Ok(None) => Some(pin(wanted, self.defaults()?.settings())?),
            _ => None,
        };
        self.home.prepare()?;
        let settings = match &pinned {
            Some(pinned) => pinned.record.settings.clone(),
            None => self.record(name).map(|record| record.settings).unwrap_or_default(),
        };
        let lock = self.lock(name, &settings, wait)?;
        match record::read_session(&self.home, name)? {
            Some(record) => self.connect_existing(wanted, record, lock, wait),
            None => {
                let pinned = match pinned {
                    Some(pinned) => pinned,
                    None => pin(wanted, self.defaults()?.settings())?,
                };
                self.connect_new(wanted, pinned, lock, wait)
            }
        }
    }

    /// Ends a session's server and starts it anew, with its configuration entry read again. Values that were
    /// pinned stay; `environment` is for variables that are new in the entry.
    ///
    /// # Errors
    /// If there is no such session, its entry cannot be used, or the server does not start.
    pub fn restart(
        &self,
        name: &SessionName,
        environment: &Environment,
        wait: Wait<'_>,
    ) -> Result<Connected, CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        let settings = self.record(name)?.settings;
        self.home.prepare()?;
        let lock = self.lock(name, &settings, wait)?;
        let record = self.record(name)?;
        let credentials = credential::read(&self.home, name)?.unwrap_or_default();
        // Before anything is ended: a broken entry leaves the server that runs alone.
        let again = pin_again(&record, &credentials, environment, self.defaults()?.settings())?;
        let runs = |record: &SessionRecord| (record.command.clone(), record.args.clone(), record.url.clone());
        let same_server = runs(&again.record) == runs(&record);
        if (&again.record, &again.credentials) != (&record, &credentials) {
            credential::write(&self.home, name, &again.credentials)?;
            record::write_session(&self.home, name, &again.record)?;
        }
        self.end(name, &record, Ending::Kept, wait)?;
        life::note(&self.home, name, "restart", None);
        self.forgive(name, same_server)?;
        let info = self.start_and_ask(name, &lock, &again.record, wait).map_err(settle)?;
        Ok(Connected {
            name: name.clone(),
            record: again.record,
            outcome: Outcome::Restarted,
            info: Some(info),
        })
    }

    /// Remembers how much of the server's log is wanted, for bridges that are started from now on; `None`: no more than
    /// the server gives by itself.
    ///
    /// # Errors
    /// If there is no such session, or it cannot be written down.
    pub fn remember_log_level(
        &self,
        name: &SessionName,
        level: Option<&str>,
        wait: Wait<'_>,
    ) -> Result<(), CallError> {
        let settings = self.record(name)?.settings;
        let _lock = self.lock(name, &settings, wait)?;
        let mut record = self.record(name)?;
        let level = level.map(str::to_owned);
        if record.settings.log_level != level {
            record.settings.log_level.clone_from(&level);
            record.given.log_level.clone_from(&level);
            record::write_session(&self.home, name, &record)?;
            // Another may have set it between: what is written last is what holds.
            self.tell_settings(name, &record.settings, Some(level))?;
        }
        Ok(())
    }

    fn connect_new(
        &self,
        wanted: &Wanted,
        pinned: Pinned,
        lock: Lock,
        wait: Wait<'_>,
    ) -> Result<Connected, CallError> {
        let name = &wanted.name;
        let Pinned { record, credentials } = pinned;
        // What an interrupted `close` left under this name.
        self.end(name, &record, Ending::Removed, wait)?;
        let written = credential::write(&self.home, name, &credentials)
            .and_then(|()| record::write_session(&self.home, name, &record));
        if let Err(error) = written {
            let _ = self.remove(name);
            return Err(error.into());
        }
        // Its life begins; if that cannot be written it begins a little later.
        let born = Line { state: Some(State::Dormant), ..Line::did("connect", None) };
        let _ = life::append(&self.home, name, &born);
        if wanted.is_lazy(&record) {
            // Clients come by the address, not by a first command.
            let pinned = Pinned { record, credentials };
            if pinned.record.share.is_some()
                && let Err(NotMet { error, bridge }) = self.offer(name, &lock, &pinned, wait)
            {
                self.undo(name, &pinned.record, bridge);
                return Err(error);
            }
            let record = pinned.record;
            return Ok(Connected { name: name.clone(), record, outcome: Outcome::Registered, info: None });
        }
        // L is held until the server has answered: until then others see a session that is starting.
        match self.start_and_ask(name, &lock, &record, wait) {
            Ok(info) => {
                Ok(Connected { name: name.clone(), record, outcome: Outcome::Created, info: Some(info) })
            }
            Err(NotMet { error, bridge }) => {
                self.undo(name, &record, bridge);
                Err(error)
            }
        }
    }

    fn connect_existing(
        &self,
        wanted: &Wanted,
        record: SessionRecord,
        lock: Lock,
        wait: Wait<'_>,
    ) -> Result<Connected, CallError> {
        let name = &wanted.name;
        if !same_target(&record, &wanted.target)? {
            return Err(CallError::NameTaken { name: name.clone(), existing: record.describe() });
        }
        let credentials = credential::read(&self.home, name)?.unwrap_or_default();
        let new = change(&record, &credentials, wanted)?;
        let difference = difference((&record, &credentials), &new);
        let differs = difference != Difference::None;
        if differs || new.record.given != record.given {
            credential::write(&self.home, name, &new.credentials)?;
            record::write_session(&self.home, name, &new.record)?;
            life::note(&self.home, name, "connect", Some("settings or values changed"));
        }
        let heard = match difference {
            Difference::Live => self.tell_settings(name, &new.record.settings, None)?,
            _ => Heard::Asleep,
        };
        let told = heard == Heard::Yes;
        let done =
            |outcome, info| Connected { name: name.clone(), record: new.record.clone(), outcome, info };
        let refused = known_if_readable(self, name)?.is_some_and(|known| known.state == State::Unauthorized);
        if wanted.is_lazy(&new.record) {
            // Otherwise the next call would still be told of the old ones.
            if refused && differs && Lock::try_acquire(&self.home.bridge_lock(name))?.is_some() {
                self.forgive(name, true)?;
            }
            if wanted.share.is_given() {
                self.offer(name, &lock, &new, wait).map_err(settle)?;
            }
            return Ok(done(if told { Outcome::Changed } else { Outcome::Updated }, None));
        }
        // Whoever connects wants it tried again, with other credentials or without.
        if refused {
            self.end(name, &record, Ending::Kept, wait)?;
            self.forgive(name, true)?;
            let info = self.start_and_ask(name, &lock, &new.record, wait).map_err(settle)?;
            return Ok(done(Outcome::Woken, Some(info)));
        }
        // What a bridge is told only when it starts needs a new bridge; so does an address that it could not have.
        let is_lacking = wanted.share.is_given()
            && new.record.share.is_some()
            && known_if_readable(self, name)?.is_some_and(|known| known.not_shared.is_some());
        if (difference == Difference::Start || heard == Heard::No || is_lacking)
            && matches!(self.greet(name, wait, GREETING)?, Greeting::Welcome(_))
        {
            self.end(name, &record, Ending::Kept, wait)?;
            self.forgive(name, true)?;
            let info = self.start_and_ask(name, &lock, &new.record, wait).map_err(settle)?;
            return Ok(done(Outcome::Restarted, Some(info)));
        }
        let shared = if wanted.share.is_given() { Shared::Surely } else { Shared::IfPossible };
        match self.meet(name, lock, &new.record, Present::Use, shared, wait).map_err(settle)? {
            Met::Running(link) => {
                // From here on like any other caller: the bridge may fall asleep at this very moment.
                let info = Caller::on(self, name, wait, link).call(info_request())?;
                Ok(done(if told { Outcome::Changed } else { Outcome::AlreadyAwake }, Some(info)))
            }
            Met::Started(bridge) => {
                bridge.release();
                let info = Caller::new(self, name, wait).call(info_request())?;
                Ok(done(Outcome::Woken, Some(info)))
            }
            // Another may do better.
            Met::Gone(_) => {
                let info = Caller::new(self, name, wait).call(info_request())?;
                Ok(done(Outcome::Woken, Some(info)))
            }
        }
    }

    /// Starts the session's server as if for the first time and asks it who it is, with L held all the while.
    fn start_and_ask(
        &self,
        name: &SessionName,
        lock: &Lock,
        record: &SessionRecord,
        wait: Wait<'_>,
    ) -> Result<Reply, NotMet> {
        let mut starts = 0;
        let bridge = loop {
            starts += 1;
            match self.meet(name, lock.share(), record, Present::Avoid, Shared::Surely, wait)? {
                Met::Started(bridge) => break Some(Box::new(bridge)),
                // Cannot be: it was to be avoided.
                Met::Running(_) => break None,
                Met::Gone(error) if starts == MAX_STARTS => return Err(error.into()),
                Met::Gone(_) => {}
            }
        };
        let asked = self.greet_started(name, wait).and_then(|link| {
            // On this link only: whoever waits for L must not find us waiting for it.
            Caller::on(self, name, wait, link).call_here(info_request())
        });
        match asked {
            Ok(info) => {
                if let Some(bridge) = bridge {
                    bridge.release();
                }
                Ok(info)
            }
            Err(error) => Err(NotMet { error: self.lost_at_once(name, record, error), bridge }),
        }
    }

    /// Why nothing came of a bridge that was ready: mostly that its server ended right then.
    fn lost_at_once(&self, name: &SessionName, record: &SessionRecord, error: CallError) -> CallError {
        let lost = match &error {
            CallError::BridgeLost { .. } | CallError::BridgeFailed { .. } => true,
            error => error.kind() == Kind::ServerLost,
        };
        let known = known_if_readable(self, name).ok().flatten();
        let Some(known) = known.filter(|known| lost && !known.state.is_awake()) else { return error };
        let message = if record.url.is_some() {
            "the server was lost as soon as it had answered the handshake: see the session's log, or try again"
        } else {
            "the server ended as soon as it had answered the handshake: run its command by hand to see why; it must \
             stay in the foreground"
        };
        let report = Failed { kind: Kind::StartFailed, message: message.to_owned(), stderr: known.stderr };
        CallError::StartFailed { name: name.clone(), report }
    }

    fn greet_started(&self, name: &SessionName, wait: Wait<'_>) -> Result<Link, CallError> {
        match self.greet(name, wait, GREETING)? {
            Greeting::Welcome(link) => Ok(link),
            Greeting::Refused(refused) => {
                Err(CallError::OtherVersion { name: name.clone(), reason: refused.reason })
            }
            Greeting::Silent(_) | Greeting::Absent => Err(CallError::BridgeFailed {
                name: name.clone(),
                what: "it was ready and gone at once".to_owned(),
                log: self.home.log_file(name),
            }),
        }
    }

    /// Removes a session whose first start failed. The bridge that was started for it is our own child, so it
    /// may be ended for good, and is, even where the caller's own time is over.
    fn undo(&self, name: &SessionName, record: &SessionRecord, bridge: Option<Box<Started>>) {
        let limit = record.settings.stop_limit() + Duration::from_secs(1);
        let wait = Wait::at_most(limit.saturating_mul(2));
        let ended = self.end(name, record, Ending::Kept, wait);
        if let Some(mut bridge) = bridge {
            // One that has not come as far as lock B is not seen by `end`, and would go on without a session.
            if ended.is_err() || bridge.runs() {
                bridge.kill();
                let known = known_if_readable(self, name).ok().flatten();
                let _ = self.bridge_ends(name, Instant::now() + limit, Wait::default());
                let _ = self.sweep(name, known.as_ref(), Wait::default());
                let _ = self.unlink_socket(name);
            }
            bridge.release();
        }
        let _ = self.remove(name);
    }

    /// Forgets crashes and back-off, refused credentials and lost sessions, and the era too where the server is
    /// another one. B must be free.
    fn forgive(&self, name: &SessionName, keep_era: bool) -> Result<(), CallError> {
        let mut known = self.known_or_rebuilt(name)?.unwrap_or_else(StateRecord::dormant);
        known.crashes.clear();
        known.retry_at = None;
        known.lost = false;
        // What a killed bridge left says that the server runs.
        if matches!(known.state, State::Unauthorized | State::Expired) || known.state.is_awake() {
            (known.state, known.since, known.message) = (State::Idle, now_ms(), None);
        }
        known.era = known.era.filter(|_| keep_era);
        Ok(record::write_state(&self.home, name, &known)?)
    }
}

impl Wanted {
    fn is_lazy(&self, record: &SessionRecord) -> bool {
        self.lazy.unwrap_or(record.auto_connect == Some(false))
    }
}

fn info_request() -> Request<'static> {
    Request { method: METHOD_INFO, params: "", timeout: None, progress: None }
}

fn settle(not_met: NotMet) -> CallError {
    if let Some(bridge) = not_met.bridge {
        bridge.release();
    }
    not_met.error
}
