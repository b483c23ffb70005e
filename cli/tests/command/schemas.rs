//! What the schemas of tools do to calls: coercion, checks, expectations, and results that are not as declared.

use std::fs;

use drowse_runtime::home::{Home as Files, SessionName};
use drowse_runtime::snapshot::{self, Header, SCHEMA, Snapshot};
use serde_json::{Value, json};

use crate::bridge::{Answer, Bridge};
use crate::home::Home;

fn tools() -> Value {
    json!([
        {"name": "order", "description": "Orders", "inputSchema": {
            "type": "object", "required": ["item"], "additionalProperties": false,
            "properties": {
                "item": {"$ref": "#/$defs/name"}, "count": {"type": "integer", "minimum": 1},
                "tags": {"type": "array", "items": {"type": "string"}},
                "size": {"anyOf": [{"enum": ["1", "2"]}, {"type": "null"}]},
            },
            "$defs": {"name": {"type": "string"}},
        }},
        {"name": "sum", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}},
        {"name": "endless", "inputSchema": {"$ref": "#"}},
        {"name": "far", "inputSchema": {"properties": {"a": {"$ref": "https://example.com/a.json"}}}},
        {"name": "odd", "inputSchema": {"$schema": "https://example.com/dialect", "properties": {"a": {"type": "integer"}}}},
    ])
}

fn awake() -> (Home, Bridge) {
    let home = Home::new();
    let bridge = Bridge::start(&home, |message| {
        let arguments = &message["params"]["arguments"];
        let name = message["params"]["name"].as_str().unwrap_or_default();
        match (message["method"].as_str().unwrap_or_default(), name) {
            ("tools/list", _) => Answer::Result(json!({"tools": tools()}).to_string()),
            ("tools/call", "sum") => {
                Answer::Result(json!({"content": [], "structuredContent": arguments}).to_string())
            }
            ("tools/call", _) => Answer::Result(r#"{"content":[{"type":"text","text":"ok"}]}"#.into()),
            ("prompts/list", _) => Answer::Result(
                r#"{"prompts":[{"name":"p","arguments":[{"name":"a"},{"name":"b","required":true}]}]}"#
                    .into(),
            ),
            ("prompts/get", _) => Answer::Result(r#"{"messages":[]}"#.into()),
            _ => Answer::Silence,
        }
    });
    (home, bridge)
}

#[test]
fn values_become_what_the_schema_takes() {
    let (home, bridge) = awake();
    for (words, sent) in [
        (&["item:=123"][..], r#"{"item":"123"}"#),
        (&["item:=1.50", "count:=2", "tags:=[1, true]"], r#"{"item":"1.50","count":2,"tags":["1","true"]}"#),
        (&["item=x", "size:=2"], r#"{"item":"x","size":"2"}"#),
        (&["item=x", "size:=null"], r#"{"item":"x","size":null}"#),
    ] {
        let run = home.run_words(&[&["@s", "tools-call", "order"], words].concat());
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "ok\n", ""), "{words:?}");
        assert_eq!(bridge.arguments(), sent);
    }
}

#[test]
fn arguments_that_do_not_fit_are_not_sent() {
    let (home, bridge) = awake();
    for (words, says) in [
        (&["count:=2"][..], &["`item` is missing"][..]),
        (&["item=x", "count:=0"], &["`count` is 0, but at least 1 is expected"]),
        (&["item=x", "count:=two", "tags:=[]"], &["`count` is \"two\", but integer is expected"]),
        (&["item=x", "tags:=[null]"], &["`tags[0]` is null, but string is expected"]),
        (&["item=x", "size:=3"], &["`size` is 3, but \"1\" or \"2\" or null is expected"]),
        (&["itme:=1"], &["`item` is missing", "there is no `itme`; did you mean `item`?"]),
    ] {
        let run = home.run_words(&[&["@s", "tools-call", "order", "--json"], words].concat());
        assert_eq!(run.code, 1, "{words:?}");
        let failure = run.failure();
        assert_eq!((&failure["kind"], &failure["ran"]), (&json!("invalid-arguments"), &json!("no")));
        for says in says {
            assert!(failure["error"].as_str().unwrap().contains(says), "{failure}");
        }
    }
    let run = home.run("@s tools-call order count:=2");
    assert!(run.err.contains("↳ drowse @s tools-call order --help\n"), "{}", run.err);
    assert!(!bridge.methods().contains(&"tools/call".to_owned()));
    assert_eq!(home.run("@s tools-call order count:=0 --no-check").code, 0);
    assert_eq!(bridge.arguments(), r#"{"count":0}"#);
}

/// What the server said of its tools when it ran last.
fn said(home: &Home, tools: &Value) {
    let files = Files::new(home.path().join("home"), None);
    let name = SessionName::new("s").unwrap();
    let header = json!({
        "schema": SCHEMA, "identity": "i", "taken": 1, "generation": 1, "era": "modern",
        "protocolVersion": "2026-07-28",
    });
    let tools = tools.as_array().unwrap().iter().map(|tool| serde_json::value::to_raw_value(tool).unwrap());
    let snapshot = Snapshot {
        header: serde_json::from_value::<Header>(header).unwrap(),
        tools: tools.collect(),
        prompts: Vec::new(),
        resources: Vec::new(),
        resource_templates: Vec::new(),
    };
    snapshot::write(&files, &name, &snapshot).unwrap();
}

#[test]
fn what_is_known_of_a_tool_is_enough_to_check_by() {
    let (home, bridge) = awake();
    said(&home, &tools());
    let run = |words: &[&str]| home.run_words(&[&["@s", "tools-call", "order"], words].concat());
    for words in [&["item=x"][..], &[r#"{"item": "x", "count": 2}"#], &["item=x", "count:=1"]] {
        assert_eq!(run(words).code, 0, "{words:?}");
    }
    let calls = ["tools/call", "tools/call", "tools/list", "tools/call"];
    assert_eq!(bridge.methods(), calls, "another round trip only where a value is to be coerced");
    for words in [&[][..], &["{}"], &["item=x", "count=2"], &[r#"{"item": "x", "count": 0}"#]] {
        let run = run(&[words, &["--json"]].concat());
        assert_eq!((run.code, &run.failure()["kind"]), (1, &json!("invalid-arguments")), "{words:?}");
    }
    assert_eq!(bridge.methods()[4..], ["tools/list"; 4], "nothing was sent, and it was asked before");
    let typed = run(&["item=x", "count=2", "tags=a"]);
    let hint = "↳ key=… is always a string; write: count:=2 'tags:=[\"a\"]'\n  ↳ drowse @s tools-call order --help\n";
    assert!(typed.err.contains(hint), "{}", typed.err);
    assert!(!run(&["count:=2"]).err.contains("always a string"));
    assert_eq!(run(&["count=two", "--no-check"]).code, 0);
    assert_eq!(bridge.arguments(), r#"{"count":"two"}"#);
    // What it was known to be it is no longer; and what cannot be judged is sent.
    let mut before = tools();
    before[0]["inputSchema"] = json!({"required": ["old"]});
    before[2]["inputSchema"] = json!({"$ref": "https://example.com/a.json"});
    said(&home, &before);
    assert_eq!(run(&["item=x"]).code, 0);
    assert_eq!(bridge.arguments(), r#"{"item":"x"}"#);
    assert_eq!(home.run("@s tools-call endless {}").err, "");
}

#[test]
fn only_where_the_schema_is_asked_for_if_nothing_is_known_unless_told_so() {
    let (home, bridge) = awake();
    for words in [&[][..], &["{}"], &["count=two"], &["item=x", "count:=two"]] {
        assert_eq!(home.run_words(&[&["@s", "tools-call", "order"], words].concat()).code, 0, "{words:?}");
    }
    assert_eq!(bridge.methods(), ["tools/call"; 4], "one round trip");
    for words in [&[][..], &["{}"], &["item=x", "count=2"]] {
        let run = home.run_words(&[&["@s", "tools-call", "order", "--check"], words].concat());
        assert_eq!(run.code, 1, "{words:?}");
    }
    assert_eq!(bridge.methods()[4..], ["tools/list"; 3]);
}

#[test]
fn a_schema_that_cannot_be_used_is_no_obstacle() {
    let (home, bridge) = awake();
    for (tool, says) in
        [("endless", "too complex"), ("far", "https://example.com/a.json"), ("odd", "a kind of its own")]
    {
        let run = home.run(&format!("@s tools-call {tool} a:=1"));
        assert_eq!((run.code, run.out.as_str()), (0, "ok\n"), "{}", run.err);
        assert!(run.err.starts_with("warning: ") && run.err.contains(says), "{tool}: {}", run.err);
        assert_eq!(bridge.arguments(), r#"{"a":1}"#);
        let run = home.run(&format!("@s tools-call {tool} a:=1 --json"));
        let notice: Value = serde_json::from_str(&run.err).unwrap();
        assert_eq!(notice["kind"], "schema", "{notice}");
        assert!(notice["notice"].as_str().is_some_and(|text| text.contains(says)), "{notice}");
        assert_eq!(home.run(&format!("@s tools-call {tool} a:=1 --no-check")).err, "");
    }
}

#[test]
fn results_that_are_not_as_declared_are_pointed_out() {
    let (home, _bridge) = awake();
    let run = home.run("@s tools-call sum sum:=1");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "{\n  \"sum\": 1\n}\n", ""));
    let run = home.run("@s tools-call sum sum:=[]");
    assert_eq!((run.code, run.out.as_str()), (0, "{\n  \"sum\": []\n}\n"));
    assert!(run.err.contains("output schema: `sum` is [], but number is expected"), "{}", run.err);
    let run = home.run("@s tools-call sum sum:=[] --json");
    let notice: Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!((notice["kind"].as_str(), run.err.lines().count()), (Some("output-schema"), 1), "{notice}");
    assert!(notice["notice"].as_str().is_some_and(|text| text.contains("`sum` is []")), "{notice}");
    // Not asked for, so not known.
    assert_eq!(home.run("@s tools-call sum {}").err, "");
}

#[test]
fn a_tool_must_be_as_it_was() {
    let (home, bridge) = awake();
    let file = home.path().join("order.json");
    assert!(fs::write(&file, home.run("@s tools-get order --json").out).is_ok());
    for mode in ["compatible", "strict", "ignore"] {
        let run = home.run(&format!("@s tools-call order item=x --schema order.json --schema-mode {mode}"));
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{mode}");
        assert_eq!(home.run(&format!("@s tools-get order --schema order.json --schema-mode {mode}")).code, 0);
    }
    let mut before = tools()[0].clone();
    before["description"] = json!("Ordered once");
    before["inputSchema"]["required"] = json!([]);
    before["inputSchema"]["properties"]["old"] = json!({});
    fs::write(&file, json!([{"name": "other"}, before]).to_string()).unwrap();
    let calls = |bridge: &Bridge| bridge.methods().iter().filter(|method| *method == "tools/call").count();
    let sent = calls(&bridge);
    for (line, says) in [
        ("tools-call order count:=1 --schema order.json", Some("`item` is required now")),
        ("tools-call order {} --schema order.json", Some("`item` is required now")),
        ("tools-call order item=x old=1 --schema order.json", Some("there is no `old` any more")),
        (
            "tools-call order item=x --schema order.json --schema-mode strict",
            Some("another description; another inputSchema"),
        ),
        ("tools-get order --schema order.json", Some("there is no `old` any more")),
        ("tools-call order item=x --schema order.json", None),
        ("tools-call order count:=1 --no-check --schema order.json --schema-mode ignore", None),
    ] {
        let run = home.run(&format!("@s {line} --json"));
        match says {
            Some(says) => {
                let failure = run.failure();
                assert_eq!((run.code, &failure["kind"]), (1, &json!("schema-mismatch")), "{line}");
                assert!(failure["error"].as_str().unwrap().contains(says), "{line}: {failure}");
            }
            None => assert_eq!(run.code, 0, "{line}: {}", run.err),
        }
    }
    assert_eq!(calls(&bridge), sent + 2);
    for line in
        ["tools-call order --schema none.json --schema-mode ignore", "tools-call nothing --schema order.json"]
    {
        assert_eq!(home.run(&format!("@s {line} --json")).failure()["kind"], "usage", "{line}");
    }
    fs::write(&file, r#"{"name":"gone"}"#).unwrap();
    assert_eq!(home.run("@s tools-call gone --schema order.json --json").failure()["kind"], "no-tool");
}

#[test]
fn so_must_a_prompt() {
    let (home, bridge) = awake();
    let prompt = |arguments: &str| {
        fs::write(home.path().join("p.json"), format!(r#"{{"name":"p","arguments":[{arguments}]}}"#))
            .unwrap();
        home.run("@s prompts-get p a=1 --schema p.json --json")
    };
    let run = prompt(r#"{"name":"a"}"#);
    assert!(run.failure()["error"].as_str().unwrap().contains("`b` is required now"));
    assert_eq!(bridge.methods(), ["prompts/list"]);
    assert_eq!(prompt(r#"{"name":"a"},{"name":"b","required":true}"#).code, 0);
    assert_eq!(bridge.methods(), ["prompts/list", "prompts/list", "prompts/get"]);
}
