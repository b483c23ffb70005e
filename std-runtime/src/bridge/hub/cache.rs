//! Results that the server says may be used again for a while. What may, and for how long, is the core's
//! ([`drowse_core::caching`]); this is the memory, bounded in number and size.

use drowse_core::caching::{self, Change};
use drowse_core::envelope::Message;

use super::*;

/// How many results are kept.
const RESULTS: usize = 64;
/// How many bytes they may have together; one alone at most a quarter of that.
const BYTES: usize = 4 << 20;
/// Lines up to this length are searched for a notification as a whole.
const SEARCHED: usize = 64 << 10;

/// What a request is known by.
pub(super) struct CacheKey {
    parameters: Vec<u8>,
    /// How much had changed when it was sent: an answer from before a change is not kept after it.
    changes: u64,
}

struct Kept {
    method: Method,
    key: Vec<u8>,
    line: Vec<u8>,
    until: Instant,
}

/// The results, oldest first.
#[derive(Default)]
pub(super) struct Cache {
    kept: std::collections::VecDeque<Kept>,
    bytes: usize,
    changes: u64,
}

impl Cache {
    /// What a request is known by, if its result may be kept at all.
    pub(super) fn key(&self, method: Method, frame: &[u8], parts: &RequestParts) -> Option<CacheKey> {
        let parameters = caching::parameters(method, frame, parts)?.collect::<Vec<_>>().concat();
        Some(CacheKey { parameters, changes: self.changes })
    }

    /// The result of such a request that is still fresh.
    pub(super) fn fresh(&self, now: Instant, method: Method, key: &CacheKey) -> Option<Vec<u8>> {
        let kept = self.kept.iter().find(|kept| kept.method == method && kept.key == key.parameters)?;
        (now < kept.until).then(|| kept.line.clone())
    }

    pub(super) fn keep(
        &mut self,
        now: Instant,
        method: Method,
        key: &CacheKey,
        line: &[u8],
        message: &Message,
    ) {
        let may_be_kept = line.len() <= BYTES / 4 && key.changes == self.changes;
        let key = &key.parameters;
        self.drop_where(|kept| kept.until <= now || kept.method == method && kept.key == *key);
        let Some(lifetime) = caching::lifetime(line, message).filter(|_| may_be_kept) else { return };
        self.bytes += line.len();
        let (key, line) = (key.clone(), line.to_vec());
        self.kept.push_back(Kept { method, key, line, until: now.after(lifetime) });
        while self.kept.len() > RESULTS || self.bytes > BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.line.len());
        }
    }

    /// A line of the server, which may say that something has changed.
    pub(super) fn hear(&mut self, line: &[u8]) {
        // Most lines are answers, and some of those are long; a notification that is has its method in front.
        let searched = if line.len() > SEARCHED { line.get(..1024).unwrap_or(line) } else { line };
        if memchr::memmem::find(searched, b"notifications").is_none() {
            return;
        }
        if let Ok(message) = envelope::read(line)
            && let Some(change) = Change::of(line, &message)
        {
            self.changes += 1;
            self.drop_where(|kept| change.concerns(kept.method));
        }
    }

    /// A request goes to the server that may change anything.
    pub(super) fn sent(&mut self, method: Method) {
        if caching::may_change(method) {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self { changes: self.changes + 1, ..Self::default() };
    }

    fn drop_where(&mut self, stale: impl Fn(&Kept) -> bool) {
        self.kept.retain(|kept| !stale(kept));
        self.bytes = self.kept.iter().map(|kept| kept.line.len()).sum();
    }
}
