//! A shared server on embassy's mutex and clock: tasks submit, one runner carries actions out, and time is what the mock
//! driver says. No executor: the tests poll, so nothing depends on how long anything takes.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core, reason = "tests run on a host")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use drowse_core::crash::CrashLog;
use drowse_core::lifecycle::{self, Exit, PublicState};
use drowse_core::link::{Allowance, Cause, Failure, Ran, Slot};
use drowse_core::message::Own;
use drowse_core::method::Method;
use drowse_core::server::{Action, Config, Operation, Outcome, Refusal, Server};
use drowse_core::shared::{Shared, now};
use drowse_core::time::{Duration, Instant, Reason};
use embassy_sync::blocking_mutex::raw::{CriticalSectionRawMutex, NoopRawMutex, RawMutex};
use embassy_time::MockDriver;

/// The mock driver is one for the whole process: tests take turns.
static CLOCK: Mutex<()> = Mutex::new(());

fn clock() -> (MutexGuard<'static, ()>, &'static MockDriver) {
    let turn = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = MockDriver::get();
    driver.reset();
    (turn, driver)
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls like an executor: only what was woken.
struct Task<'f> {
    future: Pin<&'f mut dyn Future<Output = Action>>,
    woken: Arc<Woken>,
    polled_at: Option<u32>,
}

impl<'f> Task<'f> {
    fn new(future: Pin<&'f mut dyn Future<Output = Action>>) -> Self {
        Self { future, woken: Arc::default(), polled_at: None }
    }

    fn turn(&mut self) -> Option<Action> {
        loop {
            let woken = self.woken.0.load(Ordering::Relaxed);
            if self.polled_at == Some(woken) {
                return None;
            }
            self.polled_at = Some(woken);
            let waker = Waker::from(Arc::clone(&self.woken));
            if let Poll::Ready(action) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(action);
            }
        }
    }
}

const CALL: Operation = Operation { method: Method::ToolsCall, allowance: None };

fn shared<M: RawMutex>() -> Shared<M, [Slot; 2]> {
    let config = Config {
        lifecycle: lifecycle::Config { idle: Some(Duration::from_secs(10)), ..Default::default() },
        allowance: Allowance { quiet: Duration::from_secs(5), total: Duration::from_secs(60) },
        ..Config::default()
    };
    Shared::new(Server::new(config, [Slot::EMPTY; 2], 0, CrashLog::new()))
}

/// The next action, which must be there without time passing.
fn at_once<M: RawMutex>(shared: &Shared<M, [Slot; 2]>) -> Action {
    let mut future = pin!(shared.next_action());
    Task::new(future.as_mut()).turn().unwrap()
}

/// From a submitted operation to a server that is ready.
fn start<M: RawMutex>(shared: &Shared<M, [Slot; 2]>) {
    assert!(matches!(at_once(shared), Action::Persist(record) if record.state == PublicState::Connecting));
    shared.with(|server| server.handle_persisted(now())).unwrap();
    assert_eq!(at_once(shared), Action::Spawn { generation: 1 });
    shared.with(|server| server.handle_spawned(now())).unwrap();
    let Action::SendOwn(Own::Discover { id, .. }) = at_once(shared) else { panic!("no probe") };
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["2026-07-28"],"capabilities":{{}}}}}}"#
    );
    let heard = shared.with(|server| server.handle_frame(now(), answer.as_bytes())).unwrap();
    assert!(matches!(heard, Outcome::Handshake(_)));
}

fn persisted<M: RawMutex>(shared: &Shared<M, [Slot; 2]>, state: PublicState) {
    let action = at_once(shared);
    assert!(matches!(action, Action::Persist(record) if record.state == state), "{action:?}");
    shared.with(|server| server.handle_persisted(now())).unwrap();
}

#[test]
fn a_task_submits_and_the_runner_is_woken() {
    let _turn = clock();
    let shared = shared::<CriticalSectionRawMutex>();
    let mut future = pin!(shared.next_action());
    let mut runner = Task::new(future.as_mut());
    assert_eq!(runner.turn(), None, "a sleeping server gives its runner nothing to do");
    assert_eq!(runner.turn(), None, "and does not wake it");
    // On another thread: this mutex is for that.
    let key = std::thread::scope(|scope| scope.spawn(|| shared.submit(now(), CALL)).join()).unwrap();
    assert!(matches!(runner.turn(), Some(Action::Persist(_))));
    assert!(shared.look(|server| server.is_live(key.unwrap())).unwrap());
}

#[test]
fn the_idle_deadline_comes_from_embassys_clock() {
    let (_turn, driver) = clock();
    let shared = shared::<NoopRawMutex>();
    let key = shared.submit(now(), CALL).unwrap();
    start(&shared);
    persisted(&shared, PublicState::Live);
    assert!(matches!(at_once(&shared), Action::Send { key: sent, .. } if sent == key));
    shared.with(|server| server.handle_sent(key)).unwrap();
    driver.advance(embassy_time::Duration::from_secs(3));
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, key.wire());
    let outcome = shared.with(|server| server.handle_frame(now(), answer.as_bytes())).unwrap();
    assert!(matches!(outcome, Outcome::Deliver { key: answered, .. } if answered == key));

    let deadline = Instant::from_millis(13_000);
    assert_eq!(shared.look(Server::poll_timeout).unwrap(), Some((deadline, Reason::Idle)));
    let mut future = pin!(shared.next_action());
    let mut runner = Task::new(future.as_mut());
    assert_eq!(runner.turn(), None);
    driver.advance(embassy_time::Duration::from_micros(9_999_999));
    assert_eq!(runner.turn(), None, "not a microsecond early");
    driver.advance(embassy_time::Duration::from_micros(1));
    let action = runner.turn();
    assert!(
        matches!(action, Some(Action::Persist(record)) if record.state == PublicState::Idle),
        "{action:?}"
    );
    shared.with(|server| server.handle_persisted(now())).unwrap();
    assert_eq!(at_once(&shared), Action::CloseInput);
    shared.with(|server| server.handle_exited(now(), Exit::Status(0))).unwrap();
    shared.with(|server| server.handle_tree_gone(now())).unwrap();
    assert_eq!(shared.look(Server::state).unwrap(), PublicState::Idle);
}

#[test]
fn a_request_times_out_while_the_runner_waits() {
    let (_turn, driver) = clock();
    let shared = shared::<NoopRawMutex>();
    let key = shared.submit(now(), CALL).unwrap();
    start(&shared);
    persisted(&shared, PublicState::Live);
    assert!(matches!(at_once(&shared), Action::Send { .. }));
    shared.with(|server| server.handle_sent(key)).unwrap();
    let mut future = pin!(shared.next_action());
    let mut runner = Task::new(future.as_mut());
    assert_eq!(runner.turn(), None);
    driver.advance(embassy_time::Duration::from_secs(5));
    assert_eq!(runner.turn(), Some(Action::SendOwn(Own::Cancelled { id: key.wire(), timed_out: true })));
    let failure = Failure { cause: Cause::TimedOut, ran: Ran::Unknown };
    assert_eq!(at_once(&shared), Action::Fail { key, failure });
}

#[test]
fn a_dropped_wait_loses_nothing() {
    let _turn = clock();
    let shared = shared::<NoopRawMutex>();
    {
        let mut future = pin!(shared.next_action());
        assert_eq!(Task::new(future.as_mut()).turn(), None);
    }
    shared.submit(now(), CALL).unwrap();
    assert!(matches!(at_once(&shared), Action::Persist(_)));
}

#[test]
fn full_and_entered_twice_are_refused() {
    let _turn = clock();
    let shared = shared::<NoopRawMutex>();
    shared.submit(now(), CALL).unwrap();
    let inside = shared.with(|_| (shared.submit(now(), CALL), shared.look(|_| ()), shared.poll_action()));
    assert_eq!(inside, Some((Err(Refusal::Full), None, None)));
    shared.submit(now(), CALL).unwrap();
    assert_eq!(shared.submit(now(), CALL), Err(Refusal::Full));
}

#[test]
fn instants_convert_both_ways() {
    let at = Instant::from_micros(1_234_567);
    let there = embassy_time::Instant::from(at);
    assert_eq!(there.as_micros(), 1_234_567);
    assert_eq!(Instant::from(there), at);
    let end = Instant::from_micros(u64::MAX);
    assert_eq!(Instant::from(embassy_time::Instant::from(end)), end);
}
