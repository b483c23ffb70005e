//! The facade's side towards who counts: which operations there were, and how they ended.

use super::{Cause, Instant, Key, Operation, Refusal, Server, Slot, Tally, relay};
use crate::envelope::Message;
use crate::link::Failure;
use crate::method::Method;
use crate::tally::Ending;

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// What was counted.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What was counted, to take it.
    pub const fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Like [`submit`](Self::submit), for what drowse asks for itself: it keeps the server awake while it lasts, but it
    /// is nobody's operation, and is not counted as one.
    ///
    /// # Errors
    /// As there.
    pub fn submit_own(&mut self, now: Instant, operation: Operation) -> Result<Key, Refusal> {
        let key = self.submit(now, operation)?;
        self.link.mark_own(key);
        Ok(key)
    }

    /// An operation was answered with what the server had said before. It wakes and counts like any other.
    pub fn answer_again(&mut self, now: Instant) {
        self.wake(now);
        self.tally.end(Ending::Served, Some(core::time::Duration::ZERO));
    }

    /// The request that was just taken back has ended.
    pub(super) fn count(&mut self, ending: Ending) {
        if let Some(released) = self.link.take_released().filter(|released| !released.own) {
            self.tally.end(ending, (!released.held).then(|| self.now.since(released.arrived)));
        }
    }

    /// Like [`count`](Self::count), of what was answered without the server: how long that took says nothing of it.
    pub(super) fn count_unasked(&mut self) {
        if self.link.take_released().is_some_and(|released| !released.own) {
            self.tally.end(Ending::Served, None);
        }
    }
}

/// How an operation ended that failed without an answer.
pub(super) const fn of_failure(failure: Failure) -> Ending {
    match failure.cause {
        Cause::TimedOut => Ending::TimedOut,
        Cause::Cancelled => Ending::Cancelled,
        _ => Ending::Ours,
    }
}

/// How an operation ended that was answered.
pub(super) fn of_answer(method: Method, message: &Message) -> Ending {
    match *message {
        Message::Error { .. } => Ending::Theirs,
        Message::Response { is_error: true, .. } if method == Method::ToolsCall => Ending::Theirs,
        _ => Ending::Served,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope;

    #[test]
    fn errors_of_the_server_are_its_error_answers_and_what_its_tools_say() {
        let of = |method, frame: &str| of_answer(method, &envelope::read(frame.as_bytes()).unwrap());
        let result = |result: &str| std::format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        for (body, ending) in [
            (r#"{"content":[],"isError":true}"#, Ending::Theirs),
            (r#"{"isError": true ,"content":[]}"#, Ending::Theirs),
            (r#"{"content":[],"isError":false}"#, Ending::Served),
            (r#"{"content":[],"isErro\u0072":true}"#, Ending::Theirs),
            (r#"{"isError":1,"isError":true}"#, Ending::Theirs),
            (r#"{"isError":true,"isError":1}"#, Ending::Served),
            (r#"{"content":[{"isError":true}]}"#, Ending::Served),
            (r#"{"content":[{"text":"\"isError\":true"}]}"#, Ending::Served),
            ("{}", Ending::Served),
        ] {
            assert_eq!(of(Method::ToolsCall, &result(body)), ending, "{body}");
            assert_eq!(of(Method::ResourcesRead, &result(body)), Ending::Served, "{body}");
        }
        let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
        assert_eq!(of(Method::Complete, refused), Ending::Theirs);
    }

    #[test]
    fn failures_are_drowses_unless_somebody_gave_up() {
        for cause in Cause::ALL {
            let ending = match cause {
                Cause::TimedOut => Ending::TimedOut,
                Cause::Cancelled => Ending::Cancelled,
                _ => Ending::Ours,
            };
            assert_eq!(of_failure(Failure { cause, ran: crate::link::Ran::No }), ending);
        }
    }
}
