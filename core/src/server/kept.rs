//! Changing how a server is kept, while it runs or sleeps.

use super::{Config, Server};
use crate::lifecycle;
use crate::link::{Allowance, Slot};
use crate::logging::Level;
use crate::relay;
use crate::time::{Duration, Instant};

/// The part of a [`Config`] that can be changed at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// See [`lifecycle::Config::idle`].
    pub idle: Option<Duration>,
    /// See [`lifecycle::Config::input_grace`].
    pub input_grace: Duration,
    /// See [`lifecycle::Config::terminate_grace`].
    pub terminate_grace: Duration,
    /// See [`lifecycle::Config::auto_restart`].
    pub auto_restart: bool,
    /// See [`lifecycle::Config::fail_on_expiry`].
    pub fail_on_expiry: bool,
    /// The limit for starting and negotiating.
    pub connect: Duration,
    /// See [`Config::allowance`].
    pub allowance: Allowance,
    /// See [`Config::keepalive`].
    pub keepalive: Option<Duration>,
    /// See [`Config::session_keepalive`].
    pub session_keepalive: Option<Duration>,
}

impl Config {
    /// Its part that can be changed.
    #[must_use]
    pub const fn kept(&self) -> Kept {
        Kept {
            idle: self.lifecycle.idle,
            input_grace: self.lifecycle.input_grace,
            terminate_grace: self.lifecycle.terminate_grace,
            auto_restart: self.lifecycle.auto_restart,
            fail_on_expiry: self.lifecycle.fail_on_expiry,
            connect: self.limits.connect,
            allowance: self.allowance,
            keepalive: self.keepalive,
            session_keepalive: self.session_keepalive,
        }
    }

    /// The same with another such part.
    #[must_use]
    pub const fn with(mut self, kept: Kept) -> Self {
        self.lifecycle = lifecycle::Config {
            idle: kept.idle,
            input_grace: kept.input_grace,
            terminate_grace: kept.terminate_grace,
            auto_restart: kept.auto_restart,
            fail_on_expiry: kept.fail_on_expiry,
            resident: self.lifecycle.resident,
            in_the_making: self.lifecycle.in_the_making,
            listens: self.lifecycle.listens,
        };
        self.limits.connect = kept.connect;
        self.allowance = kept.allowance;
        self.keepalive = kept.keepalive;
        self.session_keepalive = kept.session_keepalive;
        self
    }
}

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// Changes how the server is kept. It is no use of it and starts nothing. The idle period counts from the end of the
    /// last operation, so a shorter one may be over already; what requests may take holds for those that come from now
    /// on, and so do the limit of a start and the graces of a stop for the steps that are still to come.
    pub fn keep(&mut self, now: Instant, kept: Kept) {
        self.now = now;
        let before = self.config.kept();
        self.config = self.config.with(kept);
        self.lifecycle.set_config(self.config.lifecycle);
        self.relay.set_patience(kept.allowance.quiet);
        if (before.keepalive, before.session_keepalive) != (kept.keepalive, kept.session_keepalive) {
            let period = if self.http.session { kept.session_keepalive } else { kept.keepalive };
            self.keepalive.set_period(now, period);
        }
    }

    /// Nobody wants the server so far, but clients find it: see [`lifecycle::Config::listens`]. Whatever becomes of its
    /// first start, the adapter stays.
    pub const fn stand_by(&mut self) {
        self.lifecycle.stand_by();
    }

    /// Changes whether the adapter holds an address at which clients find the server. It is no use of it, starts nothing,
    /// and ends nothing that runs; an adapter that was there for nothing else is retired.
    pub fn set_listens(&mut self, now: Instant, listens: bool) {
        self.now = now;
        self.config.lifecycle.listens = listens;
        self.lifecycle.set_listens(listens);
    }

    /// The same as [`set_level`](Self::set_level), and a legacy server that runs is told, if it is a level.
    pub fn change_level(&mut self, level: Option<Level>) {
        self.set_level(level);
        self.untold_level |= self.lifecycle.is_ready()
            && self.revision.is_some_and(|revision| revision.era() == crate::era::Era::Legacy);
    }
}
