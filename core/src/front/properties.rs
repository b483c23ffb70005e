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
            let inbound = front.handle_frame(bytes, DEFAULT);
            prop_assert!(front.read_count() - before <= 1);
            initialized += u32::from(inbound == Inbound::Initialized);
            let of = match inbound {
                Inbound::Initialize { .. } => {
                    prop_assert_eq!(era, None);
                    Some(true)
                }
                Inbound::SetLevel { .. } | Inbound::Subscribe { .. } | Inbound::Answer { .. }
                | Inbound::Batch { .. } | Inbound::Initialized => Some(true),
                Inbound::Discover { .. } | Inbound::Listen { .. } => Some(false),
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
