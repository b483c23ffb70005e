//! When the hub does what it does: its clock, its timer, and the bursts in which it reads and writes.

use super::*;

impl Hub {
    pub(super) fn now(&self) -> Instant {
        let elapsed = self.0.epoch.elapsed();
        let now = Instant::from_micros(
            self.0.epoch_micros.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)),
        );
        self.0.moment.set(now);
        now
    }

    pub(super) fn begin_burst(&self) {
        self.now();
        self.0.burst.begin();
    }

    pub(super) fn wall(&self, at: Instant) -> tokio::time::Instant {
        self.0.epoch + at.since(Instant::from_micros(self.0.epoch_micros))
    }

    pub(super) async fn run_timer(self) {
        loop {
            let next = self.with(|_, inner, _| {
                inner.armed = inner.next_timeout();
                inner.armed
            });
            match next {
                None => self.0.timer.notified().await,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(self.wall(at)) => self.with(|hub, inner, _| {
                        // Also during a burst it is later than its beginning.
                        let now = hub.now();
                        inner.server.handle_timeout(now);
                        inner.questions.handle_timeout(now);
                        inner.tasks.handle_timeout(now);
                        inner.asks.handle_timeout(now);
                        inner.dev_timeout(now);
                        hub.rest_in_time(inner, now);
                        inner.armed = inner.next_timeout();
                        hub.drive(inner, None);
                    }),
                    () = self.0.timer.notified() => {}
                },
            }
        }
    }

    /// Writes what gathered in an outlet, until that is empty, broken, or gone. Only its flushing task may do this: a
    /// stream wakes one waiter.
    pub(super) async fn flush(&self, outlet: impl Fn(&mut Inner) -> Option<&mut Outlet>) {
        loop {
            let mut more = false;
            flush_once(|flush| {
                let mut inner = self.0.inner.borrow_mut();
                match outlet(&mut inner) {
                    Some(outlet) => {
                        let poll = flush(outlet);
                        more = outlet.backlog() > 0 && !outlet.is_broken();
                        poll
                    }
                    None => Poll::Ready(()),
                }
            })
            .await;
            // Requests may be with the kernel now, and there may be room for more.
            self.with(|hub, inner, now| {
                inner.rest.handle_active(now);
                inner.set_writable();
                hub.drive(inner, None);
            });
            if !more {
                return;
            }
        }
    }

    /// What was read in one go is handled: writes what that gave rise to.
    pub(super) fn end_burst(&self) {
        self.0.burst.end();
        self.with(|hub, inner, _| {
            let mut any = false;
            while let Some(whose) = self.0.burst.poll_gathered() {
                any = true;
                let outlet = match whose {
                    SERVER => inner.running.as_mut().and_then(|running| running.input.as_mut()),
                    id => inner.connections.get_mut(&id).and_then(|connection| connection.mouth.stream()),
                };
                if let Some(outlet) = outlet {
                    outlet.handle_burst_over();
                }
            }
            if any {
                // Requests are with the kernel now.
                inner.set_writable();
                hub.drive(inner, None);
            } else if self.0.unarmed.get() {
                hub.arm(inner);
            }
        });
    }

    /// Sees to it that the timer fires in time.
    pub(super) fn arm(&self, inner: &mut Inner) {
        self.0.unarmed.set(false);
        let idle = inner.server.lifecycle().in_flight() == 0;
        if idle && inner.rested != inner.order {
            inner.rested = inner.order;
            inner.rest.handle_active(self.0.moment.get());
        }
        let next = inner.next_timeout();
        let sooner = match (next, inner.armed) {
            (Some(next), Some(armed)) => next < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        // The timer may fire early, which does no harm; but a quiet bridge is not to be woken for a time-out that is over.
        // Requests that come one after the other would have it moved twice each: it is looked at when the host rests.
        if sooner || (idle && next != inner.armed && !inner.rest.is_ready()) {
            inner.armed = next;
            self.0.timer.notify_one();
        }
    }
}

impl Inner {
    fn next_timeout(&self) -> Option<Instant> {
        let server = self.server.poll_timeout().map(|(at, _)| at);
        let ours = [
            self.questions.poll_timeout(),
            self.asks.poll_timeout(),
            self.tasks.poll_timeout(),
            self.gathered.poll_timeout(),
            self.dev_deadline(),
            self.rest.poll_timeout(),
        ];
        ours.into_iter().chain([server]).flatten().min()
    }
}
