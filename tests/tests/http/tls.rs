//! TLS: certificates that nobody vouches for, and those that somebody named does; both versions of HTTP.

use std::path::Path;

use drowse_tests::harness::{Home, HttpServer, Run, at_once, in_both_eras};
use rustix::process::Signal;

use super::proxies::Proxy;
use super::seen::{FOR_EVER, check, count, lives, says};
use super::tls_front::{Shown, TlsFront};

const HTTP_1: &[&str] = &["http/1.1"];

fn connect(home: &Home, front: &TlsFront, flags: &[&str]) -> Run {
    home.run([&["connect", &front.url(), "@s", "--json"], flags].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn certificates_that_nobody_vouches_for() {
    let cases = [("signed by itself", Shown::SelfSigned), ("of an unknown authority", Shown::OfAuthority)];
    at_once(cases, |shown| {
        let server = HttpServer::start(&["--era", "modern"]);
        let front = TlsFront::start(&server, shown, HTTP_1);
        let home = Home::new();
        let failed = connect(&home, &front, &[]).fails(3);
        check(&failed, "network", "no");
        says(&failed, &["cannot be reached", "certificate", "--cacert", "--insecure"]);
        assert!(!home.session("@s").exists());
        assert_eq!(server.events("http"), [], "nothing was said over such a connection");
        // Its authority is trusted, if somebody says so.
        connect(&home, &front, &["--cacert", text(&front.authority())]).ok();
        lives(&home.session("@s"), &server);
    });
}

#[test]
fn insecure_takes_any() {
    let cases = [
        ("self-signed", Shown::SelfSigned),
        ("of an unknown authority", Shown::OfAuthority),
        ("of another name", Shown::OfAnother),
        ("expired", Shown::Expired),
    ];
    at_once(cases, |shown| {
        let server = HttpServer::start(&["--era", "legacy"]);
        let front = TlsFront::start(&server, shown, HTTP_1);
        let home = Home::new();
        connect(&home, &front, &["--insecure", "--idle-timeout", "1"]).ok();
        let session = home.session("@s");
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        // Also when it wakes.
        session.wait_until_asleep();
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((server.executions("a"), server.executions("b")), (1, 1));
        assert_eq!(session.listed()["_drowse"]["insecure"], true, "{}", session.listed());
    });
}

#[test]
fn an_authority_does_not_vouch_for_everything() {
    let cases = [("of another name", Shown::OfAnother), ("expired", Shown::Expired)];
    at_once(cases, |shown| {
        let server = HttpServer::start(&["--era", "modern"]);
        let front = TlsFront::start(&server, shown, HTTP_1);
        let home = Home::new();
        let failed = connect(&home, &front, &["--cacert", text(&front.authority())]).fails(3);
        check(&failed, "network", "no");
        says(&failed, &["cannot be reached", "certificate"]);
        assert_eq!(server.events("http"), []);
    });
    // Nor does another one.
    let server = HttpServer::start(&["--era", "modern"]);
    let (front, other) = (
        TlsFront::start(&server, Shown::OfAuthority, HTTP_1),
        TlsFront::start(&server, Shown::OfAuthority, HTTP_1),
    );
    let home = Home::new();
    let failed = connect(&home, &front, &["--cacert", text(&other.authority())]).fails(3);
    check(&failed, "network", "no");
}

#[test]
fn files_that_hold_no_authority() {
    let server = HttpServer::start(&["--era", "modern"]);
    let front = TlsFront::start(&server, Shown::OfAuthority, HTTP_1);
    let home = Home::new();
    let write = |name: &str, text: &str| {
        let file = front.directory().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let files = [
        front.directory().join("none.pem"),
        write("empty.pem", ""),
        write("text.pem", "this is no certificate\n"),
        write("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        front.directory().to_owned(),
    ];
    for file in &files {
        let run = connect(&home, &front, &["--cacert", text(file)]);
        assert!([1, 2].contains(&run.code), "{}: {run:?}", file.display());
        says(&run.fails(run.code), &[text(file)]);
        assert!(!home.session("@s").exists(), "{}", file.display());
    }
    assert_eq!(server.events("http"), []);
}

/// The variable that other programs know as well; the session's is pinned.
#[test]
fn an_authority_of_the_environment() {
    let server = HttpServer::start(&["--era", "modern"]);
    let front = TlsFront::start(&server, Shown::OfAuthority, HTTP_1);
    let home = Home::new();
    let mut command = home.command(["connect", &front.url(), "@s", "--json"]);
    command.env("SSL_CERT_FILE", front.authority());
    home.finish(command).ok();
    lives(&home.session("@s"), &server);
}

#[test]
fn the_wrong_scheme() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let front = TlsFront::start(&server, Shown::SelfSigned, HTTP_1);
        let home = Home::new();
        let failed = home.run(["connect", &front.plain_url(), "@s", "--json"]).fails(3);
        check(&failed, "network", "no");
        let https = server.url().replace("http://", "https://");
        let failed = home.run(["connect", &https, "@s", "--json"]).fails(3);
        check(&failed, "network", "no");
        says(&failed, &["cannot be reached"]);
        assert!(!home.session("@s").exists());
        assert_eq!(server.events("http"), []);
    });
}

#[test]
fn a_certificate_that_changes() {
    let server = HttpServer::start(&["--era", "modern"]);
    let first = TlsFront::start(&server, Shown::OfAuthority, HTTP_1);
    let home = Home::new();
    connect(&home, &first, &["--cacert", text(&first.authority())]).ok();
    let session = home.session("@s");
    lives(&session, &server);
    drop(first);
    // Nobody is there any more, and the file of its authority is gone too.
    let failed = session.call("tag", &["tag=b"]).fails(3);
    check(&failed, "network", "no");
    assert_eq!(server.executions("b"), 0);
}

#[test]
fn http_2() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era, "--answers", "json", "--get", "405"]);
        let front = TlsFront::start(&server, Shown::OfAuthority, &["h2", "http/1.1"]);
        let home = Home::new();
        connect(&home, &front, &["--cacert", text(&front.authority())]).ok();
        let session = home.session("@s");
        // Many at once share one connection.
        let tags: Vec<String> = (0..6).map(|place| format!("t{place}")).collect();
        at_once(tags.iter().map(|tag| (tag.clone(), tag)), |tag| {
            assert_eq!(&session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
        });
        assert!(tags.iter().all(|tag| server.executions(tag) == 1));
        // One that is cancelled takes no other with it.
        let (one, other) = (
            session.start_call("slow", &[FOR_EVER, "tag=one"]),
            session.start_call("slow", &["ms:=700", "tag=other"]),
        );
        server.wait_for(|entries| {
            ["one", "other"].iter().all(|tag| entries.iter().any(|entry| entry.is("run", "tag", tag)))
        });
        one.signal(Signal::INT);
        check(&one.end().fails(130), "interrupted", "unknown");
        server.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "one")));
        assert_eq!(other.end().ok().text(), "slept 700");
        assert_eq!(count(&server, "notifications/cancelled"), usize::from(era == "legacy"));
        lives(&session, &server);
        assert_eq!(front.spoken(), ["h2"], "one connection");
    });
}

/// A proxy passes on what it cannot read.
#[test]
fn through_a_proxy() {
    let server = HttpServer::start(&["--era", "modern"]);
    let front = TlsFront::start(&server, Shown::OfAuthority, HTTP_1);
    let home = Home::new();
    let proxy = Proxy::start();
    let mut command =
        home.command(["connect", &front.url(), "@s", "--json", "--cacert", text(&front.authority())]);
    command.args(["-H", "Authorization: Bearer not-for-proxies"]).env("HTTPS_PROXY", proxy.url());
    home.finish(command).ok();
    lives(&home.session("@s"), &server);
    let asked = proxy.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|head| head.starts_with("CONNECT localhost:")),
        "{asked:?}"
    );
    assert!(asked.iter().all(|head| !head.contains("not-for-proxies")));
}
