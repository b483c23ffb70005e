//! What the journal of a session's servers proves: who lived when, what ran where and how often.

use std::collections::HashMap;

use crate::fixture::journal::Entry;

/// One server process. Times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// Its number.
    pub pid: u32,
    /// The bridge that started it.
    pub bridge: u64,
    /// Its marker.
    pub generation: String,
    /// When its program began.
    pub started: u64,
    /// When its input ended: it was told to go.
    pub told: Option<u64>,
    /// When it exited; `None` if it was killed, or lives.
    pub exited: Option<u64>,
}

/// A journal, read.
#[derive(Debug, Default)]
pub struct Audit {
    /// The servers, in the order in which they were started.
    pub lives: Vec<Life>,
    /// By tag: the places in `lives` of the servers that ran it.
    pub runs: HashMap<String, Vec<usize>>,
}

impl Audit {
    /// Reads a journal.
    pub fn of(entries: &[Entry]) -> Self {
        let mut audit = Self::default();
        // Numbers come back: the last life of a number is meant.
        let mut of_pid: HashMap<u32, usize> = HashMap::new();
        for entry in entries {
            let number = |name: &str| entry.fields.get(name).and_then(serde_json::Value::as_u64);
            let at = number("at").unwrap_or_default();
            if entry.is("start", "role", "server") {
                of_pid.insert(entry.pid, audit.lives.len());
                audit.lives.push(Life {
                    pid: entry.pid,
                    bridge: number("ppid").unwrap_or_default(),
                    generation: entry.text("generation").unwrap_or_default().to_owned(),
                    started: at,
                    told: None,
                    exited: None,
                });
                continue;
            }
            let Some(place) = of_pid.get(&entry.pid).copied() else { continue };
            let Some(life) = audit.lives.get_mut(place) else { continue };
            match entry.event.as_str() {
                "eof" => life.told = Some(at),
                "exit" => life.exited = Some(at),
                "run" => {
                    let tag = entry.text("tag").unwrap_or_default().to_owned();
                    audit.runs.entry(tag).or_default().push(place);
                }
                _ => {}
            }
        }
        audit
    }

    /// How often a tool ran with this tag.
    pub fn executions(&self, tag: &str) -> usize {
        self.runs.get(tag).map_or(0, Vec::len)
    }

    /// Two servers of which the later one began before the earlier one had exited.
    pub fn overlap(&self) -> Option<(&Life, &Life)> {
        self.lives
            .iter()
            .zip(self.lives.iter().skip(1))
            .find(|(one, next)| one.exited.is_some_and(|exited| next.started < exited))
    }

    /// Whether a call that began at `began` and ran once, with this tag, arrived during a drain: the server before the
    /// one that ran it had been told to go and had not exited, and the same bridge started both. So the bridge was there
    /// all the while, and took the call while it was ending a server.
    pub fn in_a_drain(&self, tag: &str, began: u64) -> bool {
        let Some(&[place]) = self.runs.get(tag).map(Vec::as_slice) else { return false };
        let Some(before) = place.checked_sub(1).and_then(|before| self.lives.get(before)) else {
            return false;
        };
        let Some(life) = self.lives.get(place) else { return false };
        life.bridge == before.bridge
            && life.started >= began
            && before.told.is_some_and(|told| told <= began)
            && before.exited.is_some_and(|exited| began <= exited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str]) -> Vec<Entry> {
        let directory = tempfile::tempdir().unwrap();
        let journal = crate::fixture::journal::Journal::at(directory.path().join("j"));
        std::fs::write(journal.path(), lines.join("\n") + "\n").unwrap();
        journal.entries().unwrap()
    }

    #[test]
    fn lives_runs_drains_and_overlaps() {
        let one = r#"{"at":100,"pid":7,"event":"start","role":"server","ppid":5,"generation":"a"}"#;
        let run = r#"{"at":110,"pid":7,"event":"run","tool":"tag","tag":"x"}"#;
        let told = r#"{"at":200,"pid":7,"event":"eof"}"#;
        let gone = r#"{"at":300,"pid":7,"event":"exit"}"#;
        let two = r#"{"at":305,"pid":8,"event":"start","role":"server","ppid":5,"generation":"b"}"#;
        let again = r#"{"at":310,"pid":8,"event":"run","tool":"tag","tag":"y"}"#;
        let audit = Audit::of(&entries(&[one, run, told, gone, two, again]));
        assert_eq!((audit.executions("x"), audit.executions("y"), audit.executions("z")), (1, 1, 0));
        assert_eq!(audit.overlap(), None);
        let drains = [199, 200, 300, 301].map(|began| audit.in_a_drain("y", began));
        assert_eq!(drains, [false, true, true, false]);
        assert!(!audit.in_a_drain("x", 100), "the first server was nobody's drain");
        let other = two.replace("\"ppid\":5", "\"ppid\":6").replace("305", "299");
        let audit = Audit::of(&entries(&[one, run, told, gone, &other, again]));
        assert!(audit.overlap().is_some());
        assert!(!audit.in_a_drain("y", 250), "another bridge");
    }
}
