//! The oracle over generated inputs.

use proptest::prelude::*;

use crate::{events, generate, oracle, peer, translation};

/// `PROPTEST_CASES` still scales it.
fn config(share: f32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: (default.cases as f32 * share) as u32, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config(2.0))]

    #[test]
    fn json_like_serde_json(text in generate::value()) {
        oracle::json(text.as_bytes());
    }

    #[test]
    fn json_like_serde_json_when_damaged(bytes in generate::damaged(generate::value())) {
        oracle::json(&bytes.0);
    }

    #[test]
    fn json_like_serde_json_in_soup(bytes in generate::soup()) {
        oracle::json(&bytes.0);
    }

    #[test]
    fn json_like_serde_json_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64).prop_map(generate::Bytes)) {
        oracle::json(&bytes.0);
        oracle::envelope(&bytes.0);
    }

    #[test]
    fn walks_of_anything_end(
        bytes in prop_oneof![generate::soup(), generate::damaged(generate::value())],
        start in 0usize..50,
        end in 0usize..300,
        name in "[a_]?",
    ) {
        oracle::walks(&bytes.0, start, end, &name);
        oracle::walks(&bytes.0, 0, bytes.0.len(), &name);
    }

    #[test]
    fn envelope_like_the_rules(text in generate::message()) {
        oracle::envelope(text.as_bytes());
    }

    #[test]
    fn envelope_like_the_rules_when_damaged(bytes in generate::damaged(generate::message())) {
        oracle::envelope(&bytes.0);
    }

    #[test]
    fn messages_of_one_era_are_messages_of_the_other(
        request in generate::request(),
        said in prop_oneof![4 => generate::said(), 1 => generate::message()],
    ) {
        translation::translation(request.as_bytes(), said.as_bytes());
    }

    #[test]
    fn messages_of_one_era_are_messages_of_the_other_when_damaged(
        request in generate::damaged(generate::request()),
        said in generate::damaged(generate::said()),
    ) {
        translation::translation(&request.0, &said.0);
    }

    #[test]
    fn framing_is_the_same_in_any_pieces(
        stream in generate::stream(),
        limit in 0usize..200,
        buffer in prop_oneof![0usize..20, 0usize..300],
        pieces in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 1..12),
    ) {
        oracle::framing(&stream.0, limit, buffer, &pieces);
        // Around the limit is where a line, its end and the buffer meet.
        for buffer in limit..limit + 4 {
            oracle::framing(&stream.0, limit, buffer, &pieces);
        }
    }

    #[test]
    fn events_are_the_same_in_any_pieces(
        stream in generate::events(),
        limit in prop_oneof![0usize..20, 0usize..300],
        buffer in prop_oneof![0usize..20, 0usize..400],
        pieces in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 1..12),
    ) {
        events::sse(&stream.0, limit, buffer, &pieces);
        events::sse(&stream.0, limit, limit + 1, &pieces);
    }

    #[test]
    fn events_are_those_of_somebody_elses_decoder(
        stream in generate::events(),
        pieces in prop::collection::vec(1usize..40, 1..12),
    ) {
        peer::same_events(&stream.0, &pieces);
    }
}

proptest! {
    #![proptest_config(config(0.25))]

    #[test]
    fn json_like_serde_json_when_deep(bytes in generate::deep()) {
        oracle::json(&bytes.0);
        oracle::envelope(&bytes.0);
    }
}

/// Most generated messages must be right, or the properties above would say little.
#[test]
fn the_generator_makes_all_kinds() {
    use drowse_core::envelope::{Message, read};
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut seen = [0; 5];
    for _ in 0..1000 {
        let text = generate::message().new_tree(&mut runner).unwrap().current();
        let kind = match read(text.as_bytes()) {
            Ok(Message::Request { .. }) => 0,
            Ok(Message::Notification { .. }) => 1,
            Ok(Message::Response { .. }) => 2,
            Ok(Message::Error { .. }) => 3,
            _ => 4,
        };
        seen[kind] += 1;
    }
    assert!(seen.iter().all(|&count| count > 20), "{seen:?}");
    assert!(seen[4] < 600, "{seen:?}");
}
