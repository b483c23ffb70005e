//! See `drowse_fuzz::translation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::translation(data));
