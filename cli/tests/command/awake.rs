//! Commands on an awake session, whose bridge is scripted.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::bridge::{Answer, Bridge};
use crate::home::{Home, Run};

const GIF: &str = "R0lGODlhgALgAQA=";

/// A server with a tool for each thing that a result can be.
fn server(message: &Value) -> Answer {
    let cursor = message["params"]["cursor"].as_str();
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let result = |text: &str| Answer::Result(text.to_owned());
    match (message["method"].as_str().unwrap_or_default(), tool) {
        ("tools/list", _) if cursor.is_none() => result(
            r#"{"tools":[{"name":"get-item", "description":"Gets it","inputSchema":{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"]}}],"nextCursor":"two"}"#,
        ),
        ("tools/list", _) => {
            assert_eq!(cursor, Some("two"));
            result(r#"{"tools":[{"name":"picture","inputSchema":{"type":"object"},"x":1.0e2}]}"#)
        }
        ("tools/call", "get-item") => result(r#"{"content":[{"type":"text","text":"hi"}], "n":1.0e2}"#),
        ("tools/call", "fail") => {
            result(r#"{"content":[{"type":"text","text":"no such item"}],"isError":true}"#)
        }
        ("tools/call", "picture") => result(&format!(
            r#"{{"content":[{{"type":"text","text":"look"}},{{"type":"image","data":"{GIF}","mimeType":"image/gif"}}]}}"#
        )),
        ("tools/call", "input") => result(r#"{"resultType":"input_required","requestState":"x"}"#),
        ("tools/call", "garbage") => result("7"),
        ("tools/call", "slow") => Answer::Error(
            json!({"code": -32001, "message": "no answer within 5 s", "data": {"drowse": {"kind": "timeout", "ran": "unknown"}}}),
        ),
        ("tools/call", "never") => Answer::Silence,
        ("tools/call", "long") => {
            result(&format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "long ".repeat(100_000)))
        }
        ("tools/call", _) => Answer::Error(json!({"code": -32602, "message": "unknown tool", "data": [1]})),
        ("prompts/list", _) => {
            result(r#"{"prompts":[{"name":"review","arguments":[{"name":"code","required":true}]}]}"#)
        }
        ("prompts/get", "review") => result(
            &format!(
                r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"Review this"}}}},
            {{"role":"assistant","content":{{"type":"image","data":"{GIF}","mimeType":"image/gif"}}}}]}}"#
            )
            .replace('\n', ""),
        ),
        ("prompts/get", _) => Answer::Error(json!({"code": -32602, "message": "unknown prompt"})),
        ("completion/complete", _) if message["params"]["ref"]["name"] == "none" => {
            Answer::Error(json!({"code": -32601, "message": "Method not found"}))
        }
        ("completion/complete", _) => {
            result(r#"{"completion":{"values":["py","pyi"],"total":5,"hasMore":true}, "x":1.0}"#)
        }
        ("resources/list", _) => result(r#"{"resources":[{"uri":"a://b","name":"b"}]}"#),
        ("resources/read", _) => {
            result(&format!(r#"{{"contents":[{{"uri":"a://b","blob":"{GIF}","mimeType":"image/gif"}}]}}"#))
        }
        ("drowse/ping", _) => result("{}"),
        ("drowse/info", _) => result(
            r#"{"era":"legacy","protocolVersion":"2025-11-25","handshake":{"protocolVersion":"2025-11-25", "capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}"#,
        ),
        _ => Answer::Silence,
    }
}

fn awake() -> (Home, Bridge) {
    let home = Home::new();
    let bridge = Bridge::start(&home, server);
    (home, bridge)
}

#[test]
fn a_result_is_printed_as_it_came() {
    let (home, bridge) = awake();
    let run = home.run("@s tools-call get-item id=1 --json");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(run.out, "{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}], \"n\":1.0e2}\n");
    let run = home.run("@s tools-call get-item id=1");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "hi\n", ""));
    assert_eq!(bridge.methods(), ["tools/call", "tools/call"]);
}

#[test]
fn an_is_error_result_is_printed_and_exits_2() {
    let (home, _bridge) = awake();
    let run = home.run("@s tools-call fail --json");
    assert_eq!((run.code, run.err.as_str()), (2, ""));
    assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap()["isError"], true);
    let run = home.run("@s tools-call fail");
    assert_eq!((run.code, run.out.as_str()), (2, "no such item\n"));
    assert!(run.err.contains("reported an error"), "{}", run.err);
}

#[test]
fn an_error_answer_is_a_failure_with_the_servers_own_error() {
    let (home, _bridge) = awake();
    let run = home.run("@s tools-call item-get --json");
    assert_eq!(run.code, 2);
    let failure = run.failure();
    assert_eq!(failure["kind"], "server-error");
    assert_eq!(failure["_drowse"]["rpc"], json!({"code": -32602, "message": "unknown tool", "data": [1]}));
    assert_eq!(failure["_drowse"]["hint"], "Did you mean: get-item");
}

#[test]
fn a_time_out_exits_3_and_says_that_it_may_have_run() {
    let (home, bridge) = awake();
    let run = home.run("@s tools-call slow --timeout 5 --json");
    assert_eq!(run.code, 3);
    let failure = run.failure();
    assert_eq!((&failure["kind"], &failure["ran"]), (&json!("timeout"), &json!("unknown")));
    assert_eq!(bridge.messages()[0]["params"]["_meta"]["dev.drowse/timeoutMs"], 5000);
    let run = home.run("@s tools-call slow");
    assert!(run.err.contains("may have run"), "{}", run.err);
}

#[test]
fn answers_that_make_no_sense_exit_2() {
    let (home, _bridge) = awake();
    for (tool, kind) in [("garbage", "invalid-answer"), ("input", "invalid-answer")] {
        let run = home.run(&format!("@s tools-call {tool} --json"));
        assert_eq!((run.code, &run.failure()["kind"]), (2, &json!(kind)), "{tool}");
    }
}

#[test]
fn arguments_are_coerced_by_the_schema_which_is_fetched_only_if_it_matters() {
    let (home, bridge) = awake();
    home.run("@s tools-call get-item id:=abc n=5");
    assert_eq!(bridge.arguments(), r#"{"id":"abc","n":"5"}"#);
    assert_eq!(bridge.methods(), ["tools/call"]);
    home.run("@s tools-call get-item id:=123 n:=5");
    assert_eq!(bridge.arguments(), r#"{"id":"123","n":5}"#);
    // The tool is on the first page: the second is not asked for.
    assert_eq!(bridge.methods(), ["tools/call", "tools/list", "tools/call"]);
}

#[test]
fn stdin_is_read_only_for_a_dash() {
    let (home, bridge) = awake();
    // Held open and never written: a command that reads it would never end.
    let mut child = home
        .command(&["@s", "tools-call", "get-item", "id=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(stdin);
    let file = home.path().join("arguments.json");
    fs::write(&file, "{\n  \"id\": \"from stdin\"\n}\n").unwrap();
    let run =
        home.command(&["@s", "tools-call", "get-item", "-"]).stdin(fs::File::open(file).unwrap()).output();
    assert!(run.unwrap().status.success());
    assert_eq!(bridge.arguments(), r#"{"id":"from stdin"}"#);
}

#[test]
fn lists_are_bare_arrays_over_all_pages() {
    let (home, _bridge) = awake();
    let run = home.run("@s tools-list --json");
    assert_eq!(run.code, 0, "{}", run.err);
    let tools: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(tools.as_array().unwrap().len(), 2);
    assert!(
        run.out.contains(r#""name":"get-item", "description""#) && run.out.contains("1.0e2"),
        "{}",
        run.out
    );
    let run = home.run("@s tools-list");
    assert_eq!(run.out, "get-item id:=string [n:=integer]\n    Gets it\npicture\n");
    assert!(home.run("@s tools-list --full").out.contains("  id  string, required\n"));
    let run = home.run("@s resources-list --json");
    assert_eq!(run.out, "[{\"uri\":\"a://b\",\"name\":\"b\"}]\n");
}

/// A server whose pages hold one prompt each, named by their number, and lead on as `next` says.
fn pages(next: impl Fn(u64) -> Option<String> + Send + Sync + 'static) -> (Home, Bridge) {
    let home = Home::new();
    let bridge = Bridge::start(&home, move |message| {
        let page = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap_or(1));
        let cursor = next(page).map_or("null".into(), |cursor| format!("\"{cursor}\""));
        Answer::Result(format!(r#"{{"prompts":[{{"name":"p{page}"}}],"nextCursor":{cursor}}}"#))
    });
    (home, bridge)
}

#[test]
fn a_list_that_never_ends_is_noticed() {
    for (what, next, asked) in [
        ("the same page again", (|_| Some("1".into())) as fn(u64) -> Option<String>, 2),
        ("in a circle", |page| Some(((page + 1) % 3).to_string()), 4),
        ("the empty cursor, for ever", |_| Some(String::new()), 2),
        ("always another", |page| Some((page + 1).to_string()), 10_000),
    ] {
        let (home, bridge) = pages(next);
        let run = home.run("@s prompts-list --json");
        assert_eq!((run.code, &run.failure()["kind"]), (2, &json!("invalid-answer")), "{what}");
        assert_eq!(bridge.methods().len(), asked, "{what}");
    }
}

#[test]
fn a_long_list_is_whole() {
    let (home, _bridge) = pages(|page| (page < 9_999).then(|| (page + 1).to_string()));
    let run = home.run("@s prompts-list --json");
    assert_eq!(run.code, 0, "{}", run.err);
    let prompts: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((prompts.as_array().unwrap().len(), &prompts[9_999]["name"]), (10_000, &json!("p9999")));
    // A string is a cursor, whatever is in it.
    let (home, _bridge) = pages(|page| (page == 0).then(String::new));
    assert_eq!(home.run("@s prompts-list").out, "p0\np1\n");
}

#[test]
fn one_tool_and_its_help() {
    let (home, _bridge) = awake();
    let run = home.run("@s tools-get picture --json");
    assert_eq!(run.out, "{\"name\":\"picture\",\"inputSchema\":{\"type\":\"object\"},\"x\":1.0e2}\n");
    assert!(home.run("@s tools-get get-item").out.contains("id  string, required"));
    let run = home.run("@s tools-call get-item --help");
    assert_eq!(run.code, 0);
    assert!(run.out.contains("drowse @s tools-call get-item id:=<string>\n"), "{}", run.out);
    let run = home.run("@s tools-get pictures --json");
    assert_eq!((run.code, run.failure()["_drowse"]["hint"].clone()), (1, json!("Did you mean: picture")));
}

#[test]
fn pictures_are_summarised_or_saved() {
    let (home, _bridge) = awake();
    let run = home.run("@s tools-call picture");
    assert_eq!(run.out, "look\n[image image/gif, 11 B, 640x480]\n");
    assert!(run.err.contains("-o <file>"), "{}", run.err);
    let run = home.run("@s tools-call picture -o pic.gif");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("saved pic.gif (11 B)"), "{}", run.err);
    assert_eq!(fs::read(home.path().join("pic.gif")).unwrap(), b"GIF89a\x80\x02\xe0\x01\0");
    assert_eq!(home.run("@s resources-read a://b").out, "[a://b image/gif, 11 B, 640x480]\n");
    assert_eq!(home.run("@s resources-read a://b -o res.gif").code, 0);
    assert_eq!(fs::read(home.path().join("res.gif")).unwrap().len(), 11);
    assert_eq!(home.run("@s tools-call picture -o no/such/file").code, 1);
    let run = home.run("@s tools-call fail -o kept");
    assert_eq!((run.code, home.path().join("kept").exists()), (2, false));
}

#[test]
fn prompts_are_filled_in_and_saved() {
    let (home, bridge) = awake();
    let run = home.run("@s prompts-get review code:=[1,2] n=x");
    assert_eq!(run.out, "[user]\nReview this\n\n[assistant]\n[image image/gif, 11 B, 640x480]\n");
    assert!(run.err.contains("-o <file>"), "{}", run.err);
    let asked = &bridge.messages()[0];
    assert_eq!(asked["params"]["arguments"], json!({"code": "[1,2]", "n": "x"}));
    assert_eq!(home.run("@s prompts-get review -o shot.gif").code, 0);
    assert_eq!(fs::read(home.path().join("shot.gif")).unwrap().len(), 11);
    let whole = home.run("@s prompts-get review --json");
    assert!(whole.out.starts_with(r#"{"messages":[{"role":"user","#), "{}", whole.out);
    let run = home.run("@s prompts-get reviw --json");
    assert_eq!((run.code, run.failure()["_drowse"]["hint"].clone()), (2, json!("Did you mean: review")));
}

#[test]
fn where_there_are_no_tasks_it_is_said_what_there_is() {
    let (home, bridge) = awake();
    for flag in ["--task", "--detach"] {
        let run = home.run(&format!("@s tools-call get-item id=1 {flag}"));
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(run.err.contains("@s has no tasks") && run.err.contains("↳ without --task"), "{}", run.err);
    }
    assert!(!home.run("@s tasks-list").err.contains("--task"));
    assert!(!bridge.methods().contains(&"tools/call".to_owned()));
}

#[test]
fn completion_is_asked_for_and_shown() {
    let (home, bridge) = awake();
    let run = home.run("@s complete prompt review language py --with style=short");
    assert_eq!((run.code, run.out.as_str()), (0, "py\npyi\n"));
    assert!(run.err.contains("2 of 5"), "{}", run.err);
    let asked = &bridge.messages()[0]["params"];
    assert_eq!(asked["ref"], json!({"type": "ref/prompt", "name": "review"}));
    assert_eq!(asked["argument"], json!({"name": "language", "value": "py"}));
    assert_eq!(asked["context"], json!({"arguments": {"style": "short"}}));
    let run = home.run("@s complete resource a://{b} b --json");
    assert_eq!(
        run.out,
        "{\"completion\":{\"values\":[\"py\",\"pyi\"],\"total\":5,\"hasMore\":true}, \"x\":1.0}\n"
    );
    let asked = &bridge.messages()[1]["params"];
    assert_eq!((&asked["ref"]["uri"], &asked["argument"]["value"]), (&json!("a://{b}"), &json!("")));
    let run = home.run("@s complete prompt none x");
    assert!(run.code == 2 && run.err.contains("@s completes nothing: Method not found"), "{}", run.err);
    for (line, says) in [
        ("@s complete tool x y", "tool"),
        ("@s complete prompt x", "<argument>"),
        ("@s complete prompt x y --with z", "--with"),
        ("@s complete prompt x y --with a=1 --with a=2", "given twice"),
    ] {
        let run = home.run(line);
        assert!(run.code == 1 && run.err.contains(says), "{line}: {}", run.err);
    }
}

#[test]
fn ping_and_info() {
    let (home, _bridge) = awake();
    let run = home.run("@s ping --json");
    let document: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(document["success"], true);
    assert!(document["durationMs"].as_f64().is_some_and(|millis| millis > 0.0));
    assert_eq!(document.as_object().unwrap().len(), 2);
    let run = home.run("@s --json");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.starts_with(r#"{"protocolVersion":"2025-11-25", "capabilities":{"tools":{}},"#),
        "{}",
        run.out
    );
    let document: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(document["_drowse"]["name"], "@s");
    assert_eq!(document["_drowse"]["idleTimeoutSecs"], 600);
    assert!(home.run("@s").out.contains("Server: fake 1\n"));
}

#[test]
fn ctrl_c_cancels_and_says_whether_it_may_have_run() {
    let (home, bridge) = awake();
    let mut child = home
        .command(&["@s", "tools-call", "never", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    bridge.wait_for("tools/call");
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!(run.code, 130, "{}", run.err);
    let failure = run.failure();
    assert_eq!((&failure["kind"], &failure["ran"]), (&json!("interrupted"), &json!("unknown")));
    bridge.wait_for("notifications/cancelled");
    let messages = bridge.messages();
    assert_eq!(messages[1]["params"]["requestId"], messages[0]["id"]);
    child = home.command(&["@s", "ping"]).stdout(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success(), "the session lives");
}

#[test]
fn a_reader_that_goes_away_in_the_middle_is_no_failure() {
    let (home, _bridge) = awake();
    let mut child = home
        .command(&["@s", "tools-call", "long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut start = [0; 5];
    stdout.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"long ");
    drop(stdout);
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn output_is_cut_only_when_asked() {
    let (home, _bridge) = awake();
    assert_eq!(home.run("@s tools-call long").out.len(), 500_001);
    let run = home.run("@s tools-call long --max-chars 9");
    assert_eq!(run.out, "long long\n");
    assert!(run.err.contains("cut after 9"), "{}", run.err);
}
