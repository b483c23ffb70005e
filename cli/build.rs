//! How the program is linked.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);
    if !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    // At a fixed address nothing has to be relocated at each start: that is 0.4 MiB which every bridge would have for
    // itself, and a part of what a short command takes. Stack, heap and libraries are where chance puts them as ever.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    // The unwinder, of which only backtraces make use, is a library of its own: to load that at each start takes a tenth
    // of what a short command takes. The compiler brings it as an archive, too; all of that, since what needs it comes
    // later, and the linker drops what nobody needs.
    if is("CARGO_CFG_TARGET_ENV", "gnu") && env::var_os("HOST") == env::var_os("TARGET") && has("libgcc_eh.a")
    {
        for argument in ["-Wl,--whole-archive", "-lgcc_eh", "-Wl,--no-whole-archive"] {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}

/// Whether the linker has a library of that name.
fn has(library: &str) -> bool {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let found = Command::new(linker).arg(format!("-print-file-name={library}")).output();
    // Without a directory: it has none.
    found.is_ok_and(|found| {
        let path = String::from_utf8_lossy(&found.stdout);
        Path::new(path.trim()).is_absolute() && Path::new(path.trim()).exists()
    })
}
