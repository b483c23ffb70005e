//! What must hold for any message between clients and servers of both eras. Panics if it does not.

use drowse_core::activity::Asker;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::envelope::{self, Message};
use drowse_core::era::{Era, Revision};
use drowse_core::front::answer::{Answer, Asked};
use drowse_core::front::round::{self, Round, Sort, Wanted};
use drowse_core::front::{Front, Inbound};
use drowse_core::held::Kind;
use drowse_core::json;
use drowse_core::link::Allowance;
use drowse_core::logging::Level;
use drowse_core::message::Writer;
use drowse_core::method::Method;
use drowse_core::span::Span;
use drowse_core::splice::{self, LegacyClient, NoAnswer, Origin, Pieces, RequestParts, Rewrite};
use drowse_core::time::Duration;

const INFO: &[u8] = br#"{"name":"c","version":"\u0031"}"#;
const ALL: ClientCapabilities = ClientCapabilities {
    form: true,
    url: true,
    sampling: true,
    sampling_tools: true,
    roots: true,
    tasks: false,
};
/// What a request says of itself in the modern era.
const MODERN: [&str; 4] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
];
/// What is drowse's own, or has another value on the other side.
const OURS: [&str; 3] = ["progressToken", "dev.drowse/timeoutMs", "dev.drowse/forget"];

/// Whatever a client of either era asks arrives as the same request of the server's era or is refused, and whatever
/// the server says to it arrives as a message of the client's.
pub(crate) fn translation(request: &[u8], said: &[u8]) {
    for client in [Era::Legacy, Era::Modern] {
        let mut front = Front::of(Asker::DevProxy);
        if client == Era::Legacy {
            let hello = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
            assert!(matches!(read(&mut front, hello), Inbound::Initialize { .. }));
        }
        let Inbound::Operation { operation, parts, token } = read(&mut front, request) else { continue };
        if front.era() != client {
            continue;
        }
        for server in Revision::ALL {
            if !front.reaches(operation.method, server.era()) {
                continue;
            }
            for progress in [token.is_some(), true] {
                carried(request, &parts, client, server, progress);
            }
            answered(request, &parts, operation.method, client, server, said);
        }
    }
    asked(said);
}

fn read(front: &mut Front, line: &[u8]) -> Inbound {
    front.handle_frame(line, Allowance { quiet: Duration::from_secs(1), total: Duration::from_secs(2) })
}

fn text(pieces: &Pieces, frame: &[u8], other: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; pieces.len()];
    pieces.write(frame, other, &mut buffer).expect("its own length is enough").to_vec()
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 16];
    let mut w = Writer::new(&mut buffer);
    write(&mut w);
    w.finish().expect("room enough").to_vec()
}

/// The members of an object, to the byte, without those of some names.
fn members<'f>(frame: &'f [u8], object: Option<Span>, but: &[&str]) -> Vec<(&'f [u8], &'f [u8])> {
    let all = object.into_iter().flat_map(|object| json::members(frame, object));
    all.map(|member| (member.key.of(frame), member.value.of(frame)))
        .filter(|(key, _)| !but.iter().any(|name| json::str_eq(key, name)))
        .collect()
}

fn find<'f>(frame: &'f [u8], object: Option<Span>, name: &str) -> Option<&'f [u8]> {
    object.and_then(|object| json::member(frame, object, name)).map(|value| value.of(frame))
}

fn carried(request: &[u8], parts: &RequestParts, client: Era, server: Revision, progress: bool) {
    let told = LegacyClient { info: Span::new(0, INFO.len()), capabilities: ALL };
    let level = Some(Level::Notice);
    let is_call = json::str_eq(parts.method.of(request), "tools/call");
    // What does not go on: a call becomes no task of the other era, and a legacy server is not told of visits.
    let task: &[&str] = if is_call && client != server.era() { &["task"] } else { &[] };
    let visits: &[&str] = if is_call { &["task", "inputResponses"] } else { &["inputResponses"] };
    let ways = match client {
        Era::Legacy => vec![(Origin::Legacy(&told), task)],
        Era::Modern => {
            vec![(Origin::Verbatim, &[][..]), (Origin::Modern, task), (Origin::AfterVisits, visits)]
        }
    };
    for (from, gone) in ways {
        let how = Rewrite { wire: 77, progress, revision: server, level, from };
        // A typed refusal.
        let Ok(pieces) = splice::request(request, parts, &how) else { continue };
        let out = text(&pieces, request, INFO);
        let Ok(Message::Request { id, method, params, meta, .. }) = envelope::read(&out) else {
            panic!("no request: {}", String::from_utf8_lossy(&out));
        };
        assert_eq!((id.of(&out), method.of(&out)), (&b"77"[..], parts.method.of(request)));
        assert_eq!(
            members(&out, params, &["_meta"]),
            members(request, parts.params, &[&["_meta"], gone].concat()),
            "{}",
            String::from_utf8_lossy(&out)
        );
        assert_eq!(find(&out, meta, "progressToken"), progress.then_some(&b"77"[..]));
        let known = [&MODERN[..], &OURS[..]].concat();
        assert_eq!(members(&out, meta, &known), members(request, parts.meta, &known));
        let says = |name| find(&out, meta, name);
        match (client, server.era()) {
            (Era::Legacy, Era::Modern) => {
                assert_eq!(says(MODERN[0]), Some(&br#""2026-07-28""#[..]));
                assert_eq!((says(MODERN[2]), says(MODERN[3])), (Some(INFO), Some(&br#""notice""#[..])));
                let declared = json::member(&out, meta.unwrap(), MODERN[1]).unwrap();
                assert_eq!(ClientCapabilities::read(&out, declared), ALL);
            }
            (Era::Modern, Era::Modern) => {
                for name in &MODERN[..3] {
                    assert_eq!(says(name), find(request, parts.meta, name), "{name}");
                }
            }
            // A dual-era server would take it for a modern request; what a legacy client says there is its own affair.
            (Era::Modern, Era::Legacy) => assert!(MODERN.iter().all(|name| says(name).is_none())),
            (Era::Legacy, Era::Legacy) => {}
        }
    }
}

fn answered(
    request: &[u8],
    parts: &RequestParts,
    method: Method,
    client: Era,
    server: Revision,
    said: &[u8],
) {
    let Ok(message @ (Message::Response { .. } | Message::Error { .. })) = envelope::read(said) else {
        return;
    };
    let id = parts.id.of(request);
    let whole = Span::new(0, id.len());
    for lacks in [None, Some(Kind::Sampling)] {
        let capabilities = if lacks.is_some() { ClientCapabilities::default() } else { ALL };
        let asked = Asked { method, client, verbatim: false, capabilities, lacks };
        match Answer::of(said, &message, server.era(), &asked) {
            Answer::VisitFirst(visit) => {
                let out = splice::visit_first(id, said, &visit).concat();
                let Ok(Message::Response { id: own, result, .. }) = envelope::read(&out) else { panic!() };
                assert_eq!(own.of(&out), id);
                let round = Round::read(&out, result).unwrap();
                assert_eq!((round.inputs.len(), round.state), (visit.elicitations.len(), None));
                assert!(round.inputs.iter().all(|input| input.wanted == Wanted::Question(Kind::Url)));
                continue;
            }
            Answer::Missing(kind) => {
                assert_eq!((client, server.era()), (Era::Modern, Era::Legacy));
                let out = splice::missing_capability(id, kind).concat();
                assert!(
                    matches!(envelope::read(&out), Ok(Message::Error { id: Some(own), .. }) if own.of(&out) == id)
                );
                continue;
            }
            Answer::Plain | Answer::Visits(_) => {}
        }
        if let Message::Response { result, .. } = message
            && (client, server.era()) == (Era::Legacy, Era::Modern)
            && Sort::of(said, result) == Sort::InputRequired
        {
            rounds(request, parts, said, result);
            continue;
        }
        let pieces = match client {
            Era::Legacy => splice::answer_legacy(said, &message, whole, method, server),
            Era::Modern => splice::answer(said, &message, whole, method, server, false),
        };
        // A typed refusal.
        let Ok(pieces) = pieces else { continue };
        let out = text(&pieces, said, id);
        let got =
            envelope::read(&out).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out)));
        let supplied = ["resultType", "ttlMs", "cacheScope"];
        match (message, got) {
            (Message::Response { result, .. }, Message::Response { id: own, result: heard, .. }) => {
                assert_eq!(own.of(&out), id);
                assert_eq!(members(&out, Some(heard), &supplied), members(said, Some(result), &supplied));
                let has = |name| find(&out, Some(heard), name).is_some();
                match (client, server.era()) {
                    (Era::Modern, _) => {
                        assert!(has("resultType"));
                        if method.is_cacheable() && find(said, Some(result), "resultType").is_none() {
                            assert!(has("ttlMs") && has("cacheScope"));
                        }
                    }
                    (Era::Legacy, Era::Modern) => {
                        assert!(!has("resultType"));
                        assert!(!method.is_cacheable() || !has("ttlMs") && !has("cacheScope"));
                    }
                    (Era::Legacy, Era::Legacy) => assert_eq!(heard.of(&out), result.of(said)),
                }
            }
            (Message::Error { error, .. }, Message::Error { id: own, error: heard }) => {
                assert!(own.is_none_or(|own| own.of(&out) == id));
                assert_eq!(members(&out, Some(heard), &["code"]), members(said, Some(error), &["code"]));
                let code = find(&out, Some(heard), "code").and_then(json::as_i64);
                if (client, server.era()) == (Era::Modern, Era::Legacy) {
                    assert!(code.is_none_or(|code| code != -32002 && !(-32099..=-32023).contains(&code)));
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What a modern server wants is asked of a legacy client, and answered by the same request.
fn rounds(request: &[u8], parts: &RequestParts, said: &[u8], result: Span) {
    let Ok(round) = Round::read(said, result) else { return };
    for (id, input) in (5..).zip(&round.inputs) {
        let out = written(|w| input.write(w, id, said));
        let Ok(Message::Request { method, params, .. }) = envelope::read(&out) else {
            panic!("no question: {}", String::from_utf8_lossy(&out))
        };
        assert_eq!(method.of(&out), input.method.of(said));
        let named = ["elicitationId"];
        assert_eq!(members(&out, params, &named), members(said, input.params, &named));
        let visits = input.wanted == Wanted::Question(Kind::Url);
        assert!(!visits || find(&out, params, "elicitationId").is_some());
    }
    let answers = round.inputs.iter().map(|input| (input.key.of(said), &b"{\"action\":\"cancel\"}"[..]));
    let state = round.state.map(|state| state.of(said));
    let again = written(|w| round::retry(w, request, parts, answers, state));
    let Ok(Message::Request { id, method, params, .. }) = envelope::read(&again) else {
        panic!("no request: {}", String::from_utf8_lossy(&again))
    };
    assert_eq!((id.of(&again), method.of(&again)), (parts.id.of(request), parts.method.of(request)));
    if parts.params.is_some() {
        let added = ["inputResponses", "requestState"];
        assert_eq!(members(&again, params, &added), members(request, parts.params, &added));
        assert_eq!(find(&again, params, "requestState"), state);
    }
}

/// What a legacy server asks has an answer whoever its client is.
fn asked(said: &[u8]) {
    let Ok(message @ Message::Request { id, method, params, .. }) = envelope::read(said) else { return };
    let parts = RequestParts::of(&message).unwrap();
    let Some(kind) = Kind::of(said, method, params) else { return };
    let out = written(|w| round::question(w, 3, method.of(said), params.map(|params| params.of(said))));
    assert!(matches!(envelope::read(&out), Ok(Message::Request { .. })));
    for why in [NoAnswer::Declined, NoAnswer::Cancelled] {
        let out = text(&splice::refused(parts.id, kind, why).unwrap(), said, b"");
        let (Ok(Message::Response { id: own, .. }) | Ok(Message::Error { id: Some(own), .. })) =
            envelope::read(&out)
        else {
            panic!("no answer: {}", String::from_utf8_lossy(&out))
        };
        assert_eq!(own.of(&out), id.of(said));
    }
    let answer = br#"{"a":"\u0062"}"#;
    let out = text(&splice::answer_question(parts.id, Span::new(0, answer.len())).unwrap(), answer, said);
    let Ok(Message::Response { id: own, result, .. }) = envelope::read(&out) else { panic!() };
    assert_eq!((own.of(&out), result.of(&out)), (id.of(said), &answer[..]));
}
