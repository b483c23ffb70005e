//! A program that only ends: the floor under every command, for the benchmark.

fn main() {}
