//! What servers ask of clients: by requests in the legacy era, in results that are answered by another request in the
//! modern one.

use drowse_core::front::round::Wanted;
use drowse_core::held::Kind;
use drowse_core::notification::Notification;

use super::server::call;
use super::{ALL, About, Row};

/// The params of a question, as the server writes them and as the other era hears them; what a client answers.
struct Question {
    wanted: Wanted,
    name: &'static str,
    method: &'static str,
    params: &'static str,
    answer: &'static str,
}

const FORM: Question = Question {
    wanted: Wanted::Question(Kind::Form),
    name: "elicitation/create",
    method: "elicitation/create",
    params: r#"{"message":"m\u00e9","requestedSchema":{"type":"object", "properties":{}}}"#,
    answer: r#"{"action":"accept","content":{"a\u0020":1.0}}"#,
};

const SAMPLING: Question = Question {
    wanted: Wanted::Question(Kind::Sampling),
    name: "sampling/createMessage",
    method: "sampling\\u002fcreateMessage",
    params: r#"{"messages":[{"role":"user","content":{"type":"text","text":"\""}}],"maxTokens":1e1}"#,
    answer: r#"{"role":"assistant","content":{"type":"text","text":"\/"},"model":"m"}"#,
};

const SAMPLING_WITH_TOOLS: Question = Question {
    wanted: Wanted::Question(Kind::SamplingWithTools),
    name: "sampling/createMessage with tools",
    method: "sampling/createMessage",
    params: r#"{"messages":[],"maxTokens":1,"tools":[{"name":"t","inputSchema":{}}]}"#,
    answer: r#"{"role":"assistant","content":[],"model":"m","stopReason":"toolUse"}"#,
};

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = [FORM, SAMPLING, SAMPLING_WITH_TOOLS].iter().map(asked).collect();
    rows.push(url());
    rows.extend(roots());
    rows.extend(rounds());
    rows.extend(undeclared());
    rows.extend(visits());
    rows.extend(held());
    rows.push(progress());
    rows.extend(taken_back());
    rows.push(unknown_result());
    rows
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

const DONE: &str = r#"{"content":[{"type":"text","text":"done"}]}"#;
const COMPLETE: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

/// A call that its client puts again, and how it arrives at a modern server, with these members after its name.
fn again(id: &str, wire: Option<&str>, before: &str, more: &str) -> String {
    match wire {
        None => request(id, "tools/call", &format!(r#"{{"name":"t","_meta":{{@NEW}},{more}}}"#)),
        Some(wire) => request(wire, "tools/call", &format!(r#"{{{before}"name":"t"{more}}}"#)),
    }
}

/// The meta with which a legacy client's call stands at a modern server.
fn old_meta(wire: &str) -> String {
    format!(r#""_meta":{{"progressToken":{wire},"io.modelcontextprotocol/logLevel":"info",@OLD}},"#)
}

fn asked(question: &Question) -> Row {
    let Question { wanted, name, method, params, answer } = question;
    let required = |id: &str, kind: &str, key: &str, state: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{{key}:{{"method":"{method}","params":{params}}}}}{kind}{state}}}"#
            ),
        )
    };
    let key = r#""k\"\u0041""#;
    let state = r#","requestState":"s\u0041\/""#;
    let legacy_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, true, ""),
        request(r#""q\n""#, method, params),
        request("<q>", method, params),
        response("<q>", answer),
        response(r#""q\n""#, answer),
        response("<w>", DONE),
        response(r#""x""#, DONE)
    );
    let legacy_modern = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        required("<w>", "", key, state),
        request("<q>", method, params),
        response("<q>", answer),
        again("", Some("<v>"), &old_meta("<v>"), &format!(r#","inputResponses":{{{key}:{answer}}}{state}"#)),
        response("<v>", COMPLETE),
        response(r#""x""#, DONE)
    );
    let modern_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(false, true, ""),
        request("0", method, params),
        required(r#""x""#, "", r#""q1""#, r#","requestState":"<state>""#),
        again("5", None, "", &format!(r#""inputResponses":{{"q1":{answer}}},"requestState":"<state>""#)),
        response("0", answer),
        response("<w>", DONE),
        response("5", COMPLETE)
    );
    let modern_modern = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(false, false, ""),
        required("<w>", "", key, state),
        required(r#""x""#, "", key, state),
        again("5", None, "", &format!(r#""inputResponses":{{{key}:{answer}}}{state}"#)),
        request(
            "<v>",
            "tools/call",
            &format!(
                r#"{{"name":"t","_meta":{{"progressToken":<v>,@NEW}},"inputResponses":{{{key}:{answer}}}{state}}}"#
            )
        ),
        response("<v>", COMPLETE),
        response("5", COMPLETE)
    );
    Row::new(About::Asked(*wanted), *name, [legacy_legacy, legacy_modern, modern_legacy, modern_modern])
        .with(ALL, ALL)
}

/// An address to visit has an identifier in the legacy era, and none in the modern one.
fn url() -> Row {
    let accepted = r#"{"action":"accept"}"#;
    let visit = r#""mode":"url","url":"https://a/?b=\u0026","message":"m""#;
    let named = |id: &str| {
        format!(r#"{{"mode":"url","elicitationId":{id},"url":"https://a/?b=\u0026","message":"m"}}"#)
    };
    let own = r#""i\u0064""#;
    let required = |id: &str, key: &str, state: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"{key}":{{"method":"elicitation/create","params":{{{visit}}}}}}}{state}}}"#
            ),
        )
    };
    let complete =
        r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"id"}}"#;
    let legacy_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {complete}\nC< {complete}\nS> {complete}\nS> {}\nC< {}\nD> {}\nD< {}",
        call(true, true, ""),
        request("1", "elicitation/create", &named(own)),
        request("<q>", "elicitation/create", &named(own)),
        response("<q>", accepted),
        response("1", accepted),
        response("<w>", DONE),
        response(r#""x""#, DONE),
        r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#
    );
    let legacy_modern = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        required("<w>", "k", ""),
        request("<q>", "elicitation/create", &format!(r#"{{"elicitationId":"drowse-<q>",{visit}}}"#)),
        response("<q>", accepted),
        again("", Some("<v>"), &old_meta("<v>"), &format!(r#","inputResponses":{{"k":{accepted}}}"#)),
        response("<v>", COMPLETE),
        response(r#""x""#, DONE)
    );
    let modern_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {complete}\nS> {}\nC< {}",
        call(false, true, ""),
        request("1", "elicitation/create", &named(own)),
        required(r#""x""#, "q1", r#","requestState":"<state>""#),
        again("5", None, "", &format!(r#""inputResponses":{{"q1":{accepted}}},"requestState":"<state>""#)),
        response("1", accepted),
        response("<w>", DONE),
        response("5", COMPLETE)
    );
    let modern_modern = format!(
        "{}\nS> {}\nC< {}",
        call(false, false, ""),
        required("<w>", "k", ""),
        required(r#""x""#, "k", "")
    );
    Row::new(
        About::Asked(Wanted::Question(Kind::Url)),
        "elicitation/create of an address",
        [legacy_legacy, legacy_modern, modern_legacy, modern_modern],
    )
    .with(ALL, ALL)
}

/// A legacy server has the roots of its session, whoever its clients are; a modern one asks the client.
fn roots() -> Vec<Row> {
    let asks = request(r#""r""#, "roots/list", "{}");
    let list = r#"{"roots":[{"uri":"file:///a","name":"\u00e9"}]}"#;
    let pinned = r#"{"roots":[{"uri":"file:///s"}]}"#;
    let required = |id: &str| {
        response(id, r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}}"#)
    };
    let legacy = |client| format!("{}\nS> {asks}\nS< {}", call(client, true, ""), response(r#""r""#, pinned));
    let legacy_modern = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        required("<w>"),
        r#"{"jsonrpc":"2.0","id":<q>,"method":"roots/list"}"#,
        response("<q>", list),
        again("", Some("<v>"), &old_meta("<v>"), &format!(r#","inputResponses":{{"k":{list}}}"#)),
        response("<v>", COMPLETE),
        response(r#""x""#, DONE)
    );
    let modern_modern =
        format!("{}\nS> {}\nC< {}", call(false, false, ""), required("<w>"), required(r#""x""#));
    let cells = [legacy(true), legacy_modern, legacy(false), modern_modern];
    let mut with = Row::new(About::Asked(Wanted::Roots), "roots/list", cells).with(ALL, ALL);
    with.roots = &["file:///s"];
    let none = |client| {
        format!(
            "{}\nS> {asks}\nS< {}",
            call(client, true, ""),
            r#"{"jsonrpc":"2.0","id":"r","error":{"code":-32601,"message":"drowse declared no such capability"}}"#
        )
    };
    // A client without roots has none of them.
    let empty = format!(
        "{}\nS> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        required("<w>"),
        again("", Some("<v>"), &old_meta("<v>"), r#","inputResponses":{"k":{"roots":[]}}"#),
        response("<v>", COMPLETE),
        response(r#""x""#, DONE)
    );
    let without = Row::new(
        About::More,
        "roots/list where there are none",
        [
            none(true),
            empty,
            none(false),
            format!("{}\nS> {}\nC< {}", call(false, false, ""), required("<w>"), required(r#""x""#)),
        ],
    );
    vec![with, without]
}

/// Several questions, several rounds, and what only asks for another try.
fn rounds() -> Vec<Row> {
    let form = FORM.params;
    let two = |id: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"elicitation/create","params":{form}}},"b":{{"method":"roots/list"}}}},"requestState":"one"}}"#
            ),
        )
    };
    let later = |id: &str| response(id, r#"{"resultType":"input_required","requestState":"two"}"#);
    let declined = r#"{"action":"decline"}"#;
    let answers = format!(r#","inputResponses":{{"a":{declined},"b":{{"roots":[]}}}},"requestState":"one""#);
    let legacy_modern = format!(
        "{}\nS> {}\nC< {}\nC< {}\nC> {}\nC> {}\nS< {}\nS> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        two("<w>"),
        request("<q>", "elicitation/create", form),
        r#"{"jsonrpc":"2.0","id":<r>,"method":"roots/list"}"#,
        response("<r>", r#"{"roots":[]}"#),
        response("<q>", declined),
        again("", Some("<v>"), &old_meta("<v>"), &answers),
        later("<v>"),
        again("", Some("<u>"), &old_meta("<u>"), r#","requestState":"two""#),
        response("<u>", COMPLETE),
        response(r#""x""#, DONE)
    );
    // Of a client that answers with an error, the server hears that it cancelled.
    let failed = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        response(
            "<w>",
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"elicitation/create","params":{form}}}}}}}"#
            )
        ),
        request("<q>", "elicitation/create", form),
        r#"{"jsonrpc":"2.0","id":<q>,"error":{"code":-1,"message":"no"}}"#,
        again("", Some("<v>"), &old_meta("<v>"), r#","inputResponses":{"a":{"action":"cancel"}}"#),
        response("<v>", COMPLETE),
        response(r#""x""#, DONE)
    );
    // Two questions of a legacy server: one round each.
    let legacy_legacy = format!(
        "{}\nS> {}\nC< {}\nS> {}\nC< {}\nC> {}\nS< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, true, ""),
        request("1", "elicitation/create", form),
        request("<q>", "elicitation/create", form),
        request("2", "elicitation/create", form),
        request("<r>", "elicitation/create", form),
        response("<r>", declined),
        response("2", declined),
        response("<q>", declined),
        response("1", declined),
        response("<w>", DONE),
        response(r#""x""#, DONE)
    );
    let shown = |id: &str, key: &str, state: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"{key}":{{"method":"elicitation/create","params":{form}}}}},"requestState":"<{state}>"}}"#
            ),
        )
    };
    let modern_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(false, true, ""),
        request("1", "elicitation/create", form),
        shown(r#""x""#, "q1", "one"),
        again("5", None, "", &format!(r#""inputResponses":{{"q1":{declined}}},"requestState":"<one>""#)),
        response("1", declined),
        request("2", "elicitation/create", form),
        shown("5", "q2", "two"),
        again("6", None, "", &format!(r#""inputResponses":{{"q2":{declined}}},"requestState":"<two>""#)),
        response("2", declined),
        response("<w>", DONE),
        response("6", COMPLETE)
    );
    let modern_modern = format!("{}\nS> {}\nC< {}", call(false, false, ""), later("<w>"), later(r#""x""#));
    let error_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nS> {}\nC< {}",
        call(true, true, ""),
        request("1", "elicitation/create", form),
        request("<q>", "elicitation/create", form),
        r#"{"jsonrpc":"2.0","id":<q>,"error":{"code":-1,"message":"n\u006f"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"n\u006f"}}"#,
        response("<w>", DONE),
        response(r#""x""#, DONE)
    );
    vec![
        Row::new(
            About::More,
            "several rounds",
            [legacy_legacy, legacy_modern, modern_legacy.clone(), modern_modern.clone()],
        )
        .with(ALL, ALL),
        Row::new(About::More, "a client's error", [error_legacy, failed, modern_legacy, modern_modern])
            .with(ALL, ALL),
    ]
}

/// What the client did not declare: the server is told so, and if the call fails for it the client learns why.
fn undeclared() -> Vec<Row> {
    let none = "{}";
    let row = |question: &Question, refused: &str, required: &str, fails: bool| {
        let asks = request("1", question.method, question.params);
        let refused = format!(r#"{{"jsonrpc":"2.0","id":1,{refused}}}"#);
        let failed = if fails { r#"{"content":[],"isError":true}"# } else { DONE };
        let legacy = format!(
            "{}\nS> {asks}\nS< {refused}\nS> {}\nC< {}",
            call(true, true, ""),
            response("<w>", failed),
            response(r#""x""#, failed)
        );
        let told = if fails {
            format!(
                r#"{{"jsonrpc":"2.0","id":"x","error":{{"code":-32021,"message":"the server needs a capability for this that the client did not declare","data":{{"requiredCapabilities":{required}}}}}}}"#
            )
        } else {
            response(r#""x""#, COMPLETE)
        };
        let modern = format!(
            "{}\nS> {asks}\nS< {refused}\nS> {}\nC< {told}",
            call(false, true, ""),
            response("<w>", failed)
        );
        // A modern server is told with the request, and says so itself.
        let says = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32021,"message":"m","data":{{"requiredCapabilities":{required}}}}}}}"#
            )
        };
        let of_modern =
            |client| format!("{}\nS> {}\nC< {}", call(client, false, ""), says("<w>"), says(r#""x""#));
        let name =
            format!("{} undeclared, {}", question.name, if fails { "fatally" } else { "and done without" });
        Row::new(About::More, name, [legacy, of_modern(true), modern, of_modern(false)]).with(none, ALL)
    };
    let declined = r#""result":{"action":"decline"}"#;
    let no_sampling = r#""error":{"code":-1,"message":"the client offers no sampling"}"#;
    let mut rows = Vec::new();
    for fails in [false, true] {
        rows.push(row(&FORM, declined, r#"{"elicitation":{"form":{}}}"#, fails));
        rows.push(row(&SAMPLING, no_sampling, r#"{"sampling":{}}"#, fails));
        rows.push(row(&SAMPLING_WITH_TOOLS, no_sampling, r#"{"sampling":{"tools":{}}}"#, fails));
    }
    // A modern server that asks all the same: there is a way to decline a form, and none to decline a sampling.
    let wants = |question: &Question, id: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"{}","params":{}}}}}}}"#,
                question.method, question.params
            ),
        )
    };
    let form = format!(
        "{}\nS> {}\nS< {}\nS> {}\nC< {}",
        call(true, false, ""),
        wants(&FORM, "<w>"),
        again("", Some("<v>"), &old_meta("<v>"), r#","inputResponses":{"k":{"action":"decline"}}"#),
        response("<v>", COMPLETE),
        response(r#""x""#, DONE)
    );
    let sampling = format!(
        "{}\nS> {}\nC< {}",
        call(true, false, ""),
        wants(&SAMPLING, "<w>"),
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-31000,"message":"the server asks for a capability that the client did not declare","data":{"drowse":{"kind":"unsupported","ran":"unknown"}}}}"#
    );
    let passes = |question: &Question| {
        format!("{}\nS> {}\nC< {}", call(false, false, ""), wants(question, "<w>"), wants(question, r#""x""#))
    };
    // Outside any call nobody can be asked.
    let nobody = |answer: &str, question: &Question| {
        format!(
            "S> {}\nS< {}",
            request("1", question.method, question.params),
            format!(r#"{{"jsonrpc":"2.0","id":1,{answer}}}"#)
        )
    };
    let cancelled = r#""result":{"action":"cancel"}"#;
    let silent = r#""error":{"code":-1,"message":"nobody answered"}"#;
    rows.push(
        Row::new(
            About::More,
            "a form that a modern server wants of whom it may not ask",
            [nobody(cancelled, &FORM), form, nobody(cancelled, &FORM), passes(&FORM)],
        )
        .with(none, ALL),
    );
    rows.push(
        Row::new(
            About::More,
            "a sampling that a modern server wants of whom it may not ask",
            [nobody(silent, &SAMPLING), sampling, nobody(silent, &SAMPLING), passes(&SAMPLING)],
        )
        .with(none, ALL),
    );
    rows
}

/// A legacy server refuses a call until addresses were visited (-32042).
fn visits() -> Vec<Row> {
    let elicitations = |id: &str| {
        format!(
            r#"[{{"mode":"url","elicitationId":{id},"url":"https://a/\u0061","message":"m"}},{{"mode":"url","url":"b","message":"n","elicitationId":"j"}}]"#
        )
    };
    let error = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"first","data":{{"elicitations":{}}}}}}}"#,
            elicitations(r#""i""#)
        )
    };
    let complete = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{{"elicitationId":"{id}"}}}}"#
        )
    };
    let shown = r#"{"jsonrpc":"2.0","id":"x","result":{"resultType":"input_required","inputRequests":{"v1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a/\u0061","message":"m"}},"v2":{"method":"elicitation/create","params":{"mode":"url","url":"b","message":"n"}}}}}"#;
    let accepted = r#""inputResponses":{"v1":{"action":"accept"},"v2":{"action":"accept"}}"#;
    let legacy = format!(
        "{}\nS> {}\nC< {}\nS> {}\nC< {}\nD> {}\nD< {}",
        call(true, true, ""),
        error("<w>"),
        error(r#""x""#),
        // A process may say it any time; over HTTP there is a stream for it.
        complete("i"),
        complete("i"),
        r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#
    );
    let modern = format!(
        "{}\nS> {}\nC< {shown}\nS> {}\nC> {}\nS< {}\nS> {}\nC< {}\nC> {}\nC< {}",
        call(false, true, ""),
        error("<w>"),
        complete("i"),
        again("5", None, "", accepted),
        request("<v>", "tools/call", r#"{"name":"t","_meta":{"progressToken":<v>}}"#),
        response("<v>", DONE),
        response("5", COMPLETE),
        again("6", None, "", r#""inputResponses":{"v1":{"action":"accept"},"v2":{"action":"decline"}}"#),
        r#"{"jsonrpc":"2.0","id":6,"error":{"code":-31000,"message":"the user did not accept what the server requires first, so the request was not put again","data":{"drowse":{"kind":"declined","ran":"no"}}}}"#
    );
    // A modern server has no such error; whatever it means by it, the client is told.
    let pass = |client| format!("{}\nS> {}\nC< {}", call(client, false, ""), error("<w>"), error(r#""x""#));
    let cannot = format!(
        "{}\nS> {}\nC< {}",
        call(false, true, ""),
        error("<w>"),
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32021,"message":"the server needs a capability for this that the client did not declare","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}}"#
    );
    // Where nothing can be required first, and where nothing is said that could be shown.
    let list = |id: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"completion/complete","params":{{"_meta":{{{meta}}}}}}}"#
        )
    };
    let level = r#""io.modelcontextprotocol/logLevel":"info","#;
    let other = |sent: &str, arrives: &str, code: i32| {
        let error = |id: &str, code: i32| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"first","data":{{"elicitations":{}}}}}}}"#,
                elicitations("1")
            )
        };
        format!(
            "C> {}\nS< {}\nS> {}\nC< {}",
            list(r#""x""#, sent),
            list("<w>", arrives),
            error("<w>", -32042),
            error(r#""x""#, code)
        )
    };
    vec![
        Row::new(
            About::Announced(Notification::ElicitationComplete),
            "addresses that are required",
            [legacy.clone(), pass(true), modern, pass(false)],
        )
        .with(ALL, ALL),
        Row::new(
            About::More,
            "addresses that are required of whom cannot visit any",
            [legacy, pass(true), cannot, pass(false)],
        ),
        Row::new(
            About::More,
            "addresses that are required of what cannot wait",
            [
                other("", "", -32042),
                other("", &format!("{level}@OLD"), -32042),
                other("@NEW", "", -32603),
                other("@NEW", "@NEW", -32042),
            ],
        ),
    ]
}

/// The rules of a call that is held, of which only modern clients of legacy servers know.
fn held() -> Vec<Row> {
    let form = FORM.params;
    let shown = |id: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"q1":{{"method":"elicitation/create","params":{form}}}}},"requestState":"<state>"}}"#
            ),
        )
    };
    let answers = |action: &str| {
        format!(r#""inputResponses":{{"q1":{{"action":"{action}"}}}},"requestState":"<state>""#)
    };
    let lost = |id: &str, kind: &str, why: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-31000,"message":"<{why}>","data":{{"drowse":{{"kind":"{kind}","ran":"unknown"}}}}}}}}"#
        )
    };
    let begin = format!(
        "{}\nS> {}\nC< {}",
        call(false, true, ""),
        request("1", "elicitation/create", form),
        shown(r#""x""#)
    );
    let decline = response("1", r#"{"action":"decline"}"#);
    let told = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":<w>,"reason":"<why2>"}}"#;
    let row = |name: &str, story: String| {
        // Elsewhere a state is the server's own, or a member like any other.
        let pass = |client, server| {
            format!(
                "{}\nS> {}\nC< {}",
                call(client, server, ""),
                response("<w>", if server { DONE } else { COMPLETE }),
                response(r#""x""#, DONE)
            )
        };
        let modern = format!(
            "{}\nS> {}\nC< {}",
            call(false, false, ""),
            response("<w>", COMPLETE),
            response(r#""x""#, COMPLETE)
        );
        Row::new(
            About::More,
            name,
            [pass(true, true), pass(true, false), format!("{begin}\n{story}"), modern],
        )
    };
    vec![
        row(
            "a held call: the identical retry gets the same",
            format!(
                "C> {}\nS< {decline}\nS> {}\nC< {}\nC> {}\nC< {}\nC> {}\nC< {}",
                again("5", None, "", &answers("decline")),
                response("<w>", DONE),
                response("5", COMPLETE),
                again("6", None, "", &answers("decline")),
                response("6", COMPLETE),
                again("7", None, "", &answers("cancel")),
                lost("7", "interaction-answered", "why")
            ),
        ),
        row(
            "a held call: a retry that overtakes another",
            format!(
                "C> {}\nS< {decline}\nC> {}\nC< {}\nS> {}\nC< {}",
                again("5", None, "", &answers("decline")),
                again("6", None, "", &answers("decline")),
                r#"{"jsonrpc":"2.0","id":5,"error":{"code":-31000,"message":"<superseded>","data":{"drowse":{"kind":"cancelled","ran":"no"}}}}"#,
                response("<w>", DONE),
                response("6", COMPLETE)
            ),
        ),
        row(
            "a held call: another's state, and one of another request",
            format!(
                "D> {}\nD< {}\nC> {}\nC< {}\nC> {}\nC< {}\nC> {}\nS< {decline}\nS> {}\nC< {}",
                again("5", None, "", &answers("decline")),
                lost("5", "interaction-lost", "a"),
                again("6", None, "", &answers("decline")).replace(r#""name":"t""#, r#""name":"u""#),
                lost("6", "interaction-lost", "b"),
                again("7", None, "", r#""requestState":"00""#),
                lost("7", "interaction-lost", "c"),
                again("8", None, "", &answers("decline")),
                response("<w>", DONE),
                response("8", COMPLETE)
            ),
        ),
        row(
            "a held call: too late",
            format!(
                "~wait 301\nS< {}\np< {told}\nh< {told}\nh< closed <w>\nC> {}\nC< {}",
                response("1", r#"{"action":"cancel"}"#),
                again("5", None, "", &answers("decline")),
                lost("5", "interaction-lost", "why")
            ),
        ),
        row(
            "a held call: its client cancels the retry",
            format!(
                "C> {}\nS< {decline}\nC> {}\np< {told}\nh< {told}\nh< closed <w>",
                again("5", None, "", &answers("decline")),
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#
            ),
        ),
    ]
}

/// A legacy client tells how far it is with a question.
fn progress() -> Row {
    let form = r#"{"message":"m","requestedSchema":{},"_meta":{"progressToken":"p\u0071"}}"#;
    let of = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":0.50}}}}"#
        )
    };
    let declined = r#"{"action":"decline"}"#;
    let legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}\nC> {}\nD> {}\nS< {}\nC> {}\nS< {}\nC> {}\nS> {}\nC< {}",
        call(true, true, ""),
        request("1", "elicitation/create", form),
        request("<q>", "elicitation/create", form),
        of(r#""pq""#).replace("pq", "another"),
        of(r#""p\u0071""#),
        // Not of whom it was asked.
        of(r#""p\u0071""#),
        of(r#""p\u0071""#),
        response("<q>", declined),
        response("1", declined),
        // It is over.
        of(r#""p\u0071""#),
        response("<w>", DONE),
        response(r#""x""#, DONE)
    );
    let required = |id: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","params":{form}}}}}}}"#
            ),
        )
    };
    let legacy_modern = format!(
        "{}\nS> {}\nC< {}\nC> {}\nC> {}\nS< {}",
        call(true, false, ""),
        required("<w>"),
        request("<q>", "elicitation/create", form),
        of(r#""p\u0071""#),
        response("<q>", declined),
        again("", Some("<v>"), &old_meta("<v>"), &format!(r#","inputResponses":{{"k":{declined}}}"#)),
    );
    // No modern client may say such a thing.
    let modern_legacy = format!(
        "{}\nS> {}\nC< {}\nC> {}",
        call(false, true, ""),
        request("1", "elicitation/create", form),
        response(
            r#""x""#,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"q1":{{"method":"elicitation/create","params":{form}}}}},"requestState":"<state>"}}"#
            )
        ),
        of(r#""p\u0071""#)
    );
    let modern_modern = format!(
        "{}\nS> {}\nC< {}\nC> {}",
        call(false, false, ""),
        required("<w>"),
        required(r#""x""#),
        of(r#""p\u0071""#)
    );
    Row::new(About::More, "progress of a question", [legacy, legacy_modern, modern_legacy, modern_modern])
}

/// A question that its server does not ask any more, and a call that its client does not want any more.
fn taken_back() -> Vec<Row> {
    let form = FORM.params;
    let cancelled = |id: &str, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}{more}}}}}"#
        )
    };
    let why = r#","reason":"nobody waits for the answer any more""#;
    let required = |id: &str, key: &str, state: &str| {
        response(
            id,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{{"{key}":{{"method":"elicitation/create","params":{form}}}}}{state}}}"#
            ),
        )
    };
    let by_server = format!(
        "{}\nS> {}\nC< {}\nS> {}\nC< {}\nC> {}\nS> {}\nC< {}",
        call(true, true, ""),
        request(r#""q""#, "elicitation/create", form),
        request("<q>", "elicitation/create", form),
        cancelled(r#""q""#, ""),
        cancelled("<q>", why),
        // Too late.
        response("<q>", r#"{"action":"decline"}"#),
        response("<w>", DONE),
        response(r#""x""#, DONE)
    );
    let by_client = format!(
        "{}\nS> {}\nC< {}\nC> {}\nS< {}\nC< {}\nS< {}\nh< closed <w>",
        call(true, true, ""),
        request(r#""q""#, "elicitation/create", form),
        request("<q>", "elicitation/create", form),
        cancelled(r#""x""#, ""),
        cancelled("<w>", r#","reason":"the caller cancelled""#),
        cancelled("<q>", why),
        response(r#""q""#, r#"{"action":"cancel"}"#),
    );
    let round = format!(
        "{}\nS> {}\nC< {}\nC> {}\nC< {}",
        call(true, false, ""),
        required("<w>", "k", ""),
        request("<q>", "elicitation/create", form),
        cancelled(r#""x""#, ""),
        cancelled("<q>", why)
    );
    let held = format!(
        "{}\nS> {}\nC< {}",
        call(false, true, ""),
        request(r#""q""#, "elicitation/create", form),
        required(r#""x""#, "q1", r#","requestState":"<state>""#)
    );
    let passes = format!(
        "{}\nS> {}\nC< {}",
        call(false, false, ""),
        required("<w>", "k", ""),
        required(r#""x""#, "k", "")
    );
    vec![
        Row::new(
            About::Announced(Notification::Cancelled),
            "a question is taken back",
            [by_server, round.clone(), held.clone(), passes.clone()],
        ),
        Row::new(About::More, "a call is cancelled that waits for answers", [by_client, round, held, passes]),
    ]
}

/// A result of a kind that the other era does not have.
fn unknown_result() -> Row {
    let of = |id: &str| response(id, r#"{"resultType":"task","taskId":"7","status":"working"}"#);
    let told = r#"{"jsonrpc":"2.0","id":"x","error":{"code":-31000,"message":"the server's answer is of a kind that the client's revision does not have","data":{"drowse":{"kind":"unsupported","ran":"no"}}}}"#;
    let cell =
        |client, server, told: String| format!("{}\nS> {}\nC< {told}", call(client, server, ""), of("<w>"));
    Row::new(
        About::More,
        "a result of another kind",
        [
            // Of the legacy era it is whatever the tool means by it.
            cell(true, true, of(r#""x""#)),
            cell(true, false, told.to_owned()),
            cell(false, true, of(r#""x""#)),
            cell(false, false, of(r#""x""#)),
        ],
    )
}
