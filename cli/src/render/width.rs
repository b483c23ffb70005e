//! How wide output may be.

use std::io;

/// Where nothing else is known.
const COLUMNS: usize = 80;

/// The columns of the terminal that stdout is; elsewhere what `COLUMNS` says, if anything.
pub(crate) fn known() -> Option<usize> {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if terminal > 0 {
        return Some(terminal);
    }
    let said = std::env::var("COLUMNS").ok()?;
    said.parse().ok().filter(|columns| *columns > 0)
}

/// The same, or the usual width.
pub(crate) fn usual() -> usize {
    known().unwrap_or(COLUMNS)
}
