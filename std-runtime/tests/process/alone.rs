//! A process per test, and what the tests have in common: shell scripts as servers, conditions to wait for.

use std::future::Future;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use drowse_runtime::process::{Launch, Tree, become_subreaper, launch, marked, new_marker};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;

/// Nothing here takes a second on an idle machine. This is for a busy one.
const LIMIT: Duration = Duration::from_secs(60);

/// No process at all.
pub(crate) const NOBODY: [u32; 0] = [];

/// Set in the process that runs a test alone.
const ALONE: &str = "DROWSE_TEST_ALONE";

/// The markers of all trees this test started.
static MARKERS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Defines tests that run in a process of their own, within a current-thread runtime.
macro_rules! alone {
    ($($(#[$attribute:meta])* async fn $name:ident() $body:block)*) => {$(
        #[test]
        $(#[$attribute])*
        fn $name() {
            $crate::alone::run(concat!(module_path!(), "::", stringify!($name)), async || $body);
        }
    )*};
}
pub(crate) use alone;

/// Runs `body` here if this is the test's own process, else starts that and expects it to succeed.
pub(crate) fn run(path: &str, body: impl AsyncFnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        // For what does not even come back to the runtime.
        std::thread::spawn(|| {
            std::thread::sleep(LIMIT * 2);
            eprintln!("the test hangs");
            std::process::exit(101);
        });
        become_subreaper().unwrap();
        return within_runtime(body);
    }
    let output = again(path).output().unwrap();
    assert!(output.status.success(), "{path} alone: {}", said(&output));
}

/// Runs `body` here, whatever this process is.
pub(crate) fn within_runtime(body: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, body()).await.expect("the test has to end");
    });
    for marker in MARKERS.lock().unwrap().iter() {
        assert_eq!(marked(marker).unwrap(), NOBODY, "processes were left behind");
    }
    let left: Vec<_> = children()
        .into_iter()
        .map(|pid| (pid, stat(pid, 3), std::fs::read(format!("/proc/{pid}/cmdline"))))
        .collect();
    assert!(left.is_empty(), "children were left behind, or not reaped: {left:?}");
}

/// This test binary, set to run only the test `path`, alone.
pub(crate) fn again(path: &str) -> Command {
    let (_crate, name) = path.split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A server that is a shell script, in an environment of nothing but a `PATH`.
pub(crate) fn script(text: &str) -> Launch {
    program("/bin/sh", &["-c", text])
}

/// A server that is this program.
pub(crate) fn program(command: &str, args: &[&str]) -> Launch {
    Launch {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        cwd: PathBuf::from("/"),
        env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        marker: new_marker(),
    }
}

/// Starts it, and has it looked for when the test ends.
pub(crate) fn start(wanted: &Launch) -> Tree {
    MARKERS.lock().unwrap().push(wanted.marker.clone());
    launch(wanted).unwrap()
}

/// The next line that a server writes.
pub(crate) async fn line(output: &mut BufReader<&mut pipe::Receiver>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    assert!(line.ends_with('\n'), "the server ended its output after {line:?}");
    line.trim_end().to_owned()
}

/// All that a server writes until nobody is left who could.
pub(crate) async fn rest(output: &mut pipe::Receiver) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).await.unwrap();
    text
}

/// Waits for a condition that nothing announces.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT / 2;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A future that has to be ready in time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT / 2, future).await.unwrap_or_else(|_| panic!("{what}: never"))
}

/// Fields of `/proc/<pid>/stat` after the name, counted as in its manual page; `None` if there is no process.
pub(crate) fn stat(pid: u32, field: usize) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read_to_string(&mut text).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(field - 3).map(str::to_owned)
}

/// Whether this number is that of a process which runs.
pub(crate) fn runs(pid: u32) -> bool {
    stat(pid, 3).is_some_and(|state| state != "Z" && state != "X")
}

/// Children of this process, zombies included.
pub(crate) fn children() -> Vec<u32> {
    let us = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid, 4).is_some_and(|parent| parent == us))
        .collect()
}

/// Reaps one child that ended, of those that no tree looks after. Whether there was one.
pub(crate) fn reap_any() -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    matches!(waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(Some(_)))
}
