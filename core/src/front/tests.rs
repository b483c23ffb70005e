//! What each line of a client is taken for.

use super::*;
use crate::era::Era;
use crate::method::Method;
use crate::time::Duration;
use std::format;
use std::string::String;

const DEFAULT: Allowance = Allowance { quiet: Duration::from_secs(300), total: Duration::from_secs(3600) };
const HELLO: &[u8] =
    br#"{"drowse":{"hello":{"versions":[1],"principal":"cli","client":"0.1.0","verbatim":true}}}"#;

fn open() -> Front {
    let mut front = Front::new();
    assert!(matches!(front.handle_frame(HELLO, DEFAULT), Inbound::Hello { principal: Some(_) }));
    front
}

fn modern(method: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{more}}}}}}}"#
    )
}

#[test]
fn the_first_line_is_a_hello_of_a_version_that_is_spoken() {
    for line in [
        modern("tools/list", "").as_str(),
        "",
        "[]",
        r#"{"drowse":1}"#,
        r#"{"drowse":{"hello":{"versions":[2,"1"]}}}"#,
        r#"{"drowse":{"hello":{"versions":1}}}"#,
    ] {
        let mut front = Front::new();
        assert_eq!(front.handle_frame(line.as_bytes(), DEFAULT), Inbound::Refused, "{line}");
        assert_eq!(front.handle_frame(HELLO, DEFAULT), Inbound::Ignore);
        assert!(!front.is_open());
    }
    assert!(open().is_verbatim());
}

#[test]
fn leave_needs_no_common_version() {
    let mut front = Front::new();
    assert_eq!(front.handle_frame(br#"{"drowse":{"leave":{}}}"#, DEFAULT), Inbound::Leave);
    assert!(!front.is_open());
}

#[test]
fn operations_say_what_they_may_take() {
    let mut front = open();
    let line = modern("tools/call", r#","dev.drowse/timeoutMs":1500,"progressToken":0"#);
    let Inbound::Operation { operation, token, .. } = front.handle_frame(line.as_bytes(), DEFAULT) else {
        panic!()
    };
    assert_eq!(operation.method, Method::ToolsCall);
    assert_eq!(operation.allowance.unwrap().quiet, Duration::from_millis(1500));
    assert_eq!(operation.allowance.unwrap().total, DEFAULT.total);
    assert_eq!(token.unwrap().of(line.as_bytes()), b"0");
    assert_eq!(front.read_count(), 1);
    front.unread();
    assert_eq!(front.read_count(), 0);
}

#[test]
fn who_listens_says_to_what() {
    let mut front = open();
    let with = |filter: &str| {
        modern("subscriptions/listen", "").replace(r#""params":{"#, &format!(r#""params":{{{filter}"#))
    };
    let line = with(r#""notifications":{"resourceSubscriptions":["a"]},"#);
    let Inbound::Listen { filter, starts: true, .. } = front.handle_frame(line.as_bytes(), DEFAULT) else {
        panic!()
    };
    assert_eq!(filter.uris(line.as_bytes()).next(), Some(&b"\"a\""[..]));
    let line = with(r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":[]},"#);
    let inbound = front.handle_frame(line.as_bytes(), DEFAULT);
    assert!(matches!(inbound, Inbound::Listen { starts: false, .. }), "{inbound:?}");
    for bad in ["", r#""notifications":{"resourceSubscriptions":[1]},"#] {
        let inbound = front.handle_frame(with(bad).as_bytes(), DEFAULT);
        let Inbound::Reject { rejection, .. } = inbound else { panic!("{inbound:?}") };
        assert_eq!(rejection.code(), -32602);
    }
    assert_eq!(front.read_count(), 4);
}

#[test]
fn every_request_must_say_its_revision_and_capabilities() {
    let mut front = open();
    let mut rejected = |line: &str| match front.handle_frame(line.as_bytes(), DEFAULT) {
        Inbound::Reject { rejection, .. } => rejection.code(),
        other => panic!("{other:?}"),
    };
    assert_eq!(rejected(r#"{"jsonrpc":"2.0","id":0,"method":"tools/list"}"#), -32602);
    assert_eq!(
        rejected(
            r#"{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
        ),
        -32602
    );
    assert_eq!(rejected(&modern("tools/list", "").replace("2026-07-28", "2025-11-25")), -32022);
    assert_eq!(rejected(&modern("initialize", "")), -32601);
    assert_eq!(rejected(&modern("no/such", "")), -32601);
    assert_eq!(rejected("nonsense"), -32700);
    assert_eq!(rejected(r#"[{"jsonrpc":"2.0","method":"x"}]"#), -32600);
}

#[test]
fn notifications_and_answers_are_not_counted() {
    let mut front = open();
    let cancel = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
    match front.handle_frame(cancel, DEFAULT) {
        Inbound::Cancel { request, reason } => {
            assert_eq!((request.of(cancel), reason), (&br#""a""#[..], None));
        }
        other => panic!("{other:?}"),
    }
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/other"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        assert_eq!(front.handle_frame(line.as_bytes(), DEFAULT), Inbound::Ignore);
    }
    assert_eq!(front.read_count(), 0);
}

#[test]
fn discovery_is_a_result_with_and_without_a_handshake() {
    for (handshake, name) in [
        (None, None),
        (
            Some(
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old"},"instructions":"i"}"#,
            ),
            Some("old"),
        ),
        (
            Some(
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}}}"#,
            ),
            Some("new"),
        ),
    ] {
        let bytes = discovery(handshake.map(str::as_bytes)).concat();
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["resultType"], "complete");
        assert!(value["capabilities"].is_object());
        assert_eq!(
            value["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].as_str(),
            name,
            "{handshake:?}"
        );
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"elicitation":{},"roots":{"listChanged":true},"tasks":{}},"clientInfo":{"name":"c","version":"1"}}}"#;

fn legacy(revision: Revision) -> Front {
    let mut front = Front::of(Asker::DevProxy);
    let line = INITIALIZE.replace("2025-03-26", revision.name());
    let inbound = front.handle_frame(line.as_bytes(), DEFAULT);
    assert!(
        matches!(inbound, Inbound::Initialize { revision: agreed, .. } if agreed == revision),
        "{inbound:?}"
    );
    front
}

fn plain(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

fn code_of(inbound: Inbound) -> Option<i32> {
    match inbound {
        Inbound::Reject { rejection, .. } => Some(rejection.code()),
        _ => None,
    }
}

#[test]
fn a_connection_has_the_era_that_its_client_opens_with() {
    let mut front = Front::of(Asker::DevProxy);
    assert!(matches!(front.handle_frame(plain("ping", "{}").as_bytes(), DEFAULT), Inbound::Ping { .. }));
    assert_eq!(code_of(front.handle_frame(plain("tools/list", "{}").as_bytes(), DEFAULT)), Some(-32602));
    assert!(!front.is_legacy());
    let Inbound::Initialize { info, capabilities, .. } = front.handle_frame(INITIALIZE.as_bytes(), DEFAULT)
    else {
        panic!()
    };
    assert_eq!(info.unwrap().of(INITIALIZE.as_bytes()), br#"{"name":"c","version":"1"}"#);
    assert_eq!(capabilities, ClientCapabilities { form: true, roots: true, ..Default::default() });
    assert_eq!(front.legacy(), Some(Revision::V2025_03_26));
    // It stays that.
    assert_eq!(code_of(front.handle_frame(INITIALIZE.as_bytes(), DEFAULT)), Some(-32600));
    assert_eq!(code_of(front.handle_frame(modern("server/discover", "").as_bytes(), DEFAULT)), Some(-32601));
    assert_eq!(front.read_count(), 5);

    // Who only asks which versions there are may still choose; any other request has chosen.
    let mut front = Front::of(Asker::DevProxy);
    assert!(matches!(
        front.handle_frame(modern("server/discover", "").as_bytes(), DEFAULT),
        Inbound::Discover { .. }
    ));
    assert!(matches!(front.handle_frame(INITIALIZE.as_bytes(), DEFAULT), Inbound::Initialize { .. }));
    for openings in [["server/discover", "tools/list"], ["tools/list", "server/discover"]] {
        let mut front = Front::of(Asker::DevProxy);
        for opening in openings {
            front.handle_frame(modern(opening, "").as_bytes(), DEFAULT);
        }
        assert_eq!(code_of(front.handle_frame(INITIALIZE.as_bytes(), DEFAULT)), Some(-32022));
        assert_eq!(code_of(front.handle_frame(plain("ping", "{}").as_bytes(), DEFAULT)), Some(-32602));
        assert!(!front.is_legacy() && !front.knows_drowse());
    }
    // What was refused, or is no request, opens nothing.
    let mut front = Front::of(Asker::DevProxy);
    for line in [
        modern("tools/list", "").replace("2026-07-28", "2030-01-01"),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into(),
        "[]".into(),
    ] {
        front.handle_frame(line.as_bytes(), DEFAULT);
    }
    assert!(matches!(front.handle_frame(INITIALIZE.as_bytes(), DEFAULT), Inbound::Initialize { .. }));
}

#[test]
fn versions_are_agreed_on_or_the_latest_is_offered() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy) {
        assert_eq!(legacy(revision).legacy(), Some(revision));
    }
    for unknown in ["2026-07-28", "2023-01-01", ""] {
        let mut front = Front::of(Asker::DevProxy);
        front.handle_frame(INITIALIZE.replace("2025-03-26", unknown).as_bytes(), DEFAULT);
        assert_eq!(front.legacy(), Some(Revision::LATEST_LEGACY), "{unknown}");
    }
}

#[test]
fn what_is_drowses_own_is_for_those_who_said_hello() {
    for method in Method::all().filter(|method| method.is_drowses()) {
        let mut front = Front::of(Asker::DevProxy);
        let line = modern(method.name(), "");
        assert_eq!(code_of(front.handle_frame(line.as_bytes(), DEFAULT)), Some(-32601), "{method:?}");
        let mut front = legacy(Revision::LATEST_LEGACY);
        assert_eq!(code_of(front.handle_frame(plain(method.name(), "{}").as_bytes(), DEFAULT)), Some(-32601));
    }
    let mut front = open();
    assert!(front.knows_drowse());
    front.handle_frame(INITIALIZE.as_bytes(), DEFAULT);
    assert!(front.is_legacy() && !front.knows_drowse() && !front.is_verbatim());
}

#[test]
fn a_legacy_clients_lines() {
    let mut front = legacy(Revision::V2025_06_18);
    let mut read = |line: &str| front.handle_frame(line.as_bytes(), DEFAULT);
    assert!(matches!(read(&plain("ping", "{}")), Inbound::Ping { .. }));
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(read(initialized), Inbound::Initialized);
    assert_eq!(read(initialized), Inbound::Ignore);
    assert_eq!(read(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#), Inbound::Ignore);
    let line = plain("tools/call", r#"{"name":"x","_meta":{"progressToken":0}}"#);
    let Inbound::Operation { operation, token, .. } = read(&line) else { panic!() };
    assert_eq!((operation.method, token.unwrap().of(line.as_bytes())), (Method::ToolsCall, &b"0"[..]));
    let line = plain("resources/subscribe", r#"{"uri":"a:b"}"#);
    let Inbound::Subscribe { uri, on: true, .. } = read(&line) else { panic!() };
    assert_eq!(uri.of(line.as_bytes()), br#""a:b""#);
    let line = plain("resources/unsubscribe", r#"{"uri":"a:b"}"#);
    assert!(matches!(read(&line), Inbound::Subscribe { on: false, .. }));
    for bad in [plain("resources/subscribe", "{}"), plain("resources/subscribe", r#"{"uri":1}"#)] {
        assert_eq!(code_of(read(&bad)), Some(-32602));
    }
    assert_eq!(code_of(read(&plain("logging/setLevel", r#"{"level":"loud"}"#))), Some(-32602));
    assert!(matches!(read(&plain("logging/setLevel", r#"{"level":"error"}"#)), Inbound::SetLevel { .. }));
    assert!(matches!(read(r#"{"jsonrpc":"2.0","id":8,"result":{}}"#), Inbound::Answer { answer: Ok(_), .. }));
    let refusal = r#"{"jsonrpc":"2.0","id":8,"error":{"code":-1,"message":"no"}}"#;
    assert!(matches!(read(refusal), Inbound::Answer { answer: Err(_), .. }));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#),
        Inbound::Cancel { .. }
    ));
    let progress = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}}}}}"#
        )
    };
    let line = progress(r#""p\u0071""#);
    let Inbound::Progress { token } = read(&line) else { panic!() };
    assert_eq!(token.of(line.as_bytes()), br#""p\u0071""#);
    assert_eq!([read(&progress("1.5")), read(&progress("{}"))], [Inbound::Ignore; 2]);
    assert_eq!(code_of(read(&format!("[{}]", plain("ping", "{}")))), Some(-32600));
    for unknown in ["subscriptions/listen", "server/discover", "no/such"] {
        assert_eq!(code_of(read(&plain(unknown, "{}"))), Some(-32601));
    }
    assert_eq!(front.level(), Some(Level::Error));
    assert!(front.hears(Level::Alert) && !front.hears(Level::Info) && front.is_initialized());
    assert!(legacy(Revision::V2025_06_18).hears(Level::Debug) && !open().hears(Level::Alert));
}

#[test]
fn batches_are_of_the_first_two_revisions() {
    let line = format!("[{},{}]", plain("ping", "{}"), plain("tools/list", "{}"));
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26] {
        let mut front = legacy(revision);
        let Inbound::Batch { items } = front.handle_frame(line.as_bytes(), DEFAULT) else { panic!() };
        let items: std::vec::Vec<_> = envelope::batch(line.as_bytes(), items).collect();
        let inbound: std::vec::Vec<_> =
            items.iter().map(|item| front.handle_item(item.of(line.as_bytes()), DEFAULT)).collect();
        assert!(matches!(inbound[..], [Inbound::Ping { .. }, Inbound::Operation { .. }]));
        assert_eq!(code_of(front.handle_item(line.as_bytes(), DEFAULT)), Some(-32600));
        assert_eq!(code_of(front.handle_frame(b"[]", DEFAULT)), Some(-32600));
    }
    // The handshake is in none.
    let mut front = Front::of(Asker::DevProxy);
    assert_eq!(code_of(front.handle_frame(format!("[{INITIALIZE}]").as_bytes(), DEFAULT)), Some(-32600));
}

#[test]
fn initialization_shows_what_can_be_had_in_this_era() {
    let shown = |handshake: Option<&str>| -> serde_json::Value {
        let ours = br#"{"name":"drowse","version":"0"}"#;
        let slices = initialization(handshake.map(str::as_bytes), Revision::V2025_06_18, ours);
        let value: serde_json::Value = serde_json::from_slice(&slices.concat()).unwrap();
        assert_eq!(value["protocolVersion"], "2025-06-18");
        value
    };
    let unknown = shown(None);
    assert_eq!(unknown["serverInfo"]["name"], "drowse");
    assert_eq!(unknown["capabilities"]["resources"]["subscribe"], true);
    assert_eq!(unknown.get("instructions"), None);
    let old = shown(Some(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}}},"serverInfo":{"name":"old","version":"1"},"instructions":"i"}"#,
    ));
    assert_eq!(old["capabilities"], serde_json::json!({"tasks": {"list": {}}}));
    assert_eq!((&old["serverInfo"]["name"], &old["instructions"]), (&"old".into(), &"i".into()));
    let new = shown(Some(
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{"listChanged":true},"logging":{},"prompts":1},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}"#,
    ));
    assert_eq!(new["capabilities"], serde_json::json!({"tools": {"listChanged": true}, "logging": {}}));
    assert_eq!(new["serverInfo"]["name"], "new");
    let bare = shown(Some(r#"{"supportedVersions":["2026-07-28"],"capabilities":{},"instructions":7}"#));
    assert_eq!(bare["capabilities"], serde_json::json!({}));
    assert_eq!(bare.get("instructions"), None);
}

#[test]
fn tasks_of_a_server_that_never_ran_are_shown_to_those_who_know_them() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Legacy) {
        let value: serde_json::Value =
            serde_json::from_slice(&initialization(None, revision, b"{}").concat()).unwrap();
        let tasks = serde_json::json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        let shown = (revision == Revision::V2025_11_25).then_some(&tasks);
        assert_eq!(value["capabilities"].get("tasks"), shown, "{revision:?}");
        assert_eq!(value["capabilities"]["prompts"]["listChanged"], true);
    }
}

#[test]
fn discovery_shows_what_can_be_had_in_this_era() {
    let shown = |handshake: Option<&str>| -> serde_json::Value {
        serde_json::from_slice(&discovery(handshake.map(str::as_bytes)).concat()).unwrap()
    };
    let unknown = shown(None);
    assert_eq!(
        unknown["capabilities"]["extensions"],
        serde_json::json!({"io.modelcontextprotocol/tasks": {}})
    );
    assert_eq!(
        unknown["capabilities"]["resources"],
        serde_json::json!({"subscribe": true, "listChanged": true})
    );
    let old = shown(Some(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}},"completions":{},"tools":{}},"serverInfo":{"name":"old","version":"1"},"instructions":"i"}"#,
    ));
    assert_eq!(old["capabilities"], serde_json::json!({"tools": {}, "completions": {}}));
    assert_eq!(old["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "old");
    let new = shown(Some(
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#,
    ));
    assert!(new["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
}

#[test]
fn tasks_reach_servers_of_the_same_era_and_drowses_own_commands_reach_both() {
    let mut opened = Front::of(Asker::DevProxy);
    opened.handle_frame(modern("tools/list", "").as_bytes(), DEFAULT);
    let old = legacy(Revision::LATEST_LEGACY);
    for method in Method::all() {
        let tasks = method == Method::Tasks;
        assert_eq!(opened.reaches(method, Era::Legacy), !tasks);
        assert_eq!(old.reaches(method, Era::Modern), !tasks);
        assert!(opened.reaches(method, Era::Modern) && old.reaches(method, Era::Legacy));
        assert!(open().reaches(method, Era::Legacy) && open().reaches(method, Era::Modern));
    }
    assert!(open().answers_cancelled() && !opened.answers_cancelled() && !old.answers_cancelled());
}

#[test]
fn lists_of_a_proxy_port_are_not_what_starts_a_server() {
    let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    let legacy = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{}}}}"#);
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    for asker in Asker::ALL {
        let mut modern_front = Front::of(asker);
        let mut legacy_front = Front::of(asker);
        assert!(!legacy_front.defers());
        legacy_front.handle_frame(initialize.as_bytes(), DEFAULT);
        for method in lists {
            for inbound in [
                modern_front.handle_frame(modern(method, "").as_bytes(), DEFAULT),
                legacy_front.handle_frame(legacy(method).as_bytes(), DEFAULT),
            ] {
                let passed = matches!(inbound, Inbound::Operation { .. });
                let listed = matches!(inbound, Inbound::List { .. });
                let starts = matches!(asker, Asker::Command | Asker::DevProxy);
                assert_eq!((passed, listed), (starts, !starts), "{method} of {asker:?}");
            }
        }
        for method in ["tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/get"] {
            let line = modern(method, "");
            assert!(matches!(modern_front.handle_frame(line.as_bytes(), DEFAULT), Inbound::Operation { .. }));
            let line = legacy(method);
            assert!(matches!(legacy_front.handle_frame(line.as_bytes(), DEFAULT), Inbound::Operation { .. }));
        }
        assert_eq!(legacy_front.defers(), asker == Asker::ProxyPort, "a session of {asker:?}");
        assert!(!modern_front.defers(), "it has none");
        assert_eq!(legacy_front.is_outside(), asker == Asker::ProxyPort);
    }
}

#[test]
fn capabilities_of_a_client_are_an_object() {
    for value in ["[]", "null", "1"] {
        let line = modern("tools/list", "").replace("Capabilities\":{}", &format!("Capabilities\":{value}"));
        let Inbound::Reject { id: Some(_), rejection } = open().handle_frame(line.as_bytes(), DEFAULT) else {
            panic!("{line}")
        };
        assert_eq!(
            (rejection.code(), rejection),
            (-32602, Rejection::InvalidMeta(crate::message::META_CLIENT_CAPABILITIES))
        );
    }
}
