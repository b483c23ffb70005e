//! Changing the settings of a session: the record, and telling the bridge that runs.
//!
//! The record decides, and is written first, under L: a bridge that starts begins with what stands there. Whoever writes
//! it tells the bridge before L is free again, so that what both have in the end is what was set last.

use std::borrow::Cow;
use std::time::Duration;

use super::error::CallError;
use super::link::Greeting;
use super::pin::usable;
use super::{Caller, Request, Sessions};
use crate::config::ConfigError;
use crate::credential;
use crate::defaults::UserDefaults;
use crate::home::SessionName;
use crate::identity;
use crate::life;
use crate::record::{self, SessionRecord, Setting, Settings};
use crate::wait::Wait;
use crate::wire::{BridgeSettings, Keep, METHOD_SET};

/// How long a bridge may take to say that it goes by other settings. It has nothing to wait for.
const TELLING: Duration = Duration::from_secs(5);

/// One setting that is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// To the value that these settings have; they have no other.
    To(Setting, Box<Settings>),
    /// To what holds where nobody gives it.
    Unset(Setting),
}

impl Change {
    fn setting(&self) -> Setting {
        let (Self::To(setting, _) | Self::Unset(setting)) = self;
        *setting
    }
}

/// Whether a bridge goes by what was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// None runs: the next one does.
    Asleep,
    /// It does.
    Yes,
    /// It does not answer, or is of a drowse that could not do that: the next one does.
    No,
}

/// What became of a change.
#[derive(Debug)]
pub struct Changed {
    /// What is wanted of the session now.
    pub record: SessionRecord,
    /// The user's defaults.
    pub defaults: UserDefaults,
    /// The settings whose value is another one now.
    pub changed: Vec<Setting>,
    /// Whether the bridge goes by those that it can change.
    pub heard: Heard,
}

/// What was changed, for the session's life.
fn names(changes: &[Change]) -> String {
    let names: Vec<&str> = changes.iter().map(|change| change.setting().name()).collect();
    names.join(", ")
}

impl Sessions {
    /// The user's defaults.
    ///
    /// # Errors
    /// If their file is damaged.
    pub fn defaults(&self) -> Result<UserDefaults, CallError> {
        Ok(UserDefaults::read(&self.home)?)
    }

    /// What is wanted of a session, and the user's defaults. Starts nothing and counts as no use.
    ///
    /// # Errors
    /// If there is no such session, or a file is damaged.
    pub fn settings(&self, name: &SessionName) -> Result<(SessionRecord, UserDefaults), CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        Ok((self.record(name)?, self.defaults()?))
    }

    /// Changes settings of a session. A server that runs goes by them at once as far as that can be; nothing is started,
    /// and it is no use of it.
    ///
    /// # Errors
    /// If there is no such session, a value cannot be used, or the record cannot be written. Nothing is changed then.
    pub fn set(&self, name: &SessionName, changes: &[Change], wait: Wait<'_>) -> Result<Changed, CallError> {
        let (record, defaults) = self.settings(name)?;
        for change in changes {
            let setting = change.setting();
            if let Change::To(_, to) = change {
                if setting.is_for_urls() && record.url.is_none() {
                    return Err(ConfigError::OnlyForUrls { flag: setting.name() }.into());
                }
                if let Some(file) = &to.cacert {
                    usable(file, || setting.name().to_owned())?;
                }
            }
        }
        self.home.prepare()?;
        let _lock = self.lock(name, &record.settings, wait)?;
        let old = self.record(name)?;
        let mut record = SessionRecord { entry: old.is_template().then(|| old.of_entry()), ..old.clone() };
        for change in changes {
            let setting = change.setting();
            match change {
                Change::To(_, to) => setting.copy(to, &mut record.given),
                Change::Unset(_) => setting.copy(&Settings::default(), &mut record.given),
            }
        }
        // What is not named stays as it is in force, whatever the user's defaults are by now.
        let wanted = record.wanted(defaults.settings());
        for change in changes {
            change.setting().copy(&wanted, &mut record.settings);
        }
        let changed: Vec<Setting> = Setting::differing(&old.settings, &record.settings).collect();
        if changed.contains(&Setting::McpVersion) {
            let credentials = credential::read(&self.home, name)?.unwrap_or_default();
            record.identity = identity::of(&record, &credentials);
        }
        if record != old {
            record::write_session(&self.home, name, &record)?;
            life::note(&self.home, name, "set", Some(&names(changes)));
        }
        let level = changed.contains(&Setting::LogLevel).then(|| record.settings.log_level.clone());
        // Told even where nothing differs: whoever set it before may have been killed before it told.
        let heard = self.tell_settings(name, &record.settings, level)?;
        Ok(Changed { record, defaults, changed, heard })
    }

    /// Tells the bridge that runs, if one does, with L held. `level`: the log level, if it is another one.
    pub(super) fn tell_settings(
        &self,
        name: &SessionName,
        settings: &Settings,
        level: Option<Option<String>>,
    ) -> Result<Heard, CallError> {
        // What is written has to be said, too: neither Ctrl-C nor an impatient caller comes between.
        let wait = Wait::at_most(TELLING);
        let link = match self.greet(name, wait, TELLING)? {
            Greeting::Welcome(link) => link,
            Greeting::Absent => return Ok(Heard::Asleep),
            Greeting::Refused(_) | Greeting::Silent(_) => return Ok(Heard::No),
        };
        let log_level = level.map(|level| level.unwrap_or_else(|| "none".to_owned()));
        let keep = Keep { settings: BridgeSettings::of(settings), log_level, share: None };
        let Ok(params) = serde_json::to_string(&keep) else { return Ok(Heard::No) };
        let request = Request { method: METHOD_SET, params: &params, timeout: None, progress: None };
        match Caller::on(self, name, wait, link).call_here(request) {
            Ok(_) => Ok(Heard::Yes),
            // It ends by itself; the next one finds the record.
            Err(CallError::BridgeLost { .. }) => Ok(Heard::Asleep),
            // Too slow, or of a drowse that has no such method.
            Err(CallError::Deadline { .. } | CallError::Answer(_) | CallError::Failed { .. }) => {
                Ok(Heard::No)
            }
            Err(error) => Err(error),
        }
    }

    /// The record with the settings that a bridge which is started now has: the user's defaults may be others than at
    /// the last start. L is held.
    pub(super) fn with_defaults<'r>(
        &self,
        name: &SessionName,
        record: &'r SessionRecord,
    ) -> Result<Cow<'r, SessionRecord>, CallError> {
        let settings = record.wanted(self.defaults()?.settings());
        if settings == record.settings {
            return Ok(Cow::Borrowed(record));
        }
        let record = SessionRecord { settings, ..record.clone() };
        record::write_session(&self.home, name, &record)?;
        Ok(Cow::Owned(record))
    }
}
