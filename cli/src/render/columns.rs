//! Text in columns, for tables that fit a terminal.
//!
//! Owns widths and what is left out where there is no room. Cells are of one line, with everything foreign in them
//! escaped before.

use crate::output::{Style, paint};

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Whether its cells end at one line, as numbers do.
    pub(crate) right: bool,
    /// The columns with the smallest number are left out first where there is no room; those with 255 never.
    pub(crate) keep: u8,
}

/// What stands in a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Option<Style>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), style: None }
    }
}

impl Cell {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style: Some(style) }
    }
}

/// Lays out a line of titles and the rows. Within `width`, if there is one, as many columns as have room; the last one
/// is cut where it does not fit.
pub(crate) fn lay_out(columns: &[Column], rows: &[Vec<Cell>], width: Option<usize>) -> Vec<String> {
    let of = |row: &Vec<Cell>, index: usize| row.get(index).map_or(0, |cell| cell.text.chars().count());
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            rows.iter().map(|row| of(row, index)).chain([column.title.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let shown = shown(columns, &widths, width);
    let title = |column: &Column| Cell::styled(column.title, Style::Bold);
    let titles: Vec<Cell> = columns.iter().map(title).collect();
    std::iter::once(&titles).chain(rows).map(|row| line(columns, &widths, &shown, row, width)).collect()
}

const GAP: usize = 2;

/// The numbers of the columns that there is room for.
fn shown(columns: &[Column], widths: &[usize], width: Option<usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(width) = width else { return shown };
    loop {
        let needed: usize = shown.iter().map(|index| widths.get(*index).copied().unwrap_or(0) + GAP).sum();
        let weakest = shown.iter().copied().min_by_key(|index| columns.get(*index).map_or(255, |it| it.keep));
        match weakest.filter(|index| columns.get(*index).is_some_and(|column| column.keep < 255)) {
            Some(weakest) if needed > width + GAP => shown.retain(|index| *index != weakest),
            _ => return shown,
        }
    }
}

fn line(columns: &[Column], widths: &[usize], shown: &[usize], row: &[Cell], width: Option<usize>) -> String {
    let mut line = String::new();
    let mut at = 0;
    let none = Cell::default();
    for (place, index) in shown.iter().enumerate() {
        if place > 0 {
            line.push_str(&" ".repeat(GAP));
            at += GAP;
        }
        let cell = row.get(*index).unwrap_or(&none);
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(at));
        let text = cut(&cell.text, room);
        let length = text.chars().count();
        let wide = widths.get(*index).copied().unwrap_or(0).min(room);
        let pad = " ".repeat(wide.saturating_sub(length));
        let text = cell.style.map_or_else(|| text.clone(), |style| paint(style, &text));
        let is_last = place + 1 == shown.len();
        if columns.get(*index).is_some_and(|column| column.right) {
            line.push_str(&pad);
            line.push_str(&text);
        } else {
            line.push_str(&text);
            if !is_last {
                line.push_str(&pad);
            }
        }
        at += wide;
    }
    line
}

fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain((room > 0).then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { title: "NAME", right: false, keep: 255 },
        Column { title: "CALLS", right: true, keep: 2 },
        Column { title: "ERA", right: false, keep: 1 },
        Column { title: "COMMAND", right: false, keep: 3 },
    ];

    fn table(width: Option<usize>) -> Vec<String> {
        let row = |name: &str, calls: &str, command: &str| {
            vec![name.into(), calls.into(), "modern".into(), command.into()]
        };
        lay_out(&COLUMNS, &[row("@a", "7", "cat -"), row("@longer", "12345678", "x")], width)
    }

    #[test]
    fn numbers_end_and_words_begin_at_one_line() {
        assert_eq!(
            table(None),
            [
                "NAME        CALLS  ERA     COMMAND",
                "@a              7  modern  cat -",
                "@longer  12345678  modern  x"
            ]
        );
    }

    #[test]
    fn the_least_column_goes_first_and_what_is_left_is_cut() {
        assert_eq!(table(Some(34)), table(None));
        assert_eq!(table(Some(33))[0], "NAME        CALLS  COMMAND");
        assert_eq!(table(Some(25))[1], "@a       cat -");
        assert_eq!(table(Some(10))[2], "@longer");
        assert_eq!(table(Some(5)), ["NAME", "@a", "@lon…"]);
        assert_eq!(table(Some(0)), ["", "", ""]);
    }
}
