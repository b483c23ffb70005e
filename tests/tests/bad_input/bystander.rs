//! What every test of this suite asks for.

use drowse_tests::harness::{Home, Run, Session};
use serde_json::Value;

/// Another session of the same home, which is to notice nothing.
#[derive(Debug)]
pub(super) struct Bystander<'h> {
    session: Session<'h>,
    server: String,
}

impl<'h> Bystander<'h> {
    /// One that is awake.
    pub(super) fn of(home: &'h Home) -> Self {
        let session = home.connect("@bystander", &[], &[]);
        let server = session.call("pid", &[]).ok().text();
        Self { session, server }
    }

    /// That it still has the server that it had.
    #[track_caller]
    pub(super) fn noticed_nothing(&self) {
        assert_eq!(self.session.call("pid", &[]).ok().text(), self.server, "another session was disturbed");
        assert_eq!(self.session.starts(), 1);
    }
}

/// A failure with this status and kind, whose message and hint together say all of this, and hold nothing that steers
/// a terminal. The document.
#[track_caller]
pub(super) fn failure(run: &Run, code: i32, kind: &str, says: &[&str]) -> Value {
    let document = run.fails(code);
    assert_eq!(document["kind"], kind, "`drowse {}`: {document}", run.words);
    let hint = document["_drowse"]["hint"].as_str().unwrap_or_default();
    let said = format!("{} {hint}", document["error"].as_str().unwrap_or_default());
    for part in says {
        assert!(said.contains(part), "`drowse {}` does not say `{part}`: {document}", run.words);
    }
    document
}

/// The same for people: on standard error only, with nothing in it that steers a terminal. The text.
#[track_caller]
pub(super) fn complaint<'r>(run: &'r Run, code: i32, says: &[&str]) -> &'r str {
    let all = || format!("`drowse {}`\nout: {}\nerr: {}", run.words, run.out, run.err);
    assert_eq!((run.code, run.out.as_str()), (code, ""), "{}", all());
    assert!(run.err.starts_with("error: "), "{}", all());
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!run.err.contains(steers), "{}", all());
    for part in says {
        assert!(run.err.contains(part), "it does not say `{part}`: {}", all());
    }
    &run.err
}

/// That a session of this name was never there, or is gone without a trace.
#[track_caller]
pub(super) fn is_not_there(session: &Session<'_>) {
    assert!(!session.exists(), "something of it is left");
}
