//! What a large result costs on its way through the bridge: two copies of it at most, whichever way it comes.
//!
//! A program of its own, since every byte that it allocates is counted. The figures depend on no clock and no machine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod bridge;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drowse_runtime::wire::MAX_MESSAGE;
use serde_json::json;

use bridge::{Caller, Peer, Script, Stage, sleepy};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with books.
struct Counting;

// SAFETY: all is left to the system's allocator.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist for a moment, in the worst case.
        more(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn more(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

/// What is sent again and again, so that the server itself needs no memory.
static TEXT: [u8; 1 << 20] = [b'x'; 1 << 20];
/// What everything else may take.
const BESIDE: usize = 2 << 20;

/// How a result comes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As one message whose length is known.
    Length,
    /// The same, and it is not.
    Chunked,
    /// As an event.
    Event,
}

/// The most that was allocated at once while a result of `size` bytes, the limit, went through.
async fn peak(peer: Peer, way: Way, size: usize) -> usize {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge_with(sleepy(), |config| config.limit = size);
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    stage.site().take_next("tools/call", move |seen, mut respond| {
        let id = &seen.message["id"];
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","text":""#);
        let tail = "\"}}";
        let mut left = size - head.len() - tail.len();
        let length = size.to_string();
        let json = ("content-type", "application/json");
        match way {
            Way::Length => respond.head(200, &[json, ("content-length", length.as_str())]),
            Way::Chunked => respond.head(200, &[json]),
            Way::Event => {
                respond.streams();
                respond.chunk("data: ");
            }
        }
        respond.chunk(head);
        while left > 0 {
            let part = left.min(TEXT.len());
            respond.chunk(&TEXT[..part]);
            left -= part;
        }
        respond.chunk(tail);
        if let Way::Event = way {
            respond.chunk("\n\n");
        }
    });
    MOST.store(0, Ordering::Relaxed);
    more(0);
    let before = NOW.load(Ordering::Relaxed);
    caller.start("echo", json!({})).await;
    // Its caller reads nothing before all of it is there.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let length = caller.skip().await;
    assert!(length > size - 64, "{length}");
    let most = MOST.load(Ordering::Relaxed) - before;
    drop(caller);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let kept = NOW.load(Ordering::Relaxed).saturating_sub(before);
    assert!(kept < BESIDE, "{way:?}: {kept} bytes are kept when all is over");
    most
}

#[test]
fn a_large_result_is_there_twice_at_most() {
    for (peer, way, size) in [
        (Peer::Modern, Way::Length, MAX_MESSAGE),
        // It is the same for each size.
        (Peer::Modern, Way::Chunked, MAX_MESSAGE / 8),
        (Peer::Modern, Way::Event, MAX_MESSAGE / 8),
        (Peer::Session, Way::Event, MAX_MESSAGE / 8),
    ] {
        bridge::play(async || {
            let most = peak(peer, way, size).await;
            assert!(most <= 2 * size + BESIDE, "{peer:?}, {way:?}: {most} bytes for {size}");
        });
    }
}
