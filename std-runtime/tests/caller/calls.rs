//! C1 and C2: meeting a bridge that is there, and what becomes of an operation.

use std::io::{Write, pipe};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drowse_runtime::caller::{CallError, ExitClass, Request, Wait, Wanted};
use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::{Settings, State, StateRecord};
use drowse_runtime::wire::{Kind, Ran};

use crate::fake::{After, LONG, Life, World, in_order, long, name, serve_one, serve_requests, tool, wanted};

/// A life whose connections for an operation go by `script`; the first one, of the `connect`, is in order.
fn second(
    script: impl Fn(&mut crate::fake::Conn, &crate::fake::Shared) -> After + Send + Sync + 'static,
) -> Life {
    let connections = AtomicUsize::new(0);
    Life::serve(move |conn, shared| match connections.fetch_add(1, Ordering::SeqCst) {
        0 => in_order(conn, shared),
        _ => script(conn, shared),
    })
}

#[test]
fn a_warm_call_uses_the_bridge_that_is_there_and_passes_the_result_untouched() {
    let world = World::new();
    world.awake();
    for _ in 0..3 {
        assert_eq!(world.call().unwrap().as_bytes(), b"{\"content\":[], \"n\":1.0}");
    }
    assert_eq!((world.launches(), world.executed()), (1, 3));
}

#[test]
fn the_hello_says_who_calls() {
    let world = World::new();
    world.next(second(|conn, shared| {
        let hello = conn.hello().unwrap();
        shared.event(&hello["drowse"]["hello"].to_string());
        serve_requests(conn, shared)
    }));
    world.awake();
    let sessions = world.sessions.clone().with_principal("cli");
    sessions.caller(&name("s"), long()).call(tool("{}")).unwrap();
    world.hear(&format!(
        "{{\"versions\":[1],\"principal\":\"cli\",\"client\":\"{}\",\"verbatim\":true}}",
        env!("CARGO_PKG_VERSION")
    ));
}

#[test]
fn requests_of_one_caller_share_a_connection() {
    let world = World::new();
    world.next(second(|conn, shared| {
        shared.event("connection");
        in_order(conn, shared)
    }));
    world.awake();
    let mut caller = world.sessions.caller(&name("s"), Wait::at_most(LONG));
    for _ in 0..3 {
        caller.call(tool("{}")).unwrap();
    }
    drop(caller);
    world.hear("connection");
    assert!(world.is_silent());
    assert_eq!(world.executed(), 3);
}

#[test]
fn a_bridge_that_goes_before_it_reads_the_request_has_not_run_it() {
    let world = World::new();
    world.next(second(|conn, _| {
        conn.hello();
        conn.goaway(0);
        After::Exit
    }));
    world.awake();
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (2, 1));
}

#[test]
fn goaway_counts_the_requests_of_the_connection_not_of_the_call() {
    let world = World::new();
    world.next(second(|conn, shared| {
        conn.hello();
        let first = conn.message().unwrap();
        serve_one(conn, shared, &first);
        // The second was sent, and never read.
        conn.line();
        conn.goaway(1);
        After::Exit
    }));
    world.awake();
    let mut caller = world.sessions.caller(&name("s"), Wait::at_most(LONG));
    caller.call(tool("{}")).unwrap();
    caller.call(tool("{}")).unwrap();
    assert_eq!((world.launches(), world.executed()), (2, 2));
}

#[test]
fn a_request_that_was_read_is_never_sent_again() {
    type Last = fn(&mut crate::fake::Conn, &serde_json::Value);
    let lasts: [(&str, Last); 5] = [
        ("nothing", |_, _| {}),
        ("a goaway that covers it", |conn, _| conn.goaway(1)),
        ("a goaway that covers more", |conn, _| conn.goaway(7)),
        ("half an answer", |conn, request| {
            conn.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"con", request["id"]));
        }),
        ("garbage", |conn, _| conn.say("]]\n")),
    ];
    for (what, last) in lasts {
        let world = World::new();
        world.next(second(move |conn, shared| {
            conn.hello();
            let request = conn.message().unwrap();
            shared.execute();
            // Killed: so that the next call does not find it still listening.
            conn.leave(After::Die);
            last(conn, &request);
            After::Die
        }));
        world.awake();
        let error = world.call().unwrap_err();
        assert!(matches!(error, CallError::BridgeLost { .. }), "{what}: {error}");
        assert_eq!((error.ran(), error.exit()), (Some(Ran::Unknown), ExitClass::Network), "{what}");
        assert_eq!((world.launches(), world.executed()), (1, 1), "{what}");
        // The next one is another operation.
        world.call().unwrap();
        assert_eq!((world.launches(), world.executed()), (2, 2), "{what}");
    }
}

/// `drowse/info` only reads, so that it may be asked for again where a bridge took it and went; but once.
#[test]
fn what_only_reads_is_issued_anew_once() {
    let dies = || {
        second(|conn, _| {
            conn.hello();
            conn.message().unwrap();
            conn.leave(After::Die);
            After::Die
        })
    };
    let ask = |world: &World| {
        let request = Request { method: "drowse/info", params: "", timeout: None, progress: None };
        world.sessions.caller(&name("s"), long()).call(request)
    };
    let world = World::new();
    world.next(dies());
    world.awake();
    ask(&world).unwrap();
    assert_eq!(world.launches(), 2);

    let world = World::new();
    world.next(dies());
    world.next(Life::serve(|conn, _| {
        conn.hello();
        conn.message().unwrap();
        conn.leave(After::Die);
        After::Die
    }));
    world.awake();
    let error = ask(&world).unwrap_err();
    assert!(matches!(error, CallError::BridgeLost { .. }), "{error}");
    assert_eq!(world.launches(), 2);
}

#[test]
fn an_answer_counts_even_if_the_bridge_goes_right_after_it() {
    let world = World::new();
    world.next(second(|conn, shared| {
        conn.hello();
        let request = conn.message().unwrap();
        serve_one(conn, shared, &request);
        conn.goaway(1);
        After::Exit
    }));
    world.awake();
    let mut caller = world.sessions.caller(&name("s"), Wait::at_most(LONG));
    caller.call(tool("{}")).unwrap();
    world.bridge_is_gone();
    caller.call(tool("{}")).unwrap();
    assert_eq!((world.launches(), world.executed()), (2, 2));
}

#[test]
fn bridges_that_break_at_the_hello_have_run_nothing() {
    type Break = fn(&mut crate::fake::Conn);
    let breaks: [(&str, Break); 4] = [
        ("unread", |_| {}),
        ("read and closed", |conn| drop(conn.line())),
        ("half a hello", |conn| {
            conn.line();
            conn.say("{\"drowse\":{\"hel");
        }),
        ("another program", |conn| {
            conn.line();
            conn.say("220 mail.example ESMTP\n");
        }),
    ];
    for (what, broken) in breaks {
        let world = World::new();
        world.next(second(move |conn, _| {
            conn.leave(After::Die);
            broken(conn);
            After::Die
        }));
        world.awake();
        world.call().unwrap();
        assert_eq!((world.launches(), world.executed()), (2, 1), "{what}");
    }
}

#[test]
fn a_late_hello_is_still_a_hello() {
    let world = World::new();
    // Silent until a second connection is made: that of the caller who by then holds L.
    let (send, receive) = std::sync::mpsc::channel::<()>();
    let (send, receive) = (std::sync::Mutex::new(send), std::sync::Mutex::new(receive));
    let connections = AtomicUsize::new(0);
    world.next(second(move |conn, shared| match connections.fetch_add(1, Ordering::SeqCst) {
        0 => {
            receive.lock().unwrap().recv_timeout(LONG).unwrap();
            After::Live
        }
        _ => {
            send.lock().unwrap().send(()).unwrap();
            in_order(conn, shared)
        }
    }));
    world.awake();
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

#[test]
fn errors_keep_what_they_say() {
    let world = World::new();
    world.next(second(|conn, _| {
        conn.hello();
        let errors = [
            r#"{"code":-32602,"message":"bad arguments","data":{"hint": 1}}"#,
            r#"{"code":-32001,"message":"timed out","data":{"drowse":{"kind":"timeout","ran":"unknown"}}}"#,
            r#"{"code":-32003,"message":"gone","data":{"drowse":{"kind":"server-lost","ran":"unknown","stderr":"boom"}}}"#,
        ];
        for error in errors {
            let request = conn.message().unwrap();
            conn.refuse(&request, error);
        }
        After::Live
    }));
    world.awake();
    let mut caller = world.sessions.caller(&name("s"), Wait::at_most(LONG));
    let own = caller.call(tool("{}")).unwrap_err();
    let CallError::Answer(answer) = &own else { panic!("{own}") };
    assert_eq!((answer.code, answer.data.as_deref()), (-32602, Some("{\"hint\": 1}")));
    assert_eq!((own.kind(), own.ran(), own.exit()), (Kind::ServerError, None, ExitClass::Server));
    let late = caller.call(tool("{}")).unwrap_err();
    assert_eq!(
        (late.kind(), late.ran(), late.exit()),
        (Kind::Timeout, Some(Ran::Unknown), ExitClass::Network)
    );
    assert_eq!(late.code(), Some(-32001));
    let lost = caller.call(tool("{}")).unwrap_err();
    assert_eq!(
        (lost.kind(), lost.stderr(), lost.exit()),
        (Kind::ServerLost, Some("boom"), ExitClass::Server)
    );
}

#[test]
fn a_bridge_that_is_shutting_down_is_waited_for_and_not_asked_again() {
    let world = World::new();
    world.next(second(|conn, shared| {
        conn.hello();
        let request = conn.message().unwrap();
        let data = r#"{"drowse":{"kind":"shutting-down","ran":"no"}}"#;
        conn.refuse(&request, &format!(r#"{{"code":-32000,"message":"closing","data":{data}}}"#));
        shared.event("refused");
        // Until the caller is gone from this connection: by then it waits for our end.
        assert!(conn.line().is_none());
        After::Exit
    }));
    world.awake();
    world.call().unwrap();
    world.hear("refused");
    assert!(world.is_silent());
    assert_eq!((world.launches(), world.executed()), (2, 1));
}

#[test]
fn progress_reaches_the_caller() {
    let world = World::new();
    world.next(second(|conn, shared| {
        conn.hello();
        let request = conn.message().unwrap();
        let token = &request["params"]["_meta"]["progressToken"];
        assert!(token.is_u64());
        for step in 1..=3 {
            conn.say(&format!(
                "{{\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{step}}}}}\n"
            ));
        }
        conn.say("{\"method\":\"notifications/message\",\"params\":{}}\n");
        serve_one(conn, shared, &request);
        After::Live
    }));
    world.awake();
    let mut seen = Vec::new();
    let mut progress = |params: &str| seen.push(params.to_owned());
    let request =
        Request { method: "tools/call", params: "{}", timeout: None, progress: Some(&mut progress) };
    world.sessions.caller(&name("s"), long()).call(request).unwrap();
    assert_eq!(seen.len(), 3);
    assert!(seen[2].contains("\"progress\":3"), "{seen:?}");
}

/// A bridge that takes a request and says so, and then what becomes of it.
fn taker() -> Life {
    second(|conn, shared| {
        conn.hello();
        let request = conn.message().unwrap();
        if request["method"] == "drowse/status" {
            serve_one(conn, shared, &request);
            return After::Live;
        }
        shared.event(&format!("took {}", request["id"]));
        serve_requests(conn, shared);
        shared.event("connection closed");
        After::Live
    })
}

#[test]
fn an_interrupt_cancels_and_returns_at_once() {
    let world = World::new();
    world.next(taker());
    world.awake();
    let (interrupt, mut raise) = pipe().unwrap();
    let wait = Wait { deadline: None, interrupt: Some(interrupt.as_fd()) };
    thread::scope(|scope| {
        let call = scope.spawn(|| world.call_within(wait));
        world.hear("took 1");
        raise.write_all(b"x").unwrap();
        let error = call.join().unwrap().unwrap_err();
        assert!(matches!(error, CallError::Interrupted { ran: Ran::Unknown }), "{error}");
        assert_eq!(error.exit(), ExitClass::Interrupted);
        world.hear("cancelled 1");
        world.hear("connection closed");
    });
}

#[test]
fn a_callers_deadline_cancels_its_request_and_kills_nothing() {
    let world = World::new();
    world.next(taker());
    world.awake();
    let error = world.call_within(Wait::at_most(Duration::from_millis(300))).unwrap_err();
    assert!(matches!(error, CallError::Deadline { ran: Ran::Unknown, .. }), "{error}");
    assert_eq!((error.kind(), error.exit()), (Kind::Timeout, ExitClass::Network));
    for event in ["took 1", "cancelled 1", "connection closed"] {
        world.hear(event);
    }
    assert!(world.sessions.status(&name("s"), long()).unwrap().is_some());
    assert_eq!(world.launches(), 1);
}

#[test]
fn a_large_request_and_a_large_answer() {
    let world = World::new();
    world.next(second(|conn, _| {
        conn.hello();
        let request = conn.message().unwrap();
        let text = request["params"]["arguments"]["text"].as_str().unwrap();
        conn.answer(&request, &format!("{{\"text\":\"{text}{text}\"}}"));
        After::Live
    }));
    world.awake();
    let text = "abcdefgh".repeat(1 << 20);
    let params = format!("{{\"arguments\":{{\"text\":\"{text}\"}}}}");
    let reply = world.sessions.caller(&name("s"), long()).call(tool(&params)).unwrap();
    assert_eq!(reply.as_bytes().len(), 2 * text.len() + "{\"text\":\"\"}".len());
    assert!(reply.as_bytes().ends_with(b"fgh\"}"));
}

#[test]
fn an_answer_over_the_limit_fails_that_call_only() {
    let world = World::new();
    world.next(second(|conn, shared| {
        conn.hello();
        let request = conn.message().unwrap();
        if request["params"]["big"] == true {
            let mebibyte = "x".repeat(1 << 20);
            conn.say(&format!("{{\"id\":{},\"result\":{{\"t\":\"", request["id"]));
            for _ in 0..66 {
                conn.say(&mebibyte);
            }
            conn.say("\"}}\n");
            return After::Live;
        }
        serve_one(conn, shared, &request);
        After::Live
    }));
    world.awake();
    let mut caller = world.sessions.caller(&name("s"), Wait::at_most(LONG));
    let error = caller.call(tool("{\"big\":true}")).unwrap_err();
    assert_eq!((error.kind(), error.ran()), (Kind::TooLarge, Some(Ran::Unknown)));
    assert!(error.to_string().contains("67108864"), "{error}");
    caller.call(tool("{}")).unwrap();
    assert_eq!(world.launches(), 1);
}

#[test]
fn asking_how_a_bridge_is_starts_nothing() {
    let world = World::new();
    world.dormant();
    assert_eq!(world.sessions.status(&name("s"), long()).unwrap(), None);
    assert_eq!(world.launches(), 0);
    world.call().unwrap();
    let status = world.sessions.status(&name("s"), long()).unwrap().unwrap();
    assert_eq!((status.state.as_str(), status.in_flight), ("live", 0));
    assert_eq!(world.launches(), 1);
}

#[test]
fn bad_params_are_refused_before_anything_is_started() {
    let world = World::new();
    world.dormant();
    let error = world.sessions.caller(&name("s"), long()).call(tool("[1]")).unwrap_err();
    assert_eq!(
        (error.kind(), error.ran(), error.exit()),
        (Kind::InvalidRequest, Some(Ran::No), ExitClass::Usage)
    );
    assert_eq!(world.launches(), 0);
}

#[test]
fn a_deadline_in_the_past_ends_everything_at_once() {
    let world = World::new();
    world.dormant();
    let past = Wait { deadline: Some(Instant::now()), interrupt: None };
    world.next(Life::NeverReady);
    let error = world.call_within(past).unwrap_err();
    assert!(matches!(error, CallError::Deadline { ran: Ran::No, .. }), "{error}");
    // It writes into the home that goes with the test.
    world.hear("listening");
}

/// Records this process as the bridge, which in a way it is: who is dead is not asked.
fn is_ours(world: &World) {
    let bridge = Some(ProcessIdentity::of_self().unwrap());
    world.write_state(&StateRecord { bridge, ..world.state().unwrap() });
}

#[test]
fn a_list_asks_all_that_are_awake_at_once_and_waits_for_none_of_them_for_long() {
    let world = World::new();
    world.dormant();
    let listed = world.sessions.list_live(LONG).unwrap();
    assert_eq!((listed.len(), listed[0].status.is_none()), (1, true));
    assert_eq!(world.launches(), 0);
    world.call().unwrap();
    is_ours(&world);
    assert!(world.sessions.list_live(LONG).unwrap()[0].status.is_none(), "it never sleeps");
    let settings = Settings { idle_timeout_secs: Some(600), ..Settings::default() };
    let sleepy = Wanted { settings, ..wanted("s") };
    world.connect(&sleepy).unwrap();
    is_ours(&world);
    let listed = world.sessions.list_live(LONG).unwrap();
    assert_eq!(listed[0].status.as_ref().map(|status| status.state.as_str()), Some("live"));
    let one = world.sessions.get_live(&name("s"), LONG).unwrap();
    assert_eq!(one.status, listed[0].status);
    assert!(world.sessions.list().unwrap()[0].status.is_none(), "nobody was asked");
    // A bridge that does not answer costs no more than the patience, and is shown by its record.
    let world = World::new();
    world.next(second(|conn, _| {
        while conn.line().is_some() {}
        After::Live
    }));
    world.connect(&sleepy).unwrap();
    is_ours(&world);
    let asked = Instant::now();
    let listed = world.sessions.list_live(Duration::from_millis(50)).unwrap();
    assert!(asked.elapsed() < LONG / 2, "it was waited for");
    assert_eq!((listed[0].state, &listed[0].status), (State::Live, &None));
}
