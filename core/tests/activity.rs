//! The page that users read is the table that the machine goes by.

use std::{env, fs, path::Path};

use drowse_core::activity::Markdown;

const HEAD: &str = "# What starts a sleeping server, and what keeps it awake

Who asked decides, not what was asked: what a user, an agent or a host wants *from the server* starts it and counts as
use; what asks about drowse, or what drowse does for itself, does neither. After the last use a full idle period runs.
Some rows are about commands that are still to come.

This page is made from the table in `core/src/activity.rs`; `DROWSE_WRITE_DOCS=1 cargo test -p drowse-core --test activity`
writes it anew.

";

#[test]
fn the_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/activity.md");
    let wanted = format!("{HEAD}{Markdown}");
    if env::var_os("DROWSE_WRITE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), wanted, "{} is out of date", path.display());
}
