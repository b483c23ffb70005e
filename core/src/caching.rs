//! How long a result may be used again, and what ends that sooner (server/utilities/caching).
//!
//! Owns the rules; whoever keeps results keeps them, with the instant that [`lifetime`] gives. A link has one set of
//! credentials, so `private` results need no more care than `public` ones here.

use crate::envelope::Message;
use crate::json;
use crate::method::Method;
use crate::span::Span;
use crate::splice::RequestParts;
use crate::time::Duration;

/// No result is taken for fresh longer than this, whatever the server says.
pub const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The parameters that make a request another one: all members of `params` but `_meta`. `None`: the result of this
/// request is never kept, for its method is not one of those, or it continues an interaction.
#[must_use]
pub fn parameters<'f>(
    method: Method,
    frame: &'f [u8],
    parts: &RequestParts,
) -> Option<impl Iterator<Item = &'f [u8]>> {
    if !method.is_cacheable() || method == Method::Discover {
        return None;
    }
    let members = || parts.params.into_iter().flat_map(move |params| json::members(frame, params));
    let named = |key: Span, name: &str| json::str_eq(key.of(frame), name);
    if members().any(|member| named(member.key, "inputResponses") || named(member.key, "requestState")) {
        return None;
    }
    let kept = members().filter(move |member| !named(member.key, "_meta"));
    Some(kept.flat_map(move |member| [member.key.of(frame), member.value.of(frame)]))
}

/// How long the result is fresh after it was received; `None`: it is not.
#[must_use]
pub fn lifetime(frame: &[u8], message: &Message) -> Option<Duration> {
    let Message::Response { result, kind, .. } = *message else { return None };
    let complete = kind.is_none_or(|kind| json::str_eq(kind.of(frame), "complete"));
    let millis = json::member(frame, result, "ttlMs").and_then(|ttl| json::as_u64(ttl.of(frame)))?;
    (complete && millis > 0).then(|| Duration::from_millis(millis).min(MAX_LIFETIME))
}

/// What a notification says has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Change {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
    /// Which resources there are.
    Resources,
    /// One resource: its URI, a JSON string. Those below it may have changed with it.
    Resource(Span),
}

impl Change {
    /// What a message of the server says has changed.
    #[must_use]
    pub fn of(frame: &[u8], message: &Message) -> Option<Self> {
        let Message::Notification { method, params, .. } = *message else { return None };
        let is = |name: &str| json::str_eq(method.of(frame), name);
        if is("notifications/tools/list_changed") {
            Some(Self::Tools)
        } else if is("notifications/prompts/list_changed") {
            Some(Self::Prompts)
        } else if is("notifications/resources/list_changed") {
            Some(Self::Resources)
        } else if is("notifications/resources/updated") {
            params.and_then(|params| json::member(frame, params, "uri")).map(Self::Resource)
        } else {
            None
        }
    }

    /// Whether results of that method are stale now.
    #[must_use]
    pub const fn concerns(self, method: Method) -> bool {
        match self {
            Self::Tools => matches!(method, Method::ToolsList),
            Self::Prompts => matches!(method, Method::PromptsList),
            Self::Resources => matches!(method, Method::ResourcesList | Method::TemplatesList),
            // A resource may be part of another one, and nobody says of which.
            Self::Resource(_) => matches!(method, Method::ResourcesRead),
        }
    }
}

/// Whether a request may change what the server's other results say, so that none of those counts as fresh any more: the
/// client "has reason to believe the data has changed".
#[must_use]
pub const fn may_change(method: Method) -> bool {
    matches!(method, Method::ToolsCall | Method::Tasks | Method::Other)
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use super::*;
    use crate::envelope;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    fn key(method: Method, params: &str) -> Option<String> {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        let parts = RequestParts::of(&envelope::read(frame.as_bytes()).unwrap()).unwrap();
        let parts: Vec<&[u8]> = parameters(method, frame.as_bytes(), &parts)?.collect();
        Some(String::from_utf8(parts.concat()).unwrap())
    }

    fn ttl(body: &str) -> Option<u64> {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#);
        lifetime(frame.as_bytes(), &envelope::read(frame.as_bytes()).unwrap())
            .map(|ttl| u64::try_from(ttl.as_millis()).unwrap())
    }

    #[test]
    fn a_request_is_known_by_its_method_and_all_parameters_but_meta() {
        assert_eq!(key(Method::ToolsList, r#"{"_meta":{"a":1}}"#).as_deref(), Some(""));
        assert_eq!(key(Method::ToolsList, r#"{"cursor":"x","_meta":{}}"#).as_deref(), Some(r#""cursor""x""#));
        assert_eq!(key(Method::ResourcesRead, r#"{"uri":"a"}"#).as_deref(), Some(r#""uri""a""#));
        for params in [r#"{"uri":"a","requestState":"s"}"#, r#"{"uri":"a","inputResponses":{}}"#] {
            assert_eq!(key(Method::ResourcesRead, params), None);
        }
        for method in
            [Method::ToolsCall, Method::PromptsGet, Method::Complete, Method::ServerPing, Method::Discover]
        {
            assert_eq!(key(method, "{}"), None, "{method:?}");
        }
    }

    #[test]
    fn only_what_is_complete_and_says_for_how_long_is_fresh() {
        assert_eq!(ttl(r#""result":{"resultType":"complete","ttlMs":5}"#), Some(5));
        assert_eq!(ttl(r#""result":{"ttlMs":5}"#), Some(5));
        assert_eq!(ttl(r#""result":{"ttlMs":99999999999}"#), Some(24 * 3600 * 1000));
        for body in [
            r#""result":{"resultType":"input_required","ttlMs":5}"#,
            r#""result":{"ttlMs":0}"#,
            r#""result":{"ttlMs":-5}"#,
            r#""result":{"ttlMs":"5"}"#,
            r#""result":{}"#,
            r#""error":{"code":1,"message":"","ttlMs":5}"#,
        ] {
            assert_eq!(ttl(body), None, "{body}");
        }
    }

    #[test]
    fn what_notifications_make_stale() {
        let change = |method: &str, params: &str| {
            let frame = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#);
            Change::of(frame.as_bytes(), &envelope::read(frame.as_bytes()).unwrap())
        };
        let stale = |change: Change| -> Vec<Method> {
            Method::all().filter(|method| change.concerns(*method)).collect()
        };
        assert_eq!(stale(change("tools/list_changed", "{}").unwrap()), [Method::ToolsList]);
        assert_eq!(stale(change("prompts/list_changed", "{}").unwrap()), [Method::PromptsList]);
        assert_eq!(
            stale(change("resources/list_changed", "{}").unwrap()),
            [Method::ResourcesList, Method::TemplatesList]
        );
        assert_eq!(stale(change("resources/updated", r#"{"uri":"a"}"#).unwrap()), [Method::ResourcesRead]);
        assert_eq!(change("resources/updated", "{}"), None);
        assert_eq!(change("progress", "{}"), None);
        assert!(may_change(Method::ToolsCall) && !may_change(Method::ResourcesRead));
    }
}
