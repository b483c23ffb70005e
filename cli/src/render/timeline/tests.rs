use drowse_runtime::caller::Listed;
use drowse_runtime::home::SessionName;
use drowse_runtime::life::{Life, Totals};

use super::*;

const HOUR: u64 = 3_600_000;

fn line(at: u64, state: State) -> Line {
    Line { at, state: Some(state), ..Line::default() }
}

fn life(lines: Vec<Line>, now: u64) -> LifeNow {
    let mut totals = Totals::default();
    lines.iter().for_each(|line| totals.add(line));
    let error = || drowse_runtime::home::HomeError::NoHome.into();
    LifeNow {
        listed: Listed {
            status: None,
            name: SessionName::new("s").unwrap(),
            record: Err(error()),
            state: State::Idle,
            known: None,
            state_error: None,
            bridge_pid: None,
            listener: None,
        },
        life: Life { totals: totals.clone(), lines, ..Life::default() },
        now,
        totals: totals.until(now, false, None),
        awake_since: None,
        silent: false,
        memory: None,
    }
}

fn day() -> Vec<Line> {
    let hostile = "<script>alert('&')</script>\u{1b}[31m\u{202e}\u{0}\u{ffff}]]>".to_owned();
    vec![
        line(HOUR, State::Dormant),
        Line { fresh: true, ..line(10 * HOUR, State::Connecting) },
        line(10 * HOUR + 2000, State::Live),
        Line {
            calls: 3,
            memory: Some(10 << 20),
            why: Some("not used for 60 s".into()),
            ..line(11 * HOUR, State::Idle)
        },
        Line { fresh: true, ..line(20 * HOUR, State::Connecting) },
        Line { why: Some(hostile.clone()), ..line(20 * HOUR + 5, State::Crashed) },
        Line { did: Some(hostile), ..Line::default() },
    ]
}

#[test]
fn the_bar_shows_every_state_and_fits_the_width() {
    let life = life(day(), 25 * HOUR);
    let timeline = Timeline::new(&life, Some(24 * HOUR));
    for width in [1, 20, 40, 80, 200] {
        let text = timeline.to_text(width);
        let bar = text.lines().nth(1).unwrap();
        assert_eq!(bar.len(), (width - 1).max(LEAST_CELLS));
        for letter in ['.', 'L', '-', 'X'] {
            // Ten cells are too few for what lies close together.
            assert!(width < 40 || bar.contains(letter), "{letter} in {bar}");
        }
        assert!(width < 40 || text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
    let text = timeline.to_text(80);
    assert!(text.contains("L live          59 min 58 s"), "{text}");
    assert!(text.contains("idle         not used for 60 s; 3 calls; 10.0 MiB"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
}

#[test]
fn a_start_that_tries_both_eras_is_one_line() {
    let tried = vec![
        line(HOUR, State::Connecting),
        line(HOUR + 5, State::Connecting),
        line(HOUR + 9, State::Live),
        line(2 * HOUR, State::Connecting),
    ];
    let life = life(tried, 3 * HOUR);
    let timeline = Timeline::new(&life, None);
    assert_eq!(timeline.told().len(), 3);
    assert_eq!(timeline.to_json()["events"].as_array().unwrap().len(), 4);
}

#[test]
fn only_the_wanted_part_is_shown() {
    let life = life(day(), 25 * HOUR);
    let timeline = Timeline::new(&life, Some(10 * HOUR));
    let states: Vec<_> = timeline.periods.iter().map(|period| period.state.map(State::name)).collect();
    assert_eq!(states, [Some("idle"), Some("connecting"), Some("crashed")]);
    assert_eq!((timeline.from, timeline.periods[0].from), (15 * HOUR, 15 * HOUR));
    let json = timeline.to_json();
    assert_eq!(json["events"].as_array().unwrap().len(), 2);
    assert_eq!(Timeline::new(&life, None).from, HOUR);
    // Longer than it lived.
    assert_eq!(Timeline::new(&life, Some(u64::MAX)).from, HOUR);
}

#[test]
fn a_life_of_nothing_is_shown_too() {
    for lines in [Vec::new(), vec![line(u64::MAX, State::Live)], vec![line(5, State::Idle)]] {
        let life = life(lines, 5);
        let timeline = Timeline::new(&life, None);
        assert!(timeline.to_text(80).contains("nothing is written down"));
        assert!(roxmltree::Document::parse(&timeline.to_svg()).is_ok());
        let _ = timeline.to_json();
    }
}

#[test]
fn the_picture_is_well_formed_and_nothing_in_it_is_markup() {
    let mut lines = day();
    for n in 0..500 {
        lines.push(line(21 * HOUR + n * 1000, if n % 2 == 0 { State::Live } else { State::Idle }));
    }
    let life = life(lines, 25 * HOUR);
    for since in [None, Some(5 * HOUR), Some(24 * HOUR)] {
        let svg = Timeline::new(&life, since).to_svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let root = document.root_element();
        assert_eq!(
            (root.tag_name().name(), root.tag_name().namespace()),
            ("svg", Some("http://www.w3.org/2000/svg"))
        );
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            assert!(["svg", "title", "style", "rect", "text"].contains(&node.tag_name().name()), "{node:?}");
            assert!(node.attributes().all(|attribute| !attribute.name().starts_with("on")));
        }
        assert!(!svg.contains("http:") || svg.matches("http:").count() == 1, "nothing from elsewhere");
    }
    let svg = Timeline::new(&life, None).to_svg();
    assert!(svg.contains("class=\"crashed\"") && !svg.contains("<script"));
}
