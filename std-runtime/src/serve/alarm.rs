//! Timers that each request arms, and that hardly ever go off.
//!
//! To register one with the runtime and to take it out again costs more than much of what else a request needs, and may
//! have the runtime wake itself. So one that is not needed any more stays registered, and is put off by the next request:
//! that is a store. At the most it goes off once for nothing after the last one.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use send_wrapper::SendWrapper;
use tokio::time::{Instant, Sleep, sleep_until};

/// As many are kept at most.
const KEPT: usize = 64;

/// Timers for one kind of time-out, whose deadlines come later with each request.
#[derive(Debug, Default)]
pub(super) struct Alarms(RefCell<Vec<Pin<Box<Sleep>>>>);

/// One that is in use.
#[derive(Debug)]
struct Lent {
    sleep: Option<Pin<Box<Sleep>>>,
    home: Rc<Alarms>,
}

impl Alarms {
    pub(super) fn new() -> Rc<Self> {
        Rc::default()
    }

    fn lend(self: &Rc<Self>, deadline: Instant) -> Lent {
        let kept = self.0.borrow_mut().pop();
        let sleep = match kept {
            Some(mut sleep) => {
                sleep.as_mut().reset(deadline);
                sleep
            }
            None => Box::pin(sleep_until(deadline)),
        };
        Lent { sleep: Some(sleep), home: Rc::clone(self) }
    }

    /// What comes of a future within that time; `None`: nothing did.
    pub(super) async fn within<F: Future>(self: &Rc<Self>, limit: Duration, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut alarm = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // Most are ready at once, and need none.
            let alarm = alarm.get_or_insert_with(|| self.lend(Instant::now() + limit));
            Pin::new(alarm).poll(context).map(|()| None)
        })
        .await
    }
}

impl Future for Lent {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().map_or(Poll::Ready(()), |sleep| sleep.as_mut().poll(context))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = self.home.0.borrow_mut();
        if kept.len() < KEPT {
            kept.extend(self.sleep.take());
        }
    }
}

/// The timers of a connection for hyper, which arms one for the head of each request.
#[derive(Debug, Clone)]
pub(super) struct Heads(SendWrapper<Rc<Alarms>>);

impl Heads {
    pub(super) fn new() -> Self {
        Self(SendWrapper::new(Alarms::new()))
    }
}

/// One of them. Everything is on one thread.
struct Head(SendWrapper<Lent>);

impl hyper::rt::Sleep for Head {}

impl Future for Head {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut *self.0).poll(context)
    }
}

impl hyper::rt::Timer for Heads {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Head(SendWrapper::new(self.0.lend(Instant::now() + duration))))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Head(SendWrapper::new(self.0.lend(Instant::from_std(deadline)))))
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    async fn takes(alarms: &Rc<Alarms>, limit: u64, future: impl Future) -> (bool, Duration) {
        let begun = Instant::now();
        let came = alarms.within(Duration::from_millis(limit), future).await.is_some();
        (came, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_used_again_goes_off_in_time() {
        let alarms = Alarms::new();
        let millis = Duration::from_millis;
        assert_eq!(takes(&alarms, 50, ready(())).await, (true, millis(0)));
        assert!(alarms.0.borrow().is_empty(), "none was needed");
        assert_eq!(takes(&alarms, 50, tokio::time::sleep(millis(20))).await, (true, millis(20)));
        // It was to go off 30 ms from now, and is not to for 50.
        assert_eq!(takes(&alarms, 50, pending::<()>()).await, (false, millis(50)));
        // One that has gone off, and one that is to go off later than wanted.
        assert_eq!(takes(&alarms, 5000, tokio::time::sleep(millis(1))).await, (true, millis(1)));
        assert_eq!(takes(&alarms, 50, pending::<()>()).await, (false, millis(50)));
        assert!(!takes(&alarms, 0, pending::<()>()).await.0);
        assert_eq!(alarms.0.borrow().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn several_at_once_have_one_each() {
        let alarms = Alarms::new();
        let all = tokio::join!(
            takes(&alarms, 10, pending::<()>()),
            takes(&alarms, 30, pending::<()>()),
            takes(&alarms, 20, pending::<()>()),
        );
        let all = [all.0, all.1, all.2].map(|(came, took)| (came, took.as_millis()));
        assert_eq!(all, [(false, 10), (false, 30), (false, 20)]);
        assert_eq!(alarms.0.borrow().len(), 3);
    }
}
