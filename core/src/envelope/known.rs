//! Where in a request the members stand that drowse asks for: noted in passing, while the envelope is read.
//!
//! A request is looked at for half a dozen reasons on its way. Each of them would walk its parameters again, and with
//! them the arguments, which may be long.

use super::named;
use crate::message::{
    META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_FORGET, META_LOG_LEVEL, META_PROGRESS_TOKEN,
    META_PROTOCOL_VERSION, META_TIMEOUT,
};
use crate::span::Span;

/// A member of a request's parameters, or of their `_meta`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Known {
    /// `params.name`
    Name,
    /// `params.uri`
    Uri,
    /// `params.task`
    Task,
    /// `params.taskId`
    TaskId,
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`
    ProtocolVersion,
    /// `params._meta["io.modelcontextprotocol/clientCapabilities"]`
    ClientCapabilities,
    /// `params._meta["io.modelcontextprotocol/clientInfo"]`
    ClientInfo,
    /// `params._meta["io.modelcontextprotocol/logLevel"]`
    LogLevel,
    /// `params._meta.progressToken`
    ProgressToken,
    /// `params._meta["dev.drowse/timeoutMs"]`
    Timeout,
    /// `params._meta["dev.drowse/forget"]`
    Forget,
}

impl Known {
    /// All members of the parameters.
    pub const OF_PARAMS: [Self; 4] = [Self::Name, Self::Uri, Self::Task, Self::TaskId];
    /// All members of `_meta`.
    pub const OF_META: [Self; 7] = [
        Self::ProtocolVersion,
        Self::ClientCapabilities,
        Self::ClientInfo,
        Self::LogLevel,
        Self::ProgressToken,
        Self::Timeout,
        Self::Forget,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
            Self::Task => "task",
            Self::TaskId => "taskId",
            Self::ProtocolVersion => META_PROTOCOL_VERSION,
            Self::ClientCapabilities => META_CLIENT_CAPABILITIES,
            Self::ClientInfo => META_CLIENT_INFO,
            Self::LogLevel => META_LOG_LEVEL,
            Self::ProgressToken => META_PROGRESS_TOKEN,
            Self::Timeout => META_TIMEOUT,
            Self::Forget => META_FORGET,
        }
    }

    pub(super) fn of_params(key: &[u8]) -> Option<Self> {
        named(key, Self::OF_PARAMS, Self::name)
    }

    pub(crate) fn of_meta(key: &[u8]) -> Option<Self> {
        named(key, Self::OF_META, Self::name)
    }
}

/// How many there are.
const COUNT: usize = Known::OF_PARAMS.len() + Known::OF_META.len();

/// The values of the [`Known`] members of a request. Of a name that is repeated the last one counts, as it does to nearly
/// all parsers of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Values {
    /// An empty span is an absent member: no value is empty.
    spans: [Span; COUNT],
}

impl Values {
    /// The value of that member.
    #[must_use]
    pub fn get(&self, member: Known) -> Option<Span> {
        self.spans.get(member as usize).copied().filter(|span| !span.is_empty())
    }

    /// Notes the value of that member.
    pub fn set(&mut self, member: Known, value: Span) {
        if let Some(place) = self.spans.get_mut(member as usize) {
            *place = value;
        }
    }
}
