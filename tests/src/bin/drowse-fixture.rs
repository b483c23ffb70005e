//! The fixture server as a program; everything is in `drowse_tests::fixture`.

use std::process::ExitCode;

fn main() -> ExitCode {
    drowse_tests::fixture::main(std::env::args().skip(1))
}
