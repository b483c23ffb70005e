//! See `drowse_fuzz::exchange`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::exchange(data));
