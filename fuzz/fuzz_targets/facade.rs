//! See `drowse_fuzz::facade`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::facade(data));
