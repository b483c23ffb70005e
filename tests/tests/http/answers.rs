//! Answers that are none, that are too long, or that say too much. Each time: a failure that says what came, nothing that
//! runs twice, and a session that lives.

use std::fs;

use drowse_tests::harness::{Home, HttpServer, Session, at_once, in_both_eras};

use super::bystander::Bystander;
use super::seen::{check, count, lives, says};

const MIB: usize = 1 << 20;

fn crossed<'c, C: Copy + 'c>(
    cases: &'c [(&'c str, C)],
) -> impl Iterator<Item = (String, (C, &'static str))> + 'c {
    cases
        .iter()
        .flat_map(|(name, case)| ["legacy", "modern"].map(|era| (format!("{name} {era}"), (*case, era))))
}

#[test]
fn answers_that_are_no_message() {
    let cases: [(&str, (&str, &[&str])); 9] = [
        ("a web page", ("html=200", &["text/html", "not MCP"])),
        ("another type", ("type=text/plain", &["text/plain", "not MCP"])),
        ("nothing", ("status=200", &["200"])),
        ("no content", ("status=204", &["204"])),
        ("taken as a notification", ("status=202", &["202"])),
        ("another id", ("wrong-id=\"another\"", &["does not answer"])),
        ("no id", ("wrong-id=null", &["does not answer"])),
        ("more after it", ("trailing", &["not a valid message"])),
        ("compressed", ("gzip=1000", &["gzip", "not asked for"])),
    ];
    at_once(crossed(&cases), |((fault, words), era)| {
        // So that nothing else makes a stream of it.
        let server = HttpServer::start(&["--era", era, "--answers", "json"]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        server.fault(&format!("{fault};times=1;on=tools/call"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "invalid-answer", "unknown");
        says(&failed, words);
        assert_eq!(count(&server, "tools/call"), 1);
        server.fault(&format!("{fault};times=1;on=tools/list"));
        let failed = session.run(["tools-list"]).fails(2);
        check(&failed, "invalid-answer", "unknown");
        says(&failed, words);
        lives(&session, &server);
        assert!(server.executions("a") <= 1);
    });
}

#[test]
fn pages_with_a_status() {
    let cases = [("404", "404"), ("502", "502")];
    at_once(crossed(&cases), |(status, era)| {
        let server = HttpServer::start(&["--era", era, "--no-sessions"]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.fault(&format!("html={status};times=1;on=tools/call"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "http", "unknown");
        says(&failed, &[status, "Somewhere else"]);
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (0, 1));
        lives(&session, &server);
    });
}

/// No type is as good as the right one.
#[test]
fn an_answer_of_no_type() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era, "--answers", "json"]);
        let home = Home::new();
        server.fault("type=");
        let session = home.connect_http("@s", &[], &server);
        lives(&session, &server);
    });
}

#[test]
fn what_is_no_server_at_all() {
    let cases: [(&str, (&str, &[&str])); 5] = [
        ("a web page", ("html=200", &["text/html", "/mcp"])),
        ("a page that is not there", ("html=404", &["404", "/mcp"])),
        ("nothing", ("status=200", &["/mcp"])),
        ("another method", ("status=405", &["405", "/mcp"])),
        ("compressed", ("gzip=100000", &["gzip"])),
    ];
    at_once(crossed(&cases), |((fault, words), era)| {
        let server = HttpServer::start(&["--era", era, "--fault", fault]);
        let home = Home::new();
        let (session, run) = home.try_connect_http("@s", &[], &server);
        let failed = run.fails(2);
        assert_eq!(failed["ran"], "no", "{failed}");
        says(&failed, words);
        assert!(!session.exists(), "a first connect that fails leaves no session");
        // For people too.
        let run = home.run(["connect", &server.url(), "@s"]).exits(2);
        assert!(run.err.starts_with("error: ") && run.out.is_empty(), "{}", run.err);
    });
}

/// What comes after the answer, or beside it, is no matter.
#[test]
fn answers_that_say_too_much() {
    let cases: [(&str, &[&str]); 5] = [
        ("more after it", &["--answers", "sse", "--fault", "trailing"]),
        ("no end after it", &["--answers", "sse", "--fault", "linger;on=tools/call"]),
        ("twice", &["--answers", "sse", "--answer-twice"]),
        ("others beside it", &["--answers", "sse", "--unknown-ids"]),
        ("in small pieces", &["--answers", "sse", "--fault", "drip=1;on=tools/call"]),
    ];
    at_once(crossed(&cases), |(flags, era)| {
        let server = HttpServer::start(&[&["--era", era], flags].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &["--timeout", "20"], &server);
        for tag in ["a", "b"] {
            assert_eq!(session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
            assert_eq!(server.executions(tag), 1);
        }
        session.run(["tools-list"]).ok();
        session.run(["ping"]).ok();
        if flags.contains(&"linger;on=tools/call") {
            // Its connection is not kept for ever.
            server.wait_for(|entries| entries.iter().filter(|entry| entry.event == "closed").count() >= 2);
        }
        assert_eq!((count(&server, "tools/call"), session.state().unwrap().generation), (2, 1));
        lives(&session, &server);
    });
}

/// In forms that a client has to know.
#[test]
fn answers_in_every_form() {
    let cases: [(&str, &[&str]); 6] = [
        ("streams that end with their connection", &["--answers", "sse", "--until-close"]),
        ("a connection for each", &["--close-connections"]),
        ("comments", &["--answers", "sse", "--comments", "1"]),
        ("retry", &["--answers", "sse", "--retry", "5"]),
        ("ids", &["--answers", "sse", "--event-ids"]),
        ("chatter", &["--answers", "sse", "--chatter", "5"]),
    ];
    at_once(crossed(&cases), |(flags, era)| {
        let server = HttpServer::start(&[&["--era", era], flags].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &["--timeout", "20"], &server);
        assert_eq!(session.call("slow", &["ms:=300", "tag=a"]).ok().text(), "slept 300");
        session.run(["tools-list"]).ok();
        assert_eq!((server.executions("a"), session.state().unwrap().generation), (1, 1));
        lives(&session, &server);
    });
}

#[test]
fn batches_of_old_revisions() {
    let server = HttpServer::start(&["--era", "legacy", "--legacy-version", "2025-03-26", "--batch"]);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    session.run(["tools-list"]).ok();
    lives(&session, &server);
}

#[test]
fn large_answers_come_through_and_larger_ones_fail_alone() {
    let cases = [("json", "json"), ("sse", "sse")];
    at_once(crossed(&cases), |(form, era)| {
        let server = HttpServer::start(&["--era", era, "--answers", form]);
        let home = Home::new();
        let other = Bystander::of(&home);
        let session = home.connect_http("@s", &["--timeout", "60"], &server);
        let run = session.call("big", &[&format!("bytes:={}", 60 * MIB)]).ok();
        let found = run.out.bytes().filter(|byte| *byte == b'x').count();
        assert!(found >= 60 * MIB && run.out.len() < 60 * MIB + 1000, "{found}");
        drop(run);
        // To the byte.
        assert!(session.call("huge", &[&format!("bytes:={}", 64 * MIB)]).ok().out.len() > 63 * MIB);
        for bytes in [64 * MIB + 1, 100_000_000] {
            let tag = format!("tag=huge-{bytes}");
            let failed = session.call("huge", &[&format!("bytes:={bytes}"), &tag]).fails(2);
            check(&failed, "too-large", "unknown");
            says(&failed, &["64 MiB", "ask for less"]);
            assert_eq!(server.executions(&format!("huge-{bytes}")), 1);
        }
        lives(&session, &server);
        let bridge = session.state().unwrap().bridge.unwrap().pid;
        assert!(peak_mib(bridge) < 220, "the bridge grew to {} MiB", peak_mib(bridge));
        other.noticed_nothing();
    });
}

#[test]
fn a_bomb() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.fault("gzip=500000000;times=1;on=tools/call");
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "invalid-answer", "unknown");
        says(&failed, &["gzip"]);
        let bridge = session.state().unwrap().bridge.unwrap().pid;
        assert!(peak_mib(bridge) < 60, "the bridge grew to {} MiB", peak_mib(bridge));
        lives(&session, &server);
        // Who says nothing takes anything.
        for request in server.events("http") {
            let headers: serde_json::Value =
                serde_json::from_str(&request.fields["headers"].to_string()).unwrap();
            assert_eq!(headers["accept-encoding"], "identity", "{request:?}");
        }
    });
}

/// The most memory that a process had.
fn peak_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn terminal_escapes_in_what_a_server_says() {
    let home = Home::new();
    let server = HttpServer::start(&["--era", "modern"]);
    let session = home.connect_http("@s", &[], &server);
    server.fault("status=500;body=\u{1b}]0;times=1;on=tools/call");
    let run = home.run(["@s", "tools-call", "tag", "tag=a"]).exits(2);
    assert!(!run.err.contains('\u{1b}'), "{:?}", run.err);
    lives(&session, &server);
}

/// Connections, of the bridge to the server, that are open.
fn connections(session: &Session<'_>) -> usize {
    let bridge = session.state().unwrap().bridge.unwrap().pid;
    let files = fs::read_dir(format!("/proc/{bridge}/fd")).unwrap().flatten();
    let sockets: Vec<String> = files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| {
            fs::read_to_string(format!("/proc/{bridge}/net/{table}")).map(|text| {
                text.lines()
                    .skip(1)
                    .filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned))
                    .collect::<Vec<_>>()
            })
        })
        .flatten()
        .filter(|inode| sockets.contains(inode))
        .count()
}

/// Whatever goes wrong, no socket stays.
#[test]
fn no_socket_is_left() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        let faults = [
            "html=200",
            "status=500",
            "cut-body",
            "cut-sse",
            "close=reset",
            "linger",
            "gzip=1000000",
            "hang",
            "comments=20",
        ];
        for (round, fault) in faults.iter().cycle().take(3 * faults.len()).enumerate() {
            server.fault(&format!("{fault};times=1;on=tools/call:tag"));
            let tag = format!("tag=t{round}");
            let _ = session.call("tag", &[&tag, "--timeout", "1"]);
            assert!(server.executions(&tag[4..]) <= 1);
        }
        // One for the stream that a legacy server has, some that are kept for the next requests.
        let open = connections(&session);
        assert!(open <= 4, "{open} connections are open");
        lives(&session, &server);
    });
}
