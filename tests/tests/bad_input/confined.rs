//! A place with its own mounts, or its own processes too: what stands for a full disk, a disk that can only be read,
//! and another container. Works for any user whom the kernel lets make namespaces.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use drowse_tests::harness::{Home, Run, Running};

/// Namespaces that live as long as this.
#[derive(Debug)]
pub(super) struct Confined {
    holder: Child,
    /// The process to join.
    inside: u32,
    flags: Vec<&'static str>,
}

impl Confined {
    /// A place of its own mounts, set up by a script of the shell. `None` where the kernel does not let us, which is
    /// said.
    pub(super) fn mounts(script: &str) -> Option<Self> {
        Self::new(&["-m"], script)
    }

    /// A place of its own processes, with the files of all.
    pub(super) fn processes() -> Option<Self> {
        // Killed with whoever holds it, as a container is.
        Self::new(&["-m", "-p"], "mount -t proc proc /proc")
    }

    fn new(spaces: &[&'static str], script: &str) -> Option<Self> {
        let mut flags = spaces.to_vec();
        let mut command = Command::new("unshare");
        command.args(spaces);
        if !rustix::process::geteuid().is_root() {
            command.arg("-r");
            flags.extend(["-U", "--preserve-credentials"]);
        }
        if spaces.contains(&"-p") {
            command.args(["-f", "--kill-child"]);
        }
        let script = format!("mount --make-rprivate / && {script} && echo ready && exec cat >/dev/null");
        command
            .args(["sh", "-c", &script])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let Ok(mut holder) = command.spawn() else {
            eprintln!("skipped: there is no `unshare`");
            return None;
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut confined = Self { inside: holder.id(), holder, flags };
        if line != "ready\n" {
            eprintln!("skipped: no namespaces here");
            return None;
        }
        if spaces.contains(&"-p") {
            confined.inside = only_child(confined.holder.id());
        }
        Some(confined)
    }

    /// A program in there.
    pub(super) fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.inside.to_string()]).args(&self.flags).arg("--").args(words);
        command
    }

    /// The binary in there, with a home that may or may not be another one there.
    pub(super) fn start<W: AsRef<OsStr>>(&self, home: &Home, words: impl IntoIterator<Item = W>) -> Running {
        let plain = home.command(words);
        let all = std::iter::once(plain.get_program()).chain(plain.get_args());
        let mut command = self.command(all);
        command.env_clear().stdin(Stdio::null()).current_dir(home.path());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Running::start(command)
    }

    /// Runs the binary in there to its end.
    pub(super) fn run<W: AsRef<OsStr>>(&self, home: &Home, words: impl IntoIterator<Item = W>) -> Run {
        self.start(home, words).end()
    }

    /// Runs a script of the shell in there; what it printed.
    #[track_caller]
    pub(super) fn script(&self, script: &str) -> String {
        let output = self.command(["sh", "-c", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{script}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The process that another one has started, once there is one.
fn only_child(parent: u32) -> u32 {
    let children = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let above = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()?;
        (above == parent).then_some(pid)
    });
    children.last().unwrap()
}
