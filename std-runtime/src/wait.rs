//! Waiting with a deadline and an interrupt, without a runtime.
//!
//! Owns the one `poll` of the caller's side. Knows nothing of what is waited for.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Until when to wait, and what may cut the wait short.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait<'a> {
    /// No wait lasts longer than this; `None` leaves only the limits of the protocol.
    pub deadline: Option<Instant>,
    /// Becomes readable when the user interrupts (the self-pipe of a signal handler). Never read here, so
    /// that everything that waits sees it.
    pub interrupt: Option<BorrowedFd<'a>>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// One of the descriptors is ready, or broken.
    Ready,
    /// The deadline passed.
    Deadline,
    /// The user interrupted.
    Interrupted,
}

impl<'a> Wait<'a> {
    /// A wait of at most `limit` from now.
    #[must_use]
    pub fn at_most(limit: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(limit), interrupt: None }
    }

    /// The same wait, that cannot be interrupted.
    #[must_use]
    pub fn uninterrupted(self) -> Self {
        Self { interrupt: None, ..self }
    }

    /// The same wait, ended by `limit` if that comes earlier.
    #[must_use]
    pub fn no_later_than(self, limit: Instant) -> Self {
        Self { deadline: Some(self.deadline.map_or(limit, |deadline| deadline.min(limit))), ..self }
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Waits until there is something to read, an end included.
    ///
    /// # Errors
    /// If the kernel refuses to poll.
    pub fn readable(&self, fd: BorrowedFd<'_>) -> io::Result<Woken> {
        Wait { ..*self }.poll(&[(fd, PollFlags::IN)])
    }

    /// Waits until one of the descriptors is ready for what is asked of it.
    ///
    /// # Errors
    /// If the kernel refuses to poll.
    pub fn poll(&self, interest: &[(BorrowedFd<'a>, PollFlags)]) -> io::Result<Woken> {
        let mut fds: Vec<PollFd<'_>> =
            interest.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        if let Some(interrupt) = self.interrupt {
            fds.push(PollFd::from_borrowed_fd(interrupt, PollFlags::IN));
        }
        loop {
            let left =
                self.deadline.map(|deadline| timespec(deadline.saturating_duration_since(Instant::now())));
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return Ok(Woken::Deadline),
                Ok(_) => {
                    let interrupted =
                        self.interrupt.is_some() && fds.last().is_some_and(|fd| !fd.revents().is_empty());
                    return Ok(if interrupted { Woken::Interrupted } else { Woken::Ready });
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn ready_interrupt_and_deadline() {
        let (reader, mut writer) = pipe().unwrap();
        let (interrupt, mut raise) = pipe().unwrap();
        let past = Wait { deadline: Some(Instant::now()), interrupt: Some(interrupt.as_fd()) };
        assert_eq!(past.poll(&[(reader.as_fd(), PollFlags::IN)]).unwrap(), Woken::Deadline);
        assert!(past.is_over());
        writer.write_all(b"x").unwrap();
        let open = Wait { deadline: None, interrupt: Some(interrupt.as_fd()) };
        assert_eq!(open.poll(&[(reader.as_fd(), PollFlags::IN)]).unwrap(), Woken::Ready);
        raise.write_all(b"x").unwrap();
        assert_eq!(open.poll(&[(reader.as_fd(), PollFlags::IN)]).unwrap(), Woken::Interrupted);
        assert_eq!(open.uninterrupted().poll(&[(reader.as_fd(), PollFlags::IN)]).unwrap(), Woken::Ready);
    }

    #[test]
    fn limits_only_shorten() {
        let now = Instant::now();
        let (soon, late) = (now + Duration::from_secs(1), now + Duration::from_secs(2));
        assert_eq!(Wait::default().no_later_than(late).deadline, Some(late));
        assert_eq!(Wait { deadline: Some(soon), interrupt: None }.no_later_than(late).deadline, Some(soon));
        assert_eq!(Wait { deadline: Some(late), interrupt: None }.no_later_than(soon).deadline, Some(soon));
    }
}
