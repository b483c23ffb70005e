//! `resources-subscribe`: what it prints, what it outlives, and how it ends.

use std::time::Duration;

use drowse_tests::harness::{Home, in_both_eras};
use serde_json::json;

use super::{COUNTER, Subscriber, TOUCH, asked, everywhere};

#[test]
fn each_update_is_one_document_and_ctrl_c_unsubscribes() {
    everywhere(&[], |home, session, server| {
        session.wait_until_saved();
        let before = asked(&session);
        let subscriber = Subscriber::json(&session, home);
        for count in ["1", "2", "3"] {
            assert_eq!(session.call(TOUCH, &[]).ok().text(), count);
            assert_eq!(subscriber.update(), (count.to_owned(), false));
        }
        assert_eq!(session.status()["subscriptions"], json!([COUNTER]));
        assert_eq!(asked(&session), before + 1);
        subscriber.ends_after_ctrl_c();
        if let Some(server) = server {
            // The server has forgotten it, or will as soon as it reads.
            let end = std::time::Instant::now() + Duration::from_secs(20);
            while server.ask_for("notify", "updated") != "0" {
                assert!(std::time::Instant::now() < end, "it still announces");
                std::thread::yield_now();
            }
        }
        assert_eq!(session.call(TOUCH, &[]).ok().text(), "4");
    });
}

#[test]
fn for_people_it_says_when_and_what() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let subscriber = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
        assert_eq!(subscriber.says(), format!("subscribed to {COUNTER} of @s; Ctrl-C ends it"));
        let _ = session.call(TOUCH, &[]).ok();
        let head = subscriber.line();
        let (time, uri) = head.split_once("  ").unwrap();
        assert_eq!((time.len(), uri), ("12:34:56Z".len(), COUNTER), "{head}");
        assert_eq!(subscriber.line(), "1");
        subscriber.interrupt();
        assert_eq!(subscriber.says(), format!("unsubscribed from {COUNTER}"));
        assert_eq!(subscriber.ends(), 0);
    });
}

#[test]
fn two_that_listen_hear_the_same_and_the_server_is_asked_once() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        session.wait_until_saved();
        let before = asked(&session);
        let one = Subscriber::json(&session, &home);
        let two = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
        assert!(two.says().starts_with("subscribed"));
        let _ = session.call(TOUCH, &[]).ok();
        assert_eq!(one.update(), ("1".to_owned(), false));
        assert!(two.line().ends_with(COUNTER));
        assert_eq!(two.line(), "1");
        one.ends_after_ctrl_c();
        let _ = session.call(TOUCH, &[]).ok();
        assert!(two.line().ends_with(COUNTER));
        assert_eq!(two.line(), "2");
        assert_eq!(asked(&session), before + 1);
    });
}

#[test]
fn it_outlives_the_bridge_and_the_server() {
    everywhere(&[], |home, session, server| {
        let subscriber = Subscriber::json(&session, home);
        let _ = session.call(TOUCH, &[]).ok();
        assert_eq!(subscriber.update().0, "1");
        // A server behind a URL keeps its count.
        let kept = |count: &str| if server.is_some() { count.to_owned() } else { "0".to_owned() };
        session.kill_bridge();
        assert_eq!(subscriber.update(), (kept("1"), true));
        let count = session.call(TOUCH, &[]).ok().text();
        assert_eq!(subscriber.update(), (count.clone(), false));
        let _ = home.run(["restart", "@s"]).ok();
        assert_eq!(subscriber.update(), (kept(&count), true));
        if server.is_none() {
            session.kill_server();
            assert_eq!(subscriber.update(), ("0".to_owned(), true));
        }
        let count = session.call(TOUCH, &[]).ok().text();
        assert_eq!(subscriber.update(), (count, false));
        subscriber.ends_after_ctrl_c();
    });
}

#[test]
fn it_wakes_the_session_and_keeps_it_awake() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "1"], &["--era", era]);
        session.wait_until_asleep();
        let starts = session.starts();
        let subscriber = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
        assert!(subscriber.says().starts_with("subscribed"));
        assert_eq!(session.starts(), starts + 1);
        assert_eq!(session.status()["idleInMs"], json!(null), "there is no deadline");
        subscriber.ends_after_ctrl_c();
        session.wait_until_asleep();
    });
}

#[test]
fn the_end_of_the_session_is_its_end() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let subscriber = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
        assert!(subscriber.says().starts_with("subscribed"));
        let _ = home.run(["close", "@s"]).ok();
        assert!(subscriber.says().contains("subscribing again"));
        assert_eq!(subscriber.says(), "@s was closed");
        assert_eq!(subscriber.ends(), 0);
        assert!(!session.exists());
    });
}

#[test]
fn a_server_that_is_not_there_for_a_while() {
    for era in ["legacy", "modern"] {
        let home = Home::new();
        let mut server = drowse_tests::harness::HttpServer::start(&["--era", era]);
        let session = home.connect_http("@s", &[], &server);
        let subscriber = Subscriber::json(&session, &home);
        let _ = session.call(TOUCH, &[]).ok();
        assert_eq!(subscriber.update().0, "1");
        server.kill();
        server.restart();
        // Found again by the bridge (modern), or by the subscriber that begins anew with a fresh session (legacy).
        assert_eq!(subscriber.update().0, "0", "{era}");
        assert_eq!(session.call(TOUCH, &[]).ok().text(), "1");
        assert_eq!(subscriber.update().0, "1", "{era}");
        if era == "modern" {
            server.ask_for("end-listens", "");
            assert_eq!(subscriber.update().0, "1", "what changed meanwhile is not known");
        }
        subscriber.ends_after_ctrl_c();
        let _ = home.run(["close", "@s"]);
    }
}

#[test]
fn who_asks_for_what_is_not_announced_is_told() {
    let home = Home::new();
    let server = drowse_tests::harness::drowse().to_str().unwrap().to_owned();
    let words = ["connect", "@b", "--json", "--", &server, "demo-server"];
    let _ = home.run(words).ok();
    let failed = home.run(["@b", "resources-subscribe", "demo://nothing", "--json"]).fails(2);
    assert_eq!(failed["kind"], "unsupported");
    let _ = home.run(["close", "@b"]).ok();
}
