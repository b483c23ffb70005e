//! The programs under test, and how they come to be where they are.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

/// The `drowse` binary, up to date.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn drowse() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = directory().join(format!("drowse{}", std::env::consts::EXE_SUFFIX));
        if !is_current(&program) {
            build(&program);
        }
        program
    });
    &PROGRAM
}

/// The `drowse-fixture` binary. It is of this package, so whatever built the test built it too.
///
/// # Panics
/// If it is not there.
#[must_use]
pub fn fixture() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = directory().join(format!("drowse-fixture{}", std::env::consts::EXE_SUFFIX));
        assert!(program.exists(), "{} is not there", program.display());
        program
    });
    &PROGRAM
}

/// `target/<profile>`: tests are in its `deps`.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let deps = test.parent().expect("a directory");
    let built = if deps.ends_with("deps") { deps.parent() } else { Some(deps) };
    built.expect("a directory").to_owned()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether no source of the program is newer than it. What only its tests are made of does not count.
fn is_current(program: &Path) -> bool {
    let Ok(built) = fs::metadata(program).and_then(|meta| meta.modified()) else { return false };
    let root = workspace();
    let mut newest = SystemTime::UNIX_EPOCH;
    for name in ["Cargo.toml", "Cargo.lock"] {
        newest = newest.max(changed(&root.join(name)));
    }
    for part in ["core", "std-runtime", "cli"] {
        newest = newest.max(changed(&root.join(part).join("Cargo.toml")));
        newest = newest.max(changed(&root.join(part).join("src")));
    }
    built >= newest
}

/// When the youngest file in it was changed.
fn changed(path: &Path) -> SystemTime {
    let Ok(meta) = fs::metadata(path) else { return SystemTime::UNIX_EPOCH };
    if !meta.is_dir() {
        return meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| changed(&entry.path())).max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Builds the program with the profile that this test was built with. One test process builds, others wait.
fn build(program: &Path) {
    let directory = directory();
    let lock = File::create(directory.join(".drowse-tests.lock")).and_then(|lock| lock.lock().map(|()| lock));
    let lock = lock.expect("a lock beside the binaries");
    if is_current(program) {
        return;
    }
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "drowse", "--bin", "drowse", "--profile", profile]);
    command.arg("--target-dir").arg(directory.parent().expect("the target directory"));
    let built = command.current_dir(workspace()).output();
    let built = built.and_then(|built| match built.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&built.stderr).into_owned())),
    });
    if let Err(error) = built {
        panic!("{} cannot be built: {error}", program.display());
    }
    drop(lock);
}
