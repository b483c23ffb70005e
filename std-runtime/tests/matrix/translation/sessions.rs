//! What clients say of their connection, of the log and of changes they want to hear of.

use drowse_core::method::Method;
use drowse_core::notification::Notification;

use super::{About, Row};

/// Cells as they are written.
fn row(about: About, name: &str, cells: [&str; 4]) -> Row {
    Row::new(about, name, cells.map(str::to_owned))
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = openings();
    rows.extend(pings_and_levels());
    rows.extend(subscriptions());
    rows.extend(tasks_listened_to());
    rows.extend(notifications());
    rows.extend(cancellations());
    rows.extend(forms());
    rows
}

fn openings() -> Vec<Row> {
    let initialize = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}"#;
    let again = format!(
        "C> {initialize}\nC< {}",
        r#"{"jsonrpc":"2.0","id":"i","error":{"code":-32600,"message":"initialize is the first request of a connection, and comes once","data":{"drowse":{"kind":"invalid-request","ran":"no"}}}}"#
    );
    // Whoever has spoken of the modern era does not come back to the other one.
    let settled = format!(
        "{}\nS< <list>\nS> {}\nC< <listed>\nC> {initialize}\nC< {}",
        r#"C> {"jsonrpc":"2.0","id":0,"method":"prompts/list","params":{"_meta":{@NEW}}}"#,
        r#"{"jsonrpc":"2.0","id":<w>,"result":{"resultType":"complete","prompts":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"i","error":{"code":-32022,"message":"unsupported protocol version: send 2026-07-28","data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}}"#
    )
    .replace("<list>", r#"{"jsonrpc":"2.0","id":<w>,"method":"prompts/list","params":{"_meta":{<meta>}}}"#)
    .replace("<listed>", r#"{"jsonrpc":"2.0","id":0,"result":{<result>}}"#);
    let legacy = |capabilities: &str, info: &str| {
        format!(
            "C> {initialize}\nC< {{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"result\":{{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{capabilities},\"serverInfo\":{info}}}}}"
        )
    };
    let discover = r#"C> {"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{@NEW}}}"#;
    let discovered = |capabilities: &str, meta: &str| {
        format!(
            "{discover}\nC< {{\"jsonrpc\":\"2.0\",\"id\":\"d\",\"result\":{{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"ttlMs\":0,\"cacheScope\":\"private\",\"capabilities\":{capabilities}{meta}}}}}"
        )
    };
    let offers = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#;
    let extended = offers
        .replace(r#""logging":{}"#, r#""logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}"#);
    let staged = r#"{"name":"staged","version":"1"}"#;
    let ours = concat!(r#"{"name":"drowse","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    let named = format!(r#","_meta":{{"io.modelcontextprotocol/serverInfo":{staged}}}"#);
    let unknown = r#"C> {"jsonrpc":"2.0","id":"d","method":"server/discover"}
        C< {"jsonrpc":"2.0","id":"d","error":{"code":-32601,"message":"there is no such method here","data":{"drowse":{"kind":"unsupported","ran":"no"}}}}"#;
    let mut opened = Row::new(
        About::Request(Method::Initialize),
        "initialize",
        [
            legacy(offers, staged),
            legacy(offers, ours),
            // Who only asked which versions there are still chooses.
            format!("{}\n{}", discovered(offers, &named), legacy(offers, staged)),
            format!("{}\n{}", discovered(&extended, ""), legacy(offers, ours)),
        ],
    );
    opened.fresh = true;
    vec![
        opened,
        Row::new(About::More, "initialize again", [again.clone(), again, settled.clone(), settled]),
        Row::new(
            About::Request(Method::Discover),
            "server/discover",
            [unknown.to_owned(), unknown.to_owned(), discovered(offers, &named), discovered(&extended, "")],
        ),
        row(
            About::Told(Notification::Initialized),
            "notifications/initialized",
            [r#"C> {"jsonrpc":"2.0","method":"notifications/initialized"}"#; 4],
        ),
        row(About::More, "other versions", {
            let lacks = |field: &str, meta: &str| {
                format!(
                    "C> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{{\"_meta\":{{{meta}}}}}}}\nC< {{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":-32602,\"message\":\"params._meta[\\\"{field}\\\"] is missing, and every request must have it\",\"data\":{{\"drowse\":{{\"kind\":\"invalid-request\",\"ran\":\"no\"}}}}}}}}\n"
                )
            };
            let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
            let modern = format!(
                "{}{}{}",
                lacks("io.modelcontextprotocol/protocolVersion", ""),
                lacks("io.modelcontextprotocol/clientCapabilities", version),
                r#"C> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-\u0030\u0031-01","io.modelcontextprotocol/clientCapabilities":{}}}}
                    C< {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version: send 2026-07-28","data":{"supported":["2026-07-28"],"requested":"2030-\u0030\u0031-01"}}}"#
            );
            let legacy = r#"C> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28"}}
                    C< {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"initialize is the first request of a connection, and comes once","data":{"drowse":{"kind":"invalid-request","ran":"no"}}}}"#;
            let leak: [&'static str; 4] = [legacy, legacy, modern.clone().leak(), modern.leak()];
            leak
        }),
    ]
}

fn pings_and_levels() -> Vec<Row> {
    let refused = |method: &str, params: &str| {
        format!(
            "C> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{{params}\"_meta\":{{@NEW}}}}}}\nC< {{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":-32601,\"message\":\"there is no such method here\",\"data\":{{\"drowse\":{{\"kind\":\"unsupported\",\"ran\":\"no\"}}}}}}}}"
        )
    };
    let ping = "C> {\"jsonrpc\":\"2.0\",\"id\":\"p\\u0000\",\"method\":\"ping\"}\nC< {\"jsonrpc\":\"2.0\",\"id\":\"p\\u0000\",\"result\":{}}".to_owned();
    let no_level = r#"C> {"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}
        C< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"params.level must be a log level, from debug to emergency","data":{"drowse":{"kind":"invalid-request","ran":"no"}}}}"#;
    let level = |method: &str, of: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{of}","logger":"\u0061","data":{{"{method}":[1.0]}}}}}}"#
        )
    };
    let (debug, warning, error) = (level("x", "debug"), level("x", "warning"), level("x", "error"));
    let call = |id: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"prompts/get","params":{{"name":"p","_meta":{{{meta}}}}}}}"#
        )
    };
    let done =
        |id: &str, kind: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"messages":[]}}}}"#);
    let set = r#"C> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warn\u0069ng"}}"#;
    let ok = r#"C< {"jsonrpc":"2.0","id":1,"result":{}}"#;
    let wanted = r#""io.modelcontextprotocol/logLevel":"warning""#;
    let messages = |hears: bool| {
        let told = if hears { format!("C< {warning}\nC< {error}\n") } else { String::new() };
        format!("S> {debug}\nS> {warning}\nS> {error}\n{told}")
    };
    let complete = r#""resultType":"complete","#;
    let told = r#"S< {"jsonrpc":"2.0","id":<set>,"method":"logging/setLevel","params":{"level":"warning"}}
        S> {"jsonrpc":"2.0","id":<set>,"result":{}}"#;
    let legacy_legacy = format!(
        "{set}\n{ok}\n{told}\nC> {}\nS< {}\n{}S> {}\nC< {}",
        call("2", ""),
        call("<w>", ""),
        messages(true),
        done("<w>", ""),
        done("2", "")
    );
    let legacy_modern = format!(
        "{set}\n{ok}\nC> {}\nS< {}\n{}S> {}\nC< {}",
        call("2", ""),
        call("<w>", &format!("{wanted},@OLD")),
        messages(true),
        done("<w>", complete),
        done("2", "")
    );
    // A request says it for itself, and hears what is said while it is under way.
    let modern_legacy = format!(
        "C> {}\n{told}\nS< {}\n{}S> {}\nC< {}\nC> {}\nS< {}\n{}S> {}\nC< {}",
        call("2", &format!("@NEW,{wanted}")),
        call("<w>", ""),
        messages(true),
        done("<w>", ""),
        done("2", complete),
        call("3", "@NEW"),
        call("<v>", ""),
        messages(false),
        done("<v>", ""),
        done("3", complete),
    );
    let modern_modern = format!(
        "C> {}\nS< {}\n{}S> {}\nC< {}\nC> {}\nS< {}\n{}S> {}\nC< {}",
        call("2", &format!("@NEW,{wanted}")),
        call("<w>", &format!("{wanted},@NEW")),
        messages(true),
        done("<w>", complete),
        done("2", complete),
        call("3", "@NEW"),
        call("<v>", "@NEW"),
        messages(false),
        done("<v>", complete),
        done("3", complete),
    );
    let modern = refused("ping", "");
    let modern_level = refused("logging/setLevel", r#""level":"info","#);
    vec![
        Row::new(About::Request(Method::Ping), "ping", [ping.clone(), ping, modern.clone(), modern]),
        Row::new(
            About::Request(Method::SetLevel),
            "logging/setLevel",
            [
                format!("{no_level}\n{set}\n{ok}\n{told}"),
                format!("{no_level}\n{set}\n{ok}"),
                modern_level.clone(),
                modern_level,
            ],
        ),
        Row::new(
            About::Announced(Notification::Message),
            "notifications/message",
            [legacy_legacy, legacy_modern, modern_legacy, modern_modern],
        ),
    ]
}

fn subscriptions() -> Vec<Row> {
    let refused = |method: &str| {
        format!(
            "C> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{{\"uri\":\"a:1\",\"_meta\":{{@NEW}}}}}}\nC< {{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":-32601,\"message\":\"there is no such method here\",\"data\":{{\"drowse\":{{\"kind\":\"unsupported\",\"ran\":\"no\"}}}}}}}}"
        )
    };
    let ours = concat!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"drowse","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""},"io.modelcontextprotocol/clientCapabilities":{}"#
    );
    let listen = |id: &str, filter: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"_meta":{{{ours}}},"notifications":{filter}}}}}"#
        )
    };
    let acknowledged = |id: &str, filter: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{filter}}}}}"#
        )
    };
    let updated = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"uri":"a:1"}}}}"#
        )
    };
    let old_updated =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}"#;
    let subscribe = |id: &str, on: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{on}","params":{{"uri":"a:1"}}}}"#)
    };
    let done = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    let both = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}"#;
    let lists = r#"{"toolsListChanged":true}"#;
    let stop = |id: &str| {
        format!(
            "p< {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":\"the caller cancelled\"}}}}"
        )
    };
    // What was listened to on the lists alone is replaced by one stream for both, and back. Over HTTP the two overlap.
    let legacy_modern = format!(
        "C> {}\nS< {}\nS> {}\n{}\nC< {}\nS> {}\nC< {old_updated}\n~wait 1\nh< closed <stream>",
        subscribe("1", "subscribe"),
        listen("<w>", both),
        acknowledged("<w>", both),
        stop("<stream>"),
        done("1"),
        updated("<w>"),
    );
    let legacy_legacy = format!(
        "C> {}\nS< {}\nS> {}\nC< {}\nS> {old_updated}\nC< {old_updated}",
        subscribe("1", "subscribe"),
        subscribe("<w>", "subscribe"),
        done("<w>"),
        done("1"),
    );
    let off_modern = format!(
        "{legacy_modern}\nC> {}\nC< {}\nS< {}\nS> {}\n{}\n~wait 1\nh< closed <w>",
        subscribe("2", "unsubscribe"),
        done("2"),
        listen("<v>", lists),
        acknowledged("<v>", lists),
        stop("<w>")
    );
    let off_legacy = format!(
        "{legacy_legacy}\nC> {}\nC< {}\nS< {}\nS> {}\nS> {old_updated}",
        subscribe("2", "unsubscribe"),
        done("2"),
        subscribe("<v>", "unsubscribe"),
        done("<v>")
    );
    let no_uri = r#"C> {"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":1}}
        C< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params.uri must be a string","data":{"drowse":{"kind":"invalid-request","ran":"no"}}}}"#;
    let listens = |id: &str| {
        format!(
            r#"C> {{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{both},"_meta":{{@NEW}}}}}}"#
        )
    };
    let id = r#""listen:\u0030""#;
    let modern_legacy = format!(
        "{}\nS< {}\nS> {}\nC< {}\nS> {old_updated}\nC< {}",
        listens(id),
        subscribe("<w>", "subscribe"),
        done("<w>"),
        acknowledged(id, both),
        updated(id),
    );
    let modern_modern = format!(
        "{}\nS< {}\nS> {}\n{}\nC< {}\nS> {}\nC< {}",
        listens(id),
        listen("<w>", both),
        acknowledged("<w>", both),
        "p< {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":<stream>,\"reason\":\"the caller cancelled\"}}",
        acknowledged(id, both),
        updated("<w>"),
        updated(id),
    );
    let unheard = |id: &str| {
        format!(
            "C> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{both}}}}}\nC< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,\"message\":\"there is no such method here\",\"data\":{{\"drowse\":{{\"kind\":\"unsupported\",\"ran\":\"no\"}}}}}}}}"
        )
    };
    vec![
        Row::new(
            About::Request(Method::Subscribe),
            "resources/subscribe",
            [
                format!("{no_uri}\n{legacy_legacy}"),
                format!("{no_uri}\n{legacy_modern}"),
                refused("resources/subscribe"),
                refused("resources/subscribe"),
            ],
        ),
        Row::new(
            About::Request(Method::Unsubscribe),
            "resources/unsubscribe",
            [off_legacy, off_modern, refused("resources/unsubscribe"), refused("resources/unsubscribe")],
        ),
        Row::new(
            About::Request(Method::Listen),
            "subscriptions/listen",
            [unheard("1"), unheard("1"), modern_legacy.clone(), modern_modern.clone()],
        ),
        Row::new(
            About::Announced(Notification::ResourceUpdated),
            "notifications/resources/updated",
            [
                // To nobody who did not subscribe before it came.
                format!("S> {old_updated}\n~wait 1\n{legacy_legacy}\nD> {}\nD< {}", done_ping(), done("9")),
                format!("{legacy_modern}\nD> {}\nD< {}", done_ping(), done("9")),
                modern_legacy,
                modern_modern,
            ],
        ),
    ]
}

/// Tasks of the extension, which only its era has: a client listens to those that it names.
fn tasks_listened_to() -> Vec<Row> {
    const EXTENDED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let listens = |id: &str, filter: &str| {
        format!(
            r#"C> {{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{filter},"_meta":{{@NEW}}}}}}"#
        )
    };
    let opened = |filter: &str| {
        let ours = concat!(r#"{"name":"drowse","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
        format!(
            r#"{{"jsonrpc":"2.0","id":<w>,"method":"subscriptions/listen","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{ours},"io.modelcontextprotocol/clientCapabilities":{EXTENDED}}},"notifications":{filter}}}}}"#
        )
    };
    let acknowledged = |id: &str, filter: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{filter}}}}}"#
        )
    };
    let said = r#""taskId":"7\u0037","status":"working","ttlMs":1e3,"a":{ "b" : 1.0 }"#;
    let status = |task: &str, meta: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{{{task}{meta}}}}}"#)
    };
    let of = |id: &str| format!(r#""io.modelcontextprotocol/subscriptionId":{id}"#);
    let told = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{{"_meta":{{{},"k":[ ]}},{said}}}}}"#,
            of(id)
        )
    };
    let id = r#""l\u0031""#;
    let filter = r#"{"toolsListChanged":true,"taskIds":["77","\u0038","8"]}"#;
    let lists = r#"{"toolsListChanged":true}"#;
    let some = r#"{"toolsListChanged":true,"taskIds":["77"]}"#;
    let modern_modern = format!(
        "D> {}\nD< {}\n{}\nS< {}\nS> {}\np< {}\nC< {}\nS> {}\nC< {}\nS> {}",
        listens("9", "{}").replace("C> ", ""),
        acknowledged("9", "{}"),
        listens(id, filter),
        opened(r#"{"toolsListChanged":true,"taskIds":["77","8"]}"#),
        acknowledged("<w>", some),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":<stream>,"reason":"the caller cancelled"}}"#,
        acknowledged(id, some),
        status(said, &format!(r#","_meta":{{"k":[ ],{}}}"#, of("<w>"))),
        told(id),
        // The server said that it would not tell of that one, and of these nobody asked.
        status(r#""taskId":"8","status":"working""#, &format!(r#","_meta":{{{}}}"#, of("<w>"))),
    );
    let left_out =
        format!("{}\nC< {}\nS> {}", listens(id, filter), acknowledged(id, lists), status(said, ""));
    let unheard = format!(
        "{}\nC< {}",
        listens("1", filter),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"there is no such method here","data":{"drowse":{"kind":"unsupported","ran":"no"}}}}"#
    );
    let undeclared = format!(
        "{}\nC< {}\n{}\nC< {}",
        listens("1", filter),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"who wants to hear of tasks has to declare the extension io.modelcontextprotocol/tasks","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#,
        listens("2", r#"{"taskIds":[]}"#),
        acknowledged("2", "{}"),
    );
    vec![
        Row::new(
            About::More,
            "notifications/tasks to whom listens",
            [unheard.clone(), unheard.clone(), left_out, modern_modern],
        )
        .with(EXTENDED, super::FORM),
        Row::new(
            About::More,
            "notifications/tasks to whom listens and does not declare the extension",
            [unheard.clone(), unheard, undeclared.clone(), undeclared],
        ),
    ]
}

fn done_ping() -> String {
    r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#.to_owned()
}

/// What clients say that no server of drowse's is told.
fn notifications() -> Vec<Row> {
    let said = |method: &str, params: &str| {
        format!(r#"C> {{"jsonrpc":"2.0","method":"{method}","params":{{{params}}}}}"#)
    };
    Notification::all()
        .filter(|one| *one != Notification::Initialized)
        .map(|one| {
            let name = if one == Notification::Other { "notifications/none/such" } else { one.name() };
            let params = match one {
                Notification::Cancelled => r#""requestId":"nobody's""#,
                Notification::Progress => r#""progressToken":1,"progress":1"#,
                Notification::Task | Notification::TaskStatus => r#""taskId":"7","status":"working""#,
                _ => r#""a":1"#,
            };
            // Of those that mean something, what they mean stands elsewhere.
            Row::always(About::Told(one), format!("{name} of a client"), &said(name, params))
        })
        .collect()
}

fn cancellations() -> Vec<Row> {
    let line = |id: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"completion/complete","params":{{"a":1,"_meta":{{{meta}}}}}}}"#
        )
    };
    let level = r#""io.modelcontextprotocol/logLevel":"info","#;
    let row = |name: &str, reason: &str, said: &str| {
        let cancel = format!(
            r#"C> {{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"x"{reason}}}}}"#
        );
        let told = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":<w>,"reason":{said}}}}}"#
        );
        let cell = |sent: &str, arrives: &str, remote: &str| {
            format!(
                "C> {}\nS< {}\n{}\n{cancel}\np< {told}\n{remote}",
                line(r#""x""#, sent),
                line("<w>", arrives),
                // Of another type, so of another request.
                r#"C> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0079"}}"#,
            )
        };
        // The order of the two over HTTP: the stream is broken off, then a legacy server is told. A modern one is told
        // nothing more, so not why either.
        let old = format!("h< {told}\nh< closed <w>");
        let new = "h< closed <w>";
        Row::new(
            About::More,
            name,
            [
                cell("", "", &old),
                cell("", &format!("{level}@OLD"), new),
                cell("@NEW", "", &old),
                cell("@NEW", "@NEW", new),
            ],
        )
    };
    let (own, ours) = (r#""\u0072 \" \n""#, r#""the caller cancelled""#);
    vec![
        row("cancelled by the client", "", ours),
        row("cancelled by the client, who says why", &format!(r#","reason":{own}"#), own),
        row("cancelled by the client, who says something else", r#","reason":["r"]"#, ours),
    ]
}

/// Batches, nonsense, answers to nothing.
fn forms() -> Vec<Row> {
    let nonsense = r#"C> {"jsonrpc":"2.0","id":true,"method":"ping"}
        C< {"jsonrpc":"2.0","error":{"code":-32600,"message":"<why>","data":{"drowse":{"kind":"invalid-request","ran":"no"}}}}"#;
    let batch = r#"C> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]
        C< {"jsonrpc":"2.0","error":{"code":-32600,"message":"batches are not part of this revision of the protocol: send one message a line","data":{"drowse":{"kind":"invalid-request","ran":"no"}}}}"#;
    let opened = r#"C> {"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}
        C< {"jsonrpc":"2.0","id":"i","result":{<result>}}"#;
    let old_batch = |meta: &str| {
        let arrives = format!(r#"{{"jsonrpc":"2.0","id":<w>,"method":"prompts/list"{meta}}}"#);
        format!(
            "{opened}\n{}\nS< {arrives}\nS> {}\nC< {}",
            r#"C> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"2","method":"prompts/list"}]"#,
            r#"{"jsonrpc":"2.0","id":<w>,"result":{"prompts":[]}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"2","result":{"prompts":[]}}]"#,
        )
    };
    let told = concat!(
        r#","params":{"_meta":{"io.modelcontextprotocol/logLevel":"info","#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"old","version":"1"}}}"#
    );
    let mut old = Row::new(
        About::More,
        "batch of an old client",
        [old_batch(""), old_batch(told), batch.to_owned(), batch.to_owned()],
    );
    old.fresh = true;
    vec![
        Row::always(About::More, "nonsense", nonsense),
        Row::always(About::More, "batch", batch),
        old,
        Row::always(
            About::More,
            "answers to nothing",
            "C> {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\nC> {\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"error\":{\"code\":1,\"message\":\"m\"}}",
        ),
    ]
}
