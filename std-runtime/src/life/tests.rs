use std::os::unix::fs::PermissionsExt;

use super::*;

fn file() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("life.jsonl");
    (dir, path)
}

fn read(path: &Path) -> Life {
    Life::of(&File::open(path).unwrap()).unwrap()
}

fn line(at: u64, state: State) -> Line {
    Line { at, state: Some(state), generation: Some(1), ..Line::default() }
}

fn calls(line: Line, latencies: &[u64], theirs: u64) -> Line {
    let mut histogram = Histogram::new();
    latencies.iter().for_each(|micros| histogram.record_many(*micros, 1));
    let calls = latencies.len() as u64;
    line.with_counts(&Counts { calls, theirs, ..Counts::default() }, &histogram)
}

/// A life of `rounds` wakes and sleeps, with everything in it.
fn life(rounds: u64) -> Vec<Line> {
    let mut lines = vec![Line { did: Some("connect".into()), ..line(1000, State::Dormant) }];
    for round in 0..rounds {
        let at = 10_000 + round * 1000;
        lines.push(Line { fresh: true, ..line(at, State::Connecting) });
        lines.push(line(at + 10, State::Live));
        let end = match round % 5 {
            0 => Line { memory: Some(round << 20), ..line(at + 200, State::Idle) },
            1 => Line { why: Some("x\n\u{1b}[31m".repeat(60)), ..line(at + 200, State::Crashed) },
            2 => line(at + 200, State::Expired),
            3 => Line { told: true, ..line(at + 200, State::Idle) },
            // Killed: nobody wrote its end.
            _ => continue,
        };
        lines.push(calls(end, &[round, 1000 * round], round % 2));
    }
    lines
}

#[test]
fn a_life_is_written_and_read_and_only_its_owner_may() {
    let (_dir, path) = file();
    let lines = life(5);
    for line in &lines {
        append_to(&path, line, CAP).unwrap();
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let life = read(&path);
    assert_eq!((life.damaged, life.newer, life.lines.len()), (0, 0, lines.len()));
    let totals = &life.totals;
    assert_eq!((totals.wakes, totals.sleeps, totals.crashes, totals.expiries), (5, 1, 1, 1));
    assert_eq!((totals.calls, totals.errors.theirs, totals.latency.histogram().count()), (8, 2, 8));
    // 10 s of dormancy until the first start, then 200 ms awake and 800 ms otherwise; the last one goes on.
    assert_eq!((totals.awake_ms, totals.asleep_ms, totals.down_ms), (4 * 200 + 10, 9000 + 2 * 800, 2 * 800));
    let long = life.lines[6].why.as_ref().unwrap();
    assert_eq!(long.chars().count(), WHY + 1);
}

#[test]
fn what_a_bridge_did_not_write_is_not_known() {
    let mut totals = Totals::default();
    for line in [line(0, State::Connecting), line(10, State::Live)] {
        totals.add(&line);
    }
    let killed = totals.until(1010, false, None);
    assert_eq!((killed.awake_ms, killed.unknown_ms, killed.lost), (10, 1000, 1));
    let alive = totals.until(1010, true, None);
    assert_eq!((alive.awake_ms, alive.unknown_ms, alive.lost), (1010, 0, 0));
    // It came as far as its record.
    let recorded = totals.until(1010, false, Some((State::Idle, 510)));
    assert_eq!((recorded.awake_ms, recorded.asleep_ms, recorded.lost, recorded.sleeps), (510, 500, 0, 1));
    totals.add(&Line { fresh: true, ..line(2010, State::Connecting) });
    assert_eq!((totals.awake_ms, totals.unknown_ms, totals.lost), (10, 2000, 1));
    // A second attempt of the same bridge is no loss.
    totals.add(&line(2020, State::Connecting));
    assert_eq!((totals.awake_ms, totals.lost), (20, 1));
}

#[test]
fn memory_is_saved_while_it_sleeps() {
    let mut totals = Totals::default();
    for line in [
        line(0, State::Connecting),
        line(0, State::Live),
        Line { memory: Some(100 << 20), ..line(1000, State::Idle) },
        // The same once more, with what came late.
        calls(line(1500, State::Idle), &[5], 0),
        line(1000 + 3_600_000, State::Connecting),
    ] {
        totals.add(&line);
    }
    assert!((totals.saved_mib_hours() - 100.0).abs() < 1e-9, "{}", totals.saved_mib_hours());
    assert_eq!((totals.sleeps, totals.calls), (1, 1));
    let share = totals.share_asleep().unwrap();
    assert!(share > 0.99 && share < 1.0);
    assert_eq!(Totals::default().share_asleep(), None);
}

#[test]
fn a_clock_that_goes_back_lets_no_time_pass() {
    let mut totals = Totals::default();
    for line in [line(5000, State::Live), line(1000, State::Idle), line(1500, State::Live)] {
        totals.add(&line);
    }
    assert_eq!((totals.awake_ms, totals.asleep_ms, totals.at), (0, 500, 1500));
    assert_eq!(totals.until(0, true, None).awake_ms, 0);
    totals.add(&line(u64::MAX, State::Idle));
    let _ = totals.until(u64::MAX, false, None);
}

#[test]
fn lines_that_make_no_sense_are_passed_over_and_newer_ones_kept() {
    let (_dir, path) = file();
    let good = serde_json::to_string(&calls(line(7, State::Live), &[3], 0)).unwrap();
    let newer = r#"{"at":8,"v":2,"state":"hibernating","x":[1]}"#;
    let text = format!(
        "{good}\n\n\u{0}garbage\n{newer}\n[]\n{{\"at\":9}}\n{{\"at\":9,\"state\":\"flying\"}}\n{{\"at\":-1,\"state\":\"idle\"}}\n{{\"at\":9,\"sta"
    );
    std::fs::write(&path, &text).unwrap();
    let life = read(&path);
    assert_eq!((life.lines.len(), life.damaged, life.newer, life.totals.calls), (1, 6, 1, 1));
    // What is appended does not become a part of what was cut off.
    append_to(&path, &line(10, State::Idle), CAP).unwrap();
    let life = read(&path);
    assert_eq!((life.lines.len(), life.damaged, life.newer), (2, 6, 1));
    // Folded, the newer line stays for the newer drowse.
    append_to(&path, &line(11, State::Live), 16).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(newer), "{text}");
    let folded = read(&path);
    assert_eq!((folded.newer, folded.totals.calls, folded.totals.wakes), (1, 1, 2));
    assert_eq!(folded.damaged + folded.totals.damaged, 6);
}

#[test]
fn ten_thousand_lines_fold_into_the_same_totals() {
    const SMALL: u64 = 16 << 10;
    let (_dir, path) = file();
    let mut wanted = Totals::default();
    for line in life(3600) {
        append_to(&path, &line, SMALL).unwrap();
        // What is too long is cut when it is written.
        wanted.add(&line);
    }
    assert!(wanted.lines > 9_800, "{}", wanted.lines);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size <= SMALL + 4096, "{size}");
    let life = read(&path);
    assert!(life.lines.len() < 500);
    assert_eq!(life.totals, wanted);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn lines_of_several_writers_are_whole_and_none_is_lost() {
    const SMALL: u64 = 8 << 10;
    let (_dir, path) = file();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for at in 0..500 {
                    append_to(&path, &calls(line(at, State::Live), &[1], 0), SMALL).unwrap();
                }
            });
        }
    });
    let life = read(&path);
    assert_eq!((life.damaged, life.totals.damaged, life.totals.lines, life.totals.calls), (0, 0, 2000, 2000));
}

#[test]
fn what_cannot_be_written_is_an_error_and_nothing_else() {
    let (dir, _) = file();
    let gone = dir.path().join("gone/life.jsonl");
    assert_eq!(append_to(&gone, &line(1, State::Live), CAP).unwrap_err().kind(), io::ErrorKind::NotFound);
    let home = Home::new(dir.path().join("h"), None);
    let name = SessionName::new("x").unwrap();
    note(&home, &name, "connect", None);
    assert_eq!(Life::read(&home, &name).unwrap().totals, Totals::default());
}

#[test]
fn periods_follow_the_states() {
    let (_dir, path) = file();
    for line in life(5) {
        append_to(&path, &line, CAP).unwrap();
    }
    let life = read(&path);
    let periods = life.periods(20_000, false, None);
    let states: Vec<_> = periods.iter().map(|period| period.state).collect();
    use State::{Connecting, Crashed, Dormant, Expired, Idle, Live};
    let wanted = [
        Dormant, Connecting, Live, Idle, Connecting, Live, Crashed, Connecting, Live, Expired, Connecting,
        Live, Idle, Connecting,
    ];
    let wanted: Vec<_> = wanted.into_iter().map(Some).chain([None]).collect();
    assert_eq!(states, wanted);
    assert!(periods.windows(2).all(|pair| pair[0].to == pair[1].from));
    assert_eq!(periods.last().map(|last| last.to), Some(20_000));
    assert_eq!(life.periods(20_000, true, None).last().and_then(|last| last.state), Some(Live));
    let ended = life.periods(20_000, false, Some((Idle, 15_000)));
    assert_eq!(ended.last(), Some(&Period { from: 15_000, to: 20_000, state: Some(Idle) }));
    // Folded, what is left begins where the rest ended.
    append_to(&path, &line(20_000, Idle), 1200).unwrap();
    let folded = read(&path);
    let periods = folded.periods(21_000, false, None);
    assert_eq!(periods[0].from, folded.folded.as_ref().unwrap().at);
    assert!(periods.len() < wanted.len() && periods.iter().all(|period| period.from <= period.to));
    assert_eq!(Life::default().periods(1, false, None), []);
}
