//! Bytes that take room among all others of their kind, for as long as anybody has a piece of them.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use drowse_core::front::http::answers::{Answers, SHORT};
use send_wrapper::SendWrapper;

struct Held<R> {
    bytes: Bytes,
    /// Dropped with the last piece. Everything is on one thread.
    _room: SendWrapper<R>,
}

impl<R> AsRef<[u8]> for Held<R> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes, which from now on have that room.
pub(super) fn hold<R: 'static>(bytes: Bytes, room: R) -> Bytes {
    Bytes::from_owner(Held { bytes, _room: SendWrapper::new(room) })
}

/// The room of all long messages that clients have yet to take.
#[derive(Clone)]
pub(super) struct Untaken(Rc<Cell<Answers>>);

/// That of one of them.
struct Room {
    all: Untaken,
    length: usize,
}

impl Untaken {
    pub(super) fn new(limit: usize) -> Self {
        Self(Rc::new(Cell::new(Answers::new(limit))))
    }

    /// A message that is to wait for its client; `None`: there is no room for it.
    pub(super) fn admit(&self, bytes: Bytes) -> Option<Bytes> {
        if bytes.len() <= SHORT {
            return Some(bytes);
        }
        let mut all = self.0.get();
        let fits = all.take(bytes.len());
        self.0.set(all);
        fits.then(|| {
            let room = Room { all: self.clone(), length: bytes.len() };
            hold(bytes, room)
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.all.0.get();
        all.release(self.length);
        self.all.0.set(all);
    }
}
