//! `doctor`: looks at everything that drowse needs, and mends it.

use std::fmt::Write as _;

use drowse_runtime::caller::doctor::{Finding, Verdict, examine_kernel, examine_temporary};
use drowse_runtime::caller::{CallError, Sessions};
use serde_json::{Value, json};

use super::once::PREFIX;
use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::output::{Style, paint};
use crate::text::{Sanitized, one_line};

/// How much of a finding is shown: a list of processes can be long.
const WIDTH: usize = 2000;

/// `doctor` and `doctor --dry-run`.
pub(super) fn doctor(context: &Context, dry_run: bool) -> Result<Status, Failure> {
    let interrupt = context.interrupt();
    let wait = context.wait(interrupt.as_deref());
    let mut findings = examine_kernel();
    match super::open() {
        Ok(sessions) => findings.extend(examine(&sessions, !dry_run, wait)),
        // Not a failure of this command, but what it is there to find out.
        Err(failure) => {
            findings.push(Finding::needs_user("home", failure.message.clone(), failure.hint.clone()));
        }
    }
    if let Some(interrupt) = interrupt.as_deref().filter(|interrupt| interrupt.is_raised()) {
        interrupt.release();
        return Err(CallError::Interrupted { ran: drowse_runtime::wire::Ran::Unknown }.into());
    }
    findings.extend(examine_temporary(PREFIX, !dry_run, wait));
    let open = findings.iter().filter(|finding| finding.verdict.is_open()).count();
    if context.output.json {
        context.output.document(&to_json(&findings, dry_run))?;
    } else {
        context.output.layout(&to_text(&findings, dry_run))?;
    }
    Ok(if open == 0 { Status::Done } else { Status::Bad(Exit::Server) })
}

fn examine(sessions: &Sessions, mend: bool, wait: drowse_runtime::caller::Wait<'_>) -> Vec<Finding> {
    sessions.examine(mend, wait)
}

fn to_text(findings: &[Finding], dry_run: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let style = match finding.verdict {
            Verdict::Fine => Style::Green,
            Verdict::Mended => Style::Cyan,
            Verdict::WouldMend => Style::Yellow,
            Verdict::NeedsUser => Style::Red,
        };
        let verdict = paint(style, &format!("{:<9}", finding.verdict.name()));
        let who = finding.session.as_ref().map_or_else(|| finding.check.to_owned(), ToString::to_string);
        let _ = writeln!(text, "{verdict}  {}: {}", paint(Style::Bold, &who), one_line(&finding.what, WIDTH));
        for line in finding.next.iter().flat_map(|next| next.lines()) {
            text.push_str(&paint(Style::Dim, &format!("           ↳ {}", Sanitized(line))));
            text.push('\n');
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (mended, would, user) =
        (count(Verdict::Mended), count(Verdict::WouldMend), count(Verdict::NeedsUser));
    let mut said = Vec::new();
    if mended > 0 {
        said.push(format!("{mended} fixed"));
    }
    if would > 0 {
        said.push(format!("{would} to be fixed: drowse doctor"));
    }
    if user > 0 {
        said.push(format!("{user} for you"));
    }
    if said.is_empty() {
        said.push("all is well".to_owned());
    }
    if dry_run {
        said.push("nothing was changed".to_owned());
    }
    let _ = writeln!(text, "{}", said.join("; "));
    text
}

fn to_json(findings: &[Finding], dry_run: bool) -> String {
    let all: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let mut entry =
                json!({"check": finding.check, "verdict": word(finding.verdict), "what": finding.what});
            if let Some(session) = &finding.session {
                entry["session"] = session.to_string().into();
            }
            if let Some(next) = &finding.next {
                entry["next"] = next.as_str().into();
            }
            entry
        })
        .collect();
    let open = findings.iter().filter(|finding| finding.verdict.is_open()).count();
    json!({"findings": all, "open": open, "dryRun": dry_run}).to_string()
}

/// The word of a verdict for programs.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fine => "ok",
        Verdict::Mended => "fixed",
        Verdict::WouldMend => "would-fix",
        Verdict::NeedsUser => "needs-you",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_do_is_counted_and_shown() {
        let would = Finding { verdict: Verdict::WouldMend, ..Finding::fine("records", "a \u{1b}[2J file") };
        let findings = [
            Finding::fine("kernel", "works"),
            would,
            Finding::needs_user("space", "no room", Some("free some".to_owned())),
        ];
        let text = to_text(&findings, true);
        let wanted = "ok         kernel: works\n\
                      would fix  records: a \\x1b[2J file\n\
                      needs you  space: no room\n           ↳ free some\n\
                      1 to be fixed: drowse doctor; 1 for you; nothing was changed\n";
        assert_eq!(text, wanted);
        let document: Value = serde_json::from_str(&to_json(&findings, true)).unwrap();
        assert_eq!((&document["open"], &document["dryRun"]), (&json!(2), &json!(true)));
        assert_eq!(
            document["findings"][2],
            json!({"check": "space", "verdict": "needs-you", "what": "no room", "next": "free some"})
        );
        assert!(to_text(&findings[..1], false).ends_with("all is well\n"));
    }
}
