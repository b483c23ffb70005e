//! How the program is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // At a fixed address nothing has to be relocated at each start: that is 0.4 MiB which every bridge would have for
    // itself, and a part of what a short command takes. Stack, heap and libraries are where chance puts them as ever.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
