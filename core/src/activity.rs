//! The one table of what starts a sleeping server and what counts as activity.
//!
//! Who asked decides, not what was asked: what a user, an agent or a host wants *from the server* counts; what asks
//! about drowse, or what drowse does for itself, does not. Fronts look a request up with [`rule`]; help and
//! documentation show the same table as [`Markdown`] or [`Text`].

use core::fmt::{self, Write as _};

use crate::method::Method;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Asker {
    /// A command, or whoever else speaks to the session itself: what it asks for, it wants from the server.
    Command,
    /// A client of the gateway.
    Gateway,
    /// The host behind which a server is developed.
    DevProxy,
    /// A client of a session's proxy port.
    ProxyPort,
}

impl Asker {
    /// Everyone.
    pub const ALL: [Self; 4] = [Self::Command, Self::Gateway, Self::DevProxy, Self::ProxyPort];
    /// The clients of fronts.
    const CLIENTS: [Self; 3] = [Self::Gateway, Self::DevProxy, Self::ProxyPort];

    /// Whether a session that such a client opens (in the legacy era: `initialize`) defers the idle deadline until it is
    /// closed or over. What the server keeps for it would be gone with the server; clients without a session wake that by
    /// their next request.
    #[must_use]
    pub const fn defers(self) -> bool {
        matches!(self, Self::ProxyPort)
    }
}

/// Whether a sleeping server is started.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Starts {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// It is where no snapshot may answer: everything is exposed, and none was saved.
    IfNoSnapshot,
    /// Not when the client comes, but when it first wants a list or calls.
    OnFirstUse,
}

impl fmt::Display for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::IfNoSnapshot => "only where no snapshot may answer (exposure `full` and none saved)",
            Self::OnFirstUse => "those, at its first list or call, not at connect (a probe looks the same)",
        })
    }
}

/// Whether the idle period starts anew.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counts {
    /// It does when the request is answered, and until then there is no deadline.
    Yes,
    /// It does not.
    No,
    /// It does if the request goes to the server, and is not answered without it.
    IfPassedOn,
    /// It does, and what was asked for defers the deadline as long as it lives.
    ThenDefers,
    /// It does not, but defers the deadline while it is open; then a full period starts.
    WhileOpen,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::IfPassedOn => "only when passed to the server",
            Self::ThenDefers => "yes; then defers while it lives",
            Self::WhileOpen => "no; it defers while it is open",
        })
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Rule {
    /// What it is about, in Markdown.
    pub what: &'static str,
    /// Whether it starts a sleeping server.
    pub starts: Starts,
    /// Whether it is activity.
    pub counts: Counts,
    /// What is answered without the server, and other remarks, in Markdown.
    pub otherwise: &'static str,
    /// The requests that it governs; none for what is no request.
    methods: &'static [Method],
    askers: &'static [Asker],
    /// Only requests that name resource URIs, or only those that do not.
    uris: Option<bool>,
}

impl Rule {
    fn covers(&self, method: Method, asker: Asker, uris: bool) -> bool {
        self.methods.contains(&method)
            && self.askers.contains(&asker)
            && self.uris.is_none_or(|wanted| wanted == uris)
    }
}

const LISTS: &[Method] =
    &[Method::ToolsList, Method::PromptsList, Method::ResourcesList, Method::TemplatesList];

const fn row(what: &'static str, starts: Starts, counts: Counts, otherwise: &'static str) -> Rule {
    Rule { what, starts, counts, otherwise, methods: &[], askers: &Asker::ALL, uris: None }
}

/// What is none of the others: the last row.
static OTHER: Rule =
    row("any other request", Starts::No, Counts::No, "the front, with error -32601: there is no such method");

/// The table but for its last row, in the order in which it is shown.
static TABLE: [Rule; 21] = [
    Rule {
        methods: &[Method::Status, Method::Set, Method::Snapshot],
        askers: &[Asker::Command],
        ..row(
            "`drowse` (list), `ps`, `top`, `doctor`, `stats`, `timeline`, `logs`, `config`, `set`, `servers`, \
             `tokens`, `sync`, `clean`, global `grep`",
            Starts::No,
            Counts::No,
            "answered from records and snapshots",
        )
    },
    Rule {
        methods: &[
            Method::Info,
            Method::ServerPing,
            Method::ToolsList,
            Method::ToolsCall,
            Method::ResourcesList,
            Method::TemplatesList,
            Method::ResourcesRead,
            Method::Unsubscribe,
            Method::Sync,
            Method::PromptsList,
            Method::PromptsGet,
            Method::Complete,
            Method::Tasks,
            Method::SetLevel,
        ],
        askers: &[Asker::Command],
        ..row(
            "`@s` (info), `@s tools-*`, `resources-*`, `prompts-*`, `tasks-*`, `complete`, `logging-set-level`, \
             `@s grep`, `@s ping`",
            Starts::Yes,
            Counts::Yes,
            "live data; with `--cached` the snapshot, and no start",
        )
    },
    row("`connect` (without `--lazy`), `restart`", Starts::Yes, Counts::Yes, ""),
    Rule {
        methods: &[Method::Close, Method::Unsync],
        askers: &[Asker::Command],
        ..row("`close`, `disable`", Starts::No, Counts::No, "")
    },
    row("`enable`", Starts::Yes, Counts::Yes, ""),
    Rule {
        methods: &[
            Method::ToolsCall,
            Method::PromptsGet,
            Method::ResourcesRead,
            Method::Complete,
            Method::Tasks,
        ],
        askers: &Asker::CLIENTS,
        ..row(
            "`tools/call`, `prompts/get`, `resources/read`, `completion/complete`, `tasks/*` on a front",
            Starts::Yes,
            Counts::Yes,
            "from arrival to answer",
        )
    },
    Rule {
        methods: &[Method::Subscribe],
        ..row("`resources/subscribe`", Starts::Yes, Counts::ThenDefers, "")
    },
    Rule {
        methods: &[Method::Listen],
        uris: Some(true),
        ..row("`subscriptions/listen` with URIs", Starts::Yes, Counts::ThenDefers, "")
    },
    Rule {
        methods: &[Method::Unsubscribe],
        askers: &Asker::CLIENTS,
        ..row(
            "`resources/unsubscribe` on a front",
            Starts::No,
            Counts::No,
            "the front: a sleeping server has no subscriptions",
        )
    },
    Rule {
        methods: LISTS,
        askers: &[Asker::DevProxy],
        ..row(
            "`tools/list`, `prompts/list`, `resources/list`, `resources/templates/list` on the dev proxy",
            Starts::Yes,
            Counts::IfPassedOn,
            "the snapshot",
        )
    },
    Rule {
        methods: LISTS,
        askers: &[Asker::Gateway],
        ..row("the same on the gateway", Starts::IfNoSnapshot, Counts::IfPassedOn, "the snapshot")
    },
    Rule {
        methods: LISTS,
        askers: &[Asker::ProxyPort],
        ..row("the same on a proxy port", Starts::No, Counts::IfPassedOn, "the snapshot")
    },
    Rule {
        methods: &[Method::Initialize, Method::Discover],
        ..row("`initialize`, `server/discover`", Starts::No, Counts::No, "the front, from the snapshot")
    },
    Rule {
        methods: &[Method::Ping],
        ..row(
            "`ping` from a client of a front",
            Starts::No,
            Counts::No,
            "the front: it asks whether the front lives",
        )
    },
    Rule {
        methods: &[Method::Listen],
        uris: Some(false),
        ..row("`subscriptions/listen` without URIs", Starts::No, Counts::No, "the front")
    },
    Rule {
        methods: &[Method::SetLevel],
        askers: &Asker::CLIENTS,
        ..row(
            "`logging/setLevel` on a front",
            Starts::No,
            Counts::No,
            "remembered, and applied when the server is awake",
        )
    },
    row(
        "`notifications/*` from a client, HTTP GET stream, DELETE, `/health`, status page",
        Starts::No,
        Counts::No,
        "",
    ),
    row("a client on a gateway with `autoConnect: true` servers", Starts::OnFirstUse, Counts::No, ""),
    row(
        "an open session of a legacy client on a proxy port",
        Starts::No,
        Counts::WhileOpen,
        "ended by DELETE, or when its client does not use it for 30 min",
    ),
    row(
        "anything the server sends: notifications, progress, log messages, requests",
        Starts::No,
        Counts::No,
        "its request belongs to a call in flight, which counts",
    ),
    row(
        "drowse's own keepalive, refresh after a notification, re-expressed subscriptions, snapshots, status",
        Starts::No,
        Counts::No,
        "",
    ),
];

/// What a request is, to a sleeping server and to the idle period. `uris`: it names resources to hear of, which is of
/// interest only for `subscriptions/listen`.
#[must_use]
pub fn rule(method: Method, asker: Asker, uris: bool) -> &'static Rule {
    TABLE.iter().find(|rule| rule.covers(method, asker, uris)).unwrap_or(&OTHER)
}

/// The rows of the table.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLE.iter().chain(core::iter::once(&OTHER))
}

/// The table in Markdown, for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Markdown;

impl fmt::Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| what | starts a sleeping server | counts | otherwise |\n| --- | --- | --- | --- |\n")?;
        for Rule { what, starts, counts, otherwise, .. } in rules() {
            writeln!(f, "| {what} | {starts} | {counts} | {otherwise} |")?;
        }
        Ok(())
    }
}

/// The table in plain text, for help: a paragraph a row, whose lines the caller may wrap.
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Rule { what, starts, counts, otherwise, .. }) in rules().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            let mut plain = Plain(f);
            writeln!(plain, "{what}")?;
            writeln!(plain, "    starts a sleeping server: {starts}")?;
            writeln!(plain, "    counts as activity: {counts}")?;
            if !otherwise.is_empty() {
                writeln!(plain, "    otherwise: {otherwise}")?;
            }
        }
        Ok(())
    }
}

/// Leaves out the marks of Markdown.
pub(crate) struct Plain<'f, 'b>(pub(crate) &'f mut fmt::Formatter<'b>);

impl fmt::Write for Plain<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().filter(|char| *char != '`').try_for_each(|char| self.0.write_char(char))
    }
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    fn every() -> impl Iterator<Item = (Method, Asker, bool)> {
        Method::all().flat_map(|method| {
            Asker::ALL.into_iter().flat_map(move |asker| [false, true].map(move |uris| (method, asker, uris)))
        })
    }

    #[test]
    fn each_method_has_exactly_one_rule() {
        for (method, asker, uris) in every() {
            let covering: Vec<_> = TABLE.iter().filter(|rule| rule.covers(method, asker, uris)).collect();
            let ours = matches!(
                method,
                Method::Info
                    | Method::ServerPing
                    | Method::Status
                    | Method::Snapshot
                    | Method::Sync
                    | Method::Unsync
                    | Method::Set
                    | Method::Close
            );
            let expected = usize::from(method != Method::Other && (!ours || asker == Asker::Command));
            assert_eq!(covering.len(), expected, "{method:?} of {asker:?}: {covering:?}");
            let found = rule(method, asker, uris);
            assert_eq!(expected == 0, core::ptr::eq(found, &raw const OTHER), "{method:?} of {asker:?}");
        }
    }

    #[test]
    fn each_row_about_requests_is_reached() {
        for row in TABLE.iter().filter(|row| !row.methods.is_empty()) {
            assert!(
                every().any(|(method, asker, uris)| core::ptr::eq(rule(method, asker, uris), row)),
                "{}",
                row.what
            );
        }
    }

    #[test]
    fn what_a_command_wants_of_the_server_starts_it_and_counts() {
        for method in [
            Method::Info,
            Method::ServerPing,
            Method::ToolsList,
            Method::ToolsCall,
            Method::ResourcesList,
            Method::TemplatesList,
            Method::ResourcesRead,
            Method::PromptsList,
            Method::PromptsGet,
            Method::Complete,
            Method::Tasks,
            Method::SetLevel,
        ] {
            let rule = rule(method, Asker::Command, false);
            assert_eq!((rule.starts, rule.counts), (Starts::Yes, Counts::Yes), "{method:?}");
        }
        for method in [Method::Status, Method::Set, Method::Snapshot, Method::Close, Method::Unsync] {
            let rule = rule(method, Asker::Command, false);
            assert_eq!((rule.starts, rule.counts), (Starts::No, Counts::No), "{method:?}");
        }
    }

    #[test]
    fn operations_of_a_client_start_and_count() {
        for asker in Asker::CLIENTS {
            for method in [
                Method::ToolsCall,
                Method::PromptsGet,
                Method::ResourcesRead,
                Method::Complete,
                Method::Tasks,
            ] {
                let rule = rule(method, asker, false);
                assert_eq!((rule.starts, rule.counts), (Starts::Yes, Counts::Yes), "{method:?}");
            }
        }
    }

    #[test]
    fn lists_of_a_client_depend_on_the_front() {
        for method in LISTS {
            for (asker, starts) in [
                (Asker::DevProxy, Starts::Yes),
                (Asker::Gateway, Starts::IfNoSnapshot),
                (Asker::ProxyPort, Starts::No),
            ] {
                let rule = rule(*method, asker, false);
                assert_eq!((rule.starts, rule.counts), (starts, Counts::IfPassedOn), "{method:?} {asker:?}");
            }
        }
    }

    #[test]
    fn probes_and_pings_never_start_anything() {
        for asker in Asker::ALL {
            for method in [Method::Initialize, Method::Discover, Method::Ping, Method::Other] {
                let rule = rule(method, asker, false);
                assert_eq!((rule.starts, rule.counts), (Starts::No, Counts::No), "{method:?}");
            }
        }
        for asker in Asker::CLIENTS {
            let rule = rule(Method::SetLevel, asker, false);
            assert_eq!((rule.starts, rule.counts), (Starts::No, Counts::No));
        }
    }

    #[test]
    fn subscriptions_defer_only_where_they_name_resources() {
        for asker in Asker::ALL {
            for (method, uris, starts, counts) in [
                (Method::Subscribe, false, Starts::Yes, Counts::ThenDefers),
                (Method::Listen, true, Starts::Yes, Counts::ThenDefers),
                (Method::Listen, false, Starts::No, Counts::No),
            ] {
                let rule = rule(method, asker, uris);
                assert_eq!((rule.starts, rule.counts), (starts, counts), "{method:?} {uris}");
            }
        }
    }

    #[test]
    fn both_renderings_say_all_of_it() {
        let (markdown, text) = (Markdown.to_string(), Text.to_string());
        assert_eq!(markdown.lines().count(), 2 + rules().count());
        for line in markdown.lines() {
            assert_eq!(line.matches(" | ").count(), 3, "{line}");
        }
        assert!(!text.contains('`'));
        for rule in rules() {
            assert!(text.contains(&rule.what.replace('`', "")), "{}", rule.what);
            assert!(text.contains(&rule.otherwise.replace('`', "")));
        }
    }
}
