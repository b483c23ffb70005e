//! What a new bridge is told of the one before it: a restart, and the recovery from a killed bridge, keep the idle
//! period. Real files and locks, a launcher that starts nothing, and then a hub with what that was given.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::PublicState;
use drowse_runtime::caller::{
    CallError, Environment, Launch, Launched, Listed, Request, Sessions, Wait, Wanted, WantedShare,
    WantedTarget,
};
use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::lock::Lock;
use drowse_runtime::process::{ProcessIdentity, new_marker};
use drowse_runtime::record::{self, EraMemory, Settings, State, StateRecord};
use drowse_runtime::wire::{BridgeConfig, Failed, Kind, StartReport};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::bridge::{Caller, Peer, Script, Stage, assert_at, with_idle};

over_both_transports! {
    restart_keeps_timeout
    recovery_after_killed_bridge_keeps_timeout
}

const IDLE_SECS: u64 = 1234;

/// Takes the document that a bridge would be started with, and says that its server did not start.
#[derive(Debug, Clone, Default)]
struct Documents(Arc<Mutex<Vec<BridgeConfig>>>);

impl Launch for Documents {
    fn launch(&self, config: &mut BridgeConfig, _lock: &Lock, _log: &Path) -> io::Result<Launched> {
        self.0.lock().unwrap().push(config.clone());
        let (report, mut to_report) = io::pipe()?;
        let failed = Failed { kind: Kind::StartFailed, message: "nothing was started".into(), stderr: None };
        writeln!(to_report, "{}", serde_json::to_string(&StartReport::Failed(failed))?)?;
        Ok(Launched { report, child: None })
    }
}

/// A session in a home of its own whose server was never started.
pub(super) struct Session {
    sessions: Sessions,
    name: SessionName,
    documents: Documents,
    _directory: TempDir,
}

impl Session {
    pub(super) fn new(settings: Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let documents = Documents::default();
        let sessions =
            Sessions::at(Home::new(directory.path().join("home"), None)).with_launcher(documents.clone());
        let name = SessionName::new("@s").unwrap();
        let wanted = Wanted {
            name: name.clone(),
            target: WantedTarget::Command { command: "/no/such".into(), args: vec![] },
            settings,
            pins: vec![],
            headers: vec![],
            cwd: PathBuf::from("/"),
            environment: Environment::current(),
            lazy: Some(true),
            share: WantedShare::default(),
        };
        sessions.connect(&wanted, Wait::default()).unwrap();
        Self { sessions, name, documents, _directory: directory }
    }

    /// As a list shows it.
    pub(super) fn listed(&self) -> Listed {
        self.sessions.get(&self.name).unwrap()
    }

    /// What was started.
    pub(super) fn documents(&self) -> Vec<BridgeConfig> {
        self.documents.0.lock().unwrap().clone()
    }

    /// What was started last.
    fn document(&self) -> BridgeConfig {
        self.documents.0.lock().unwrap().last().unwrap().clone()
    }

    /// Writes down that a bridge serves it, which no process does.
    fn leave_behind(&self, peer: Peer) {
        let gone = ProcessIdentity { started: 1, ..ProcessIdentity::of_self().unwrap() };
        let version = if peer.era() == Era::Legacy { "2025-11-25" } else { "2026-07-28" };
        let known = StateRecord {
            generation: 7,
            marker: new_marker(),
            state: State::Live,
            bridge: Some(gone),
            ended: false,
            era: Some(EraMemory { era: peer.era().name().into(), protocol_version: version.into() }),
            ..StateRecord::dormant()
        };
        record::write_state(self.sessions.home(), &self.name, &known).unwrap();
    }
}

fn kept(seconds: u64) -> Settings {
    Settings { idle_timeout_secs: Some(seconds), ..Settings::default() }
}

/// A bridge with that document's idle period lets its server go after it, counted from its own start.
async fn sleeps_by(document: &BridgeConfig, peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let idle = Duration::from_secs(document.idle_timeout_secs);
    let hub = stage.bridge(with_idle(Some(idle)));
    // A first one ends early, by order.
    stage.ready().await;
    sleep(idle / 2).await;
    let mut caller = Caller::connect(&hub).await;
    caller.ask("drowse/close", json!({})).await;
    hub.retired().await;
    // The next has a period of its own.
    let hub = stage.bridge(with_idle(Some(idle)));
    let ready = stage.ready().await;
    assert_at(stage.state(PublicState::Idle).await, ready + idle);
    hub.retired().await;
    assert_eq!(stage.records().last().unwrap().1.record.generation, 2);
}

async fn restart_keeps_timeout(peer: Peer) {
    let session = Session::new(kept(IDLE_SECS));
    session.leave_behind(peer);
    let restarted = session.sessions.restart(&session.name, &Environment::current(), Wait::default());
    assert!(matches!(restarted, Err(CallError::StartFailed { .. })), "{restarted:?}");
    let document = session.document();
    assert_eq!((document.idle_timeout_secs, document.generation), (IDLE_SECS, 7));
    assert_eq!(document.era.as_ref().map(|memory| memory.era.as_str()), Some(peer.era().name()));
    sleeps_by(&document, peer).await;
    // An explicit 0 stays one.
    let session = Session::new(kept(0));
    let _ = session.sessions.restart(&session.name, &Environment::current(), Wait::default());
    assert_eq!(session.document().idle_timeout_secs, 0);
    let record = record::read_session(session.sessions.home(), &session.name).unwrap().unwrap();
    assert_eq!(record.settings.idle_timeout_secs, Some(0));
}

async fn recovery_after_killed_bridge_keeps_timeout(peer: Peer) {
    let session = Session::new(kept(IDLE_SECS));
    session.leave_behind(peer);
    assert_eq!(session.sessions.get(&session.name).unwrap().state, State::Crashed);
    let mut caller = session.sessions.caller(&session.name, Wait::default());
    let called = caller.call(Request { method: "tools/list", params: "", timeout: None, progress: None });
    assert!(matches!(called, Err(CallError::StartFailed { .. })), "{called:?}");
    let document = session.document();
    assert_eq!((document.idle_timeout_secs, document.generation), (IDLE_SECS, 7));
    assert_eq!(document.era.as_ref().map(|memory| memory.era.as_str()), Some(peer.era().name()));
    sleeps_by(&document, peer).await;
}
