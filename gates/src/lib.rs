//! The whole of drowse-core in a program without operating system library: no std, no allocator, no unwinder, and no
//! panic.
//!
//! `check.sh` links this with `start.c` and `board.c`, which are what a device would provide: memory functions, a clock,
//! a caller and a server. [`adapter`] is the loop that an embedder writes, with [`remote`] for a server behind a URL;
//! [`surface`] calls what that loop has no use
//! for, so that it is proved as well. All that the core reads comes from the C side, which is compiled on its own, so
//! the optimiser cannot know any of it.
#![no_std]

mod adapter;
mod board;
mod held;
mod http;
mod remote;
mod surface;
mod tasks;
mod traced;
mod translation;

use core::panic::PanicInfo;

use adapter::{Adapter, Next};
use board::Event;

/// Only the loop itself is wanted.
const LEAN: bool = cfg!(feature = "lean");

/// Servers behind a URL are part of the loop.
// SAFETY: no other symbol of this program has the name.
#[unsafe(no_mangle)]
pub static drowse_speaks_http: bool = !LEAN;

unsafe extern "C" {
    /// Defined nowhere: a panic that is reachable after optimisation keeps the program from being linked.
    safe fn drowse_core_has_a_panic_path() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    drowse_core_has_a_panic_path()
}

/// Runs until the board has had enough.
// SAFETY: no other symbol of this program has the name.
#[unsafe(no_mangle)]
pub extern "C" fn drowse_run() {
    let mut adapter = Adapter::new(0);
    loop {
        let event = board::event(adapter.until());
        #[cfg(feature = "planted-panic")]
        board::checksum(u64::from([1_u8, 2, 3][board::now() as usize]));
        match adapter.handle(event) {
            Next::Go => {}
            Next::Fresh(settings) => adapter = Adapter::new(settings),
            Next::Stop => break,
        }
        if let Event::Bytes { bytes, length } = event
            && !LEAN
        {
            surface::read_all(bytes.get(..length).unwrap_or_default());
            held::read(bytes.get(..length).unwrap_or_default());
            http::read(bytes.get(..length).unwrap_or_default());
            translation::read(bytes.get(..length).unwrap_or_default());
            tasks::read(bytes.get(..length).unwrap_or_default());
        }
    }
    board::sizes(&[
        ("Server<[Slot; 32]>", size_of::<adapter::Machine>()),
        ("Slot", size_of::<drowse_core::link::Slot>()),
        ("Exchange", size_of::<drowse_core::http::exchange::Exchange>()),
        ("LineDecoder, without its buffer", size_of::<adapter::Lines>() - adapter::LINE),
        ("Pieces", size_of::<drowse_core::splice::Pieces>()),
    ]);
}
