//! Each input is written and read back as it was, and does what its method does.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::crash::CrashLog;
use crate::server::Config;

fn key(wire: u64) -> Key {
    Key::from_wire(wire).unwrap()
}

fn kept() -> Kept {
    let second = Duration::from_secs(1);
    Kept {
        idle: Some(second),
        input_grace: second,
        terminate_grace: Duration::from_secs(2),
        auto_restart: true,
        fail_on_expiry: false,
        connect: second,
        allowance: Allowance { quiet: second, total: second },
        keepalive: None,
        session_keepalive: Some(Duration::from_nanos(5)),
    }
}

fn every() -> Vec<(&'static str, Input<'static>)> {
    let second = Duration::from_secs(1);
    let allowance = Allowance { quiet: Duration::new(1, 500_000_000), total: Duration::MAX };
    vec![
        ("submit tools/call", Input::Submit(Operation { method: Method::ToolsCall, allowance: None })),
        (
            "submit tasks/ 1s500000000 18446744073709551615s999999999",
            Input::Submit(Operation { method: Method::Tasks, allowance: Some(allowance) }),
        ),
        ("submit other", Input::Submit(Operation { method: Method::Other, allowance: None })),
        ("ask-for legacy", Input::AskFor(Era::Legacy)),
        ("ask-for modern", Input::AskFor(Era::Modern)),
        ("cancel 65538", Input::Cancel(key(65_538))),
        ("hold 65538", Input::Hold(key(65_538))),
        ("release 65538", Input::Release(key(65_538))),
        ("wake", Input::Wake),
        ("defer", Input::Defer),
        ("undefer", Input::Undefer),
        ("show", Input::Show(true)),
        ("hide", Input::Show(false)),
        ("idle 1s0", Input::SetIdle(Some(second))),
        ("idle never", Input::SetIdle(None)),
        ("keep 1s0 1s0 2s0 restart fresh 1s0 1s0 1s0 never 0s5", Input::Keep(kept())),
        (
            "keep never 1s0 2s0 rest fail 1s0 1s0 1s0 1s0 never",
            Input::Keep(Kept {
                idle: None,
                auto_restart: false,
                fail_on_expiry: true,
                keepalive: Some(second),
                session_keepalive: None,
                ..kept()
            }),
        ),
        ("change-level info", Input::ChangeLevel(Some(Level::Info))),
        ("suspended 1s0", Input::Suspended(second)),
        ("level warning", Input::SetLevel(Some(Level::Warning))),
        ("level none", Input::SetLevel(None)),
        ("leave", Input::Leave),
        ("close", Input::Close),
        ("persisted", Input::Persisted),
        ("persist-failed", Input::PersistFailed),
        ("spawned", Input::Spawned),
        ("spawn-failed", Input::SpawnFailed),
        ("writable", Input::SetWritable(true)),
        ("full", Input::SetWritable(false)),
        ("sent 0", Input::Sent(key(0))),
        ("frame {\"a\": [1, 2]} \r", Input::Frame(b"{\"a\": [1, 2]} \r")),
        ("frame \u{0}\u{7f}", Input::Frame(b"\0\x7f")),
        ("frame ", Input::Frame(b"")),
        ("long-response", Input::Oversize { id: None, is_response: true }),
        ("long-response \"a b\"", Input::Oversize { id: Some(b"\"a b\""), is_response: true }),
        ("long-line 7", Input::Oversize { id: Some(b"7"), is_response: false }),
        ("lost", Input::Lost),
        ("exited status -1", Input::Exited(Exit::Status(-1))),
        ("exited signal 9", Input::Exited(Exit::Signal(9))),
        ("gone", Input::TreeGone),
        ("expired", Input::Expired),
        ("unauthorized", Input::Unauthorized),
        ("session", Input::Session),
        ("endpoint", Input::Endpoint),
        ("verdict 7 done message", verdict(Carried::Message, 7, Verdict::Done)),
        (
            "verdict 0 expired no request tools/call",
            verdict(Carried::Request(Method::ToolsCall), 0, Verdict::Expired { ran: Ran::No }),
        ),
        (
            "verdict 65535 refused unknown 502 probe",
            verdict(
                Carried::Question(Question::Discover),
                65_535,
                Verdict::Refused { status: 502, ran: Ran::Unknown },
            ),
        ),
        ("timeout", Input::Timeout),
        ("poll", Input::Poll),
    ]
}

fn verdict(carried: Carried, wire: u64, verdict: Verdict) -> Input<'static> {
    Input::Verdict { carried, wire, verdict }
}

#[test]
fn every_verdict_is_a_line() {
    let mut buffer = [0; MAX_BESIDE_FRAME];
    let verdicts = [
        Verdict::Done,
        Verdict::Expired { ran: Ran::Unknown },
        Verdict::Unauthorized,
        Verdict::Unreachable,
        Verdict::Broken,
        Verdict::Refused { status: u16::MAX, ran: Ran::No },
        Verdict::Invalid,
        Verdict::NoStream,
    ];
    let carried = [
        Carried::Question(Question::Discover),
        Carried::Question(Question::Initialize),
        Carried::Message,
        Carried::Listening,
        Carried::OldStream,
        Carried::Goodbye,
    ];
    for carried in carried.into_iter().chain(Method::all().map(Carried::Request)) {
        for one in verdicts {
            let input = verdict(carried, u64::MAX, one);
            let line = write(Instant::from_micros(u64::MAX), &input, &mut buffer).unwrap();
            assert_eq!(parse(line), Ok((Instant::from_micros(u64::MAX), input)));
        }
    }
}

#[test]
fn every_input_is_a_line() {
    let mut buffer = [0; MAX_BESIDE_FRAME + 20];
    for (text, input) in every() {
        for micros in [0, 1_000_000, u64::MAX] {
            let now = Instant::from_micros(micros);
            let line = write(now, &input, &mut buffer).unwrap();
            assert_eq!(line, format!("{micros} {text}\n").as_bytes());
            assert_eq!(parse(line), Ok((now, input)));
            assert_eq!(parse(line.strip_suffix(b"\n").unwrap()), Ok((now, input)));
        }
    }
}

#[test]
fn every_method_is_named() {
    let mut buffer = [0; MAX_BESIDE_FRAME];
    for method in Method::all() {
        let input = Input::Submit(Operation { method, allowance: None });
        let line = write(Instant::ZERO, &input, &mut buffer).unwrap();
        assert_eq!(parse(line), Ok((Instant::ZERO, input)));
    }
}

#[test]
fn a_buffer_that_is_too_small_is_said_to_be() {
    for (_, input) in every() {
        let mut buffer = [0; 256];
        let length = write(Instant::from_micros(7), &input, &mut buffer).unwrap().len();
        for short in 0..length {
            assert_eq!(
                write(Instant::from_micros(7), &input, &mut buffer[..short]),
                Err(WriteError::Overflow)
            );
        }
    }
}

#[test]
fn what_is_more_than_a_line_is_refused() {
    let mut buffer = [0; 256];
    for input in [
        Input::Frame(b"a\nb"),
        Input::Frame(b"\n"),
        Input::Oversize { id: Some(b"\"\n\""), is_response: true },
    ] {
        assert_eq!(write(Instant::ZERO, &input, &mut buffer), Err(WriteError::NotALine));
    }
}

#[test]
fn other_lines_are_refused() {
    for line in [
        "",
        "\n",
        "1",
        "1 ",
        "wake",
        "-1 wake",
        "1  wake",
        "1 wake ",
        "1 wake 2",
        "1 sleep",
        "01 wake",
        "18446744073709551616 wake",
        "1 cancel",
        "1 cancel 65535",
        "1 cancel 281474976710656",
        "1 sent x",
        "1 submit",
        "1 submit tools/other",
        "1 submit tasks/get",
        "1 submit tools/call 1s0",
        "1 submit tools/call 1s0 1s0 1s0",
        "1 submit tools/call ",
        "1 idle",
        "1 idle 5",
        "1 idle 5s",
        "1 idle 5s1000000000",
        "1 idle s5",
        "1 idle never 1",
        "1 exited",
        "1 exited status",
        "1 exited status 2147483648",
        "1 exited by 9",
        "1 frame",
    ] {
        assert_eq!(parse(line.as_bytes()), Err(ParseError), "{line:?}");
    }
}

fn server() -> Server<[Slot; 2]> {
    Server::new(Config::default(), [Slot::EMPTY; 2], 0, CrashLog::new())
}

/// Live, with one request given out and one queued.
fn busy() -> Server<[Slot; 2]> {
    let mut server = server();
    let now = Instant::from_millis(5);
    let operation = Operation { method: Method::ToolsCall, allowance: None };
    server.submit(now, operation).unwrap();
    while let Some(action) = server.poll_action() {
        match action {
            Action::Persist(_) => server.handle_persisted(now),
            Action::Spawn { .. } => server.handle_spawned(now),
            Action::SendOwn(crate::message::Own::Discover { id, .. }) => {
                let frame = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["2026-07-28"]}}}}"#
                );
                server.handle_frame(now, frame.as_bytes());
            }
            _ => {}
        }
    }
    server.set_writable(false);
    server.submit(now, operation).unwrap();
    server
}

#[test]
fn each_input_does_what_its_method_does() {
    type Direct = fn(&mut Server<[Slot; 2]>, Instant);
    let operation = Operation { method: Method::ToolsList, allowance: None };
    let pairs: [(Input<'_>, Direct); 34] = [
        (Input::Submit(operation), |server, now| {
            let _ = server.submit(now, Operation { method: Method::ToolsList, allowance: None });
        }),
        (Input::AskFor(Era::Legacy), |server, _| server.ask_for(Era::Legacy)),
        (Input::Cancel(key(1)), |server, now| server.cancel(now, key(1))),
        (Input::Hold(key(1)), |server, now| server.hold(now, key(1))),
        (Input::Release(key(1)), |server, now| server.release(now, key(1))),
        (Input::Wake, |server, now| server.wake(now)),
        (Input::Defer, |server, _| server.defer()),
        (Input::Undefer, |server, now| server.undefer(now)),
        (Input::Show(false), |server, now| server.show(now, false)),
        (Input::SetIdle(Some(Duration::from_secs(3))), |server, _| {
            server.set_idle(Some(Duration::from_secs(3)));
        }),
        (Input::Keep(kept()), |server, now| server.keep(now, kept())),
        (Input::Suspended(Duration::from_secs(3)), |server, now| {
            server.handle_suspended(now, Duration::from_secs(3));
        }),
        (Input::SetLevel(Some(Level::Info)), |server, _| server.set_level(Some(Level::Info))),
        (Input::ChangeLevel(Some(Level::Info)), |server, _| server.change_level(Some(Level::Info))),
        (Input::Leave, |server, now| server.leave(now)),
        (Input::Close, |server, now| server.close(now)),
        (Input::Persisted, |server, now| server.handle_persisted(now)),
        (Input::PersistFailed, |server, now| server.handle_persist_failed(now)),
        (Input::Spawned, |server, now| server.handle_spawned(now)),
        (Input::SpawnFailed, |server, now| server.handle_spawn_failed(now)),
        (Input::SetWritable(true), |server, _| server.set_writable(true)),
        (Input::Sent(key(0)), |server, _| server.handle_sent(key(0))),
        (Input::Frame(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}"), |server, now| {
            server.handle_frame(now, b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}");
        }),
        (Input::Oversize { id: Some(b"0"), is_response: true }, |server, now| {
            server.handle_oversize(now, Some(b"0"), true);
        }),
        (Input::Lost, |server, now| server.handle_lost(now)),
        (Input::Exited(Exit::Status(3)), |server, now| server.handle_exited(now, Exit::Status(3))),
        (Input::TreeGone, |server, now| server.handle_tree_gone(now)),
        (Input::Expired, |server, now| server.handle_expired(now)),
        (Input::Unauthorized, |server, now| server.handle_unauthorized(now)),
        (Input::Session, |server, now| server.handle_session(now)),
        (Input::Endpoint, |server, now| server.handle_endpoint(now)),
        (verdict(Carried::Request(Method::ToolsCall), 0, Verdict::Broken), |server, now| {
            server.handle_verdict(now, Carried::Request(Method::ToolsCall), 0, Verdict::Broken);
        }),
        (Input::Timeout, |server, now| server.handle_timeout(now)),
        (Input::Poll, |server, _| {
            let _ = server.poll_action();
        }),
    ];
    let setups: [fn() -> Server<[Slot; 2]>; 3] = [server, busy, || {
        let mut server = busy();
        server.close(Instant::from_millis(6));
        server
    }];
    for (input, direct) in pairs {
        let mut told = false;
        for setup in setups {
            for now in [Instant::from_millis(7), Instant::from_millis(10_000_000)] {
                let (mut one, mut other) = (setup(), setup());
                let before: String = format!("{one:?}");
                direct(&mut one, now);
                let output = other.replay(now, input);
                let after = format!("{one:?}");
                assert_eq!(after, format!("{other:?}"), "{input:?}");
                told |= after != before;
                let timeless = matches!(
                    input,
                    Input::Submit(_)
                        | Input::AskFor(_)
                        | Input::Defer
                        | Input::SetIdle(_)
                        | Input::SetLevel(_)
                        | Input::ChangeLevel(_)
                        | Input::SetWritable(_)
                        | Input::Sent(_)
                        | Input::Poll
                );
                assert!(timeless || other.now() == now, "{input:?} tells the time");
                match (input, output) {
                    (Input::Submit(_), Output::Submitted(_))
                    | (Input::Frame(_), Output::Heard(_))
                    | (Input::Poll, Output::Action(_)) => {}
                    (_, Output::None) => {}
                    both => panic!("{both:?}"),
                }
            }
        }
        assert!(told, "{input:?} makes no difference anywhere, so this shows nothing");
    }
}
