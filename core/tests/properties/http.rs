//! The machine of a server and those of its exchanges, against a server and a network that do as they like.

use super::harness::{Peer, Whim};
use super::*;

/// What happens to a server behind a URL, and on the way there.
#[derive(Clone, Debug)]
enum Weather {
    Call(Method),
    Cancel(usize),
    Answer,
    Pass(u64),
    /// What becomes of the next requests.
    Whims(Vec<Whim>),
    /// The server was started anew: its sessions are gone, and its streams end.
    Restart,
    /// The same, and nobody is told so far.
    Forget,
    Wake,
    Behave {
        latency: Option<u64>,
        mute: bool,
        stubborn: bool,
    },
}

fn whim() -> impl Strategy<Value = Whim> {
    let status = prop_oneof![
        prop_oneof![Just(301), Just(307), Just(400), Just(404), Just(405), Just(429), Just(500), Just(503)],
        Just(401),
        300..600u16,
    ];
    let refuse = (
        status,
        proptest::option::of(prop_oneof![Just(-32601), Just(-32602), Just(-32000), Just(-32020)]),
        proptest::option::of(0..40u64),
        any::<bool>(),
    )
        .prop_map(|(status, code, later, runs)| Whim::Refuse { status, code, later, runs });
    prop_oneof![
        2 => Just(Whim::Plain),
        2 => Just(Whim::Stream),
        4 => Just(Whim::Cut),
        2 => any::<bool>().prop_map(|runs| Whim::Break { runs }),
        1 => Just(Whim::Half),
        2 => Just(Whim::Away),
        5 => refuse,
        1 => Just(Whim::Foreign),
        1 => Just(Whim::Page),
        1 => Just(Whim::Mute),
        1 => Just(Whim::Twice),
    ]
}

fn weather() -> impl Strategy<Value = Weather> {
    let behave = (proptest::option::weighted(0.8, 0..3_000u64), any::<[bool; 3]>()).prop_map(
        |(latency, [mute, stubborn, rarely])| Weather::Behave {
            latency,
            mute: mute && stubborn && rarely,
            stubborn,
        },
    );
    prop_oneof![
        8 => prop_oneof![
            Just(Method::ToolsCall), Just(Method::ToolsCall), Just(Method::ResourcesRead), Just(Method::ServerPing),
        ].prop_map(Weather::Call),
        1 => (0..20usize).prop_map(Weather::Cancel),
        3 => Just(Weather::Answer),
        8 => prop_oneof![0..50u64, 0..5_000u64, Just(10_000u64), 0..70_000u64].prop_map(Weather::Pass),
        6 => proptest::collection::vec(whim(), 1..4).prop_map(Weather::Whims),
        1 => Just(Weather::Restart),
        2 => Just(Weather::Forget),
        1 => Just(Weather::Wake),
        1 => behave,
    ]
}

proptest! {
    #![proptest_config(at_least(600))]

    /// Both machines, that of the server and those of its exchanges, against a server and a network that do as they
    /// like within the protocol: every call has one end, what may run code runs at most once, and what is said not to
    /// have run has not.
    #[test]
    fn over_http_every_call_ends_once_and_runs_at_most_once(
        peer in prop_oneof![
            Just(Peer::Modern), Just(Peer::Session), Just(Peer::Session), Just(Peer::Stateless), Just(Peer::Old),
        ],
        auto_restart in any::<bool>(),
        fail_on_expiry in proptest::bool::weighted(0.2),
        keepalive in proptest::option::of(1..20u64),
        weather in proptest::collection::vec(weather(), 0..60),
    ) {
        let lifecycle = lifecycle::Config {
            idle: Some(Duration::from_secs(10)),
            auto_restart,
            fail_on_expiry,
            resident: true,
            ..lifecycle::Config::default()
        };
        let session_keepalive = keepalive.map(Duration::from_secs);
        let mut world = World::new(Config { lifecycle, session_keepalive, ..Config::default() }, peer);
        let mut methods = HashMap::new();
        let behave = |world: &mut World, behaviour: Behaviour| {
            if let Some(running) = world.behaviour_of_process() {
                *running = behaviour.clone();
            }
            world.behaviour = behaviour;
        };
        for change in weather {
            match change {
                Weather::Call(method) => {
                    if let Ok(call) = world.try_call(method.name()) {
                        methods.insert(call, method);
                    }
                }
                Weather::Cancel(call) if call < methods.len() => world.cancel(call),
                Weather::Answer if world.holds() => world.answer(),
                Weather::Pass(millis) => world.pass(Duration::from_millis(millis)),
                Weather::Whims(whims) => world.net.whims.extend(whims),
                Weather::Restart => world.forgets(),
                Weather::Forget => world.net.known_no_more(),
                Weather::Wake => world.act(|server, now| server.wake(now)),
                Weather::Behave { latency, mute, stubborn } => behave(&mut world, Behaviour {
                    latency: latency.map(Duration::from_millis),
                    mute,
                    ignores_eof: stubborn,
                    ..Behaviour::of(peer)
                }),
                Weather::Cancel(_) | Weather::Answer => {}
            }
        }
        behave(&mut world, Behaviour::of(peer));
        world.net.whims.clear();
        world.seconds(8_000);
        for (call, method) in &methods {
            prop_assert_ne!(world.fate(*call), &Fate::Open);
            let runs = world.executed.iter().filter(|run| run.ends_with(&format!(" {call}"))).count();
            prop_assert!(runs <= 1 + usize::from(method.only_reads()), "{:?} ran {} times", method, runs);
            if let Fate::Failed(cause, Ran::No) = world.fate(*call) {
                prop_assert_eq!(runs, 0, "{:?} says that it did not run", cause);
            }
        }
        prop_assert!(!world.has_process(), "it is not asleep: {}", world.state());
        prop_assert_eq!(world.exchanges(), 0);
        if !matches!(world.state(), "unauthorized" | "expired") {
            world.use_it();
        }
    }
}
