//! Queued, sent, done: what each input makes of a request, and that every key comes back exactly once.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::vec::Vec;

use super::*;

type Small = Link<[Slot; 4]>;

const ALLOWANCE: Allowance = Allowance { quiet: Duration::from_secs(10), total: Duration::from_secs(60) };

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1_000)
}

fn link() -> Small {
    Link::new([Slot::EMPTY; 4])
}

fn ready() -> Small {
    let mut link = link();
    link.handle_ready(at(0));
    link
}

fn submit(link: &mut Small, method: Method) -> Key {
    link.submit(at(0), method, ALLOWANCE).unwrap()
}

/// A request that the kernel has taken.
fn sent(link: &mut Small, method: Method) -> Key {
    let key = submit(link, method);
    assert_eq!(link.poll_send(), Some((key, key.wire(), method)));
    link.handle_sent(key);
    key
}

fn failures(link: &mut Small) -> Vec<(Key, Cause, Ran)> {
    core::iter::from_fn(|| link.poll_failure())
        .map(|(key, failure)| (key, failure.cause, failure.ran))
        .collect()
}

fn sends(link: &mut Small) -> Vec<Key> {
    core::iter::from_fn(|| link.poll_send()).map(|(key, ..)| key).collect()
}

fn deadline(link: &Small) -> Option<u64> {
    let mut table = Timetable::new();
    link.timetable(&mut table);
    assert_eq!(table.next(), table.get(Reason::Request).map(|at| (at, Reason::Request)));
    table.get(Reason::Request).map(|at| at.as_millis() / 1_000)
}

#[test]
fn a_request_goes_its_way() {
    let mut link = ready();
    let key = submit(&mut link, Method::ToolsCall);
    assert!(link.has_queued() && link.is_live(key));
    assert_eq!(link.poll_send(), Some((key, key.wire(), Method::ToolsCall)));
    assert_eq!(link.poll_send(), None, "once");
    link.handle_sent(key);
    assert_eq!(link.handle_answer(key.wire()), Some((key, Method::ToolsCall)));
    assert!(!link.is_live(key));
    assert_eq!((link.used(), deadline(&link)), (0, None));
    assert_eq!(link.handle_answer(key.wire()), None, "an answer that comes twice");
}

#[test]
fn an_answer_may_overtake_the_news_that_its_request_was_sent() {
    let mut link = ready();
    let key = submit(&mut link, Method::ToolsCall);
    let _ = link.poll_send();
    assert!(link.handle_answer(key.wire()).is_some());
    link.handle_sent(key);
    assert!(!link.is_live(key));
}

#[test]
fn nothing_is_sent_before_the_server_is_ready_and_no_clock_runs() {
    let mut link = link();
    let key = submit(&mut link, Method::ToolsCall);
    assert_eq!((link.poll_send(), deadline(&link)), (None, None));
    link.handle_timeout(at(100_000));
    assert!(failures(&mut link).is_empty());
    link.handle_ready(at(100));
    assert_eq!(deadline(&link), Some(110), "a start has a limit of its own");
    assert_eq!(sends(&mut link), [key]);
}

#[test]
fn requests_go_in_the_order_of_arrival() {
    let mut link = link();
    let keys = [(); 4].map(|()| submit(&mut link, Method::ToolsCall));
    link.handle_ready(at(0));
    assert_eq!(sends(&mut link), keys);
}

#[test]
fn a_refused_request_changes_nothing() {
    let mut link = ready();
    let keys = [(); 4].map(|()| submit(&mut link, Method::ToolsCall));
    let before = std::format!("{link:?}");
    assert_eq!(link.submit(at(5), Method::ToolsCall, ALLOWANCE), Err(Full));
    assert_eq!(std::format!("{link:?}"), before);
    let _ = sends(&mut link);
    let _ = link.handle_answer(keys[2].wire());
    let again = link.submit(at(5), Method::ToolsCall, ALLOWANCE).unwrap();
    assert_eq!(again.index(), keys[2].index());
    assert_ne!(again.wire(), keys[2].wire(), "a late answer to the first one must not find the second");
}

#[test]
fn no_storage_means_no_requests() {
    let mut link = Link::new([Slot::EMPTY; 0]);
    link.handle_ready(at(0));
    assert_eq!(link.submit(at(0), Method::ToolsCall, ALLOWANCE), Err(Full));
    link.handle_lost();
    link.fail_all(Cause::ShuttingDown);
    link.handle_timeout(at(9));
    assert_eq!(link.poll_failure(), None);
}

#[test]
fn more_storage_than_indices_is_not_used() {
    let mut link = Link::new(std::vec![Slot::EMPTY; usize::from(u16::MAX) + 10]);
    let mut count = 0;
    while let Ok(key) = link.submit(at(0), Method::ToolsCall, ALLOWANCE) {
        assert_eq!(Key::from_wire(key.wire()), Some(key));
        count += 1;
    }
    assert_eq!(count, usize::from(u16::MAX));
}

#[test]
fn made_up_wire_ids_find_nothing() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    for wire in [key.wire() + 1, key.wire() + 0x1_0000, 0xffff, u64::MAX, 1 << 48, 4] {
        assert_eq!(link.handle_answer(wire), None, "{wire}");
        assert_eq!(link.handle_progress(at(1), wire), None, "{wire}");
        link.handle_bad_answer(wire, Cause::TooLarge);
    }
    assert!(link.is_live(key));
    assert!(failures(&mut link).is_empty());
    assert_eq!(Key::from_wire(u64::from(OWN_INDEX)), None);
    assert_eq!(Key::from_wire(1 << 48), None);
}

#[test]
fn an_answer_to_what_was_not_sent_is_none() {
    let mut link = ready();
    let key = submit(&mut link, Method::ToolsCall);
    assert_eq!(link.handle_answer(key.wire()), None);
    assert_eq!(link.handle_progress(at(1), key.wire()), None);
    link.handle_bad_answer(key.wire(), Cause::InvalidAnswer);
    assert_eq!(sends(&mut link), [key]);
}

#[test]
fn a_bad_answer_fails_its_request() {
    for cause in [Cause::InvalidAnswer, Cause::TooLarge] {
        let mut link = ready();
        let key = sent(&mut link, Method::ToolsCall);
        link.handle_bad_answer(key.wire(), cause);
        assert_eq!(link.poll_cancelled(), None, "it is over for the server");
        assert_eq!(failures(&mut link), [(key, cause, Ran::Unknown)]);
        assert!(!link.is_live(key));
    }
}

// Time.

#[test]
fn a_request_times_out_and_the_server_is_told() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    assert_eq!(deadline(&link), Some(10));
    link.handle_timeout(Instant::from_micros(9_999_999));
    assert_eq!(link.poll_cancelled(), None);
    link.handle_timeout(at(10));
    assert_eq!(link.poll_failure(), None, "the server is told first");
    assert_eq!(link.poll_cancelled(), Some((key.wire(), true)));
    assert_eq!(link.poll_cancelled(), None);
    assert_eq!(failures(&mut link), [(key, Cause::TimedOut, Ran::Unknown)]);
    assert_eq!(link.handle_answer(key.wire()), None, "late");
    assert_eq!(deadline(&link), None);
}

#[test]
fn a_request_that_was_never_sent_times_out_too() {
    let mut link = ready();
    let key = submit(&mut link, Method::ToolsCall);
    link.handle_timeout(at(10));
    assert_eq!(link.poll_cancelled(), None, "the server never heard of it");
    assert_eq!(failures(&mut link), [(key, Cause::TimedOut, Ran::No)]);
    assert_eq!(link.poll_send(), None);
}

#[test]
fn progress_starts_the_time_anew_up_to_the_maximum() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    for second in [9, 18, 27, 36, 45, 54] {
        link.handle_timeout(at(second));
        assert!(link.is_live(key) && link.poll_failure().is_none(), "{second}");
        assert_eq!(link.handle_progress(at(second), key.wire()), Some(key));
    }
    link.handle_timeout(at(59));
    assert_eq!(deadline(&link), Some(60), "not 64");
    link.handle_timeout(at(60));
    let _ = link.poll_cancelled();
    assert_eq!(failures(&mut link), [(key, Cause::TimedOut, Ran::Unknown)]);
    assert_eq!(link.handle_progress(at(60), key.wire()), None);
}

#[test]
fn the_shorter_of_both_limits_counts() {
    let mut link = ready();
    let allowance = Allowance { quiet: Duration::from_secs(10), total: Duration::from_secs(5) };
    let key = link.submit(at(0), Method::ToolsCall, allowance).unwrap();
    assert_eq!(deadline(&link), Some(5));
    let _ = link.poll_send();
    let _ = link.handle_progress(at(4), key.wire());
    link.handle_timeout(at(5));
    let _ = link.poll_cancelled();
    assert_eq!(failures(&mut link).len(), 1);
}

#[test]
fn deadlines_are_each_their_own() {
    let mut link = ready();
    let keys = [5u64, 3, 9].map(|seconds| {
        let quiet = Duration::from_secs(seconds);
        link.submit(at(0), Method::ToolsCall, Allowance { quiet, ..ALLOWANCE }).unwrap()
    });
    for (second, key) in [(3, keys[1]), (5, keys[0]), (9, keys[2])] {
        assert_eq!(deadline(&link), Some(second));
        link.handle_timeout(at(second));
        assert_eq!(failures(&mut link), [(key, Cause::TimedOut, Ran::No)]);
    }
}

#[test]
fn after_a_timeout_was_handled_the_next_one_is_in_the_future() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    let other = sent(&mut link, Method::ToolsCall);
    let _ = link.handle_progress(at(9), key.wire());
    let _ = link.handle_answer(other.wire());
    assert_eq!(deadline(&link), Some(10), "earlier than need be, never later");
    link.handle_timeout(at(10));
    assert_eq!(deadline(&link), Some(19));
    assert!(link.is_live(key));
}

#[test]
fn endless_allowances_do_not_overflow() {
    let mut link = ready();
    let allowance = Allowance { quiet: Duration::MAX, total: Duration::MAX };
    let key = link.submit(Instant::from_micros(u64::MAX - 1), Method::ToolsCall, allowance).unwrap();
    let _ = link.poll_send();
    let _ = link.handle_progress(Instant::from_micros(u64::MAX - 1), key.wire());
    link.handle_timeout(Instant::from_micros(u64::MAX - 1));
    assert!(link.is_live(key));
}

// Cancellation.

#[test]
fn a_cancelled_request_comes_back_once() {
    let mut link = ready();
    let queued = submit(&mut link, Method::ToolsCall);
    link.cancel(queued);
    link.cancel(queued);
    assert_eq!(link.poll_cancelled(), None);
    assert_eq!(failures(&mut link), [(queued, Cause::Cancelled, Ran::No)]);
    let key = sent(&mut link, Method::ToolsCall);
    link.cancel(key);
    assert_eq!(link.handle_answer(key.wire()), None, "late");
    assert_eq!(link.poll_cancelled(), Some((key.wire(), false)));
    link.handle_timeout(at(1_000));
    assert_eq!(failures(&mut link), [(key, Cause::Cancelled, Ran::Unknown)]);
    link.cancel(key);
    assert!(failures(&mut link).is_empty());
}

#[test]
fn what_is_being_written_may_have_run() {
    let mut link = ready();
    let key = submit(&mut link, Method::ToolsCall);
    let _ = link.poll_send();
    link.cancel(key);
    assert_eq!(link.poll_cancelled(), Some((key.wire(), false)), "it goes behind the request");
    assert_eq!(failures(&mut link), [(key, Cause::Cancelled, Ran::Unknown)]);
}

// A lost link.

#[test]
fn what_was_sent_fails_and_what_was_queued_stays() {
    let mut link = ready();
    let sent = sent(&mut link, Method::ToolsCall);
    let writing = submit(&mut link, Method::ToolsCall);
    assert_eq!(link.poll_send(), Some((writing, writing.wire(), Method::ToolsCall)));
    let queued = submit(&mut link, Method::ToolsCall);
    link.handle_lost();
    assert_eq!(failures(&mut link), [(sent, Cause::ServerLost, Ran::Unknown)]);
    assert_eq!((link.poll_send(), deadline(&link)), (None, None));
    link.handle_timeout(at(1_000_000));
    assert!(link.has_queued());
    link.handle_ready(at(1_000_000));
    assert_eq!(deadline(&link), Some(1_000_010), "its clock starts anew");
    assert_eq!(sends(&mut link), [writing, queued]);
}

#[test]
fn what_only_reads_is_issued_anew_once() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsList);
    link.handle_lost();
    assert!(failures(&mut link).is_empty());
    link.handle_ready(at(5));
    assert_eq!(link.poll_send(), Some((key, key.wire() | REISSUED, Method::ToolsList)));
    link.handle_sent(key);
    link.handle_lost();
    assert_eq!(failures(&mut link), [(key, Cause::ServerLost, Ran::Unknown)]);
}

#[test]
fn what_was_issued_anew_may_have_run_the_first_time() {
    for how in 0..3 {
        let mut link = ready();
        let key = sent(&mut link, Method::ToolsList);
        link.handle_lost();
        let cause = match how {
            0 => {
                link.fail_queued(Cause::BackingOff);
                Cause::BackingOff
            }
            1 => {
                link.cancel(key);
                Cause::Cancelled
            }
            _ => {
                link.fail_all(Cause::ShuttingDown);
                Cause::ShuttingDown
            }
        };
        assert_eq!(failures(&mut link), [(key, cause, Ran::Unknown)]);
    }
}

#[test]
fn what_comes_again_keeps_its_place() {
    let mut link = ready();
    // All at one instant, and with allowances that say nothing of the order.
    let mut keys = Vec::new();
    for total in [30, 60, 20, 50] {
        let allowance = Allowance { total: Duration::from_secs(total), ..ALLOWANCE };
        let key = link.submit(at(0), Method::ResourcesRead, allowance).unwrap();
        keys.push(key);
        if keys.len() < 4 {
            assert_eq!(link.poll_send(), Some((key, key.wire(), Method::ResourcesRead)));
        }
        if keys.len() < 3 {
            link.handle_sent(key);
        }
    }
    link.handle_lost();
    link.handle_ready(at(1));
    assert_eq!(sends(&mut link), keys);
}

#[test]
fn what_comes_again_keeps_its_place_among_reused_slots() {
    let mut link = ready();
    let first = sent(&mut link, Method::ToolsCall);
    let second = sent(&mut link, Method::ToolsList);
    let _ = link.handle_answer(first.wire());
    let third = sent(&mut link, Method::ToolsList);
    let fourth = submit(&mut link, Method::ToolsCall);
    assert!(third.index() < second.index());
    link.handle_lost();
    link.handle_ready(at(1));
    assert_eq!(sends(&mut link), [second, third, fourth]);
}

#[test]
fn a_lost_link_leaves_nobody_to_tell() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsList);
    link.cancel(key);
    link.handle_lost();
    assert_eq!(link.poll_cancelled(), None);
    assert_eq!(failures(&mut link), [(key, Cause::Cancelled, Ran::Unknown)], "and it is not issued anew");
    link.handle_ready(at(1));
    assert_eq!(link.poll_send(), None);
    assert_eq!(link.poll_cancelled(), None);
}

#[test]
fn a_new_server_is_not_told_what_the_old_one_should_have_been() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    link.cancel(key);
    link.handle_lost();
    link.handle_ready(at(1));
    assert_eq!(link.poll_cancelled(), None);
    assert_eq!(failures(&mut link), [(key, Cause::Cancelled, Ran::Unknown)]);
}

#[test]
fn fail_queued_spares_what_is_on_its_way() {
    let mut link = ready();
    let sent = sent(&mut link, Method::ToolsCall);
    let queued = [(); 2].map(|()| submit(&mut link, Method::ToolsCall));
    link.fail_queued(Cause::StartFailed);
    assert_eq!(failures(&mut link), queued.map(|key| (key, Cause::StartFailed, Ran::No)));
    assert!(link.is_live(sent));
}

#[test]
fn fail_all_says_of_each_whether_it_may_have_run() {
    let mut link = ready();
    let sent = sent(&mut link, Method::ToolsList);
    let writing = submit(&mut link, Method::ToolsCall);
    let _ = link.poll_send();
    let queued = submit(&mut link, Method::ToolsCall);
    let cancelled = submit(&mut link, Method::ToolsCall);
    link.cancel(cancelled);
    link.fail_all(Cause::ShuttingDown);
    let mut failed = failures(&mut link);
    failed.sort_by_key(|(key, ..)| key.index());
    let cause = Cause::ShuttingDown;
    assert_eq!(
        failed,
        [
            (sent, cause, Ran::Unknown),
            (writing, cause, Ran::Unknown),
            (queued, cause, Ran::No),
            (cancelled, Cause::Cancelled, Ran::No),
        ]
    );
    assert_eq!((link.used(), link.poll_failure()), (0, None));
}

#[test]
fn local_answers_take_the_key_back() {
    let mut link = ready();
    let key = submit(&mut link, Method::Info);
    assert_eq!(link.poll_send(), Some((key, key.wire(), Method::Info)));
    link.poll_local(key);
    link.poll_local(key);
    assert!(!link.is_live(key));
    assert_eq!(link.used(), 0);
    assert_eq!(link.handle_answer(key.wire()), None);
}

#[test]
fn keys_found_by_their_place() {
    let mut link = ready();
    let key = submit(&mut link, Method::ToolsCall);
    assert_eq!(link.key_at(key.index()), Some(key));
    for index in [key.index() + 1, 4, usize::from(OWN_INDEX), usize::MAX] {
        assert_eq!(link.key_at(index), None);
    }
}

// Requests that are exchanges of their own.

#[test]
fn a_broken_exchange_puts_what_only_reads_once_more_under_another_id() {
    let mut link = ready();
    let read = sent(&mut link, Method::ToolsList);
    let call = sent(&mut link, Method::ToolsCall);
    link.handle_broken(read.wire());
    link.handle_broken(call.wire());
    assert_eq!(failures(&mut link), [(call, Cause::ConnectionLost, Ran::Unknown)]);
    assert_eq!(link.handle_answer(read.wire()), None, "nothing is with the server");
    let again = read.wire() | REISSUED;
    assert!(!link.awaits(again));
    assert_eq!(link.poll_send(), Some((read, again, Method::ToolsList)));
    assert!(link.awaits(again) && !link.awaits(read.wire()));
    assert_eq!(link.handle_answer(read.wire()), None, "an answer to the first one");
    link.handle_broken(again);
    assert_eq!(failures(&mut link), [(read, Cause::ConnectionLost, Ran::Unknown)]);
}

#[test]
fn a_request_that_is_put_again_keeps_its_time() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsList);
    let due = deadline(&link).unwrap();
    link.handle_broken(key.wire());
    let _ = link.poll_send();
    link.handle_timeout(at(due));
    assert_eq!(link.poll_cancelled(), Some((key.wire() | REISSUED, true)));
    assert_eq!(failures(&mut link), [(key, Cause::TimedOut, Ran::Unknown)]);
}

#[test]
fn a_session_that_is_gone_sends_a_request_back_once() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    link.handle_sent_back(key.wire());
    assert!(link.has_queued() && failures(&mut link).is_empty());
    assert_eq!(link.poll_send(), Some((key, key.wire(), Method::ToolsCall)), "it never ran");
    link.handle_sent_back(key.wire());
    assert_eq!(failures(&mut link), [(key, Cause::Expired, Ran::No)]);
}

#[test]
fn a_refused_exchange_says_why() {
    let mut link = ready();
    let key = sent(&mut link, Method::ToolsCall);
    let waiting = submit(&mut link, Method::ToolsCall);
    link.handle_refused(waiting.wire(), Cause::Refused, Ran::No);
    link.handle_refused(key.wire(), Cause::Unreachable, Ran::No);
    link.handle_refused(key.wire(), Cause::Refused, Ran::Unknown);
    assert_eq!(failures(&mut link), [(key, Cause::Unreachable, Ran::No)], "and only once");
    assert!(link.is_live(waiting), "what waits was not refused");
}

#[test]
fn a_held_request_has_time_and_is_never_put_again() {
    let mut link = ready();
    let read = sent(&mut link, Method::ResourcesRead);
    link.hold(read);
    assert_eq!(link.handle_progress(at(1), read.wire()), Some(read), "which does not start its time");
    link.handle_timeout(at(1_000));
    assert!(failures(&mut link).is_empty());
    assert_eq!(deadline(&link), None);
    link.release_held(at(100), read);
    assert_eq!(deadline(&link), Some(100 + ALLOWANCE.quiet.as_secs()));
    link.handle_lost();
    assert_eq!(failures(&mut link), [(read, Cause::ServerLost, Ran::Unknown)]);
    let mut link = ready();
    let read = sent(&mut link, Method::ResourcesRead);
    link.hold(read);
    link.handle_broken(read.wire());
    assert_eq!(failures(&mut link), [(read, Cause::ConnectionLost, Ran::Unknown)]);
}
