//! What a server's answer is to the client that asked, where the two are not of one era, or the answer is about more than
//! the request.

use crate::capabilities::ClientCapabilities;
use crate::envelope::Message;
use crate::era::Era;
use crate::held::Kind;
use crate::method::Method;
use crate::splice::{self, Visit};

/// What the client is told. What a modern server's result is to a legacy client says [`super::round::Sort`] before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer, rewritten: [`splice::answer`] or [`splice::answer_legacy`].
    Plain,
    /// The answer, too; and these visits are the client's, see [`super::visits`].
    Visits(Visit),
    /// That addresses are to be visited first: [`splice::visit_first`].
    VisitFirst(Visit),
    /// That it would have to declare more: [`splice::missing_capability`].
    Missing(Kind),
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// The era of its client.
    pub client: Era,
    /// Its client takes answers exactly as the server sends them.
    pub verbatim: bool,
    /// What its client declared.
    pub capabilities: ClientCapabilities,
    /// What the server asked during the request, and nobody was asked, because the client did not declare it.
    pub lacks: Option<Kind>,
}

impl Answer {
    /// Looks at the answer of a server of that era.
    #[must_use]
    pub fn of(frame: &[u8], message: &Message, server: Era, asked: &Asked) -> Self {
        let Asked { method, client, verbatim, capabilities, lacks } = *asked;
        if verbatim {
            return Self::Plain;
        }
        match (client, server) {
            (_, Era::Modern) => Self::Plain,
            (Era::Legacy, Era::Legacy) => Visit::of(frame, message).map_or(Self::Plain, Self::Visits),
            (Era::Modern, Era::Legacy) => {
                if let Some(kind) = lacks.filter(|_| splice::is_failure(message)) {
                    return Self::Missing(kind);
                }
                match Visit::of(frame, message).filter(|_| splice::may_require_input(method)) {
                    Some(visit) => match splice::unvisited(capabilities) {
                        Some(kind) => Self::Missing(kind),
                        None => Self::VisitFirst(visit),
                    },
                    None => Self::Plain,
                }
            }
        }
    }
}

/// Whether the frame of a request is needed once its server has it: to put it again, or to recognise its retry.
/// `can_be_asked`: its client declares something that a server may ask for.
#[must_use]
pub const fn is_needed_later(method: Method, client: Era, server: Option<Era>, can_be_asked: bool) -> bool {
    if method.only_reads() {
        return true;
    }
    if !splice::may_require_input(method) && !matches!(method, Method::Tasks) {
        return false;
    }
    match (client, server) {
        // Questions have requests of their own there, or the client puts its request again.
        (Era::Legacy, Some(Era::Legacy)) | (Era::Modern, Some(Era::Modern)) => false,
        (Era::Legacy, _) => true,
        (Era::Modern, _) => can_be_asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope;

    const FORMS: ClientCapabilities = ClientCapabilities {
        form: true,
        url: false,
        sampling: false,
        sampling_tools: false,
        roots: false,
        tasks: false,
    };

    fn of(frame: &str, client: Era, server: Era, change: impl FnOnce(&mut Asked)) -> Answer {
        let mut asked =
            Asked { method: Method::ToolsCall, client, verbatim: false, capabilities: FORMS, lacks: None };
        change(&mut asked);
        Answer::of(frame.as_bytes(), &envelope::read(frame.as_bytes()).unwrap(), server, &asked)
    }

    const VISIT: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url"}]}}}"#;
    const FAILED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#;

    #[test]
    fn a_modern_client_learns_what_a_legacy_server_requires() {
        let (modern, legacy) = (Era::Modern, Era::Legacy);
        assert_eq!(of(VISIT, modern, legacy, |_| ()), Answer::Missing(Kind::Url));
        let able = |asked: &mut Asked| asked.capabilities.url = true;
        assert!(matches!(of(VISIT, modern, legacy, able), Answer::VisitFirst(_)));
        assert_eq!(of(VISIT, modern, legacy, |asked| asked.method = Method::ToolsList), Answer::Plain);
        assert!(matches!(of(VISIT, legacy, legacy, |_| ()), Answer::Visits(_)));
        assert_eq!(of(VISIT, legacy, Era::Modern, |_| ()), Answer::Plain);
        let lacks = |asked: &mut Asked| asked.lacks = Some(Kind::Sampling);
        assert_eq!(of(FAILED, modern, legacy, lacks), Answer::Missing(Kind::Sampling));
        assert_eq!(of(VISIT, modern, legacy, lacks), Answer::Missing(Kind::Sampling));
        assert_eq!(of(&FAILED.replace("true", "false"), modern, legacy, lacks), Answer::Plain);
        for frame in [VISIT, FAILED] {
            let verbatim = |asked: &mut Asked| {
                lacks(asked);
                asked.verbatim = true;
            };
            assert_eq!(of(frame, modern, legacy, verbatim), Answer::Plain);
            assert_eq!(of(frame, modern, modern, lacks), Answer::Plain);
        }
    }

    #[test]
    fn frames_are_kept_where_something_may_come_of_them() {
        let needed = |method, client, server| is_needed_later(method, client, server, true);
        let (modern, legacy) = (Era::Modern, Era::Legacy);
        for method in [Method::ToolsCall, Method::PromptsGet] {
            assert!(!needed(method, legacy, Some(legacy)) && !needed(method, modern, Some(modern)));
            assert!(needed(method, legacy, Some(modern)) && needed(method, modern, Some(legacy)));
            assert!(needed(method, legacy, None) && needed(method, modern, None));
            assert!(!is_needed_later(method, modern, Some(legacy), false));
        }
        for method in Method::all().filter(|method| method.only_reads()) {
            assert!(is_needed_later(method, legacy, Some(legacy), false));
        }
        assert!(!needed(Method::Other, legacy, Some(modern)) && needed(Method::Tasks, modern, Some(legacy)));
    }
}
