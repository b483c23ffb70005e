//! The `drowse` command.
fn main() {}
