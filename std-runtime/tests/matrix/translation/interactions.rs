//! What becomes of a call while something is asked for it: held calls, progress of the client, and ends of all kinds.

use drowse_core::notification::Notification;

use super::questions::{COMPLETE, DONE, FORM, again, old_meta, request, response};
use super::server::call;
use super::{About, Row};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = held();
    rows.push(progress());
    rows.extend(taken_back());
    rows.push(unknown_result());
    rows
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
            "a held call: of a server that is gone",
            // What became of the call is known for a while, and then that it cannot be found. It is never put again.
            format!(
                "~again\nh S< closed <w>\nC> {}\nh S< {decline}\np C< {}\nh C< {}\nC> {}\np C< {}\nh C< {}\n~wait 301\nC> {}\nC< {}",
                again("5", None, "", &answers("decline")),
                lost("5", "server-lost", "gone"),
                lost("5", "network", "network"),
                again("6", None, "", &answers("decline")),
                lost("6", "server-lost", "gone"),
                lost("6", "network", "network"),
                again("7", None, "", &answers("decline")),
                lost("7", "interaction-lost", "why"),
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
    let told = r#"{"jsonrpc":"2.0","id":"x","error":{"code":-31000,"message":"the server's answer is of a kind that the client's revision does not have","data":{"drowse":{"kind":"unsupported","ran":"unknown"}}}}"#;
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
