//! The client under the public conformance suite, and what runs that suite; everything is in
//! `drowse_tests::conformance`.

use std::process::ExitCode;

fn main() -> ExitCode {
    drowse_tests::conformance::main(std::env::args().skip(1))
}
