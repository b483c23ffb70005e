//! `resources-subscribe`: the updates of a resource as they come, until Ctrl-C.

use std::time::{Duration, Instant};

use drowse_runtime::caller::{CallError, News, Subscription};
use drowse_runtime::home::SessionName;
use drowse_runtime::record;
use drowse_runtime::wire::Kind;
use serde_json::json;

use super::operations::{self, Operations};
use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::output::{Output, Style, paint};
use crate::render::content::Rendered;
use crate::render::server::with_member;
use crate::result::{self, ReadResult, Verdict};
use crate::text::{Sanitized, duration, one_line};

/// How often in a row it is tried to subscribe anew, with pauses of 1, 2, 4, … seconds between.
const ATTEMPTS: u32 = 7;
/// The longest pause, also where a server that keeps crashing is not to be started for longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// `resources-subscribe`. Ctrl-C is how it is meant to end, so that is a success.
pub(super) fn subscribe(context: &Context, session: &SessionName, uri: &str) -> Result<Status, Failure> {
    let output = &context.output;
    operations::with(context, session, |operations| {
        let mut subscription = operations.subscribe(uri)?;
        output.notice(format_args!("subscribed to {uri} of {session}; Ctrl-C ends it"));
        loop {
            let again = match subscription.news() {
                Ok(News::Updated) => false,
                Ok(News::Lost) => {
                    let text = format_args!("the bridge of {session} ended: subscribing again");
                    output.remark("subscription-lost", text);
                    match renew(operations, &mut subscription, output) {
                        Ok(()) => {}
                        Err(CallError::NoSession { .. }) => {
                            output.notice(format_args!("{session} was closed"));
                            return Ok(());
                        }
                        Err(CallError::Interrupted { .. }) => break,
                        Err(error) => return Err(error.into()),
                    }
                    let text = "subscribed again; the resource may have changed meanwhile";
                    output.remark("subscription-renewed", text);
                    true
                }
                Err(CallError::Interrupted { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            match show(operations, uri, again, output) {
                Err(failure) if failure.exit == Exit::Interrupted => break,
                outcome => outcome?,
            }
        }
        drop(subscription);
        output.notice(format_args!("unsubscribed from {uri}"));
        Ok(())
    })?;
    Ok(Status::Done)
}

/// Subscribes anew, for as long as it may help to try again.
fn renew(
    operations: &Operations<'_>,
    subscription: &mut Subscription<'_>,
    output: &Output,
) -> Result<(), CallError> {
    let mut pause = Duration::from_secs(1);
    for attempt in 1.. {
        let error = match subscription.renew() {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let may_pass = matches!(
            error.kind(),
            Kind::BackingOff
                | Kind::BridgeLost
                | Kind::Http
                | Kind::Network
                | Kind::ServerLost
                | Kind::ShuttingDown
                | Kind::StartFailed
                | Kind::Timeout
        );
        if !may_pass || attempt == ATTEMPTS {
            return Err(error);
        }
        let wait = match &error {
            CallError::BackingOff { wait_ms, .. } => pause.max(Duration::from_millis(*wait_ms)),
            _ => pause,
        }
        .min(LONGEST_PAUSE);
        output.notice(format_args!("{error}; once more in {}", duration(wait)));
        operations.sleep_until(Instant::now() + wait)?;
        pause *= 2;
    }
    Ok(())
}

/// Reads the resource and prints it. That it cannot be read now is not the end: it may be there again.
fn show(operations: &mut Operations<'_>, uri: &str, again: bool, output: &Output) -> Result<(), Failure> {
    let at = record::now_ms();
    let answer = match read(operations, uri) {
        Ok(answer) => answer,
        Err(failure) if failure.exit == Exit::Server => {
            output.failure(&failure);
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    if output.json {
        let mut about = json!({"uri": uri, "at": at});
        if again {
            about["resubscribed"] = true.into();
        }
        // White space between values is all that a line break can be in JSON.
        let line = with_member(&answer, "_drowse", &about.to_string()).replace(['\n', '\r'], " ");
        return output.document(&line);
    }
    let head = format!("{}  {}", time_of_day(at), one_line(uri, 200));
    let text = Rendered::resource(result::read::<ReadResult>(answer.as_bytes())?).text;
    output.layout(&format!("{}\n{}", paint(Style::Bold, &head), Sanitized(&text)))
}

fn read(operations: &mut Operations<'_>, uri: &str) -> Result<String, Failure> {
    let answer = operations.call("resources/read", &json!({"uri": uri}).to_string())?;
    result::check_complete(&result::read::<Verdict<'_>>(answer.as_bytes())?)?;
    Ok(answer)
}

/// The time of day in UTC.
fn time_of_day(ms: u64) -> String {
    let seconds = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day() {
        assert_eq!(time_of_day(0), "00:00:00Z");
        assert_eq!(time_of_day(1_790_000_000_999), "14:13:20Z");
    }
}
