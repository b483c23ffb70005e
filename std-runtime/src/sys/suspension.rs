//! When a suspended machine goes on, and how long it was away.
//!
//! The clock of all timers here (`CLOCK_MONOTONIC`) stands still meanwhile, `CLOCK_BOOTTIME` does not: the difference
//! is how long the machine was suspended so far. No timer is needed to notice its end. A suspension moves the time of
//! day against the monotonic clock, and the kernel tells who asked for it of every such step
//! (`timerfd_create(2)`, `TFD_TIMER_CANCEL_ON_SET`); of a clock that is set as well, which is then found to be none.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The two clocks are not read at the same instant.
const NOTABLE: Duration = Duration::from_secs(1);
/// Seconds since 1970 at which the timer itself expires: in the year 2255.
const NEVER: i64 = 9_000_000_000;

/// Tells when a suspension has ended.
#[derive(Debug)]
pub(crate) struct Suspension {
    /// None where the kernel does not offer it: then a suspension is not noticed, and deadlines are late by it.
    steps: Option<AsyncFd<OwnedFd>>,
    total: Total,
}

impl Suspension {
    /// From now on. To be called within a runtime.
    pub(crate) fn watch() -> Self {
        Self { steps: steps().ok(), total: Total::from(suspended()) }
    }

    /// Waits for the end of a suspension, and says how long it was. May be broken off.
    pub(crate) async fn ended(&mut self) -> Duration {
        let Some(steps) = &self.steps else { return std::future::pending().await };
        loop {
            // A descriptor that cannot be waited for says nothing any more.
            let Ok(mut ready) = steps.readable().await else { return std::future::pending().await };
            let mut expirations = [0; 8];
            match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut expirations)?)) {
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => {}
                Ok(Err(_)) => return std::future::pending().await,
                // It was none.
                Ok(Ok(_)) | Err(_) => continue,
            }
            if let Some(length) = self.total.moved(suspended()) {
                return length;
            }
        }
    }
}

/// How long the machine was suspended, when it was looked at last.
#[derive(Debug, Clone, Copy)]
struct Total(Duration);

impl Total {
    const fn from(total: Duration) -> Self {
        Self(total)
    }

    /// What was added to it, if that is more than the clocks' own inaccuracy.
    fn moved(&mut self, total: Duration) -> Option<Duration> {
        let length = total.checked_sub(self.0).filter(|length| *length >= NOTABLE)?;
        self.0 = total;
        Some(length)
    }
}

/// How long the machine was suspended since it was started.
fn suspended() -> Duration {
    let since_boot = |clock| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
        Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
    };
    // In this order: what lies between the two readings counts for nothing.
    let (with, without) = (since_boot(ClockId::Boottime), since_boot(ClockId::Monotonic));
    with.saturating_sub(without)
}

/// Becomes readable when the time of day steps.
fn steps() -> std::io::Result<AsyncFd<OwnedFd>> {
    let fd = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let never = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 },
    };
    timerfd_settime(&fd, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never)?;
    // SAFETY: an OwnedFd stays open and names the same descriptor until it is dropped, which the AsyncFd does last.
    unsafe { Ok(AsyncFd::register_with_interest(fd, Interest::READABLE)?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_added_is_told_once() {
        let secs = Duration::from_secs;
        let mut total = Total::from(secs(100));
        assert_eq!(total.moved(secs(100)), None);
        assert_eq!(total.moved(secs(100) + Duration::from_millis(999)), None);
        assert_eq!(total.moved(secs(3700)), Some(secs(3600)));
        assert_eq!(total.moved(secs(3700)), None);
        assert_eq!(total.moved(secs(50)), None, "it never shrinks; if it did, nothing was suspended");
    }

    /// A machine cannot be suspended by a test, nor its clock set; but that the kernel takes the request can be seen.
    #[test]
    fn a_machine_that_runs_is_not_suspended() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut suspension = Suspension::watch();
            assert!(suspension.steps.is_some());
            let before = suspended();
            let ended = tokio::time::timeout(Duration::from_millis(50), suspension.ended()).await;
            assert!(ended.is_err() || suspended() > before, "{ended:?}");
        });
    }
}
