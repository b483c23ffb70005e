//! A terminal that is drawn on as a whole, and given back as it was.
//!
//! Owns the alternate screen, the keyboard without lines and echo, and the signals that have to do with a terminal.
//! Whatever ends the program but SIGKILL, the terminal is as before: a panic that aborts, a signal, Ctrl-Z.

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use drowse_runtime::wait::{Wait, Woken};
use rustix::event::PollFlags;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::{SIGTSTP, SIGWINCH};

use crate::interrupt::Interrupt;

/// The alternate screen, without a cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
/// Back to what was there before.
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// What is to be restored, while there is something: for a panic, which does not get to drop anything.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    tty: File,
    modes: Termios,
}

/// What a user, or time, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Key(Key),
    /// The terminal has another size, or is ours again.
    Redraw,
    /// The moment that was waited for.
    Time,
    /// A signal that ends programs.
    Interrupt,
    /// The terminal is gone.
    Gone,
}

/// A key that means something to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The terminal, while it is drawn on.
#[derive(Debug)]
pub(crate) struct Screen {
    tty: File,
    typed: Vec<u8>,
    resized: PipeReader,
    suspended: PipeReader,
}

/// How wide standard output is, if it is a terminal.
pub(crate) fn width() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(stdout).ok()).flatten()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

impl Screen {
    /// Takes the terminal over. Fails where there is none to be typed on.
    pub(crate) fn enter() -> io::Result<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty")?;
        let (resized, resize) = io::pipe()?;
        signal_hook::low_level::pipe::register(SIGWINCH, resize)?;
        let (suspended, suspend) = io::pipe()?;
        signal_hook::low_level::pipe::register(SIGTSTP, suspend)?;
        let screen = Self { tty, typed: Vec::new(), resized, suspended };
        screen.take()?;
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            restore();
            usual(what);
        }));
        Ok(screen)
    }

    fn take(&self) -> io::Result<()> {
        let modes = tcgetattr(&self.tty)?;
        let mut raw = modes.clone();
        // Ctrl-C and Ctrl-Z stay signals.
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        *locked() = Some(Before { tty: self.tty.try_clone()?, modes });
        tcsetattr(&self.tty, OptionalActions::Flush, &raw)?;
        show(ENTER)
    }

    /// Columns and lines.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.tty) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// Shows these lines, each of which fits, and nothing else.
    pub(crate) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::from("\u{1b}[H");
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\u{1b}[K");
        }
        text.push_str("\u{1b}[J");
        show(&text)
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self, until: Instant, interrupt: &Interrupt) -> io::Result<Event> {
        loop {
            if let Some(key) = take_key(&mut self.typed) {
                return Ok(Event::Key(key));
            }
            let wait = Wait { deadline: Some(until), interrupt: Some(interrupt.fd()) };
            let fds = [self.tty.as_fd(), self.resized.as_fd(), self.suspended.as_fd()];
            match wait.poll(&fds.map(|fd| (fd, PollFlags::IN)))? {
                Woken::Deadline => return Ok(Event::Time),
                Woken::Interrupted => return Ok(Event::Interrupt),
                Woken::Ready => {}
            }
            let now = Wait { deadline: Some(Instant::now()), interrupt: None };
            let is_ready = |fd| matches!(now.readable(fd), Ok(Woken::Ready));
            if is_ready(self.suspended.as_fd()) {
                self.suspended.read_exact(&mut [0])?;
                restore();
                // Stops here, until somebody lets us go on.
                signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
                self.take()?;
                return Ok(Event::Redraw);
            }
            if is_ready(self.resized.as_fd()) {
                self.resized.read_exact(&mut [0])?;
                return Ok(Event::Redraw);
            }
            if !is_ready(self.tty.as_fd()) {
                continue;
            }
            let mut bytes = [0; 256];
            match self.tty.read(&mut bytes) {
                Ok(0) => return Ok(Event::Gone),
                Ok(read) => self.typed.extend_from_slice(bytes.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(Event::Gone),
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, if it was taken.
fn restore() {
    if let Some(before) = locked().take() {
        let _ = show(LEAVE);
        let _ = tcsetattr(&before.tty, OptionalActions::Flush, &before.modes);
    }
}

fn locked() -> std::sync::MutexGuard<'static, Option<Before>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Takes the next key from what was typed. What is no key that anybody asks for is dropped.
fn take_key(typed: &mut Vec<u8>) -> Option<Key> {
    loop {
        let (key, length) = match typed.as_slice() {
            [] => return None,
            [0x1b, b'[' | b'O', rest @ ..] => {
                let Some(end) = rest.iter().position(|byte| (0x40..0x7f).contains(byte)) else {
                    // Terminals send a key at once: a part of one is none.
                    typed.clear();
                    return None;
                };
                let key = match &rest[..=end] {
                    b"A" => Some(Key::Up),
                    b"B" => Some(Key::Down),
                    b"H" | b"1~" | b"7~" => Some(Key::Home),
                    b"F" | b"4~" | b"8~" => Some(Key::End),
                    b"5~" => Some(Key::PageUp),
                    b"6~" => Some(Key::PageDown),
                    _ => None,
                };
                (key, 2 + end + 1)
            }
            [byte @ b' '..=b'~', ..] => (Some(Key::Char(char::from(*byte))), 1),
            _ => (None, 1),
        };
        typed.drain(..length);
        if key.is_some() {
            return key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(typed: &[u8]) -> Vec<Key> {
        let mut typed = typed.to_vec();
        std::iter::from_fn(|| take_key(&mut typed)).collect()
    }

    #[test]
    fn keys_are_told_from_what_terminals_send() {
        let wanted = [Key::Char('j'), Key::Up, Key::Down, Key::PageDown, Key::Char('q')];
        assert_eq!(keys(b"j\x1b[A\x1bOB\x1b[6~q"), wanted);
        assert_eq!(keys(b"\x1b[1;5A\x01\x7f\xc3\xa4\x1bx"), [Key::Char('x')]);
        assert_eq!(keys(b"\x1b[1~\x1b[F"), [Key::Home, Key::End]);
        assert_eq!(keys(b"\x1b["), []);
        assert_eq!(keys(b"\x1b[12"), []);
    }
}
