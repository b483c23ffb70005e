//! The calls of a phase, and what became of each: every answer is checked against its request.

use std::time::Instant;

use memchr::{memchr, memmem};

use super::peek::{self, Peek};

/// The era of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl Era {
    /// The revision that is spoken.
    #[must_use]
    pub const fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    /// What each request says in its parameters, with a comma.
    #[must_use]
    pub const fn meta(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => {
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"drowse-load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"#
            }
        }
    }
}

/// What came of the calls of a phase.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Answered as they should be.
    pub ok: usize,
    /// Never answered.
    pub lost: usize,
    /// Answered more than once.
    pub duplicated: usize,
    /// Answered with what belongs to another, or to nothing.
    pub mismatched: usize,
    /// Answered with an error.
    pub errors: usize,
    /// The first answer that was none.
    pub example: Option<String>,
    /// How long each took, in nanoseconds.
    pub latencies: Vec<u32>,
}

impl Outcome {
    /// Whether every call was answered once, with its own answer.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.lost + self.duplicated + self.mismatched + self.errors == 0
    }

    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.mismatched += other.mismatched;
        self.errors += other.errors;
        self.example = self.example.take().or(other.example);
        self.latencies.extend(other.latencies);
    }

    /// The latency that so many of a thousand do not exceed, in microseconds.
    #[must_use]
    pub fn quantile(&self, permille: usize) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * permille / 1000).min(sorted.len().saturating_sub(1));
        sorted.get(at).map_or(0.0, |nanos| f64::from(*nanos) / 1000.0)
    }
}

/// What is said is different in each call: its number, and a stretch of a text that begins elsewhere in each.
#[derive(Debug)]
struct Words(Vec<u8>);

impl Words {
    fn new(bytes: usize) -> Self {
        // Printable, and nothing that JSON escapes.
        let mut state = 0x2545_f491_u32;
        let text = (0..bytes + 64).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[(state >> 26) as usize]
        });
        Self(text.collect())
    }

    fn of(&self, id: u64, bytes: usize) -> ([u8; 16], &[u8]) {
        let mut number = [0; 16];
        number.copy_from_slice(format!("{id:016x}").as_bytes());
        let start = (id % 61) as usize;
        (number, &self.0[start..start + bytes.saturating_sub(16)])
    }
}

/// Calls under way, each in a place of its own.
#[derive(Debug)]
pub struct Calls {
    era: Era,
    bytes: usize,
    words: Words,
    /// Who is waited for, since when.
    places: Vec<Option<(u64, Instant)>>,
    /// The first number, and how many calls of each place there were.
    first: u64,
    begun: Vec<u64>,
    free: Vec<usize>,
    left: usize,
    outcome: Outcome,
    scratch: Vec<u8>,
}

impl Calls {
    /// `count` calls that say so many bytes each, `at_once` at a time, with numbers from `first` on.
    #[must_use]
    pub fn new(era: Era, first: u64, at_once: usize, bytes: usize, count: usize) -> Self {
        Self {
            era,
            bytes: bytes.max(16),
            words: Words::new(bytes.max(16)),
            places: vec![None; at_once],
            first,
            begun: vec![0; at_once],
            free: (0..at_once).rev().collect(),
            left: count,
            outcome: Outcome { latencies: Vec::with_capacity(count), ..Outcome::default() },
            scratch: Vec::new(),
        }
    }

    /// No number at or above this one was used.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        let most = self.begun.iter().max().copied().unwrap_or(0);
        self.first + (most + 1) * self.places.len() as u64
    }

    /// How many were answered, however.
    #[must_use]
    pub const fn answered(&self) -> usize {
        self.outcome.ok + self.outcome.errors + self.outcome.mismatched
    }

    /// Whether nothing is waited for, and nothing left to ask.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.free.len() == self.places.len()
    }

    /// Puts the next call behind `out`, if there is room for it. Without a newline.
    pub fn ask(&mut self, out: &mut Vec<u8>) -> bool {
        if self.left == 0 {
            return false;
        }
        let Some(place) = self.free.pop() else { return false };
        let id = self.first + self.begun[place] * self.places.len() as u64 + place as u64;
        self.begun[place] += 1;
        self.left -= 1;
        let (number, text) = self.words.of(id, self.bytes);
        out.extend_from_slice(
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"#).as_bytes(),
        );
        out.extend_from_slice(self.era.meta().as_bytes());
        out.extend_from_slice(br#""name":"echo","arguments":{"text":""#);
        out.extend_from_slice(&number);
        out.extend_from_slice(text);
        out.extend_from_slice(br#""}}}"#);
        self.places[place] = Some((id, Instant::now()));
        true
    }

    /// Takes a line of the server.
    pub fn take(&mut self, line: &[u8]) {
        // What was said is long and has no quotes in it: everything else is read without it.
        const TEXT: &[u8] = br#""text":""#;
        let said = memmem::find(line, TEXT)
            .map(|at| at + TEXT.len())
            .and_then(|start| Some(start..start + memchr(b'"', &line[start..])?));
        self.scratch.clear();
        match &said {
            Some(said) => {
                self.scratch.extend_from_slice(&line[..said.start]);
                self.scratch.extend_from_slice(&line[said.end..]);
            }
            None => self.scratch.extend_from_slice(line),
        }
        let found = peek::peek(&self.scratch);
        let Some(Peek { id: Some(id), method: None, is_error, .. }) = found else {
            if found.is_none() {
                self.strange(line);
            }
            return;
        };
        let id = peek::number(&self.scratch[id]).filter(|id| *id >= self.first);
        let Some(id) = id else { return self.strange(line) };
        let place = ((id - self.first) % self.places.len() as u64) as usize;
        let Some((_, since)) = self.places[place].take_if(|(waited, _)| *waited == id) else {
            if (id - self.first) / (self.places.len() as u64) < self.begun[place] {
                self.outcome.duplicated += 1;
                self.outcome.example.get_or_insert_with(|| start_of(line));
                return;
            }
            return self.strange(line);
        };
        self.free.push(place);
        if is_error {
            self.outcome.errors += 1;
            self.outcome.example.get_or_insert_with(|| start_of(line));
            return;
        }
        let (number, text) = self.words.of(id, self.bytes);
        let said = said.map(|said| &line[said]).unwrap_or_default();
        if said.strip_prefix(&number) == Some(text) {
            self.outcome.ok += 1;
            let nanos = since.elapsed().as_nanos();
            self.outcome.latencies.push(u32::try_from(nanos).unwrap_or(u32::MAX));
        } else {
            self.strange(line);
        }
    }

    fn strange(&mut self, line: &[u8]) {
        self.outcome.mismatched += 1;
        self.outcome.example.get_or_insert_with(|| start_of(line));
    }

    /// What came of them: whatever is not answered is lost.
    #[must_use]
    pub fn over(mut self) -> Outcome {
        self.outcome.lost = self.places.iter().flatten().count() + self.left;
        self.outcome
    }
}

fn start_of(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(160)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::server::{Eras, answer};
    use super::*;

    fn asked(calls: &mut Calls) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut line = Vec::new();
            if !calls.ask(&mut line) {
                return all;
            }
            let mut said = Vec::new();
            assert!(answer(Eras::Both, &line, &mut said));
            all.push(said);
        }
    }

    #[test]
    fn each_call_has_its_own_answer() {
        for era in [Era::Legacy, Era::Modern] {
            let mut calls = Calls::new(era, 1000, 4, 300, 10);
            while !calls.is_over() {
                asked(&mut calls).iter().rev().for_each(|line| calls.take(line));
            }
            let outcome = calls.over();
            assert_eq!((outcome.ok, outcome.is_clean()), (10, true), "{:?}", outcome.example);
        }
    }

    #[test]
    fn what_is_wrong_is_counted() {
        let mut calls = Calls::new(Era::Legacy, 0, 4, 100, 4);
        let lines = asked(&mut calls);
        calls.take(&lines[0]);
        calls.take(&lines[0]);
        // The answer of one with the number of another.
        let other = String::from_utf8(lines[2].clone()).unwrap();
        let place = other.find("\"id\":").unwrap() + 5;
        calls.take([&other[..place], "1", &other[place + 1..]].concat().as_bytes());
        calls.take(br#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no"}}"#);
        calls.take(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
        calls.take(br#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
        let Outcome { ok, lost, duplicated, mismatched, errors, .. } = calls.over();
        assert_eq!((ok, lost, duplicated, mismatched, errors), (1, 1, 1, 2, 1));
    }
}
