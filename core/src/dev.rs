//! The dev proxy's decisions: what is built and restarted, in which order, and what becomes of whoever waits for it.
//!
//! One ordered queue. A job is a build, a restart, or a build and then a restart; one at a time, so that a failure is that
//! job's own and the next begins as if nothing had been. While a build runs the old server serves. Never sees a message,
//! a process or a file: the adapter does what [`Dev::poll_action`] says and tells how the server stands
//! ([`Dev::handle_server`]), which is [`crate::server::Server`]'s to know.

use heapless::Deque;

use crate::time::{Duration, Instant};

mod exchange;
pub mod names;

pub use self::exchange::{Action, Built, Job, Refused, Standing, Verdict, View, Wish};

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests;

/// How many jobs wait at most.
pub const QUEUE: usize = 16;
/// However long files keep changing, a build begins that long after the first change.
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(2);
/// How often in a row files may change only because of what was done about the change before: a build may find its own
/// output among them. Once that was so, only once.
const ECHOES: u8 = 3;
/// How long a restart may take in all. The limits of the server's own stop and start are well within.
const LONGEST_RESTART: Duration = Duration::from_secs(90);

/// How the proxy works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// There is a command that builds the server.
    pub builds: bool,
    /// What is under way has that long to be answered before the server is ended.
    pub drain: Duration,
    /// How long a build may take.
    pub build_limit: Duration,
    /// Files that have not changed for that long have settled.
    pub debounce: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            builds: false,
            drain: Duration::from_secs(5),
            build_limit: Duration::from_secs(600),
            debounce: Duration::from_millis(200),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Queued {
    job: Job,
    wish: Wish,
    /// Files changed: nobody waits for it, and a server that rests is not started for it.
    watched: bool,
}

/// Files that changed and have not settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Changes {
    first: Instant,
    last: Instant,
    /// All of them came while a job was done or right after it, which may be why.
    echo: bool,
}

/// How far the job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The build is to be begun, or runs; `over`: its time is up, or nobody wants it, and its end is awaited.
    Build { told: bool, by: Instant, over: Option<Verdict>, stopped: bool },
    /// A start that is under way is waited for, so that it is not cut short.
    Start { by: Instant },
    /// What the server was asked is waited for; nothing more is sent to it.
    Drain { by: Instant },
    /// The server is being replaced; the one that ran was of this generation.
    Replace { told: bool, from: u64, by: Instant },
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Dev {
    config: Config,
    queue: Deque<Queued, QUEUE>,
    current: Option<(Queued, Step)>,
    done: Deque<(Job, Verdict), QUEUE>,
    last: u64,
    changed: Option<Changes>,
    /// Files have settled, and whether they differ has not been said; whether they are an echo.
    settled: Option<bool>,
    asked: bool,
    /// When the last job was over.
    rests_since: Option<Instant>,
    /// How many jobs in a row there were because of echoes, and how many there may be.
    echoes: u8,
    echo_limit: u8,
    /// There were more: echoes are left alone.
    stalled: bool,
    told_stalled: bool,
    /// What the adapter has still to be told: that requests are to be held back, or are to be sent again.
    holds: bool,
    told_holds: bool,
    forgive: bool,
    closed: bool,
    view: View,
}

impl Dev {
    /// A proxy whose server has not run.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            queue: Deque::new(),
            current: None,
            done: Deque::new(),
            last: 0,
            changed: None,
            settled: None,
            asked: false,
            rests_since: None,
            echoes: 0,
            echo_limit: ECHOES,
            stalled: false,
            told_stalled: true,
            holds: false,
            told_holds: false,
            forgive: false,
            closed: false,
            view: View { standing: Standing::Down, generation: 0, busy: false },
        }
    }

    /// Somebody wants the server restarted. The job comes back in [`Action::Done`], exactly once.
    ///
    /// # Errors
    /// If it cannot be done at all; nothing changed.
    pub fn submit(&mut self, now: Instant, wish: Wish) -> Result<Job, Refused> {
        if self.closed {
            return Err(Refused::ShuttingDown);
        }
        if wish.rebuild && !self.config.builds {
            return Err(Refused::NoBuild);
        }
        // Each that is under way has a place among those that are done.
        if self.queue.len() + self.done.len() + 1 >= QUEUE {
            return Err(Refused::Full);
        }
        self.last += 1;
        let job = Job(self.last);
        let _ = self.queue.push_back(Queued { job, wish, watched: false });
        self.go_on(now);
        Ok(job)
    }

    /// Whoever waited for a job does not any more. One that has not begun is not done at all; one that has goes on.
    ///
    /// `job` is its number. Returns whether it is not done at all.
    pub fn cancel(&mut self, job: u64) -> bool {
        let before = self.queue.len();
        self.drop_where(|queued| queued.job.number() == job);
        self.queue.len() < before
    }

    /// A file that is watched changed.
    pub fn handle_changed(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        let rested = |since: Instant| now >= since.after(self.config.debounce);
        let echo = self.current.is_some() || !self.rests_since.is_none_or(rested);
        self.changed = Some(match self.changed {
            Some(changes) => Changes { last: now, echo: changes.echo && echo, ..changes },
            None => Changes { first: now, last: now, echo },
        });
    }

    /// Whether the files that changed differ from what they were when that was asked last ([`Action::Compare`]).
    pub fn handle_compared(&mut self, now: Instant, differ: bool) {
        let Some(echo) = self.settled.take() else { return };
        self.asked = false;
        if !differ {
            return;
        }
        if echo && self.echoes >= self.echo_limit {
            if !self.stalled {
                self.stalled = true;
                self.told_stalled = self.echo_limit < ECHOES;
                self.echo_limit = 1;
            }
            return;
        }
        self.stalled = false;
        self.echoes = if echo { self.echoes + 1 } else { 0 };
        if !self.queue.iter().any(|queued| queued.watched) {
            self.last += 1;
            let wish = Wish { rebuild: self.config.builds, env: false };
            // Where nothing more fits, something is going to be restarted anyway.
            let _ = self.queue.push_back(Queued { job: Job(self.last), wish, watched: true });
        }
        self.go_on(now);
    }

    /// The build ended, however; after [`Action::AbortBuild`] too.
    pub fn handle_built(&mut self, now: Instant, built: Built) {
        let Some((queued, Step::Build { told: true, over, .. })) = self.current else { return };
        // What it has done to files is looked at when the last of it is there.
        self.changed = self.changed.map(|changes| Changes { first: now, last: now, ..changes });
        let forced = queued.wish.env || self.view.standing != Standing::Up;
        match (over, built) {
            (Some(verdict), _) => self.finish(now, verdict),
            (None, Built::Failed) => self.finish(now, Verdict::BuildFailed),
            (None, Built::Unchanged) if !forced => self.finish(now, Verdict::Unchanged),
            (None, Built::Unchanged | Built::Changed) => self.replace(now, queued),
        }
        self.go_on(now);
    }

    /// How the server stands. To be told after whatever may have changed it.
    pub fn handle_server(&mut self, now: Instant, view: View) {
        self.view = view;
        match self.current {
            Some((queued, Step::Start { .. })) if view.standing != Standing::Starting => {
                self.replace(now, queued);
            }
            Some((queued, Step::Drain { .. })) if !view.busy || view.standing != Standing::Up => {
                self.current = Some((queued, self.replacing(now)));
            }
            Some((_, Step::Replace { told: true, from, .. })) if view.generation != from => {
                match view.standing {
                    Standing::Up => self.finish(now, Verdict::Restarted),
                    Standing::Down | Standing::Crashed => self.finish(now, Verdict::StartFailed),
                    Standing::Starting | Standing::Stopping => {}
                }
            }
            _ => {}
        }
        self.go_on(now);
    }

    /// Everything ends: what waits is not done, a build is broken off, and nothing is started any more.
    pub fn close(&mut self) {
        self.closed = true;
        self.changed = None;
        self.settled = None;
        self.forgive = false;
        while let Some(queued) = self.queue.pop_front() {
            self.tell(queued, Verdict::ShuttingDown);
        }
        match &mut self.current {
            Some((_, Step::Build { told: true, over, .. })) => *over = Some(Verdict::ShuttingDown),
            Some(_) => self.end(Verdict::ShuttingDown),
            None => {}
        }
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.settles_at().is_some_and(|at| now >= at)
            && let Some(changes) = self.changed.take()
        {
            self.settled = Some(changes.echo && self.settled.unwrap_or(true));
        }
        match &mut self.current {
            Some((_, Step::Build { by, over: over @ None, told: true, .. })) if now >= *by => {
                *over = Some(Verdict::BuildTimedOut);
            }
            Some((queued, Step::Start { by } | Step::Drain { by })) if now >= *by => {
                let queued = *queued;
                self.current = Some((queued, self.replacing(now)));
            }
            Some((_, Step::Replace { by, .. })) if now >= *by => self.finish(now, Verdict::StartFailed),
            _ => {}
        }
        self.go_on(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout). It may change with every input and action.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let step = match self.current {
            Some((_, Step::Build { by, over: None, told: true, .. })) => Some(by),
            Some((_, Step::Start { by } | Step::Drain { by } | Step::Replace { by, .. })) => Some(by),
            _ => None,
        };
        match (step, self.settles_at()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The next thing to do. Call until `None` after every input.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        if self.holds != self.told_holds {
            self.told_holds = self.holds;
            return Some(Action::Hold(self.holds));
        }
        if core::mem::take(&mut self.forgive) {
            return Some(Action::Forgive);
        }
        if self.settled.is_some() && !self.asked {
            self.asked = true;
            return Some(Action::Compare);
        }
        if !core::mem::replace(&mut self.told_stalled, true) {
            return Some(Action::Stalled);
        }
        match &mut self.current {
            Some((queued, Step::Build { told: told @ false, .. })) => {
                *told = true;
                return Some(Action::Build { job: queued.job });
            }
            Some((_, Step::Build { over: Some(_), stopped: stopped @ false, .. })) => {
                *stopped = true;
                return Some(Action::AbortBuild);
            }
            Some((queued, Step::Replace { told: told @ false, .. })) => {
                *told = true;
                return Some(Action::Restart { job: queued.job });
            }
            _ => {}
        }
        let (job, verdict) = self.done.pop_front()?;
        Some(Action::Done { job, verdict })
    }

    /// Whether there is something to be done or to be told, so that it has to know how the server stands.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.current.is_some()
            || !self.queue.is_empty()
            || !self.done.is_empty()
            || self.forgive
            || (self.settled.is_some() && !self.asked)
            || !self.told_stalled
            || self.holds != self.told_holds
    }

    /// Whether a build runs.
    #[must_use]
    pub const fn is_building(&self) -> bool {
        matches!(self.current, Some((_, Step::Build { .. })))
    }

    /// Whether files changed with every build, so that such changes are left alone until there are others.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether the server is being replaced, or about to be.
    #[must_use]
    pub const fn is_restarting(&self) -> bool {
        matches!(self.current, Some((_, Step::Start { .. } | Step::Drain { .. } | Step::Replace { .. })))
    }

    /// How many jobs have not begun.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn settles_at(&self) -> Option<Instant> {
        // What a build writes is looked at after it.
        let Changes { first, last, .. } = self.changed.filter(|_| !self.is_building())?;
        Some(last.after(self.config.debounce).min(first.after(LONGEST_DEBOUNCE)))
    }

    fn go_on(&mut self, now: Instant) {
        while self.current.is_none()
            && !self.closed
            && let Some(queued) = self.queue.pop_front()
        {
            if queued.wish.rebuild {
                let by = now.after(self.config.build_limit);
                self.current = Some((queued, Step::Build { told: false, by, over: None, stopped: false }));
            } else {
                self.replace(now, queued);
            }
        }
    }

    /// The restart of a job begins, as soon as the server can be taken away.
    fn replace(&mut self, now: Instant, queued: Queued) {
        let by = now.after(self.config.drain);
        let step = match self.view.standing {
            Standing::Down if queued.watched => {
                // Whoever asks next finds it changed, so that there is no reason to wait.
                self.forgive = true;
                self.current = None;
                self.rests_since = Some(now);
                return;
            }
            Standing::Starting => Step::Start { by },
            Standing::Up if self.view.busy => {
                self.holds = true;
                Step::Drain { by }
            }
            // Files that changed are their author's word that what crashed may run now.
            Standing::Up | Standing::Stopping | Standing::Down | Standing::Crashed => self.replacing(now),
        };
        self.current = Some((queued, step));
    }

    fn replacing(&self, now: Instant) -> Step {
        Step::Replace { told: false, from: self.view.generation, by: now.after(LONGEST_RESTART) }
    }

    fn finish(&mut self, now: Instant, verdict: Verdict) {
        self.rests_since = Some(now);
        self.end(verdict);
    }

    fn end(&mut self, verdict: Verdict) {
        self.holds = false;
        if let Some((queued, _)) = self.current.take() {
            self.tell(queued, verdict);
        }
    }

    fn tell(&mut self, queued: Queued, verdict: Verdict) {
        // There is room: see `submit`. What nobody waits for is told as well, for the log.
        let _ = self.done.push_back((queued.job, verdict));
    }

    fn drop_where(&mut self, gone: impl Fn(&Queued) -> bool) {
        for _ in 0..self.queue.len() {
            if let Some(queued) = self.queue.pop_front()
                && !gone(&queued)
            {
                let _ = self.queue.push_back(queued);
            }
        }
    }
}
