//! What a server may answer, and what comes of it: errors, large answers, questions of its own.

use drowse_tests::harness::{Home, at_once, in_both_eras};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

#[test]
fn an_error_result_exits_2_and_an_error_answer_too() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let run = session.call("fail", &[]).exits(2);
        assert_eq!(
            (run.json()["isError"].as_bool(), run.text().as_str()),
            (Some(true), "this tool always fails")
        );
        assert_eq!(run.err, "", "the result says it all");
        let run = session.call("rpc_error", &["code:=-32050"]);
        let failed = run.fails(2);
        assert_eq!(failed["kind"], "server-error");
        let expected =
            json!({"code": -32050, "message": "this tool is always refused", "data": {"detail": [1, "two"]}});
        assert_eq!(failed["_drowse"]["rpc"], expected, "as it came");
        let failed = session.run(["resources-read", "no://such"]).fails(2);
        let code = if era == "legacy" { -32002 } else { -32602 };
        assert_eq!(failed["_drowse"]["rpc"]["code"], code, "as it came");
        let failed = session.call("no-such-tool", &[]).fails(2);
        assert_eq!(failed["kind"], "server-error");
        assert_eq!(session.starts(), 1);
    });
}

#[test]
fn lists_of_many_pages() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era, "--page-size", "3"]);
        let whole = home.connect("@w", &[], &["--era", era]);
        session.wait_until_saved();
        let before = session.methods().len();
        for list in ["tools-list", "resources-list"] {
            let (paged, expected) = (session.run([list]).ok().json(), whole.run([list]).ok().json());
            assert_eq!(paged, expected);
        }
        let asked = session.methods().iter().skip(before).filter(|method| *method == "tools/list").count();
        assert_eq!(asked, whole.run(["tools-list"]).ok().json().as_array().unwrap().len().div_ceil(3));
    });
}

#[test]
fn large_answers_come_through_and_larger_ones_fail_alone() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--timeout", "60"], &["--era", era]);
        // Most of it is of no era; what is large takes a while, so each size is tried with one.
        let (fits, largest, too_large) = match era {
            "legacy" => (60 * MIB, 64 * MIB, 64 * MIB + 1),
            _ => (10 * MIB, 64 * MIB - 1, 70 * MIB),
        };
        let run = session.call("big", &[&format!("bytes:={fits}")]).ok();
        let found = run.out.bytes().filter(|byte| *byte == b'x').count();
        assert!(found >= fits && run.out.len() < fits + 1000, "{found} of {fits}");
        // To the byte: the limit is that of the server's line.
        let run = session.call("huge", &[&format!("bytes:={largest}")]).ok();
        assert!(run.out.len() > 63 * MIB);
        let failed = session.call("huge", &[&format!("bytes:={too_large}"), "tag=huge"]).fails(2);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!("too-large"), &json!("unknown")));
        assert!(failed["error"].as_str().unwrap().contains("64 MiB"), "{failed}");
        assert_eq!(session.call("tag", &["tag=after"]).ok().text(), "after");
        assert_eq!((session.starts(), session.executions("huge")), (1, 1));
    });
}

/// Large arguments come by standard input: no command line is that long.
#[test]
fn large_requests() {
    let home = Home::new();
    let session = home.connect("@s", &["--timeout", "60"], &[]);
    let call = |bytes: usize| {
        let file = home.path().join(format!("arguments-{bytes}.json"));
        std::fs::write(&file, json!({"text": "y".repeat(bytes)}).to_string()).unwrap();
        let mut command = home.command(["@s", "tools-call", "echo", "-", "--json"]);
        command.stdin(std::fs::File::open(file).unwrap());
        home.finish(command)
    };
    assert_eq!(call(10 * MIB).ok().text().len(), 10 * MIB);
    let failed = call(70 * MIB).fails(2);
    assert_eq!((&failed["kind"], &failed["ran"]), (&json!("too-large"), &json!("no")), "{failed}");
    assert_eq!(session.call("echo", &["text=after"]).ok().text(), "after");
    assert_eq!(session.starts(), 1);
}

#[test]
fn questions_of_the_server_are_declined_and_the_call_goes_on() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--era", "legacy"]);
    // Nothing was declared of these.
    for method in ["roots/list", "sampling/createMessage", "no/such"] {
        let run = session.call("ask", &[&format!("method={method}")]).ok();
        let said: Value = serde_json::from_str(&run.text()).unwrap();
        assert_eq!(said["code"], -32601, "{method}: {said}");
    }
    // And of this, but nobody is there who could be asked.
    let said = session.call("ask", &["method=elicitation/create"]).ok().text();
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), json!({"action": "decline"}));
    let said: Value = serde_json::from_str(&session.call("ask", &["method=ping"]).ok().text()).unwrap();
    assert_eq!(said, json!({}), "a ping is answered");
    // A modern one asks by its answer, and is told beforehand that nobody would answer.
    let modern = home.connect("@m", &[], &["--era", "modern"]);
    let failed = modern.call("ask", &[]).fails(2);
    assert_eq!(failed["_drowse"]["rpc"]["code"], -32021, "{failed}");
    assert_eq!((session.starts(), modern.starts()), (1, 1));
}

#[test]
fn answers_come_in_any_order() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let delays: Vec<u64> = (1..=6).rev().map(|place| place * 60).collect();
        let cases = delays.iter().map(|ms| (format!("{ms} ms"), ms));
        at_once(cases, |ms| {
            let run = session.call("slow", &[&format!("ms:={ms}"), &format!("tag=t{ms}")]).ok();
            assert_eq!(run.text(), format!("slept {ms}"));
        });
        assert!(delays.iter().all(|ms| session.executions(&format!("t{ms}")) == 1));
        assert_eq!(session.starts(), 1);
    });
}
