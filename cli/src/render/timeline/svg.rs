//! The timeline as a picture that needs nothing else: no script, no font, no other file; readable on light and on dark.

use std::fmt::{self, Display, Write as _};

use drowse_runtime::record::State;

use super::{Timeline, about, moment, word};
use crate::render::stats;
use crate::text::one_line;

const WIDTH: u64 = 960;
const MARGIN: u64 = 24;
const BAR_TOP: u64 = 64;
const BAR_HEIGHT: u64 = 48;
const LINE: u64 = 20;
/// So many events are written below the bar; of more, the last ones.
const EVENTS: usize = 40;
/// How much of an event's text there is room for.
const REASON: usize = 90;
const TICKS: u64 = 4;

pub(super) fn draw(timeline: &Timeline<'_>) -> String {
    let life = timeline.life;
    let states = timeline.states();
    let events = timeline.told();
    let (count, left_out) = (events.len(), events.len().saturating_sub(EVENTS));
    let events = events.iter().skip(left_out);
    let legend_top = BAR_TOP + BAR_HEIGHT + 48;
    let rows = (states.len() as u64).div_ceil(3);
    let events_top = legend_top + rows * LINE + 16;
    let height = events_top + (count.min(EVENTS) as u64 + 1) * LINE + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{} from {} to {} UTC\
         </title>\n{STYLE}<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
        Text(&life.listed.name.to_string()),
        moment(timeline.from),
        moment(life.now),
    );
    let mut put = |x: u64, y: u64, class: &str, text: &str| {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{}</text>", Text(text));
    };
    put(MARGIN, 32, "name", &life.listed.name.to_string());
    let totals = &life.totals;
    let counted =
        |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let line = format!(
        "{} now; {}, {}, {}, {} in all",
        life.listed.state.name(),
        counted(totals.calls, "call", "calls"),
        counted(totals.errors.total(), "error", "errors"),
        counted(totals.wakes, "wake", "wakes"),
        counted(totals.crashes, "crash", "crashes"),
    );
    put(MARGIN, 52, "dim", &line);
    let whole = life.now.saturating_sub(timeline.from).max(1);
    let place = |at: u64| {
        let room = (WIDTH - 2 * MARGIN) as f64;
        MARGIN as f64 + at.saturating_sub(timeline.from) as f64 / whole as f64 * room
    };
    for tick in 0..=TICKS {
        let at = timeline.from + (u128::from(whole) * u128::from(tick) / u128::from(TICKS)) as u64;
        let class = match tick {
            0 => "dim",
            TICKS => "dim end",
            _ => "dim middle",
        };
        put(place(at) as u64, BAR_TOP + BAR_HEIGHT + 18, class, &moment(at));
    }
    for (number, (state, lasted)) in states.iter().enumerate() {
        let (column, row) = (number as u64 % 3, number as u64 / 3);
        let (x, y) = (MARGIN + column * 300 + 18, legend_top + row * LINE);
        put(x, y, "", &format!("{} {}", word(*state), stats::span(*lasted)));
    }
    let mut y = events_top;
    if left_out > 0 {
        put(MARGIN, y, "dim", &format!("{left_out} earlier events are not shown"));
    }
    for event in events {
        y += LINE;
        put(MARGIN, y, "dim", &moment(event.at));
        let what = event
            .state
            .map_or_else(|| event.did.clone().unwrap_or_default(), |state| state.name().to_owned());
        put(MARGIN + 170, y, "", &one_line(&what, 14));
        put(MARGIN + 280, y, "", &one_line(&about(event), REASON));
    }
    for period in &timeline.periods {
        let (from, to) = (place(period.from), place(period.to));
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.2}\" y=\"{BAR_TOP}\" width=\"{:.2}\" height=\"{BAR_HEIGHT}\" class=\"{}\"><title>{} \
             {} to {} ({})</title></rect>",
            // Nothing is too short to be seen.
            (to - from).max(0.75),
            class(period.state),
            word(period.state),
            moment(period.from),
            moment(period.to),
            stats::span(period.to - period.from),
        );
    }
    for (number, (state, _)) in states.iter().enumerate() {
        let (column, row) = (number as u64 % 3, number as u64 / 3);
        let (x, y) = (MARGIN + column * 300, legend_top + row * LINE - 11);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" class=\"{}\"/>",
            class(*state)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

const STYLE: &str = "<style>
text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}
.name{font-size:18px;font-weight:600}.dim{fill:#59636e}.middle{text-anchor:middle}.end{text-anchor:end}
.ground{fill:#fff}.live{fill:#1a7f37}.suspended{fill:#7fb88f}.connecting,.reconnecting{fill:#3192aa}
.idle{fill:#d1d9e0}.dormant{fill:#e8ecf0}.disconnected{fill:#bf8700}.expired{fill:#d4a72c}
.unauthorized{fill:#bc4c00}.crashed{fill:#cf222e}.unknown{fill:#8250df}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}.ground{fill:#0d1117}
.idle{fill:#3d444d}.dormant{fill:#262c36}.live{fill:#3fb950}.crashed{fill:#f85149}.unknown{fill:#ab7df8}}
</style>
";

fn class(state: Option<State>) -> &'static str {
    word(state)
}

/// Text within XML: what would be markup is escaped, and what XML does not have is left out.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(' ')?,
                // XML 1.0 has no control characters, and no such pairs of bytes at the end of a plane.
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
