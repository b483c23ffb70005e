//! What a proxy costs; everything is in `drowse_tests::load`.

use std::process::ExitCode;

fn main() -> ExitCode {
    drowse_tests::load::main(std::env::args().skip(1))
}
