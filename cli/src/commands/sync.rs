//! `resources-subscribe --sync` and `resources-unsubscribe`: files that the session keeps equal to resources.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use drowse_runtime::caller::Listed;
use drowse_runtime::home::SessionName;
use drowse_runtime::wire::{FileSync, SyncStatus};
use serde_json::json;

use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::text::one_line;

/// `resources-subscribe --sync`.
pub(super) fn sync(
    context: &Context,
    session: &SessionName,
    uri: String,
    file: &Path,
) -> Result<Status, Failure> {
    let wanted = FileSync { uri, file: whole(file)? };
    let sessions = super::open()?;
    let interrupt = context.interrupt();
    let done = sessions.sync(session, &wanted, context.wait(interrupt.as_deref()));
    interrupt.iter().for_each(|interrupt| interrupt.release());
    done?;
    let FileSync { uri, file } = &wanted;
    if context.output.json {
        context.output.document(&json!({"uri": uri, "file": file, "synced": true}).to_string())?;
    } else {
        context.output.text(&format!("{} is equal to {uri}, and is kept so", file.display()))?;
        context.output.notice(format_args!("↳ drowse {session} resources-unsubscribe {uri}"));
    }
    Ok(Status::Done)
}

/// `resources-unsubscribe`.
pub(super) fn unsync(context: &Context, session: &SessionName, uri: &str) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let interrupt = context.interrupt();
    let ended = sessions.unsync(session, uri, context.wait(interrupt.as_deref()));
    interrupt.iter().for_each(|interrupt| interrupt.release());
    let ended = ended?;
    if ended.is_empty() {
        let text = format!("no file of {session} is kept equal to {uri}");
        let hint = "a `resources-subscribe` that runs is ended with Ctrl-C, where it runs";
        return Err(Failure::new(Exit::Usage, "not-subscribed", text).with_hint(hint));
    }
    if context.output.json {
        context.output.document(&json!({"uri": uri, "files": ended, "unsubscribed": true}).to_string())?;
    } else {
        for file in ended {
            context.output.text(&format!("{} is not kept equal to {uri} any more", file.display()))?;
        }
    }
    Ok(Status::Done)
}

/// How the files of a session stand. What its bridge does not know yet is only wanted.
pub(super) fn standing(listed: &Listed) -> Vec<SyncStatus> {
    let wanted = listed.record.as_ref().map(|record| record.syncs.clone()).unwrap_or_default();
    let known = listed.status.as_ref().map_or(&[][..], |status| &status.syncs);
    let stands = |sync: FileSync| match known.iter().find(|known| known.sync == sync) {
        Some(known) => known.clone(),
        None => SyncStatus { sync, written: None, error: None },
    };
    wanted.into_iter().map(stands).collect()
}

/// The same for people.
pub(super) fn lines(syncs: &[SyncStatus]) -> String {
    let mut text = String::new();
    for SyncStatus { sync, error, .. } in syncs {
        let (file, uri) = (one_line(&sync.file.to_string_lossy(), 200), one_line(&sync.uri, 200));
        let _ = match error {
            None => writeln!(text, "Keeps {file} equal to {uri}"),
            Some(error) => writeln!(text, "Cannot keep {file} equal to {uri}: {}", one_line(error, 300)),
        };
    }
    text
}

/// The file's own path: that of what a link leads to, since the file is going to be replaced.
fn whole(file: &Path) -> Result<PathBuf, Failure> {
    let bad = |error: io::Error| Failure::usage(format!("--sync {}: {error}", file.display()));
    if let Ok(known) = fs::canonicalize(file) {
        if known.is_dir() {
            return Err(bad(io::ErrorKind::IsADirectory.into()));
        }
        return Ok(known);
    }
    let name = file.file_name().ok_or_else(|| bad(io::ErrorKind::InvalidInput.into()))?;
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(directory).map_err(bad)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_whole_and_lead_to_the_file_itself() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::write(root.join("f"), "").unwrap();
        std::os::unix::fs::symlink("f", root.join("link")).unwrap();
        assert_eq!(whole(&root.join("link")).unwrap(), root.join("f"));
        assert_eq!(whole(&root.join("./new")).unwrap(), root.join("new"));
        for bad in [root.clone(), root.join("no/new"), PathBuf::from("..")] {
            assert!(whole(&bad).is_err(), "{}", bad.display());
        }
    }
}
