//! The decoder of server-sent events against that of another crate, `sse-stream`.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use futures_util::stream;
use sse_stream::{Sse, SseByteStream};

use crate::events::{Owned, decode};

/// What both make of `stream`, which reaches the other one in `pieces` (as sizes, used in turn), is the same. The other
/// one gives blocks as they stand there, and refuses what is not UTF-8.
pub(crate) fn same_events(stream: &[u8], pieces: &[usize]) {
    let stream = String::from_utf8_lossy(stream).into_owned();
    let found = decode(stream.as_bytes(), stream.len(), stream.len() + 1, &[]);
    let mut expected = Vec::new();
    let (mut last_id, mut retry) = (None, None);
    for block in blocks(stream.as_bytes(), pieces) {
        retry = block.retry.or(retry);
        let data = block.data.filter(|data| !data.is_empty());
        if data.is_none() && block.id.is_some() {
            expected.push(Owned::Primed);
        }
        last_id = block.id.or(last_id);
        if let Some(data) = data {
            let name = block.event.filter(|name| !name.is_empty()).unwrap_or_else(|| "message".into());
            let name = name.as_bytes().iter().copied().take(64).collect();
            expected.push(Owned::Message { name, data: data.into_bytes() });
        }
    }
    assert_eq!(found.events, expected);
    let last_id = last_id.filter(|id| !id.is_empty() && id.len() <= 256);
    assert_eq!(found.last_id, last_id.map(String::into_bytes));
    // The other one tells only what stands in complete blocks.
    if !found.unfinished {
        assert_eq!(found.retry.map(|retry| retry.as_millis()), retry.map(u128::from));
    }
}

fn blocks(mut bytes: &[u8], pieces: &[usize]) -> Vec<Sse> {
    let mut sizes = pieces.iter().cycle();
    let mut reads = Vec::new();
    while let Some(size) = sizes.next().filter(|_| !bytes.is_empty()) {
        let (now, later) = bytes.split_at((*size).min(bytes.len()));
        reads.push(Ok::<_, Infallible>(now));
        bytes = later;
    }
    let mut decoder = pin!(SseByteStream::new(stream::iter(reads)));
    let mut context = Context::from_waker(Waker::noop());
    let mut blocks = Vec::new();
    while let Poll::Ready(Some(block)) = decoder.as_mut().poll_next(&mut context) {
        blocks.push(block.unwrap());
    }
    blocks
}
