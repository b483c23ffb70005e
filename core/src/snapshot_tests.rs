//! The gathering on a virtual clock: when it asks, what it takes, and that it always comes to an end.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::envelope;

const ALL: Listings = Listings(0b1111);
const TOOLS: Listings = Listings::NONE.with(Listing::Tools);

fn at(millis: u64) -> Instant {
    Instant::from_millis(1_000_000 + millis)
}

fn ready(offers: Listings) -> Gathering {
    ready_with(offers, Limits::default())
}

fn ready_with(offers: Listings, limits: Limits) -> Gathering {
    let mut gathering = Gathering::new(Some(limits));
    gathering.handle_offers(offers);
    gathering.handle_ready(at(0));
    gathering
}

fn awaits(gathering: &Gathering) -> Option<Instant> {
    let mut table = Timetable::new();
    gathering.timetable(&mut table);
    table.get(Reason::Snapshot)
}

/// What it does at that time, with nothing in flight.
fn poll(gathering: &mut Gathering, millis: u64) -> Option<Step> {
    poll_while(gathering, millis, false)
}

fn poll_while(gathering: &mut Gathering, millis: u64, busy: bool) -> Option<Step> {
    gathering.note_busy(at(millis), busy);
    gathering.poll(at(millis), true, || millis)
}

fn asked(step: Option<Step>) -> (u64, Listing, bool) {
    match step {
        Some(Step::Ask { wire, listing, more }) => (wire, listing, more),
        other => panic!("{other:?}"),
    }
}

fn answer(gathering: &mut Gathering, millis: u64, wire: u64, body: &Value) -> Option<Page> {
    let mut message = json!({"jsonrpc": "2.0", "id": wire});
    for (name, value) in body.as_object().unwrap() {
        message[name] = value.clone();
    }
    let frame = message.to_string().into_bytes();
    gathering.handle_answer(at(millis), wire, &frame, &envelope::read(&frame).unwrap())
}

fn page(items: usize, cursor: Option<&str>, member: &str) -> Value {
    let items: Vec<Value> = (0..items).map(|n| json!({"name": format!("n{n}")})).collect();
    let mut result = json!({});
    result[member] = items.into();
    if let Some(cursor) = cursor {
        result["nextCursor"] = cursor.into();
    }
    json!({"result": result})
}

fn gathered(step: Option<Step>) -> (Listings, Listings) {
    match step {
        Some(Step::Gathered { lists, lacking }) => (lists, lacking),
        other => panic!("{other:?}"),
    }
}

/// Answers whatever it asks, with one page each.
fn through(gathering: &mut Gathering, millis: u64) -> (Vec<Listing>, Listings, Listings) {
    let mut order = Vec::new();
    loop {
        match poll(gathering, millis) {
            Some(Step::Ask { wire, listing, .. }) => {
                order.push(listing);
                assert!(
                    answer(gathering, millis, wire, &page(1, None, listing.member())).is_some(),
                    "{listing:?}"
                );
            }
            other => {
                let (lists, lacking) = gathered(other);
                return (order, lists, lacking);
            }
        }
    }
}

#[test]
fn asks_once_it_is_quiet_and_only_for_what_the_server_has() {
    let mut gathering = ready(TOOLS.with(Listing::Prompts));
    assert_eq!(awaits(&gathering), Some(at(100)));
    assert_eq!(poll(&mut gathering, 99), None);
    let (order, lists, lacking) = through(&mut gathering, 100);
    assert_eq!(order, [Listing::Tools, Listing::Prompts]);
    assert_eq!((lists, lacking), (TOOLS.with(Listing::Prompts), Listings::NONE));
    assert_eq!((awaits(&gathering), poll(&mut gathering, 1_000_000)), (None, None), "that is all");
    assert!(!gathering.is_wanted());
}

#[test]
fn a_server_without_lists_is_asked_nothing_and_saved_all_the_same() {
    let mut gathering = ready(Listings::NONE);
    assert_eq!(gathered(poll(&mut gathering, 100)), (Listings::NONE, Listings::NONE));
    assert_eq!(awaits(&gathering), None);
}

#[test]
fn without_limits_nothing_is_ever_asked() {
    let mut gathering = Gathering::new(None);
    gathering.handle_offers(ALL);
    gathering.handle_ready(at(0));
    gathering.handle_changed(at(1), ALL);
    assert_eq!((awaits(&gathering), poll(&mut gathering, 1_000_000)), (None, None));
}

#[test]
fn who_is_busy_is_left_alone_for_a_while() {
    let mut gathering = ready(TOOLS);
    assert_eq!(poll_while(&mut gathering, 50, true), None);
    assert_eq!(awaits(&gathering), Some(at(5000)), "no timer for a quiet that is not there");
    assert_eq!(poll_while(&mut gathering, 4_000, true), None);
    assert_eq!(poll(&mut gathering, 4_020), None);
    assert_eq!(awaits(&gathering), Some(at(4_120)), "quiet from the last answer on");
    assert_eq!(asked(poll(&mut gathering, 4_120)).1, Listing::Tools);
}

#[test]
fn who_is_always_busy_is_asked_in_the_end() {
    let mut gathering = ready(TOOLS.with(Listing::Prompts));
    assert_eq!(poll_while(&mut gathering, 4_999, true), None);
    let (wire, listing, _) = asked(poll_while(&mut gathering, 5_000, true));
    assert_eq!(listing, Listing::Tools);
    answer(&mut gathering, 5_001, wire, &page(1, None, "tools"));
    assert_eq!(asked(poll_while(&mut gathering, 5_001, true)).1, Listing::Prompts, "and then to the end");
}

#[test]
fn whoever_comes_meanwhile_is_served_before_the_next_page() {
    let mut gathering = ready(TOOLS);
    let (wire, ..) = asked(poll(&mut gathering, 100));
    assert_eq!(poll_while(&mut gathering, 110, true), None);
    answer(&mut gathering, 120, wire, &page(1, Some("c"), "tools"));
    assert_eq!(poll_while(&mut gathering, 121, true), None);
    assert_eq!(poll(&mut gathering, 200), None);
    let (_, _, more) = asked(poll(&mut gathering, 300));
    assert!(more);
}

#[test]
fn pages_are_read_to_the_end() {
    let mut gathering = ready(TOOLS);
    for n in 0..5 {
        let (wire, listing, more) = asked(poll(&mut gathering, 100));
        assert_eq!((listing, more), (Listing::Tools, n > 0));
        let cursor = format!("c{n}");
        let page = answer(&mut gathering, 100, wire, &page(2, (n < 4).then_some(&cursor), "tools")).unwrap();
        assert_eq!((page.first, page.cursor.is_some()), (n == 0, n < 4));
    }
    assert_eq!(gathered(poll(&mut gathering, 100)), (TOOLS, Listings::NONE));
}

#[test]
fn endless_pages_are_cut_and_said_to_be() {
    for limits in [Limits { pages: 3, ..Limits::default() }, Limits { bytes: 3 * 40, ..Limits::default() }] {
        let mut gathering = ready_with(TOOLS, limits);
        let mut asks = 0;
        let (lists, lacking) = loop {
            match poll(&mut gathering, 100) {
                Some(Step::Ask { wire, .. }) => {
                    asks += 1;
                    assert!(answer(&mut gathering, 100, wire, &page(0, Some("same"), "tools")).is_some());
                }
                other => break gathered(other),
            }
        };
        assert_eq!((lists, lacking), (TOOLS, TOOLS));
        assert!(asks <= 3, "{asks}");
    }
}

#[test]
fn a_list_that_the_server_does_not_know_is_empty_and_other_errors_are_a_lack() {
    for (error, lacks) in [(-32601, false), (-32603, true), (-32602, true)] {
        let mut gathering = ready(TOOLS);
        let (wire, ..) = asked(poll(&mut gathering, 100));
        let error = json!({"error": {"code": error, "message": "no"}});
        let page = answer(&mut gathering, 100, wire, &error);
        assert_eq!(page.map(|page| page.items), if lacks { None } else { Some(None) });
        let lacking = if lacks { TOOLS } else { Listings::NONE };
        assert_eq!(gathered(poll(&mut gathering, 100)), (TOOLS, lacking));
    }
}

#[test]
fn answers_that_are_no_list_are_a_lack() {
    for result in [
        json!({}),
        json!({"tools": null}),
        json!({"tools": {}}),
        json!({"prompts": []}),
        json!({"resultType": "input_required", "tools": []}),
    ] {
        let mut gathering = ready(TOOLS);
        let (wire, ..) = asked(poll(&mut gathering, 100));
        assert_eq!(answer(&mut gathering, 100, wire, &json!({"result": result})), None);
        assert_eq!(gathered(poll(&mut gathering, 100)), (TOOLS, TOOLS), "{result}");
    }
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for_and_the_others_are_asked() {
    let mut gathering = ready(TOOLS.with(Listing::Prompts));
    let (wire, ..) = asked(poll(&mut gathering, 100));
    assert_eq!(awaits(&gathering), Some(at(30_100)));
    assert_eq!(poll(&mut gathering, 30_099), None);
    assert_eq!((gathering.unfinished(), gathering.is_wanted()), (TOOLS.with(Listing::Prompts), true));
    let (_, listing, more) = asked(poll(&mut gathering, 30_100));
    assert_eq!((listing, more), (Listing::Prompts, false));
    assert_eq!((gathering.poll_abandoned(), gathering.poll_abandoned()), (Some(wire), None));
    assert!(!gathering.awaits(wire), "a late answer is nobody's");
    assert_eq!(answer(&mut gathering, 30_101, wire, &page(1, None, "tools")), None);
    gathering.handle_failed(at(30_101), wire);
    gathering.handle_failed(at(30_101), 30_100);
    assert_eq!(
        gathered(poll(&mut gathering, 30_101)),
        (TOOLS.with(Listing::Prompts), TOOLS.with(Listing::Prompts))
    );
}

#[test]
fn a_list_that_changes_is_asked_for_again_once_it_settles() {
    let mut gathering = ready(ALL);
    through(&mut gathering, 100);
    gathering.handle_changed(at(10_000), Listings::changed(List::Resources));
    gathering.handle_changed(at(10_500), Listings::changed(List::Prompts));
    assert_eq!(poll(&mut gathering, 11_499), None);
    // One pause after the last round is over by then.
    let due = awaits(&gathering).unwrap();
    assert_eq!(due, at(11_500));
    let (order, lists, _) = through(&mut gathering, 11_500);
    assert_eq!(order, [Listing::Prompts, Listing::Resources, Listing::Templates]);
    assert_eq!(lists, ALL.without(Listing::Tools));
    // What it does not have cannot change.
    let mut gathering = ready(TOOLS);
    through(&mut gathering, 100);
    gathering.handle_changed(at(20_000), Listings::changed(List::Prompts));
    assert_eq!(awaits(&gathering), None);
}

#[test]
fn a_change_while_it_is_read_makes_it_stale() {
    let mut gathering = ready(TOOLS.with(Listing::Prompts));
    let (wire, ..) = asked(poll(&mut gathering, 100));
    gathering.handle_changed(at(101), TOOLS);
    // Not asked for yet, so it will be read as it is then.
    gathering.handle_changed(at(101), Listings::changed(List::Prompts));
    answer(&mut gathering, 102, wire, &page(1, None, "tools"));
    let (order, lists, lacking) = through(&mut gathering, 102);
    assert_eq!((order, lists), (vec![Listing::Prompts], TOOLS.with(Listing::Prompts)));
    assert_eq!(lacking, Listings::NONE);
    assert!(gathering.is_wanted());
    let due = awaits(&gathering).unwrap();
    assert!(due >= at(1_102), "not at once");
    let (order, ..) = through(&mut gathering, due.as_millis() - at(0).as_millis());
    assert_eq!(order, [Listing::Tools]);
    assert_eq!(awaits(&gathering), None);
}

#[test]
fn a_server_that_changes_without_end_is_asked_less_and_less_often() {
    let mut gathering = ready(TOOLS);
    let mut rounds = 0;
    for millis in 0..600_000 / 50 {
        let millis = millis * 50;
        gathering.handle_changed(at(millis), TOOLS);
        match poll(&mut gathering, millis) {
            Some(Step::Ask { wire, .. }) => {
                answer(&mut gathering, millis, wire, &page(1, None, "tools"));
                rounds += 1;
                gathered(poll(&mut gathering, millis));
            }
            None => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((5..=20).contains(&rounds), "{rounds} rounds in 10 minutes");
    // Once it has been calm for long it is believed again.
    gathering.handle_ready(at(10_000_000));
    through(&mut gathering, 10_000_100);
    gathering.handle_changed(at(10_500_000), TOOLS);
    assert_eq!(awaits(&gathering), Some(at(10_501_000)));
}

#[test]
fn what_was_saved_can_turn_out_to_be_of_no_use() {
    let mut gathering = ready(TOOLS.with(Listing::Prompts));
    through(&mut gathering, 100);
    gathering.forget(at(200));
    let due = awaits(&gathering).unwrap().as_millis() - at(0).as_millis();
    let (_, lists, _) = through(&mut gathering, due);
    assert_eq!(lists, TOOLS.with(Listing::Prompts));
}

#[test]
fn it_ends_with_the_generation() {
    for leaving in [false, true] {
        let mut gathering = ready(ALL);
        let (wire, ..) = asked(poll(&mut gathering, 100));
        if leaving {
            gathering.handle_leaving();
            gathering.handle_leaving();
        } else {
            gathering.handle_lost();
        }
        assert_eq!(gathering.poll_abandoned(), leaving.then_some(wire));
        assert_eq!((awaits(&gathering), poll(&mut gathering, 1_000_000)), (None, None));
        assert_eq!(answer(&mut gathering, 200, wire, &page(1, None, "tools")), None);
        gathering.handle_changed(at(300), ALL);
        assert_eq!(awaits(&gathering), None, "nothing of it is heard any more");
        gathering.handle_offers(TOOLS);
        gathering.handle_ready(at(1_000));
        assert_eq!(awaits(&gathering), Some(at(1_100)));
        assert_eq!(through(&mut gathering, 1_100).1, TOOLS, "the next one is asked anew");
    }
}

#[test]
fn a_server_that_takes_nothing_is_not_asked_and_not_waited_for() {
    let mut gathering = ready(TOOLS);
    gathering.note_busy(at(100), false);
    assert_eq!((gathering.poll(at(100), false, || 1), awaits(&gathering)), (None, None));
    assert!(gathering.poll(at(900), true, || 1).is_some());
}

#[test]
fn capabilities_are_read_as_they_are_said() {
    let offered = |text: &str| Listings::offered(text.as_bytes(), json::scan(text.as_bytes()).unwrap());
    assert_eq!(
        offered(r#"{"capabilities":{"tools":{},"prompts":{"listChanged":true}}}"#),
        TOOLS.with(Listing::Prompts)
    );
    assert_eq!(
        offered(r#"{"capabilities":{"resources":{}}}"#),
        Listings::NONE.with(Listing::Resources).with(Listing::Templates)
    );
    for text in ["{}", r#"{"capabilities":{}}"#, r#"{"capabilities":{"tools":null,"prompts":true}}"#, "[]"] {
        assert_eq!(offered(text), Listings::NONE, "{text}");
    }
}

#[test]
fn requests_are_those_of_the_era() {
    let us = Identity { name: "drowse", version: "0" };
    for (revision, cursor) in [
        (Revision::LATEST_MODERN, None),
        (Revision::LATEST_MODERN, Some(r#""\u0061\"""#)),
        (Revision::V2024_11_05, None),
        (Revision::LATEST_LEGACY, Some(r#""""#)),
    ] {
        let mut buffer = [0; 512];
        let mut w = Writer::new(&mut buffer);
        request(&mut w, 7, Listing::Templates, revision, us, cursor.map(str::as_bytes));
        let text = String::from_utf8(w.finish().unwrap().to_vec()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["id"], &value["method"]), (&json!(7), &json!("resources/templates/list")));
        let wanted = cursor.map(|cursor| serde_json::from_str::<Value>(cursor).unwrap());
        assert_eq!(value["params"].get("cursor"), wanted.as_ref());
        let modern = revision.era() == Era::Modern;
        assert_eq!(value["params"].get("_meta").is_some(), modern);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Pass(u16),
    Busy(bool),
    Changed(u8),
    Answer(u8),
    Stuck,
    Lost,
    Leaving,
    Ready(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..20_000_u16).prop_map(Op::Pass),
        3 => any::<bool>().prop_map(Op::Busy),
        3 => (0..16_u8).prop_map(Op::Changed),
        8 => (0..5_u8).prop_map(Op::Answer),
        1 => Just(Op::Stuck),
        1 => Just(Op::Lost),
        1 => Just(Op::Leaving),
        2 => (0..16_u8).prop_map(Op::Ready),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever happens: one question at a time, only for what is offered, each round says of each list that it asked for
    /// whether it is whole, no timer is left in the past, and in the end it rests.
    #[test]
    fn it_asks_no_more_than_it_may_and_always_rests(ops in proptest::collection::vec(op(), 0..80)) {
        let mut gathering = Gathering::new(Some(Limits { pages: 3, ..Limits::default() }));
        let (mut now, mut busy, mut writable) = (0, false, true);
        let mut offers = Listings::NONE;
        let mut open: Option<(u64, Listing)> = None;
        let mut round = Listings::NONE;
        let mut next = 1;
        let mut ops = ops.into_iter();
        loop {
            let op = ops.next();
            let over = op.is_none();
            match op {
                Some(Op::Pass(millis)) => now += u64::from(millis),
                Some(Op::Busy(is)) => busy = is,
                Some(Op::Changed(bits)) => gathering.handle_changed(at(now), Listings(bits)),
                Some(Op::Stuck) => writable = !writable,
                Some(Op::Lost | Op::Leaving) if matches!(op, Some(Op::Lost)) => {
                    gathering.handle_lost();
                    (offers, open, round) = (Listings::NONE, None, Listings::NONE);
                }
                Some(Op::Lost | Op::Leaving) => {
                    gathering.handle_leaving();
                    prop_assert_eq!(gathering.poll_abandoned(), open.map(|(wire, _)| wire));
                    (offers, open, round) = (Listings::NONE, None, Listings::NONE);
                }
                Some(Op::Ready(bits)) => {
                    gathering.handle_lost();
                    offers = Listings(bits);
                    gathering.handle_offers(offers);
                    gathering.handle_ready(at(now));
                    (open, round) = (None, Listings::NONE);
                }
                Some(Op::Answer(kind)) => if let Some((wire, listing)) = open.take() {
                    prop_assert!(gathering.awaits(wire));
                    match kind {
                        0 => gathering.handle_failed(at(now), wire),
                        1 => { answer(&mut gathering, now, wire, &page(1, Some("c"), listing.member())); }
                        2 => { answer(&mut gathering, now, wire, &json!({"error": {"code": -32601, "message": ""}})); }
                        3 => { answer(&mut gathering, now, wire, &json!({"result": {}})); }
                        _ => { answer(&mut gathering, now, wire, &page(2, None, listing.member())); }
                    }
                    prop_assert!(!gathering.awaits(wire));
                },
                None => {
                    (busy, writable) = (false, true);
                    if let Some(at_) = awaits(&gathering) {
                        now = now.max(at_.as_millis() - at(0).as_millis());
                    }
                }
            }
            gathering.note_busy(at(now), busy);
            if gathering.poll_abandoned().is_some() {
                open = None;
            }
            let mut steps = 0;
            while let Some(step) = gathering.poll(at(now), writable, || next) {
                steps += 1;
                prop_assert!(steps < 10);
                match step {
                    Step::Ask { wire, listing, .. } => {
                        prop_assert!(writable && open.is_none());
                        prop_assert!(offers.has(listing));
                        open = Some((wire, listing));
                        round = round.with(listing);
                        next += 1;
                    }
                    Step::Gathered { lists, lacking } => {
                        prop_assert!(open.is_none());
                        prop_assert_eq!(lists, round);
                        prop_assert_eq!(lacking.among(lists), lacking);
                        round = Listings::NONE;
                    }
                }
            }
            gathering.note_busy(at(now), busy);
            if let Some(due) = awaits(&gathering) {
                prop_assert!(due > at(now), "a timer in the past");
            }
            if over && open.is_none() && awaits(&gathering).is_none() {
                break;
            }
        }
        prop_assert!(!gathering.is_wanted());
    }
}
