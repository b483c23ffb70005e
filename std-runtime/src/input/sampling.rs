//! Asks a language model by running a command: the request's params on its standard input, the result on its output.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::Value;

use super::InputError;
use crate::wait::{Wait, Woken};
use crate::wire::MAX_MESSAGE;

/// How much of its standard error is quoted.
const QUOTED: usize = 500;

/// A command that asks a language model.
#[derive(Debug, Clone, Copy)]
pub struct Sampling<'a> {
    /// A line for the shell.
    pub command: &'a str,
    /// Where it runs.
    pub cwd: &'a Path,
}

/// What is wrong with a sampling command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// It could not be run.
    #[error("cannot be run: {0}")]
    Io(#[from] io::Error),
    /// It said that it failed.
    #[error("failed ({status}){stderr}")]
    Status {
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said, after a colon.
        stderr: String,
    },
    /// It took too long and was ended.
    #[error("took too long and was ended")]
    TooSlow,
    /// What it wrote is no result.
    #[error("wrote something that is no result of sampling/createMessage: {0}")]
    NoResult(String),
}

impl Sampling<'_> {
    /// Runs the command with these params. It and what it started are gone afterwards, unless they left its process
    /// group.
    ///
    /// # Errors
    /// If there is no result, or the wait ends first.
    pub fn run(&self, params: &str, wait: Wait<'_>) -> Result<String, InputError> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(self.command).current_dir(self.cwd).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let sampling = |error: io::Error| InputError::Sampling(error.into());
        let mut running = Running(command.spawn().map_err(sampling)?);
        let child = &mut running.0;
        let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let input = params.to_owned();
        // It may end without having read any of it.
        thread::spawn(move || stdin.as_mut().map(|pipe| pipe.write_all(input.as_bytes())));
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut pipe) = stderr {
                let mut chunk = [0; 4096];
                while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                    text.extend_from_slice(chunk.get(..read).unwrap_or_default());
                    let excess = text.len().saturating_sub(QUOTED);
                    text.drain(..excess);
                }
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let mut output = Vec::new();
        if let Some(mut pipe) = stdout {
            let mut chunk = vec![0; 64 << 10];
            loop {
                ready(wait.readable(pipe.as_fd()).map_err(sampling)?)?;
                match pipe.read(&mut chunk).map_err(sampling)? {
                    0 => break,
                    read => output.extend_from_slice(chunk.get(..read).unwrap_or_default()),
                }
                if output.len() > MAX_MESSAGE {
                    let what = format!("it is longer than {MAX_MESSAGE} bytes");
                    return Err(InputError::Sampling(SamplingError::NoResult(what)));
                }
            }
        }
        let status = running.end(wait)?;
        drop(running);
        if !status.success() {
            let stderr = stderr.join().unwrap_or_default();
            let stderr = if stderr.is_empty() { stderr } else { format!(": {stderr}") };
            return Err(InputError::Sampling(SamplingError::Status { status, stderr }));
        }
        check(output).map_err(|what| InputError::Sampling(SamplingError::NoResult(what)))
    }
}

/// Ends its process group when dropped.
struct Running(Child);

impl Running {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }

    /// Waits for its end. It is reaped when dropped: until then its number is its own.
    fn end(&mut self, wait: Wait<'_>) -> Result<std::process::ExitStatus, InputError> {
        let sampling = |error: io::Error| InputError::Sampling(error.into());
        if let Some(pid) = self.pid() {
            let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| sampling(error.into()))?;
            ready(wait.readable(fd.as_fd()).map_err(sampling)?)?;
            // Whatever it left behind, before its number is free.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.0.wait().map_err(sampling)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (Ok(None), Some(pid)) = (self.0.try_wait(), self.pid()) {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

fn ready(woken: Woken) -> Result<(), InputError> {
    match woken {
        Woken::Ready => Ok(()),
        Woken::Deadline => Err(InputError::Sampling(SamplingError::TooSlow)),
        Woken::Interrupted => Err(InputError::Interrupted),
    }
}

fn check(output: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(output).map_err(|_| "it is not UTF-8".to_owned())?;
    let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let is = |member: &str, fits: fn(&Value) -> bool| value.get(member).is_some_and(fits);
    if !is("role", Value::is_string) || !is("model", Value::is_string) {
        return Err("it needs a role and a model, each a string".to_owned());
    }
    if !is("content", |content| content.is_object() || content.is_array()) {
        return Err("it needs content, an object or an array".to_owned());
    }
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn run(command: &str, limit: Duration) -> Result<String, InputError> {
        let directory = tempfile::tempdir().unwrap();
        let sampling = Sampling { command, cwd: directory.path() };
        sampling.run(r#"{"messages":[]}"#, Wait::at_most(limit))
    }

    const LONG: Duration = Duration::from_secs(60);
    const RESULT: &str = r#"{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}"#;

    #[test]
    fn the_result_is_what_the_command_wrote() {
        assert_eq!(run(&format!("cat >/dev/null; echo '{RESULT}'"), LONG).unwrap(), RESULT);
        // It need not read what it is told.
        assert_eq!(run(&format!("echo '{RESULT}'"), LONG).unwrap(), RESULT);
        let echo = r#"printf '{"role":"assistant","model":"m","content":%s}' "$(cat)""#;
        assert!(run(echo, LONG).unwrap().ends_with(r#""content":{"messages":[]}}"#));
    }

    #[test]
    fn what_can_go_wrong() {
        let text = |command: &str| run(command, LONG).unwrap_err().to_string();
        assert_eq!(
            text("echo no model >&2; exit 3"),
            "the sampling command failed (exit status: 3): no model"
        );
        assert!(text("exit 3").ends_with("failed (exit status: 3)"));
        for output in
            ["", "hi", "[]", r#"{"role":"assistant","model":"m"}"#, r#"{"role":1,"model":"m","content":{}}"#]
        {
            assert!(text(&format!("printf '%s' '{output}'")).contains("no result"), "{output}");
        }
    }

    #[test]
    fn one_that_is_slow_is_ended_with_all_that_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let command = format!("sleep 1000 & echo $! > '{}'; wait", file.display());
        let sampling = Sampling { command: &command, cwd: directory.path() };
        // The deadline passes when the child is there: until then the file is looked for.
        let (reader, mut writer) = io::pipe().unwrap();
        let watch = file.clone();
        let watcher = thread::spawn(move || {
            while std::fs::read_to_string(&watch).unwrap_or_default().trim().is_empty() {
                thread::sleep(Duration::from_millis(2));
            }
            writer.write_all(b"x").unwrap();
        });
        let wait = Wait { deadline: None, interrupt: Some(reader.as_fd()) };
        assert!(matches!(sampling.run("{}", wait), Err(InputError::Interrupted)));
        watcher.join().unwrap();
        let pid = std::fs::read_to_string(&file).unwrap();
        // A signal takes a moment. Gone, or not yet reaped by whoever adopts it.
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_gone() {
            assert!(Instant::now() < deadline, "process {pid} lives on");
            thread::sleep(Duration::from_millis(2));
        }
        let slow = run("exec sleep 1000", Duration::from_millis(1));
        assert!(matches!(slow, Err(InputError::Sampling(SamplingError::TooSlow))));
    }
}
