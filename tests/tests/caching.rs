//! Results that a modern server lets be used again for a while (`ttlMs`, `cacheScope`): over its pipes and over HTTP, what
//! is answered from memory, and what ends that. What was passed on is counted by the server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::thread;
use std::time::{Duration, Instant};

use drowse_tests::harness::{Home, HttpServer, LIMIT, Session, Socket, at_once};
use serde_json::{Value, json};

/// Longer than any test, in milliseconds.
const LONG: &str = "600000";

/// The requests whose results may be kept, but for `server/discover`, which the bridge answers.
const KEPT: [(&str, &str); 6] = [
    ("tools/list", "{}"),
    ("prompts/list", "{}"),
    ("resources/list", "{}"),
    ("resources/templates/list", "{}"),
    ("resources/read", r#"{"uri":"counter://main"}"#),
    ("resources/read", r#"{"uri":"blob://bytes"}"#),
];

/// Runs a test on a session on a modern server of each kind, both at once.
fn everywhere(flags: &[&str], fixture: &[&str], test: impl Fn(&Session<'_>) + Sync) {
    // What drowse asks for itself is not what this is about.
    let test = |session: Session<'_>| {
        session.wait_until_saved();
        test(&session);
    };
    at_once([("stdio", false), ("http", true)], |http| {
        let home = Home::new();
        let fixture = [&["--era", "modern"], fixture].concat();
        if http {
            let server = HttpServer::start(&fixture);
            test(home.connect_http("@s", flags, &server));
        } else {
            test(home.connect("@s", flags, &fixture));
        }
    });
}

/// How often the server was asked this.
fn asked(session: &Session<'_>, method: &str) -> usize {
    session.methods().iter().filter(|known| *known == method).count()
}

/// The result of a request, and how often the server was asked for it.
#[track_caller]
fn result(session: &Session<'_>, socket: &mut Socket, method: &str, params: Value) -> (Value, usize) {
    let before = asked(session, method);
    let answer = socket.ask(method, params);
    assert!(answer["result"].is_object(), "{method}: {answer}");
    (answer["result"].clone(), asked(session, method) - before)
}

/// Asks for each of them; how often each was passed on.
#[track_caller]
fn passed_on(session: &Session<'_>, socket: &mut Socket) -> [usize; 6] {
    KEPT.map(|(method, params)| result(session, socket, method, serde_json::from_str(params).unwrap()).1)
}

#[test]
fn what_is_fresh_is_answered_from_memory_to_whoever_asks() {
    everywhere(&[], &["--fresh", LONG], |session| {
        let first = session.run(["tools-list"]).ok().json();
        let before = asked(session, "tools/list");
        assert_eq!(session.run(["tools-list"]).ok().json(), first);
        assert_eq!(asked(session, "tools/list"), before, "not passed on a second time");
        let (mut one, mut other) = (session.socket(), session.socket());
        passed_on(session, &mut one);
        assert_eq!(passed_on(session, &mut one), [0; 6]);
        assert_eq!(passed_on(session, &mut other), [0; 6], "another client of the same user");
        // It comes as the server sent it, under the id of who asked.
        let id = json!("mine");
        other.send_as(&id, "tools/list", json!({}));
        let answer = other.answer(&id);
        assert_eq!(answer["result"]["tools"], first);
        assert_eq!(answer["result"]["cacheScope"], "private");
        assert_eq!(answer["result"]["resultType"], "complete");
        // Whatever is asked in another way is another thing; what the request says of itself is not.
        let uri = json!({"uri": "no://such"});
        for _ in 0..2 {
            let before = asked(session, "resources/read");
            assert!(one.ask("resources/read", uri.clone())["error"].is_object());
            assert_eq!(asked(session, "resources/read"), before + 1, "an error is not kept");
        }
        let said = json!({"_meta": {"io.example/x": 1}});
        assert_eq!(result(session, &mut one, "tools/list", said).1, 0);
    });
}

#[test]
fn each_page_is_kept_by_its_cursor() {
    everywhere(&[], &["--fresh", LONG, "--page-size", "6"], |session| {
        let all = session.run(["tools-list"]).ok().json();
        let pages = asked(session, "tools/list");
        assert!(pages > 1);
        assert_eq!(session.run(["tools-list"]).ok().json(), all);
        assert_eq!(asked(session, "tools/list"), pages);
        let mut socket = session.socket();
        let (second, times) = result(session, &mut socket, "tools/list", json!({"cursor": "6"}));
        assert_eq!((&second["tools"][0], times), (&all[6], 0));
        let (third, times) = result(session, &mut socket, "tools/list", json!({"cursor": "7"}));
        assert_eq!((&third["tools"][0], times), (&all[7], 1));
    });
}

#[test]
fn what_is_not_said_to_be_fresh_is_passed_on_each_time() {
    let never = |session: &Session<'_>| {
        let mut socket = session.socket();
        for _ in 0..2 {
            assert_eq!(passed_on(session, &mut socket), [1; 6]);
        }
    };
    everywhere(&[], &[], never);
    // Nothing of that is known to a legacy server.
    let home = Home::new();
    never(&home.connect("@s", &[], &["--era", "legacy", "--fresh", LONG]));
}

#[test]
fn it_is_fresh_for_so_long_and_no_longer() {
    const FRESH: u64 = 500;
    everywhere(&[], &["--fresh", &FRESH.to_string()], |session| {
        let mut socket = session.socket();
        let until = Instant::now() + LIMIT;
        let before = asked(session, "tools/list");
        while asked(session, "tools/list") < before + 2 {
            assert!(Instant::now() < until, "it is fresh for ever");
            socket.ask("tools/list", json!({}));
            thread::park_timeout(Duration::from_millis(25));
        }
        // When the server heard of it, which is before the answer was received.
        let entries = session.journal.entries().unwrap();
        let at = entries.iter().filter(|entry| entry.is("in", "method", "tools/list"));
        let at: Vec<u64> = at.map(|entry| entry.fields["at"].as_u64().unwrap()).skip(before).collect();
        assert_eq!(at.len(), 2, "{at:?}");
        assert!(at[1] - at[0] >= FRESH, "asked again after {} ms", at[1] - at[0]);
    });
}

#[test]
fn a_call_ends_it_for_all() {
    everywhere(&[], &["--fresh", LONG], |session| {
        let mut socket = session.socket();
        passed_on(session, &mut socket);
        assert_eq!(passed_on(session, &mut socket), [0; 6]);
        // What only asks changes nothing.
        for (method, params) in [
            ("prompts/get", json!({"name": "hello", "arguments": {"name": "you"}})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": "a"}}),
            ),
        ] {
            assert!(socket.ask(method, params)["result"].is_object());
        }
        assert_eq!(passed_on(session, &mut socket), [0; 6]);
        // Whoever calls, and whatever comes of it.
        let called = session.call("fail", &[]);
        assert_eq!(called.json()["isError"], true);
        assert_eq!(passed_on(session, &mut socket), [1; 6]);
        assert_eq!(passed_on(session, &mut socket), [0; 6]);
        let flipped = socket.ask("tools/call", json!({"name": "flip_tools", "arguments": {}}));
        assert_eq!(flipped["result"]["content"][0]["text"], "true");
        let (tools, times) = result(session, &mut socket, "tools/list", json!({}));
        let is_there = tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "bonus");
        assert_eq!((is_there, times), (true, 1), "the new tool is seen at once");
    });
}

#[test]
fn an_announcement_ends_it_for_what_it_is_about() {
    everywhere(&[], &["--fresh", LONG], |session| {
        let mut listener = session.socket();
        let lists = json!({
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["counter://main"],
        });
        listener.send("subscriptions/listen", json!({"notifications": lists}));
        let acknowledged = listener.receive().unwrap();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
        let mut socket = session.socket();
        passed_on(session, &mut socket);
        for (what, method, stale) in [
            ("tools", "notifications/tools/list_changed", [1, 0, 0, 0, 0, 0]),
            ("prompts", "notifications/prompts/list_changed", [0, 1, 0, 0, 0, 0]),
            ("resources", "notifications/resources/list_changed", [0, 0, 1, 1, 0, 0]),
            // Resources may be parts of others.
            ("updated", "notifications/resources/updated", [0, 0, 0, 0, 1, 1]),
        ] {
            assert_eq!(passed_on(session, &mut socket), [0; 6], "before {what}");
            let uri = format!("announce://{what}");
            let (announced, _) = result(session, &mut socket, "resources/read", json!({"uri": uri}));
            assert_eq!(announced["contents"][0]["text"], "1", "{what}: somebody listens");
            let heard = listener.receive().unwrap();
            assert_eq!(heard["method"], method, "{heard}");
            assert_eq!(passed_on(session, &mut socket), stale, "after {what}");
        }
    });
}

#[test]
fn nothing_outlives_the_server() {
    everywhere(&["--idle-timeout", "1"], &["--fresh", LONG], |session| {
        let list = || {
            let before = asked(session, "tools/list");
            let _ = session.run(["tools-list"]).ok();
            asked(session, "tools/list") - before
        };
        assert_eq!((list(), list()), (1, 0));
        session.wait_until_asleep();
        // What drowse asks for itself is asked for before anything is counted.
        let _ = session.run(["ping"]).ok();
        session.wait_until_saved();
        assert_eq!(list(), 1, "after a sleep");
        session.run(["restart"]).ok();
        session.wait_until_saved();
        assert_eq!((list(), list()), (1, 0), "after a restart");
    });
}

/// It is an operation for who asks, however it is answered.
#[test]
fn what_is_answered_from_memory_counts_as_use() {
    everywhere(&["--idle-timeout", "600"], &["--fresh", LONG], |session| {
        let mut socket = session.socket();
        result(session, &mut socket, "tools/list", json!({}));
        session.wait_until_left(Duration::from_millis(599_900));
        let (_, before) = session.deadline().unwrap();
        assert_eq!(result(session, &mut socket, "tools/list", json!({})).1, 0);
        let (after, _) = session.deadline().unwrap();
        assert!(after > before, "the deadline moved, from {before} to {after}");
    });
}

#[test]
fn what_is_private_is_for_who_asked_and_public_is_no_less_fresh() {
    at_once([("private", "private"), ("public", "public")], |scope| {
        let server = HttpServer::start(&["--era", "modern", "--fresh", LONG, "--cache-scope", scope]);
        let home = Home::new();
        let connect =
            |name: &str, who: &str| home.connect_http(name, &["-H", &format!("X-Who: {who}")], &server);
        let list = |session: &Session<'_>| {
            // What drowse itself asks for first is not counted.
            session.wait_until_saved();
            let (result, times) = result(session, &mut session.socket(), "tools/list", json!({}));
            assert_eq!((&result["cacheScope"], &result["ttlMs"]), (&json!(scope), &json!(600_000)));
            times
        };
        let (one, other) = (connect("@one", "one"), connect("@other", "other"));
        assert_eq!((list(&one), list(&one)), (1, 0));
        // Sessions share nothing, which is more than what is asked of public results.
        assert_eq!((list(&other), list(&other)), (1, 0), "another authorization is another memory");
        // The same session for somebody else.
        let one = connect("@one", "somebody else");
        assert_eq!((list(&one), list(&one)), (1, 0), "nor is anything left for who comes after");
        assert_eq!(list(&other), 0);
    });
}
