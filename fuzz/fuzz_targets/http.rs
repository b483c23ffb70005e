//! See `drowse_fuzz::http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::http(data));
