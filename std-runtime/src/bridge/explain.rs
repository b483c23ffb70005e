//! The words for what went wrong: causes of the core as messages that say what to do, with drowse's error data.

use drowse_core::held::Lost;
use drowse_core::lifecycle::Unavailable;
use drowse_core::link::{Cause, Failure, Ran};
use drowse_core::server::StartError;
use http::StatusCode;
use http::header::{self, HeaderMap};
use serde_json::{Value, json};
use url::Url;

use crate::wire::Kind;

/// The JSON-RPC code of all errors that drowse itself reports; `data.drowse.kind` tells them apart. It lies outside
/// the range that JSON-RPC and MCP reserve (basic/index, Error Codes).
pub(crate) const CODE: i32 = -31000;

/// Of an answer that cannot be passed on.
const INVALID: &str = "the server's answer is not a valid message";

/// An error for a caller.
pub(super) struct Explained {
    pub(super) message: String,
    /// The `data` member, as JSON.
    pub(super) data: String,
}

/// What is known around a failure.
#[derive(Default)]
pub(super) struct Circumstances<'c> {
    pub(super) start: Option<&'c str>,
    pub(super) stderr: Option<&'c str>,
    pub(super) retry_at_ms: Option<u64>,
    pub(super) limit: usize,
    /// What the network said of this request.
    pub(super) detail: Option<&'c str>,
    /// What is wrong with an answer that is no message; nothing of the answer itself.
    pub(super) fault: Option<&'c str>,
    /// The server is being written: its users have the tools of the dev proxy.
    pub(super) dev: bool,
}

/// Explains the failure of a request.
pub(super) fn failure(failure: Failure, around: &Circumstances<'_>) -> Explained {
    let mut more = Vec::new();
    let message = match failure.cause {
        cause if around.dev && let Some(text) = of_dev(cause, failure.ran) => text.to_owned(),
        Cause::TimedOut => match failure.ran {
            Ran::No => {
                "the server took no request within the time-out; nothing ran (is it stuck? `restart` helps)"
            }
            Ran::Unknown => {
                "the server did not answer within the time-out; the request was cancelled and the session lives \
                 (give it more time with --timeout)"
            }
        }
        .to_owned(),
        Cause::Cancelled => "the request was cancelled".to_owned(),
        Cause::ServerLost => {
            "the server ended during the request; the next call starts a fresh one".to_owned()
        }
        Cause::StartFailed if around.dev => format!(
            "{}; the next request may try again after a moment, and dev_restart tries at once",
            around.start.unwrap_or("the server could not be started")
        ),
        Cause::BackingOff if around.dev => dev_backing_off(around.start),
        Cause::Restarted => match failure.ran {
            Ran::No => "the server was restarted before it had the request".to_owned(),
            Ran::Unknown => {
                "the server was restarted before it answered: look whether the call took effect before you repeat it"
                    .to_owned()
            }
        },
        Cause::NotReady => {
            "the server is not ready yet, and the request did not wait any longer: try again in a moment \
             (dev_status and dev_logs say how it stands)"
                .to_owned()
        }
        Cause::StartFailed => around.start.unwrap_or("the server could not be started").to_owned(),
        Cause::BackingOff => backing_off(around.start),
        Cause::ShuttingDown => "the session is being closed".to_owned(),
        Cause::Unauthorized => unauthorized(around.detail),
        Cause::Expired => "the server ended the session; `restart` begins a new one".to_owned(),
        Cause::TooLarge => {
            more.push(("limit", json!(around.limit)));
            let lives = if around.dev { "the server" } else { "the session" };
            format!("the answer is longer than the limit of {} MiB; ask for less, {lives} lives", around.limit >> 20)
        }
        Cause::InvalidAnswer => match around.fault.or(around.detail) {
            Some(detail) => {
                more.extend(around.fault.map(|fault| ("fault", json!(fault))));
                detailed(INVALID, Some(detail))
            }
            None => {
                let log = if around.dev { "dev_logs" } else { "the session's log" };
                format!("{INVALID}; see {log}")
            }
        },
        Cause::NotPersisted => {
            "the session's state could not be written, so its server was not started: make room on the disk, or \
             make the directory writable"
                .to_owned()
        }
        Cause::Unkillable => "processes of the last server were killed and are still there, so no other was started: \
                              look for them with `ps`, they may wait for a device or belong to another user"
            .to_owned(),
        Cause::Unreachable => detailed("the server cannot be reached", around.detail),
        Cause::ConnectionLost => {
            detailed("the connection to the server broke before its answer came", around.detail)
        }
        Cause::Refused => detailed("the server refused the request", around.detail),
        _ => "the request failed".to_owned(),
    };
    if matches!(failure.cause, Cause::StartFailed | Cause::ServerLost | Cause::BackingOff | Cause::NotReady)
        && let Some(stderr) = around.stderr
    {
        more.push(("stderr", json!(stderr)));
    }
    if let (Cause::BackingOff, Some(at)) = (failure.cause, around.retry_at_ms) {
        more.push(("retryAt", json!(at)));
    }
    let kind = match failure.cause {
        // The core does not know what it was not written to.
        Cause::NotPersisted => Kind::Storage.as_str(),
        cause => cause.kind(),
    };
    with_data(message, kind, failure.ran.name(), more)
}

/// Explains why an operation was not accepted.
pub(super) fn unavailable(why: Unavailable, around: &Circumstances<'_>) -> Explained {
    let cause = match why {
        Unavailable::BackingOff(_) => Cause::BackingOff,
        Unavailable::ShuttingDown => Cause::ShuttingDown,
        Unavailable::Unauthorized => Cause::Unauthorized,
        Unavailable::Expired => Cause::Expired,
        Unavailable::Unkillable => Cause::Unkillable,
    };
    failure(Failure { cause, ran: Ran::No }, around)
}

/// The same for a client that is not to learn how the server is run: a command line, an address or the server's last words
/// may hold what only the session's owner knows.
pub(super) fn for_outsiders(explained: &Explained) -> Explained {
    let data: Value = serde_json::from_str(&explained.data).unwrap_or_default();
    let Some(said) = data.get("drowse").and_then(Value::as_object) else {
        return Explained { message: explained.message.clone(), data: explained.data.clone() };
    };
    let kind = said.get("kind").and_then(Value::as_str).unwrap_or_default();
    let message = match kind {
        "start-failed" => "the server could not be started: its owner finds out why (`drowse logs`)",
        "storage" | "not-persisted" => "the server could not be started: its owner has to make room",
        "backing-off" => "the server keeps crashing: try again later, or tell its owner",
        "unauthorized" => "the server refused the credentials of the session: tell its owner",
        "network" | "http" => "the server cannot be reached: try again later, or tell its owner",
        "invalid-answer" if !said.contains_key("fault") => INVALID,
        _ => &explained.message,
    };
    let told = ["kind", "ran", "retryAt", "limit", "fault"];
    let more = said.iter().filter(|(name, _)| told.contains(&name.as_str()));
    let data = Value::Object(more.map(|(name, value)| (name.clone(), value.clone())).collect());
    Explained { message: message.to_owned(), data: json!({ "drowse": data }).to_string() }
}

/// Explains why the answers to questions lead to no call.
pub(super) fn lost(lost: Lost) -> Explained {
    with_data(lost.to_string(), lost.kind(), Ran::Unknown.name(), Vec::new())
}

/// An error of drowse's own that never reached the server.
pub(super) fn refused(message: String, kind: &str) -> Explained {
    with_data(message, kind, Ran::No.name(), Vec::new())
}

/// Why a start failed, for people.
pub(super) fn start_error(error: StartError, spawn: Option<&str>, connect_secs: u64) -> String {
    use drowse_core::negotiate::NegotiationError as N;
    match error {
        StartError::NotPersisted => {
            "the session's state could not be written, so its server was not started: \
                                     make room on the disk, or make the directory writable"
                .to_owned()
        }
        StartError::NotSpawned => spawn.unwrap_or("the server could not be started").to_owned(),
        StartError::Negotiation(N::TimedOut) => format!(
            "the server did not answer the handshake within {connect_secs} s: is it an MCP server on stdio?"
        ),
        StartError::Negotiation(N::Ended) => {
            "the server ended before it answered the handshake: run its command by hand to see why; it must stay in \
             the foreground"
                .to_owned()
        }
        StartError::Negotiation(error) if error == N::NoCommonVersion => {
            format!("{error}: see whether its entry pins one (`mcpVersion`)")
        }
        StartError::Negotiation(error) => format!("{error}: is it an MCP server on stdio?"),
    }
}

/// Why a server behind a URL could not be reached, for people. `said`: what the network said.
pub(super) fn connect_error(error: StartError, said: Option<&str>, connect_secs: u64) -> String {
    use drowse_core::negotiate::NegotiationError as N;
    match error {
        StartError::NotPersisted => start_error(error, said, connect_secs),
        StartError::NotSpawned => said.unwrap_or("the server could not be reached").to_owned(),
        StartError::Negotiation(N::TimedOut) => {
            format!("the server did not answer the handshake within {connect_secs} s: is its URL right?")
        }
        StartError::Negotiation(N::Unreachable) => detailed("the server cannot be reached", said),
        StartError::Negotiation(N::Broken) => {
            detailed("the connection broke before the server answered the handshake", said)
        }
        StartError::Negotiation(error) if error == N::NoCommonVersion => {
            format!("{error}: see whether its entry pins one (`mcpVersion`)")
        }
        // It is one, and says itself what it wants: to be asked elsewhere, or later.
        StartError::Negotiation(error @ N::Http(300..=399 | 429 | 500..)) => match said {
            Some(said) if said.starts_with("HTTP status") => {
                format!("the server answered the handshake with {said}")
            }
            said => detailed(&error.to_string(), said),
        },
        StartError::Negotiation(error) => {
            detailed(&format!("{error}; is this the URL of its MCP endpoint, often `…/mcp`?"), said)
        }
    }
}

/// That the server refused the credentials, for people.
pub(super) fn unauthorized(said: Option<&str>) -> String {
    let said = said.map_or_else(String::new, |said| format!(" ({said})"));
    format!(
        "the server refused the credentials{said}: give others with `connect … -H \"Authorization: Bearer …\"`"
    )
}

fn detailed(what: &str, detail: Option<&str>) -> String {
    detail.map_or_else(|| what.to_owned(), |detail| format!("{what}: {detail}"))
}

fn backing_off(start: Option<&str>) -> String {
    let why = start.map_or(String::new(), |text| format!(" (last: {text})"));
    format!("the server keeps crashing{why}; wait a moment, or `restart` the session to try at once")
}

/// What is said in another way where there is no session, and no `restart` but the tool.
const fn of_dev(cause: Cause, ran: Ran) -> Option<&'static str> {
    Some(match (cause, ran) {
        (Cause::TimedOut, Ran::No) => {
            "the server took no request within the time-out; nothing ran (is it stuck? dev_restart helps)"
        }
        (Cause::TimedOut, Ran::Unknown) => {
            "the server did not answer within the time-out; the request was cancelled (give it more time with --timeout)"
        }
        (Cause::ShuttingDown, _) => "the dev proxy is shutting down",
        (Cause::Expired, _) => "the server ended its session; dev_restart begins a new one",
        (Cause::Unauthorized, _) => "the server wants credentials, of which the dev proxy has none",
        _ => return None,
    })
}

fn dev_backing_off(start: Option<&str>) -> String {
    let why = start.map_or(String::new(), |text| format!(": {text}"));
    format!(
        "the server ended or could not be started{why}; it is not tried again at once, but dev_restart does \
         (dev_logs shows what it wrote)"
    )
}

fn with_data(message: String, kind: &str, ran: &str, more: Vec<(&str, Value)>) -> Explained {
    let mut data = json!({"kind": kind, "ran": ran});
    for (name, value) in more {
        data[name] = value;
    }
    Explained { message, data: json!({"drowse": data}).to_string() }
}

/// What a response says that should have been an answer, for people.
pub(super) fn no_answer(status: StatusCode, body: &[u8]) -> String {
    let shown = beginning(body);
    let status = status.as_u16();
    match shown.is_empty() {
        true => format!("HTTP status {status} without a body"),
        false => format!("HTTP status {status} with a body that does not answer the request: {shown}"),
    }
}

/// What a refusal says, for people. `base`: where the request went.
pub(super) fn refusal(base: Option<&Url>, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let mut text = format!("HTTP status {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        text.push(' ');
        text.push_str(reason);
    }
    if status.is_redirection() {
        // Only where to: what stands behind the path may be a secret.
        let target = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let target = target.and_then(|target| Url::options().base_url(base).parse(target).ok());
        if let Some(url) = target.filter(|url| url.has_host()) {
            let place = format!("{}{}", url.origin().ascii_serialization(), url.path());
            text = if Some(&url) == base {
                format!("{text}: it redirects {place} to itself")
            } else {
                format!("{text}: it redirects to {place}; connect to that URL instead")
            };
        }
    } else if let Some(content) = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok())
    {
        text = format!("{text}, compressed ({content}) though that was not asked for");
    } else if status.is_success() {
        let content = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        text = format!("{text} with content of type `{}`, which is not MCP", content.unwrap_or("none"));
    } else if let Some(pause) = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()) {
        // Seconds, or a date.
        let unit = if pause.trim().parse::<u64>().is_ok() { " s" } else { "" };
        text = format!("{text}, to be tried again after {pause}{unit}");
    }
    let shown = beginning(body);
    if !shown.is_empty() {
        text = format!("{text}: {shown}");
    }
    text
}

/// The beginning of a body on one line.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..300).unwrap_or(body)).into_owned();
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(160)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        let value = http::HeaderValue::from_static;
        fields.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    fn explained(cause: Cause, detail: Option<&str>) -> String {
        failure(Failure { cause, ran: Ran::Unknown }, &Circumstances { detail, ..Circumstances::default() })
            .message
    }

    #[test]
    fn an_answer_that_is_none_is_described() {
        assert_eq!(
            explained(Cause::InvalidAnswer, Some("HTTP status 204 without a body")),
            "the server's answer is not a valid message: HTTP status 204 without a body"
        );
        assert!(explained(Cause::InvalidAnswer, None).ends_with("see the session's log"));
        assert_eq!(no_answer(StatusCode::NO_CONTENT, b" \n"), "HTTP status 204 without a body");
        assert_eq!(
            no_answer(StatusCode::OK, b"{\"id\":\n 7}"),
            "HTTP status 200 with a body that does not answer the request: {\"id\": 7}"
        );
    }

    #[test]
    fn outsiders_are_told_what_went_wrong_and_nothing_of_the_surroundings() {
        let around = Circumstances {
            start: Some("cannot run /opt/s3cret"),
            stderr: Some("token s3cret refused"),
            retry_at_ms: Some(5),
            limit: 1 << 20,
            detail: Some("https://h/mcp?key=s3cret"),
            ..Circumstances::default()
        };
        for cause in Cause::ALL {
            let whole = failure(Failure { cause, ran: Ran::No }, &around);
            let told = for_outsiders(&whole);
            assert!(
                !told.message.contains("s3cret") && !told.data.contains("s3cret"),
                "{cause:?}: {}",
                told.message
            );
            assert!(!told.message.is_empty());
            let data: Value = serde_json::from_str(&told.data).unwrap();
            let whole: Value = serde_json::from_str(&whole.data).unwrap();
            for name in ["kind", "ran", "retryAt", "limit"] {
                assert_eq!(data["drowse"].get(name), whole["drowse"].get(name), "{cause:?}");
            }
        }
        // What is wrong with an answer is nothing of the surroundings, and its client can help it.
        let cut = Circumstances { fault: Some("a lone surrogate at byte 7"), ..around };
        let whole = failure(Failure { cause: Cause::InvalidAnswer, ran: Ran::Unknown }, &cut);
        assert_eq!(whole.message, format!("{INVALID}: a lone surrogate at byte 7"));
        assert_eq!(for_outsiders(&whole).message, whole.message);
        assert!(for_outsiders(&whole).data.contains("at byte 7"));
        let other = Explained { message: "m".to_owned(), data: r#"{"supported":[]}"#.to_owned() };
        assert_eq!(for_outsiders(&other).data, other.data);
    }

    #[test]
    fn hints_name_what_there_is() {
        let around = Circumstances { dev: true, limit: 1 << 20, ..Circumstances::default() };
        for cause in Cause::ALL {
            for ran in [Ran::No, Ran::Unknown] {
                let text = failure(Failure { cause, ran }, &around).message;
                // The proxy has no state of its own to write.
                let there_is_none =
                    ["the session", "`restart`", "`connect"].iter().any(|word| text.contains(word));
                assert!(!there_is_none || cause == Cause::NotPersisted, "{cause:?}: {text}");
            }
        }
    }

    #[test]
    fn a_pause_is_given_in_seconds_or_as_a_date() {
        let text = |pause| {
            refusal(None, StatusCode::SERVICE_UNAVAILABLE, &headers(&[(header::RETRY_AFTER, pause)]), b"")
        };
        assert_eq!(text("5"), "HTTP status 503 Service Unavailable, to be tried again after 5 s");
        assert!(text("Fri, 31 Dec 1999 23:59:59 GMT").ends_with("after Fri, 31 Dec 1999 23:59:59 GMT"));
    }

    #[test]
    fn a_server_that_wants_to_be_asked_elsewhere_or_later_has_no_wrong_url() {
        let told = |status, said: Option<&str>| {
            connect_error(
                StartError::Negotiation(drowse_core::negotiate::NegotiationError::Http(status)),
                said,
                60,
            )
        };
        for status in [307, 429, 500, 503] {
            let said = format!("HTTP status {status}: so it says");
            assert_eq!(told(status, Some(&said)), format!("the server answered the handshake with {said}"));
            assert!(told(status, None).ends_with(&format!("HTTP status {status}")));
        }
        for status in [400, 404, 405] {
            assert!(told(status, Some("x")).contains("is this the URL"), "{status}");
        }
    }

    #[test]
    fn a_redirection_to_itself_is_no_place_to_connect_to() {
        let url: Url = "https://a.example/mcp".parse().unwrap();
        let to = |place| headers(&[(header::LOCATION, place)]);
        let text = refusal(Some(&url), StatusCode::PERMANENT_REDIRECT, &to("/mcp"), b"");
        assert!(text.ends_with("it redirects https://a.example/mcp to itself"), "{text}");
        let text = refusal(Some(&url), StatusCode::PERMANENT_REDIRECT, &to("/mcp/"), b"");
        assert!(text.ends_with("redirects to https://a.example/mcp/; connect to that URL instead"), "{text}");
    }

    #[test]
    fn of_a_redirection_only_the_place_is_shown() {
        let to = headers(&[(header::LOCATION, "https://name:word@login.example/enter?ticket=1#2")]);
        let text = refusal(None, StatusCode::FOUND, &to, b"");
        assert!(text.contains("redirects to https://login.example/enter; connect to that URL"), "{text}");
        assert!(!text.contains("word") && !text.contains("ticket"), "{text}");
        let base = Url::parse("https://here.example/mcp?key=1").unwrap();
        let to = headers(&[(header::LOCATION, "/other")]);
        let text = refusal(Some(&base), StatusCode::MOVED_PERMANENTLY, &to, b"");
        assert!(text.contains("redirects to https://here.example/other; connect"), "{text}");
    }
}
