//! What the board offers, as safe functions. The C side is `board.c`; both lists of numbers must agree.

use core::ptr;

/// The longest message that the board hands over at once.
pub const MESSAGE: usize = 512;

mod c {
    unsafe extern "C" {
        pub(super) safe fn board_now() -> u64;
        pub(super) fn board_event(until: u64, argument: *mut u64, bytes: *mut u8, length: *mut usize) -> u32;
        pub(super) fn board_read(bytes: *mut u8, capacity: usize) -> usize;
        pub(super) fn board_do(what: u32, argument: u64, bytes: *const u8, length: usize) -> bool;
        pub(super) fn board_print(bytes: *const u8, length: usize, number: u64);
        pub(super) safe fn board_checksum(value: u64);
    }
}

/// Something happened.
#[derive(Clone, Copy)]
pub enum Event {
    /// Time to end the program.
    Finish,
    /// A new machine; the argument says how it is set.
    Fresh(u64),
    /// A caller sent a request.
    Request { bytes: [u8; MESSAGE], length: usize },
    /// A caller does not want the answer any more; the argument picks the request.
    Cancel(u64),
    /// The server wrote something.
    Readable,
    /// Nothing happened but time.
    Tick,
    /// Something about the server's process.
    Process(Process),
    /// Somebody wants something else of the server; the argument is free.
    Wish(Wish, u64),
    /// Something about an exchange of HTTP, perhaps with a part of its body.
    Network(Network, [u8; MESSAGE], usize),
    /// Bytes to try every reader on.
    Bytes { bytes: [u8; MESSAGE], length: usize },
}

/// Something about an exchange of HTTP.
#[derive(Clone, Copy)]
pub struct Network {
    /// Its number.
    pub exchange: usize,
    /// 0: the response began; 1: a part of its body came; 2: the body is over; 3: there is none, or no more.
    pub kind: u8,
    /// The status.
    pub status: u16,
    /// The type of the body.
    pub content: Option<&'static [u8]>,
    /// The body is compressed.
    pub encoded: bool,
    /// The server gives a session.
    pub session: bool,
    /// There was a connection.
    pub connected: bool,
    /// Seconds until the request may be sent again.
    pub pause: u64,
}

impl Network {
    fn from(argument: u64) -> Self {
        let bit = |at: u32| argument >> at & 1 != 0;
        Self {
            exchange: (argument & 0xff) as usize,
            kind: (argument >> 8 & 3) as u8,
            status: (argument >> 16) as u16,
            content: match argument >> 32 & 3 {
                0 => Some(b"application/json"),
                1 => Some(b"Text/Event-Stream; charset=utf-8"),
                2 => Some(b"text/html"),
                _ => None,
            },
            encoded: bit(34),
            session: bit(35),
            connected: bit(36),
            pause: argument >> 40 & 0xff,
        }
    }
}

/// Something about the server's process.
#[derive(Clone, Copy)]
pub enum Process {
    /// It closed its output.
    Lost,
    /// It ended with that status.
    Exited(i32),
    /// It was ended by that signal.
    Killed(i32),
    /// None of its tree is left.
    TreeGone,
    /// It said that the session is gone.
    Expired,
    /// It refused the credentials.
    Unauthorized,
}

/// What else can be wanted.
#[derive(Clone, Copy)]
pub enum Wish {
    /// The server awake.
    Wake,
    /// A deferral begins.
    Defer,
    /// A deferral ends.
    Undefer,
    /// The server shown or not.
    Show,
    /// Another idle period, in seconds.
    Idle,
    /// Another program to take over.
    Leave,
    /// The end.
    Close,
    /// The server's input full, or not.
    Writable,
}

/// What is to be done.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Do {
    /// Write a record; the argument is generation and state. False if it failed.
    Persist = 0,
    /// Start the server. False if it failed.
    Spawn = 1,
    /// Close its input.
    CloseInput = 2,
    /// Terminate it.
    Terminate = 3,
    /// Kill it.
    Kill = 4,
    /// The machine is done.
    Retire = 5,
    /// Write a part of a message, or its end (no bytes), to the server. False if it was not taken.
    ToServer = 6,
    /// Write a part of a message, or its end, to the caller.
    ToCaller = 7,
    /// A request was accepted; the argument is its wire id.
    Accepted = 8,
    /// A request was refused.
    Refused = 9,
    /// A key came back; the argument is its wire id.
    Released = 10,
    /// A key is out that the machine does not know any more.
    Stray = 11,
    /// A replayed trace says something else than the machine.
    Diverged = 12,
    /// The server's notifications and the like.
    Noticed = 13,
    /// Begin the exchange of that number; the message for the server that follows, if one does, belongs to it.
    Exchange = 14,
    /// The exchange of that number is over.
    Over = 15,
}

/// Microseconds since the board was switched on.
pub fn now() -> u64 {
    c::board_now()
}

/// Waits for the next event, at most until `until`.
pub fn event(until: Option<u64>) -> Event {
    let mut argument = 0;
    let mut bytes = [0; MESSAGE];
    let mut length = MESSAGE;
    // SAFETY: the board writes one number through the first and third pointer, and at most as many bytes through the
    // second as the third says.
    let kind = unsafe {
        c::board_event(
            until.unwrap_or(u64::MAX),
            ptr::from_mut(&mut argument),
            bytes.as_mut_ptr(),
            ptr::from_mut(&mut length),
        )
    };
    let length = length.min(MESSAGE);
    match kind {
        0 => Event::Finish,
        1 => Event::Fresh(argument),
        2 => Event::Request { bytes, length },
        3 => Event::Cancel(argument),
        4 => Event::Readable,
        5 => Event::Tick,
        6 => Event::Process(Process::Lost),
        7 => Event::Process(Process::Exited(argument as i32)),
        8 => Event::Process(Process::Killed(argument as i32)),
        9 => Event::Process(Process::TreeGone),
        10 => Event::Process(Process::Expired),
        11 => Event::Process(Process::Unauthorized),
        12 => Event::Wish(Wish::Wake, argument),
        13 => Event::Wish(Wish::Defer, argument),
        14 => Event::Wish(Wish::Undefer, argument),
        15 => Event::Wish(Wish::Show, argument),
        16 => Event::Wish(Wish::Idle, argument),
        17 => Event::Wish(Wish::Leave, argument),
        18 => Event::Wish(Wish::Close, argument),
        19 => Event::Wish(Wish::Writable, argument),
        20 => Event::Network(Network::from(argument), bytes, length),
        _ => Event::Bytes { bytes, length },
    }
}

/// Reads what the server wrote.
pub fn read(space: &mut [u8]) -> usize {
    // SAFETY: the board writes at most `capacity` bytes.
    unsafe { c::board_read(space.as_mut_ptr(), space.len()) }.min(space.len())
}

/// Has the board do something with a number.
pub fn act(what: Do, argument: u64) -> bool {
    // SAFETY: no bytes are read.
    unsafe { c::board_do(what as u32, argument, ptr::null(), 0) }
}

/// Has the board take a part of a message.
pub fn write(what: Do, part: &[u8]) -> bool {
    // SAFETY: the board reads at most `length` bytes.
    unsafe { c::board_do(what as u32, 1, part.as_ptr(), part.len()) }
}

/// Has the board take the end of a message.
pub fn end_of_message(what: Do) -> bool {
    act(what, 0)
}

/// Uses a result, so that its computation stays.
pub fn checksum(value: u64) {
    c::board_checksum(value);
}

/// Prints sizes in bytes.
pub fn sizes(list: &[(&str, usize)]) {
    for (name, size) in list {
        // SAFETY: the board reads at most `length` bytes.
        unsafe { c::board_print(name.as_ptr(), name.len(), *size as u64) };
    }
}
