#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn buckets_follow_one_another_without_a_gap() {
    let mut from = 0;
    for index in 0..Histogram::BUCKETS {
        let last = Histogram::last_of(index);
        assert_eq!((Histogram::index(from), Histogram::index(last)), (index, index));
        // A quarter at most, from the floor on.
        if from >= 64 && last < u64::MAX {
            assert!((last - from + 1) * 4 <= from, "{from} to {last}");
        }
        from = last.wrapping_add(1);
    }
    assert_eq!(from, 0);
}

#[test]
fn nothing_counted_tells_nothing() {
    let none = Histogram::new();
    assert_eq!((none.count(), none.quantile(500), none.longest()), (0, None, None));
    let mut one = Histogram::new();
    one.record(micros(1));
    assert_eq!((one.quantile(0), one.quantile(1000)), (Some(micros(1)), Some(micros(1))));
}

#[test]
fn operations_are_counted_by_their_end() {
    let mut tally = Tally::new();
    assert!(tally.is_empty());
    tally.end(Ending::Served, Some(micros(100)));
    tally.end(Ending::Served, None);
    tally.end(Ending::Theirs, Some(micros(200)));
    tally.end(Ending::Ours, Some(micros(10_000)));
    tally.end(Ending::TimedOut, Some(micros(10_000)));
    tally.end(Ending::Cancelled, Some(micros(10_000)));
    let counts = Counts { calls: 6, theirs: 1, ours: 1, timed_out: 1, cancelled: 1 };
    assert_eq!((*tally.counts(), counts.errors()), (counts, 4));
    assert_eq!((tally.latency().count(), tally.latency().longest()), (2, Some(micros(200))));
    tally.end(Ending::Theirs, Some(micros(1)));
    tally.set_aside();
    assert_eq!(*tally.counts(), counts);
    tally.take();
    assert!(tally.is_empty());
    assert_eq!(tally.latency().count(), 0);
}

#[test]
fn states_tell_how_often_it_woke_slept_and_crashed() {
    use PublicState::*;
    let mut tally = Tally::new();
    let mut at = 0;
    let mut see = |tally: &mut Tally, states: &[PublicState]| {
        for state in states {
            at += 1;
            tally.see(Instant::from_micros(at), *state);
        }
        (tally.wakes(), tally.sleeps(), tally.crashes())
    };
    assert_eq!(see(&mut tally, &[Dormant, Connecting, Connecting, Live, Live]), (1, 0, 0));
    assert_eq!(tally.awake_since(), Some(Instant::from_micros(2)));
    assert_eq!(see(&mut tally, &[Disconnected, Live, Suspended, Live, Idle, Idle]), (1, 1, 0));
    assert_eq!(see(&mut tally, &[Connecting, Live, Crashed, Idle]), (2, 2, 0));
    assert_eq!(see(&mut tally, &[Connecting, Crashed, Reconnecting, Live, Expired]), (3, 2, 1));
    assert_eq!(see(&mut tally, &[Closed]), (3, 2, 1));
}

proptest! {
    #[test]
    fn a_quantile_is_not_less_than_the_truth_and_less_than_a_quarter_more(
        mut latencies in prop::collection::vec(prop_oneof![0..1000_u64, 0..10_000_000_000_u64], 1..60),
        permille in 0..=1000_u32,
    ) {
        let mut histogram = Histogram::new();
        for latency in &latencies {
            histogram.record(micros(*latency));
        }
        latencies.sort_unstable();
        let rank = (latencies.len() * permille as usize).div_ceil(1000).max(1);
        let truth = latencies[rank - 1];
        let told = u64::try_from(histogram.quantile(permille).unwrap().as_micros()).unwrap();
        prop_assert!(told >= truth);
        if (64..1 << 32).contains(&truth) {
            prop_assert!(told * 4 < truth * 5, "{told} for {truth}");
        }
        prop_assert_eq!(histogram.longest(), latencies.last().map(|last| micros(*last)));
    }

    #[test]
    fn what_is_written_down_reads_as_the_same_and_adds_up(
        one in prop::collection::vec(any::<u64>(), 0..40),
        other in prop::collection::vec(0..1_000_000_u64, 0..40),
    ) {
        let of = |latencies: &[u64]| {
            let mut histogram = Histogram::new();
            latencies.iter().for_each(|latency| histogram.record_many(*latency, 1));
            histogram
        };
        let (first, second) = (of(&one), of(&other));
        let mut again = Histogram::new();
        first.filled().for_each(|(latency, count)| again.record_many(latency, count));
        prop_assert_eq!(again, first);
        again.merge(&second);
        let both: Vec<u64> = one.iter().chain(&other).copied().collect();
        prop_assert_eq!(again, of(&both));
    }
}

#[test]
fn a_round_is_no_call() {
    let mut tally = Tally::new();
    tally.end(Ending::Served, None);
    tally.handle_round();
    tally.end(Ending::Served, None);
    assert_eq!((tally.counts().calls, tally.counts().errors()), (1, 0));
}
