//! See `drowse_fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::envelope(data));
