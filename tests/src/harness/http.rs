//! The fixture server behind a URL.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

use super::{LIMIT, program};
use crate::fixture::journal::{Entry, Journal};

/// A [fixture](crate::fixture::http) that is served over HTTP, at a port that stays its own while it is stopped. It has a
/// directory of its own: no [`Home`](super::Home) counts it among what drowse has left. It ends with its value here.
#[derive(Debug)]
pub struct HttpServer {
    directory: TempDir,
    /// What its processes write down.
    pub journal: Journal,
    flags: Vec<String>,
    address: SocketAddr,
    /// Bound and never used: nobody else gets the port, and who connects while the server is away is refused.
    _reserved: OwnedFd,
    child: Option<Child>,
}

impl HttpServer {
    /// Starts one on the loopback address of IPv4.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", flags)
    }

    /// Starts one at an address whose port is 0.
    ///
    /// # Panics
    /// If it does not start, or that is no address.
    #[must_use]
    #[track_caller]
    pub fn start_at(address: &str, flags: &[&str]) -> Self {
        let (reserved, address) = reserve(address.parse().expect("an address"));
        let directory = tempfile::Builder::new().prefix("drowse-http-").tempdir().expect("a directory");
        let journal = Journal::at(directory.path().join("journal"));
        let flags = flags.iter().map(ToString::to_string).collect();
        let mut server = Self { directory, journal, flags, address, _reserved: reserved, child: None };
        server.restart();
        server
    }

    /// Where drowse is to connect to.
    ///
    /// # Panics
    /// If it has never listened.
    #[must_use]
    #[track_caller]
    pub fn url(&self) -> String {
        self.listening("url")
    }

    /// The origin (`http://…` without a path) that redirects may lead to; another one after every start.
    ///
    /// # Panics
    /// If it has never listened.
    #[must_use]
    #[track_caller]
    pub fn other(&self) -> String {
        self.listening("other")
    }

    fn listening(&self, field: &str) -> String {
        let entries = self.entries();
        let last = entries.iter().rfind(|entry| entry.event == "listening").expect("it has listened");
        last.text(field).expect("a string").to_owned()
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A path for a file that is gone with the server.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Its process.
    ///
    /// # Panics
    /// If it was stopped.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a process").id()
    }

    /// Starts it again at the same port, stopped before or not. Its sessions are gone.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        let mut command = Command::new(program::fixture());
        command.arg("--http").arg(self.address.to_string()).args(&self.flags);
        command.arg("--log").arg(self.journal.path());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let pid = child.id();
        self.child = Some(child);
        self.wait_for(|entries| entries.iter().any(|entry| entry.event == "listening" && entry.pid == pid));
    }

    /// Starts it again with other flags.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn restart_with(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(ToString::to_string).collect();
        self.restart();
    }

    /// Ends it as its parent's end does, and waits until it has ended. Who connects from now on is refused.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            wait_for_end(&mut child);
        }
    }

    /// Kills it, and waits until it has ended.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child can be killed");
            wait_for_end(&mut child);
        }
    }

    /// Waits until it has ended by itself; its exit status, or `None` if a signal ended it.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("a process");
        wait_for_end(&mut child)
    }

    /// Has it do [one of its tasks](crate::fixture::http); what it says.
    ///
    /// # Panics
    /// If it refuses.
    #[track_caller]
    pub fn ask_for(&self, task: &str, body: &str) -> String {
        let mut socket = TcpStream::connect(self.address).expect("it listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        let length = body.len();
        write!(
            socket,
            "POST /fixture/{task} HTTP/1.1\r\nHost: fixture\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("it reads");
        let mut response = String::new();
        socket.read_to_string(&mut response).expect("it answers");
        let (head, said) = response.split_once("\r\n\r\n").expect("a response");
        assert!(head.starts_with("HTTP/1.1 200 "), "{task}: {body}: {response}");
        said.to_owned()
    }

    /// Has it go wrong from now on; see [`faults`](crate::fixture::http::faults).
    ///
    /// # Panics
    /// If there is no such fault.
    #[track_caller]
    pub fn fault(&self, spec: &str) {
        self.ask_for("fault", spec);
    }

    /// Everything so far.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    #[track_caller]
    pub fn entries(&self) -> Vec<Entry> {
        self.journal.entries().expect("a journal")
    }

    /// The requests with this method, of HTTP or of the protocol.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    #[track_caller]
    pub fn requests(&self, method: &str) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.is("http", "method", method) || entry.is("http", "verb", method));
        entries
    }

    /// The events of this name.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    #[track_caller]
    pub fn events(&self, event: &str) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.event == event);
        entries
    }

    /// How often a tool ran with this tag.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    #[track_caller]
    pub fn executions(&self, tag: &str) -> usize {
        self.journal.executions(tag).expect("a journal")
    }

    /// Waits until the journal is so.
    ///
    /// # Panics
    /// If it is not within [`LIMIT`].
    #[track_caller]
    pub fn wait_for(&self, enough: impl FnMut(&[Entry]) -> bool) -> Vec<Entry> {
        self.journal.wait(LIMIT, enough).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until there are so many events of this name.
    ///
    /// # Panics
    /// If there are not within [`LIMIT`].
    #[track_caller]
    pub fn wait_for_events(&self, event: &str, count: usize) -> Vec<Entry> {
        self.wait_for(|entries| entries.iter().filter(|entry| entry.event == event).count() >= count);
        self.events(event)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that stays on the end of its input is none that a test should wait for.
            drop(child.stdin.take());
            if self.flags.iter().any(|flag| flag == "--ignore-eof") || std::thread::panicking() {
                _ = child.kill();
            }
            wait_for_end(&mut child);
        }
    }
}

#[track_caller]
fn wait_for_end(child: &mut Child) -> Option<i32> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("a child that was not waited for");
    let limit = Timespec::try_from(LIMIT).expect("a limit");
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).expect("poll");
    if ended == 0 {
        _ = child.kill();
    }
    let status = child.wait().expect("its status");
    assert!(ended > 0, "the server does not end");
    status.code()
}

fn reserve(address: SocketAddr) -> (OwnedFd, SocketAddr) {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None).expect("a socket");
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).expect("not for children");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    bind(&socket, &address).expect("a free port");
    let address = getsockname(&socket).expect("its address");
    (socket, address.try_into().expect("an address"))
}
