//! Connections under any lines: nothing is read twice, no era changes, and probes start nothing.

use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::method::Method;
use crate::time::Duration;

const DEFAULT: Allowance = Allowance { quiet: Duration::from_secs(1), total: Duration::from_secs(2) };

/// A message of either era, in its shape or a little out of it.
fn line() -> impl Strategy<Value = String> {
    let methods: Vec<&str> = Method::all().map(Method::name).filter(|name| !name.is_empty()).collect();
    let names = prop_oneof![
        6 => prop::sample::select(methods).prop_map(String::from),
        1 => Just("tasks/get".to_string()),
        1 => Just("notifications/initialized".to_string()),
        1 => Just("notifications/cancelled".to_string()),
    ];
    let meta = prop_oneof![
        Just(String::new()),
        Just(r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#.to_string()),
        Just(r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#.to_string()),
        Just(r#""_meta":{"progressToken":0}"#.to_string()),
    ];
    let more = prop_oneof![
        Just(""),
        Just(r#""uri":"a:b""#),
        Just(r#""level":"info""#),
        Just(r#""requestId":1"#),
        Just(r#""protocolVersion":"2025-03-26","capabilities":{}"#),
        Just(r#""notifications":{"toolsListChanged":true}"#),
    ];
    let id = prop_oneof![Just(""), Just(r#""id":1,"#), Just(r#""id":"a","#), Just(r#""id":null,"#)];
    let message = (names, meta, more, id).prop_map(|(name, meta, more, id)| {
        let comma = if meta.is_empty() || more.is_empty() { "" } else { "," };
        format!(r#"{{"jsonrpc":"2.0",{id}"method":"{name}","params":{{{meta}{comma}{more}}}}}"#)
    });
    let single = prop_oneof![
        8 => message,
        1 => Just(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_string()),
        1 => Just(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#.to_string()),
        1 => "[ -~]{0,20}",
    ];
    prop_oneof![
        5 => single.clone().boxed(),
        1 => prop::collection::vec(single, 0..4).prop_map(|items| format!("[{}]", items.join(","))).boxed(),
    ]
}

proptest! {
    #[test]
    fn no_line_changes_an_era_that_is_chosen(lines in prop::collection::vec(line(), 1..24)) {
        let mut front = Front::of(Asker::DevProxy);
        let mut initialized = 0;
        let mut era = None;
        for line in &lines {
            let bytes = line.as_bytes();
            let before = front.read_count();
            let mut other = front;
            let inbound = front.handle_frame(bytes, DEFAULT);
            // Whoever has read it before hears the same.
            if let Ok(message) = envelope::read(bytes) {
                prop_assert_eq!(other.handle_message(bytes, &message, DEFAULT), inbound);
                prop_assert_eq!((other.read_count(), other.legacy()), (front.read_count(), front.legacy()));
            }
            prop_assert!(front.read_count() - before <= 1);
            initialized += u32::from(inbound == Inbound::Initialized);
            let of = match inbound {
                Inbound::Initialize { .. } => {
                    prop_assert_eq!(era, None);
                    Some(true)
                }
                Inbound::SetLevel { .. } | Inbound::Progress { .. } | Inbound::Subscribe { .. } | Inbound::Answer { .. }
                | Inbound::Batch { .. } | Inbound::Initialized => Some(true),
                Inbound::Listen { .. } => Some(false),
                Inbound::Operation { parts, operation, .. } => {
                    prop_assert!(!matches!(
                        operation.method,
                        Method::Initialize | Method::Discover | Method::Ping | Method::SetLevel | Method::Other
                    ));
                    prop_assert!(!operation.method.is_drowses());
                    prop_assert!(!parts.id.of(bytes).is_empty());
                    Some(front.is_legacy())
                }
                _ => None,
            };
            if let Some(of) = of {
                prop_assert_eq!(era.unwrap_or(of), of, "{}", line);
                era = Some(of);
                prop_assert_eq!(front.is_legacy(), of);
            }
        }
        prop_assert!(initialized <= 1);
    }
}

/// What happens to questions.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask {
        client: u64,
        count: usize,
    },
    /// An answer of that client to an id that was, or was not, given out.
    Answer {
        client: u64,
        id: u64,
    },
    Over {
        nth: usize,
    },
    Gone {
        client: u64,
    },
    Later {
        secs: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_u64, 0..10_usize).prop_map(|(client, count)| Step::Ask { client, count }),
        6 => (0..3_u64, 0..80_u64).prop_map(|(client, id)| Step::Answer { client, id }),
        1 => (0..8_usize).prop_map(|nth| Step::Over { nth }),
        1 => (0..3_u64).prop_map(|client| Step::Gone { client }),
        1 => (0..200_u64).prop_map(|secs| Step::Later { secs }),
    ]
}

proptest! {
    #[test]
    fn every_group_ends_once_and_every_id_is_answered_once(steps in prop::collection::vec(step(), 1..120)) {
        use asking::{Asking, GroupKey, PATIENCE, Slot, Subject};
        use crate::time::Instant;

        let mut asking = Asking::new([Slot::EMPTY; 6]);
        let mut now = Instant::from_micros(1);
        let mut given: Vec<(GroupKey, u64, Instant)> = Vec::new();
        let mut open: Vec<(u64, u64)> = Vec::new();
        let mut ended = 0;
        for step in steps {
            match step {
                Step::Ask { client, count } => {
                    if let Ok(key) = asking.ask(now, client, Subject::Round, count) {
                        prop_assert!((1..=8).contains(&count));
                        prop_assert!(given.iter().all(|(known, ..)| known.number() != key.number()));
                        given.push((key, client, now.after(PATIENCE)));
                        open.extend((0..count as u8).map(|place| (client, key.id(place))));
                    }
                }
                Step::Answer { client, id } => {
                    let found = asking.find(client, id);
                    prop_assert_eq!(found.is_some(), open.contains(&(client, id)));
                    if let Some((key, place)) = found {
                        prop_assert_eq!(key.id(place), id);
                        let last = asking.is_last(key, place);
                        prop_assert_eq!(asking.handle_answer(key, place), last);
                        open.retain(|one| one.1 != id);
                        ended += usize::from(last);
                    }
                }
                Step::Over { nth } => {
                    if let Some((key, ..)) = given.get(nth) {
                        asking.handle_over(*key);
                    }
                }
                Step::Gone { client } => asking.handle_client_gone(client),
                Step::Later { secs } => {
                    now = now.after(Duration::from_secs(secs));
                    asking.handle_timeout(now);
                }
            }
            while let Some(over) = asking.poll_ended() {
                ended += 1;
                for place in (0..8_u8).filter(|place| over.open >> place & 1 == 1) {
                    let before = open.len();
                    open.retain(|one| *one != (over.client, over.group.id(place)));
                    prop_assert_eq!(open.len() + 1, before);
                }
                prop_assert!(open.iter().all(|one| one.1 / 8 != over.group.number()));
            }
            prop_assert_eq!(asking.used(), given.len() - ended);
            let waiting = given.iter().filter(|(key, ..)| open.iter().any(|one| one.1 / 8 == key.number()));
            prop_assert_eq!(asking.poll_timeout(), waiting.map(|(.., at)| *at).min());
        }
    }
}
