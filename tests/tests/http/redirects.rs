//! Redirects: followed where they keep the request as it is and stay at the same origin, and refused with a word on where
//! they lead. Credentials never go anywhere else.

use drowse_tests::harness::{Home, HttpServer, at_once, in_both_eras};

use super::seen::{at, check, count, lives, says};

const SECRET: &str = "Bearer the-secret-of-the-header";

fn crossed(cases: &[&'static str]) -> Vec<(String, (&'static str, &'static str))> {
    let eras = |case: &&'static str| ["legacy", "modern"].map(|era| (format!("{case} {era}"), (*case, era)));
    cases.iter().flat_map(eras).collect()
}

/// That the other origin was told nothing, and least of all a secret.
#[track_caller]
fn strangers_heard_nothing(server: &HttpServer) {
    let strangers: Vec<_> =
        server.events("http").into_iter().filter(|entry| entry.is("http", "origin", "other")).collect();
    assert_eq!(strangers, [], "the other origin was asked");
}

#[test]
fn to_the_same_origin_with_the_request_as_it_is() {
    at_once(crossed(&["307", "308"]), |(status, era)| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        server.fault(&format!("redirect={status};to=same"));
        let session = home.connect_http("@s", &["-H", &format!("Authorization: {SECRET}")], &server);
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        session.run(["tools-list"]).ok();
        assert_eq!(server.executions("a"), 1);
        let calls = server.requests("tools/call");
        let targets: Vec<&str> = calls.iter().filter_map(|call| call.text("target")).collect();
        assert_eq!(targets, ["/mcp", "/mcp/moved"]);
        for name in
            ["authorization", "content-type", "accept", "mcp-protocol-version", "mcp-session-id", "mcp-name"]
        {
            let headers = calls.iter().map(|call| call.fields["headers"].get(name)).collect::<Vec<_>>();
            assert_eq!(headers[0], headers[1], "{name}");
        }
        assert_eq!(calls[0].fields["headers"]["authorization"], SECRET);
        assert!(at(&calls[1]) >= at(&calls[0]));
        lives(&session, &server);
    });
}

#[test]
fn those_that_make_another_request_of_it() {
    at_once(crossed(&["301", "302", "303"]), |(status, era)| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.fault(&format!("redirect={status};to=same"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "http", "no");
        says(&failed, &[status, "redirects to", &format!("{}/moved", server.url()), "connect to that URL"]);
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (0, 1));
        let (other, run) = home.try_connect_http("@t", &[], &server);
        let failed = run.fails(2);
        check(&failed, "http", "no");
        says(&failed, &[status, &format!("{}/moved", server.url())]);
        assert!(!other.exists());
        // By a path alone as well.
        server.ask_for("mend", "");
        server.fault(&format!("redirect={status};to=/mcp/elsewhere"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        says(&failed, &[&format!("{}/elsewhere", server.url())]);
        server.ask_for("mend", "");
        lives(&session, &server);
    });
}

#[test]
fn to_another_origin() {
    at_once(crossed(&["301", "302", "303", "307", "308"]), |(status, era)| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let header = format!("Authorization: {SECRET}");
        let session = home.connect_http("@s", &["-H", &header, "-H", "X-Key: another-secret"], &server);
        server.fault(&format!("redirect={status};to=other"));
        let target = format!("{}/mcp", server.other());
        for run in [session.call("tag", &["tag=a"]), session.run(["tools-list"]), session.run(["ping"])] {
            let failed = run.fails(2);
            check(&failed, "http", "no");
            says(&failed, &[status, "redirects to", &target]);
        }
        let (_, run) = home.try_connect_http("@t", &["-H", &header], &server);
        let failed = run.fails(2);
        check(&failed, "http", "no");
        says(&failed, &[status, &target]);
        strangers_heard_nothing(&server);
        assert_eq!(server.executions("a"), 0);
        server.ask_for("mend", "");
        lives(&session, &server);
    });
}

/// The same host is another origin by another scheme, and by another port.
#[test]
fn to_another_scheme_or_port() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        for target in [server.url().replace("http://", "https://"), "http://127.0.0.1:1/mcp".to_owned()] {
            server.fault(&format!("redirect=307;to={target}"));
            let failed = session.call("tag", &["tag=a"]).fails(2);
            check(&failed, "http", "no");
            says(&failed, &[&target]);
            server.ask_for("mend", "");
        }
        lives(&session, &server);
    });
}

/// What a target has beside its path may be a secret.
#[test]
fn secrets_of_a_target_are_not_shown() {
    let server = HttpServer::start(&["--era", "modern"]);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    server.fault("redirect=302;to=https://name:word@login.example/enter?ticket=12345");
    let run = session.call("tag", &["tag=a"]);
    let failed = run.fails(2);
    says(&failed, &["https://login.example/enter"]);
    assert!(!run.err.contains("word@") && !run.err.contains("12345"), "{failed}");
    // And one that is none is not followed either.
    for target in ["javascript:alert(1)", "//", "http://"] {
        server.ask_for("mend", "");
        server.fault(&format!("redirect=307;to={target}"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "http", "no");
    }
    assert_eq!(server.executions("a"), 0);
    server.ask_for("mend", "");
    lives(&session, &server);
}

#[test]
fn for_ever() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.fault("redirect=307;to=loop;on=tools/call");
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "http", "no");
        says(&failed, &["307", &format!("redirects {} to itself", server.url())]);
        let asked = count(&server, "tools/call");
        assert!((2..10).contains(&asked) && server.executions("a") == 0, "{asked}");
        server.ask_for("mend", "");
        lives(&session, &server);
    });
}
