//! The hub of the dev proxy: its own tools beside the server's, restarts, and answers while there is no server.
//!
//! What is built and restarted, and in which order, is the core's ([`drowse_core::dev`]); how, is the [`Workshop`]'s.

use std::collections::{HashMap, HashSet};

use drowse_core::dev::{self as core, Action as Step, Built, Job, Verdict, names};
use drowse_core::envelope::Message;
use drowse_core::json as text;
use drowse_core::link::Failure;
use drowse_core::snapshot::{Listing, Page};
use serde_json::Value;

use super::*;

mod answers;
mod keeper;
mod lists;

/// What a server is shown to have to modern clients that has not said so yet: all that can be carried, since a restart may
/// bring it.
const UNSEEN: &str = concat!(
    r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"#,
    r#""resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},"#,
    r#""extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"drowse","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// How a server in the making is kept.
#[derive(Debug, Clone, Copy)]
pub struct DevConfig {
    /// Builds and restarts.
    pub machine: core::Config,
    /// How long a request waits for a server that is not ready.
    pub discovery_wait: Duration,
    /// What a tool's annotations say may run twice, is run twice rather than not answered.
    pub replay_safe: bool,
}

/// Where the server is built.
pub trait Workshop {
    /// Begins a build; how it ended is told by [`Hub::built`], always and once.
    fn build(&mut self, hub: &Hub);
    /// Ends the build with its whole tree.
    fn abort_build(&mut self);
    /// What is set in the environment of servers from the next start on.
    fn set_env(&mut self, env: Vec<(String, String)>);
    /// The last lines of the log, oldest first, and how many there are.
    fn logs(&self, lines: usize) -> Vec<String>;
    /// The same text without secrets.
    fn redacted(&self, text: &str) -> String;
    /// Whether the files that changed since that was asked last differ from what they were then.
    fn has_changed(&mut self) -> bool;
    /// One of those that did, for people.
    fn changed_file(&self) -> Option<String>;
    /// Says what is known of builds, files and the environment: members of the status.
    fn describe(&self, status: &mut serde_json::Map<String, Value>);
    /// The last words of the last build, and how it ended.
    fn last_build(&self) -> Option<String>;
}

/// What the hub keeps for a server that is being written.
pub(super) struct Dev {
    machine: core::Dev,
    workshop: Box<dyn Workshop>,
    replay_safe: bool,
    /// Who waits for a restart, by the number of its job.
    waiters: HashMap<u64, Waiter>,
    /// What the environment is set to by a restart that has not begun.
    envs: HashMap<u64, Vec<(String, String)>>,
    /// Names of tools that may run twice.
    repeatable: HashSet<Vec<u8>>,
    /// How many tools the server has.
    tools: Option<usize>,
    /// Since when it answers.
    up_since: Option<Instant>,
    /// Some start has begun.
    started: bool,
    /// Why it ended last, when that was not wanted.
    ended: Option<String>,
}

impl Dev {
    /// Learns which of the tools in a list may be called twice. Gives their number.
    fn learn(&mut self, line: &[u8], tools: Span) -> usize {
        let mut count = 0;
        for tool in text::elements(line, tools) {
            count += 1;
            let Some(name) = text::member(line, tool, "name") else { continue };
            let name: Vec<u8> = text::text(name.of(line)).collect();
            if names::may_be_repeated(line, tool) {
                self.repeatable.insert(name);
            } else {
                self.repeatable.remove(&name);
            }
        }
        count
    }

    /// That a build's own output is watched.
    fn stalled(&self) -> String {
        let which = self.workshop.changed_file().map_or_else(String::new, |file| format!(" ({file})"));
        format!(
            "files that are watched change with every build{which}: nothing is done about that until others change; a \
             narrower --watch leaves them out"
        )
    }
}

struct Waiter {
    connection: u64,
    id: Vec<u8>,
    since: Instant,
}

impl Hub {
    /// A hub whose server is being written.
    #[must_use]
    pub fn in_the_making(
        config: HubConfig,
        dev: DevConfig,
        host: Box<dyn Host>,
        workshop: Box<dyn Workshop>,
    ) -> Self {
        let hub = Self::new(config, host);
        hub.with(|_, inner, _| {
            inner.server = inner.server.clone().in_the_making(dev.discovery_wait);
            inner.dev = Some(Box::new(Dev {
                machine: core::Dev::new(dev.machine),
                workshop,
                replay_safe: dev.replay_safe,
                waiters: HashMap::new(),
                envs: HashMap::new(),
                repeatable: HashSet::new(),
                tools: None,
                up_since: None,
                started: false,
                ended: None,
            }));
        });
        hub
    }

    /// Kills the server, if it is being ended and takes its time.
    pub fn kill(&self) {
        self.with(|_, inner, _| {
            if let Some(running) = &inner.running {
                running.control.kill();
            }
            if let Some(keeper) = inner.remote.as_ref().and_then(|remote| remote.keeper.as_ref()) {
                keeper.kill();
            }
        });
    }

    /// A build ended.
    pub fn built(&self, built: Built) {
        self.with(|hub, inner, now| {
            inner.look(now);
            if let Some(dev) = &mut inner.dev {
                dev.machine.handle_built(now, built);
            }
            hub.drive(inner, None);
        });
    }

    /// A file that is watched changed.
    pub fn files_changed(&self) {
        self.with(|hub, inner, now| {
            if let Some(dev) = &mut inner.dev {
                dev.machine.handle_changed(now);
            }
            hub.drive(inner, None);
        });
    }

    /// Does what the machine says. `true`: there was something.
    pub(super) fn drive_dev(&self, inner: &mut Inner, now: Instant) -> bool {
        if inner.dev.as_ref().is_none_or(|dev| !dev.machine.is_active()) {
            return false;
        }
        inner.look(now);
        let mut any = false;
        while let Some(step) = inner.dev.as_mut().and_then(|dev| dev.machine.poll_action()) {
            any = true;
            self.dev_step(inner, now, step);
        }
        any
    }

    fn dev_step(&self, inner: &mut Inner, now: Instant, step: Step) {
        let Some(dev) = &mut inner.dev else { return };
        match step {
            Step::Hold(holds) => inner.server.set_holds(holds),
            Step::Build { .. } => dev.workshop.build(self),
            Step::AbortBuild => dev.workshop.abort_build(),
            Step::Forgive => inner.server.forgive(),
            Step::Compare => {
                let differ = dev.workshop.has_changed();
                dev.machine.handle_compared(now, differ);
            }
            Step::Stalled => {
                let what = dev.stalled();
                inner.host.note(&what);
            }
            Step::Restart { job } => {
                if let Some(env) = dev.envs.remove(&job.number()) {
                    dev.workshop.set_env(env);
                }
                if let Some(client) = dev.waiters.get(&job.number()).map(|waiter| waiter.connection) {
                    inner.ask_for(client);
                }
                inner.server.restart(now);
            }
            Step::Done { job, verdict } => {
                dev.envs.remove(&job.number());
                if verdict != Verdict::ShuttingDown {
                    let what = format!("restart {}: {}", job.number(), verdict.name());
                    inner.host.note(&what);
                }
                inner.answer_restart(now, job, verdict);
            }
        }
    }
}

impl Inner {
    /// Tells the machine how the server stands.
    fn look(&mut self, now: Instant) {
        let view = self.server.view();
        if let Some(dev) = &mut self.dev {
            dev.machine.handle_server(now, view);
        }
    }

    pub(super) fn dev_timeout(&mut self, now: Instant) {
        if self.dev_deadline().is_some_and(|at| now >= at) {
            self.look(now);
            if let Some(dev) = &mut self.dev {
                dev.machine.handle_timeout(now);
            }
        }
    }

    pub(super) fn dev_deadline(&self) -> Option<Instant> {
        self.dev.as_ref().and_then(|dev| dev.machine.poll_timeout())
    }

    /// Everything ends.
    pub(super) fn close_dev(&mut self) {
        if let Some(dev) = &mut self.dev {
            dev.machine.close();
        }
    }

    /// The server's state changed.
    pub(super) fn note_dev(&mut self, now: Instant, state: PublicState) {
        let Some(dev) = &mut self.dev else { return };
        match state {
            PublicState::Live => {
                dev.up_since = dev.up_since.or(Some(now));
                dev.ended = None;
            }
            PublicState::Connecting | PublicState::Reconnecting => {
                dev.up_since = None;
                dev.started = true;
            }
            PublicState::Crashed => {
                dev.up_since = None;
                if self.failure.is_some() {
                    dev.ended.clone_from(&self.failure);
                }
            }
            _ => dev.up_since = None,
        }
    }

    /// A client takes back a request, or all of them: its wait for a restart is over. What has begun goes on.
    pub(super) fn dev_gone(&mut self, connection: u64, id: Option<&[u8]>) {
        let Some(dev) = &mut self.dev else { return };
        let Dev { machine, waiters, envs, .. } = &mut **dev;
        let gone: Vec<(u64, Waiter)> = waiters
            .extract_if(|_, waiter| waiter.connection == connection && id.is_none_or(|id| id == waiter.id))
            .collect();
        for (job, _) in &gone {
            if machine.cancel(*job) {
                envs.remove(job);
            }
        }
        for (_, waiter) in gone.iter().filter(|_| id.is_some()) {
            self.leave_or_refuse(waiter);
        }
    }

    /// The answer to a request that its client has taken back.
    fn leave_or_refuse(&mut self, waiter: &Waiter) {
        let Some(connection) = self.connections.get_mut(&waiter.connection) else { return };
        if !connection.front.answers_cancelled() {
            return connection.leave_unanswered(&waiter.id);
        }
        let failure = Failure { cause: Cause::Cancelled, ran: drowse_core::link::Ran::Unknown };
        let explained = self.explain(|around| explain::failure(failure, around));
        self.reply_error(waiter.connection, Some(&waiter.id), explain::CODE, &explained);
    }

    /// Whether a call may be put twice; the machine is told.
    pub(super) fn may_be_repeated(
        &mut self,
        key: Key,
        method: Method,
        frame: &[u8],
        parts: &RequestParts,
    ) -> bool {
        let Some(dev) = self.dev.as_ref().filter(|dev| dev.replay_safe && method == Method::ToolsCall) else {
            return false;
        };
        let name = parts.value(envelope::Known::Name);
        let may = name.is_some_and(|name| {
            let name: Vec<u8> = text::text(name.of(frame)).collect();
            dev.repeatable.contains(&name)
        });
        if may {
            self.server.mark_repeatable(key);
        }
        may
    }

    /// A page of the server's tools came.
    pub(super) fn learn_tools(&mut self, line: &[u8], page: &Page) {
        let Some(dev) = self.dev.as_mut().filter(|_| page.listing == Listing::Tools) else { return };
        if page.first {
            dev.repeatable.clear();
            dev.tools = Some(0);
        }
        let Some(items) = page.items else { return };
        let count = dev.learn(line, items);
        dev.tools = Some(dev.tools.unwrap_or(0) + count);
    }

    /// A client was told of tools, whatever page of them: what they say holds before the proxy has asked itself.
    pub(super) fn learn_from_answer(&mut self, line: &[u8], result: Span) {
        let Some(dev) = self.dev.as_mut().filter(|dev| dev.replay_safe) else { return };
        if let Some(tools) = text::member(line, result, "tools") {
            dev.learn(line, tools);
        }
    }

    /// What clients are shown of what a server said of itself: the lists of a server in the making change with it.
    pub(super) fn shown(&self, handshake: &[u8]) -> Vec<u8> {
        let changed = self.dev.as_ref().and_then(|_| {
            let mut described: Value = serde_json::from_slice(handshake).ok()?;
            let all = described.as_object_mut()?.entry("capabilities").or_insert_with(|| json!({}));
            let all = all.as_object_mut()?;
            all.entry("tools").or_insert_with(|| json!({}));
            for (name, capability) in all.iter_mut() {
                if let (Some(capability), "tools" | "resources" | "prompts") =
                    (capability.as_object_mut(), name.as_str())
                {
                    capability.insert("listChanged".to_owned(), true.into());
                }
            }
            serde_json::to_vec(&described).ok()
        });
        changed.unwrap_or_else(|| handshake.to_vec())
    }

    /// The same text without what may not be shown.
    pub(super) fn without_secrets(&self, text: &str) -> String {
        self.dev.as_ref().map_or_else(|| text.to_owned(), |dev| dev.workshop.redacted(text))
    }

    /// What a modern client is shown of a server that never ran.
    pub(super) fn unseen(&self) -> Option<Vec<u8>> {
        self.dev.as_ref().map(|_| UNSEEN.as_bytes().to_vec())
    }
}
