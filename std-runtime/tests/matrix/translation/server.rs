//! What servers say of their own accord.

use drowse_core::notification::Notification;

use super::{About, Row};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = lists();
    rows.extend(unheard());
    rows.extend(requests());
    rows.extend(tasks());
    rows
}

/// A call that is with the server.
pub(super) fn call(client_is_legacy: bool, server_is_legacy: bool, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    let line = |id: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params}}}}}"#)
    };
    let level = r#""io.modelcontextprotocol/logLevel":"info","#;
    let token = r#""progressToken":<w>"#;
    let params = r#""name":"t""#;
    let (sent, meta) = match (client_is_legacy, server_is_legacy) {
        (true, true) => (format!("{params}{comma}{more}"), None),
        (true, false) => (format!("{params}{comma}{more}"), None),
        (false, _) => (format!("{params}{comma}{more},\"_meta\":{{@NEW}}"), Some(())),
    };
    let arrives = match (client_is_legacy, server_is_legacy, meta) {
        (true, true, _) => format!(r#""_meta":{{{token}}},{params}{comma}{more}"#),
        (true, false, _) => format!(r#""_meta":{{{token},{level}@OLD}},{params}{comma}{more}"#),
        (false, true, _) => format!(r#"{params}{comma}{more},"_meta":{{{token}}}"#),
        (false, false, _) => format!(r#"{params}{comma}{more},"_meta":{{{token},@NEW}}"#),
    };
    format!("C> {}\nS< {}", line(r#""x""#, &sent), line("<w>", &arrives))
}

/// Changed lists. A modern client listens by itself; for a legacy one drowse does from its beginning on.
fn lists() -> Vec<Row> {
    let id = r#""l\u0022""#;
    let listen = format!(
        r#"C> {{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}},"_meta":{{@NEW}}}}}}"#
    );
    // The server announces changes of its tools alone.
    let acknowledged = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{{"toolsListChanged":true}}}}}}"#
        )
    };
    // For a process there is a stream of drowse's own.
    let opened = concat!(
        r#"{"jsonrpc":"2.0","id":<w>,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"drowse","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""},"io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}"#
    );
    let row = |what: Notification| {
        let method = what.name();
        let announced = what == Notification::ToolsChanged;
        let changed = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        let of = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
            )
        };
        let told = |line: String| if announced { format!("C< {line}") } else { String::new() };
        Row::new(
            About::Announced(what),
            method,
            [
                format!("S> {changed}\n{}", told(changed.clone())),
                format!("S> {}\n{}", of("<stream>"), told(changed.clone())),
                format!("{listen}\nC< {}\nS> {changed}\n{}", acknowledged(id), told(of(id))),
                format!(
                    "{listen}\nh< {opened}\nh> {}\nC< {}\np> {}\nh> {}\n{}",
                    acknowledged("<w>"),
                    acknowledged(id),
                    of("<stream>"),
                    of("<w>"),
                    told(of(id))
                ),
            ],
        )
    };
    [Notification::ToolsChanged, Notification::PromptsChanged, Notification::ResourcesChanged].map(row).into()
}

/// Nobody waits for these, or they belong to nobody.
fn unheard() -> Vec<Row> {
    let said = |method: &str, params: &str| {
        format!(r#"S> {{"jsonrpc":"2.0","method":"{method}","params":{{{params}}}}}"#)
    };
    Notification::all()
        .filter(|one| {
            !matches!(
                one,
                Notification::ToolsChanged | Notification::PromptsChanged | Notification::ResourcesChanged
            )
        })
        .map(|one| {
            let name = if one == Notification::Other { "notifications/none/such" } else { one.name() };
            let params = match one {
                Notification::Cancelled => r#""requestId":"nobody's""#,
                Notification::Progress => r#""progressToken":"nobody's","progress":1"#,
                Notification::Task | Notification::TaskStatus => r#""taskId":"nobody's","status":"working""#,
                Notification::ElicitationComplete => r#""elicitationId":"nobody's""#,
                Notification::ResourceUpdated => r#""uri":"nobody's""#,
                Notification::Acknowledged => {
                    r#""_meta":{"io.modelcontextprotocol/subscriptionId":"nobody's"},"notifications":{}"#
                }
                Notification::Message => r#""level":"debug""#,
                _ => r#""a":1"#,
            };
            let cells = [(true, true), (true, false), (false, true), (false, false)]
                .map(|(client, server)| format!("{}\n{}", call(client, server, ""), said(name, params)));
            Row::new(About::Announced(one), format!("{name} of a server"), cells)
        })
        .collect()
}

/// Requests that no client is asked: a modern server has none.
fn requests() -> Vec<Row> {
    let row = |about: &'static str, method: &str, params: &str, answer: &str| {
        let asks =
            format!(r#"S> {{"jsonrpc":"2.0","id":"s\u0022","method":"{method}","params":{{{params}}}}}"#);
        let cells = [(true, true), (true, false), (false, true), (false, false)].map(|(client, server)| {
            let answer = if server {
                format!("\nS< {{\"jsonrpc\":\"2.0\",\"id\":\"s\\u0022\",{answer}}}")
            } else {
                String::new()
            };
            format!("{}\n{asks}{answer}", call(client, server, ""))
        });
        Row::new(About::ServerRequest(about), format!("{method} of a server"), cells)
    };
    let no = r#""error":{"code":-32601,"message":"drowse declared no such capability"}"#;
    vec![
        row("ping", "ping", "", r#""result":{}"#),
        row("tasks/", "tasks/get", r#""taskId":"7""#, no),
        row("tasks/", "tasks/list", "", no),
        row("", "none/such", "", no),
        row("", "tools/call", r#""name":"t""#, no),
    ]
}

/// The status of a task, for whom it was given to.
fn tasks() -> Vec<Row> {
    let status = |status: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{"taskId":"7\u0037","status":"{status}","ttl":null}}}}"#
        )
    };
    let created = r#""task":{"taskId":"\u00377","status":"working","ttl":60000}"#;
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{created}}}}}"#);
    let legacy = format!(
        "{}\nS> {}\nC< {}\nS> {}\nC< {}\nS> {}\nC< {}\nS> {}\nD> {}\nD< {}",
        call(true, true, r#""task":{"ttl":60000}"#),
        answer("<w>"),
        answer(r#""x""#),
        status("working"),
        status("working"),
        status("completed"),
        status("completed"),
        // It was over.
        status("completed"),
        r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
    );
    // A client that does not know tasks of that kind asks for none; the notification is for nobody.
    let none = |client: bool, server: bool| format!("{}\nS> {}", call(client, server, ""), status("working"));
    vec![Row::new(
        About::More,
        "notifications/tasks/status to whom the task was given",
        [legacy, none(true, false), none(false, true), none(false, false)],
    )]
}
