//! See `drowse_fuzz::relay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::relay(data));
