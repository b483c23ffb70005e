//! See `drowse_fuzz::framing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::framing(data));
