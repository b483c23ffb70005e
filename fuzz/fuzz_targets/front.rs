//! See `drowse_fuzz::front`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drowse_fuzz::front(data));
