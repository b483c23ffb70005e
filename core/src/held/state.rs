//! The `requestState` of a held call: what it binds, and its text.
//!
//! The state of a call is in memory, so its text only has to name it, and to prove that drowse gave that name out, for
//! this principal and this request. The proof is SipHash-2-4 with a 128-bit key and a 128-bit tag: a keyed function made
//! as a message authentication code for short messages, whose key never leaves the process. HMAC-SHA256 would prove no
//! more here: a forger is online, has the five minutes of one state for its guesses, and wins nothing by a collision,
//! since the key is secret and the parameters are only compared, never run. It is also a tenth of the code on a device.

use core::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::Principal;
use crate::json;
use crate::method::Method;
use crate::time::Instant;

/// What makes states unforgeable: 16 random bytes that no other process knows.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// From a random source that nobody can predict.
    #[must_use]
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// Of byte strings, one after the other, with their borders.
    pub(super) fn digest<'a>(&self, strings: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut hasher = self.hasher(b'd');
        for string in strings {
            hasher.write(&(string.len() as u64).to_le_bytes());
            hasher.write(string);
        }
        Digest(hasher.finish128().as_bytes())
    }

    fn hasher(&self, purpose: u8) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&[purpose]);
        hasher
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

/// Stands for bytes that are compared later.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Digest([u8; 16]);

impl PartialEq for Digest {
    /// Takes the same time whatever the bytes.
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

impl Eq for Digest {}

/// What a state binds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    pub(super) index: u16,
    /// Random.
    pub(super) id: [u8; 16],
    pub(super) principal: Principal,
    pub(super) method: Method,
    pub(super) params: Digest,
    /// The server's generation.
    pub(super) server: u64,
    pub(super) round: u16,
    pub(super) expires: Instant,
}

impl Fields {
    fn tag(&self, secret: &Secret) -> Digest {
        let mut hasher = secret.hasher(b's');
        hasher.write(&self.index.to_le_bytes());
        hasher.write(&self.id);
        hasher.write(&self.principal.0.to_le_bytes());
        hasher.write(&[self.method as u8]);
        hasher.write(&self.params.0);
        hasher.write(&self.server.to_le_bytes());
        hasher.write(&self.round.to_le_bytes());
        hasher.write(&self.expires.as_micros().to_le_bytes());
        Digest(hasher.finish128().as_bytes())
    }
}

/// Bytes of a state, before they are text.
const BYTES: usize = 2 + 16 + 8 + 2 + 8 + 16;
/// The length of a `requestState`, without quotes.
pub const STATE_LEN: usize = 2 * BYTES;

/// A `requestState`: lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct State([u8; STATE_LEN]);

impl State {
    pub(super) fn mint(secret: &Secret, fields: &Fields) -> Self {
        let index = fields.index.to_le_bytes();
        let server = fields.server.to_le_bytes();
        let round = fields.round.to_le_bytes();
        let expires = fields.expires.as_micros().to_le_bytes();
        let tag = fields.tag(secret);
        let parts: [&[u8]; 6] = [&index, &fields.id, &server, &round, &expires, &tag.0];
        let digits = parts.into_iter().flatten().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        let mut text = [0; STATE_LEN];
        for (slot, digit) in text.iter_mut().zip(digits) {
            *slot = digit;
        }
        Self(text)
    }

    /// Its text, without quotes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

const fn digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble }
}

/// What a `requestState` says of itself.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    index: u16,
    id: [u8; 16],
    server: u64,
    round: u16,
    expires: u64,
    tag: Digest,
}

impl Claim {
    /// Reads a JSON string.
    pub(super) fn read(raw: &[u8]) -> Option<Self> {
        // Longer ones do not fit and are none.
        let mut text = [0; STATE_LEN];
        let text = json::unescape(raw, &mut text)?;
        if text.len() != STATE_LEN {
            return None;
        }
        let mut nibbles = text.bytes().map(nibble);
        Some(Self {
            index: u16::from_le_bytes(bytes(&mut nibbles)?),
            id: bytes(&mut nibbles)?,
            server: u64::from_le_bytes(bytes(&mut nibbles)?),
            round: u16::from_le_bytes(bytes(&mut nibbles)?),
            expires: u64::from_le_bytes(bytes(&mut nibbles)?),
            tag: Digest(bytes(&mut nibbles)?),
        })
    }

    /// What it says, if it was given out for that request.
    pub(super) fn prove(
        self,
        secret: &Secret,
        principal: Principal,
        method: Method,
        params: Digest,
    ) -> Option<Fields> {
        let Self { index, id, server, round, expires, tag } = self;
        let expires = Instant::from_micros(expires);
        let fields = Fields { index, id, principal, method, params, server, round, expires };
        (fields.tag(secret) == tag).then_some(fields)
    }
}

/// Upper-case digits are not what was given out.
const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn bytes<const N: usize>(nibbles: &mut impl Iterator<Item = Option<u8>>) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for byte in &mut bytes {
        *byte = nibbles.next()?? << 4 | nibbles.next()??;
    }
    Some(bytes)
}
