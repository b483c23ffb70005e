//! Log messages of servers, and how much of them is wanted (server/utilities/logging of all revisions).
//!
//! A legacy server is told a level for all that it does (`logging/setLevel`), a modern one with every request
//! (`_meta["io.modelcontextprotocol/logLevel"]`). [`crate::server::Server`] keeps the level of the session and tells each
//! legacy server that is started; [`crate::splice::request`] writes it into requests.

use crate::envelope::Known;
use crate::json;
use crate::span::Span;
use crate::splice::RequestParts;

/// Whether a server's description of itself declares a log.
#[must_use]
pub fn is_declared(frame: &[u8], described: Span) -> bool {
    json::member(frame, described, "capabilities")
        .and_then(|capabilities| json::member(frame, capabilities, "logging"))
        .is_some_and(|log| json::is_object(log.of(frame)))
}

/// How severe a message is; the least severe is the least (RFC 5424, section 6.2.1, the other way round).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Level {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}

impl Level {
    /// All of them, the least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The level that a JSON string names.
    #[must_use]
    pub fn from_json(raw: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|level| json::str_eq(raw, level.name()))
    }

    /// The member of `_meta` that asks for it.
    #[must_use]
    pub const fn meta(self) -> &'static [u8] {
        match self {
            Self::Debug => br#""io.modelcontextprotocol/logLevel":"debug""#,
            Self::Info => br#""io.modelcontextprotocol/logLevel":"info""#,
            Self::Notice => br#""io.modelcontextprotocol/logLevel":"notice""#,
            Self::Warning => br#""io.modelcontextprotocol/logLevel":"warning""#,
            Self::Error => br#""io.modelcontextprotocol/logLevel":"error""#,
            Self::Critical => br#""io.modelcontextprotocol/logLevel":"critical""#,
            Self::Alert => br#""io.modelcontextprotocol/logLevel":"alert""#,
            Self::Emergency => br#""io.modelcontextprotocol/logLevel":"emergency""#,
        }
    }
}

/// How much of the log a caller wants with its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Wanted {
    /// Nothing: no message is passed on to it.
    #[default]
    Nothing,
    /// Messages from that level on.
    From(Level),
    /// A level that there is not: for the server to refuse.
    Unknown,
}

impl Wanted {
    /// Reads a caller's request.
    #[must_use]
    pub fn of(frame: &[u8], parts: &RequestParts) -> Self {
        match parts.value(Known::LogLevel).map(|level| Level::from_json(level.of(frame))) {
            None => Self::Nothing,
            Some(Some(level)) => Self::From(level),
            Some(None) => Self::Unknown,
        }
    }

    /// Whether a message is for the caller.
    #[must_use]
    pub fn covers(self, level: Level) -> bool {
        matches!(self, Self::From(from) if level >= from)
    }

    /// What a modern server is asked for with the request, where `session` is wanted in any case: the more of the two.
    /// `None`: whatever the request says itself.
    #[must_use]
    pub fn with(self, session: Option<Level>) -> Option<Level> {
        match self {
            Self::Nothing => session,
            Self::From(level) => Some(session.map_or(level, |session| level.min(session))),
            Self::Unknown => None,
        }
    }
}

/// A log message: the params of `notifications/message`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Entry {
    /// How severe it is; what is not known is taken for the least.
    pub level: Level,
    /// Who says it, a string.
    pub logger: Option<Span>,
    /// What, any value.
    pub data: Span,
}

impl Entry {
    /// Whether a notification is a log message.
    #[must_use]
    pub fn is_one(frame: &[u8], method: Span) -> bool {
        json::str_eq(method.of(frame), "notifications/message")
    }

    /// Reads the params of one.
    #[must_use]
    pub fn read(frame: &[u8], params: Span) -> Option<Self> {
        let member = |name| json::member(frame, params, name);
        Some(Self {
            level: member("level")
                .and_then(|level| Level::from_json(level.of(frame)))
                .unwrap_or(Level::Debug),
            logger: member("logger").filter(|logger| json::is_string(logger.of(frame))),
            data: member("data")?,
        })
    }
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use std::format;

    use super::*;
    use crate::envelope;
    use crate::message::META_LOG_LEVEL;

    #[test]
    fn levels_are_in_their_order_and_have_their_names() {
        for (index, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(Level::from_name(level.name()), Some(level));
            assert_eq!(Level::from_json(format!("{:?}", level.name()).as_bytes()), Some(level));
            assert_eq!(level.meta(), format!("{META_LOG_LEVEL:?}:{:?}", level.name()).as_bytes());
            assert!(Level::ALL.iter().take(index).all(|less| *less < level));
        }
        assert_eq!(Level::from_name("warn"), None);
        assert_eq!(Level::from_json(b"7"), None);
    }

    #[test]
    fn the_more_of_what_the_session_and_the_request_want() {
        let wanted = |meta: &str| {
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{{{meta}}}}}}}"#);
            let parts = RequestParts::of(&envelope::read(frame.as_bytes()).unwrap()).unwrap();
            Wanted::of(frame.as_bytes(), &parts)
        };
        let (debug, error) = (Some(Level::Debug), Some(Level::Error));
        let nothing = wanted("");
        assert_eq!((nothing, nothing.with(None), nothing.with(error)), (Wanted::Nothing, None, error));
        let warning = wanted(&format!(r#"{META_LOG_LEVEL:?}:"warning""#));
        assert_eq!(warning.with(None), Some(Level::Warning));
        assert_eq!((warning.with(debug), warning.with(error)), (debug, Some(Level::Warning)));
        assert!(
            warning.covers(Level::Error) && warning.covers(Level::Warning) && !warning.covers(Level::Info)
        );
        let unknown = wanted(&format!(r#"{META_LOG_LEVEL:?}:"loud""#));
        assert_eq!((unknown, unknown.with(debug)), (Wanted::Unknown, None));
        assert!(!nothing.covers(Level::Emergency) && !unknown.covers(Level::Emergency));
    }

    #[test]
    fn messages_are_read_as_far_as_they_can_be() {
        let read = |params: &str| {
            let span = json::scan(params.as_bytes()).unwrap();
            let text =
                |span: Span| std::string::String::from_utf8_lossy(span.of(params.as_bytes())).into_owned();
            Entry::read(params.as_bytes(), span)
                .map(|entry| (entry.level, entry.logger.map(text), text(entry.data)))
        };
        assert_eq!(
            read(r#"{"level":"error","logger":"db","data":{"a": 1}}"#),
            Some((Level::Error, Some(r#""db""#.into()), r#"{"a": 1}"#.into()))
        );
        assert_eq!(
            read(r#"{"level":"loud","logger":7,"data":null}"#),
            Some((Level::Debug, None, "null".into()))
        );
        assert_eq!(read(r#"{"level":"error"}"#), None);
        assert_eq!(read("[]"), None);
    }
}
