//! Sharing a session over HTTP: at which address, and who may come in.
//!
//! Owns how an address is written, the rule that nobody is let in from outside without a token, and taking the address.
//! What goes over it is the front's (`serve`).

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use drowse_core::activity::Asker;
use drowse_core::front::http::gate;
use serde::{Deserialize, Serialize};

use crate::serve::Options;
use crate::serve::limits::{self, LimitName, Named};
use crate::sys::listeners;

/// The host where none is given: this machine alone.
const HERE: &str = "127.0.0.1";

/// Where a session is shared. Who comes in with which token is kept with its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// An address, without brackets, or a name of this machine.
    pub host: String,
    /// The port; 0 is one that is free, the same again where that can be.
    pub port: u16,
    /// Whether a bearer token is asked for.
    #[serde(default)]
    pub token: bool,
    /// Other names of hosts by which clients reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Origins whose pages may come in, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// The limits that are not the usual ones.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub limits: Named,
}

/// What is given now of who else may come in, and of how much there may be. What is not stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedFront {
    /// All other names of hosts.
    pub hosts: Option<Vec<String>>,
    /// All origins.
    pub origins: Option<Vec<String>>,
    /// Limits, of which the last one of a name counts; without a value: the usual one.
    pub limits: Vec<(LimitName, Option<u64>)>,
}

impl WantedFront {
    /// Whether there is anything of it.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.hosts.is_some() || self.origins.is_some() || !self.limits.is_empty()
    }

    /// The limits where these were in force before.
    #[must_use]
    pub fn limits_over(&self, mut known: Named) -> Named {
        for (limit, value) in &self.limits {
            match value {
                Some(value) => known.insert(limit.name().to_owned(), *value),
                None => known.remove(limit.name()),
            };
        }
        known
    }
}

/// Why a session cannot be shared so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// It is no address.
    #[error(
        "a session is shared at [host:]port, e.g. 8080, 127.0.0.1:8080 or [::1]:8080; port 0 is a free one"
    )]
    Form,
    /// Nobody would have to say who he is.
    #[error(
        "at {0} everybody who reaches this machine could use the session: give --proxy-bearer-token, or leave out the \
         host to share it on this machine alone"
    )]
    Open(String),
    /// The token is none.
    #[error("{0}: an empty one would let everybody in")]
    Token(#[from] gate::BadToken),
    /// A token for a session that is not shared.
    #[error("a bearer token is for a session that is shared: give --proxy [host:]port, too")]
    Unshared,
    /// Hosts, origins or limits, likewise.
    #[error(
        "names of hosts, origins and limits are for a session that is shared: share it first (connect --proxy or set proxy [host:]port)"
    )]
    NoFront,
}

impl Share {
    /// Reads `[host:]port`, for whoever comes in without a token.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(typed: &str) -> Result<Self, ShareError> {
        let (host, port) = match typed.rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => (HERE, typed),
        };
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(inside) => inside.filter(|host| host.contains(':')).ok_or(ShareError::Form)?,
            None if host.contains(':') => return Err(ShareError::Form),
            None => host,
        };
        let is_part =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'%');
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or(ShareError::Form)?;
        if host.is_empty() || !host.bytes().all(is_part) {
            return Err(ShareError::Form);
        }
        let host = host.to_owned();
        let (hosts, origins, limits) = (Vec::new(), Vec::new(), Named::new());
        Ok(Self { host, port, token: false, hosts, origins, limits })
    }

    /// Whether it can be had from this machine only.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Looks whether it is safe.
    ///
    /// # Errors
    /// If it can be had from elsewhere without a token.
    pub fn check(&self) -> Result<(), ShareError> {
        if self.token || self.is_local() { Ok(()) } else { Err(ShareError::Open(self.host.clone())) }
    }

    /// The same elsewhere: who comes in, and what there may be, stays as it was.
    #[must_use]
    pub(crate) fn moved_to(self, other: &Self) -> Self {
        let Self { hosts, origins, limits, .. } = self;
        Self { hosts, origins, limits, ..other.clone() }
    }

    /// Takes what is given now.
    pub(crate) fn take(&mut self, wanted: &WantedFront) {
        if let Some(hosts) = &wanted.hosts {
            self.hosts.clone_from(hosts);
        }
        if let Some(origins) = &wanted.origins {
            self.origins.clone_from(origins);
        }
        self.limits = wanted.limits_over(std::mem::take(&mut self.limits));
    }

    fn addresses(&self, port: u16) -> io::Result<Vec<SocketAddr>> {
        if self.host.eq_ignore_ascii_case("localhost") {
            // Whatever a file of names says.
            return Ok(vec![(Ipv4Addr::LOCALHOST, port).into()]);
        }
        Ok((self.host.as_str(), port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Looks whether a token can be asked for.
///
/// # Errors
/// If it cannot: an empty one, for instance, would let everybody in.
pub fn check_token(token: &str) -> Result<(), ShareError> {
    Ok(gate::check_token(token.as_bytes())?)
}

/// How a bridge is to share its session. Holds a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sharing {
    /// Where.
    pub share: Share,
    /// The port that port 0 came to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u16>,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Without the address there is to be no start.
    #[serde(default)]
    pub required: bool,
}

impl fmt::Debug for Sharing {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("share", &self.share).finish_non_exhaustive()
    }
}

/// An address that was taken, and how it is served.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) listener: TcpListener,
    pub(crate) options: Options,
    /// For clients.
    pub(crate) url: String,
}

impl Sharing {
    /// Takes the address.
    ///
    /// # Errors
    /// Why it cannot be had, for people.
    pub(crate) fn take(&self) -> Result<Taken, String> {
        self.take_by(|| self.bind())
    }

    /// The same with a listener that may be had already.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn take_by(&self, bind: impl FnOnce() -> io::Result<TcpListener>) -> Result<Taken, String> {
        let share = &self.share;
        let refused = |why: String| format!("the session cannot be shared at {share}: {why}");
        share.check().map_err(|error| refused(error.to_string()))?;
        if share.token && self.token.is_none() {
            return Err(refused(
                "its bearer token is lost: connect it again with --proxy-bearer-token".to_owned(),
            ));
        }
        let (limits, pace) = limits::in_force(&share.limits);
        let options = Options {
            hosts: [&share.host].into_iter().chain(&share.hosts).cloned().collect(),
            origins: share.origins.clone(),
            limits,
            pace,
            token: self.token.clone().filter(|_| share.token),
            asker: Asker::ProxyPort,
            ..Options::default()
        };
        options.check().map_err(|error| refused(error.to_string()))?;
        let listener = bind().map_err(|error| refused(unbound(&error, share.port)))?;
        let address = listener.local_addr().and_then(|address| {
            listener.set_nonblocking(true)?;
            Ok(address)
        });
        let address = address.map_err(|error| refused(error.to_string()))?;
        let url = format!("http://{address}{}", options.path);
        Ok(Taken { listener, options, url })
    }

    /// Whether what listens there already is what is wanted.
    pub(crate) fn is_at(&self, other: &Share, port: u16) -> bool {
        self.share.host == other.host && (self.share.port == port || self.share.port == 0)
    }

    pub(crate) fn bind(&self) -> io::Result<TcpListener> {
        // Clients were told of the one that it came to last.
        if let Some(last) = self.last.filter(|_| self.share.port == 0)
            && let Ok(listener) = TcpListener::bind(self.share.addresses(last)?.as_slice())
        {
            return Ok(listener);
        }
        TcpListener::bind(self.share.addresses(self.share.port)?.as_slice())
    }
}

/// Why an address is not to be had, for people.
fn unbound(error: &io::Error, port: u16) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => match listeners::holder(port) {
            Some((pid, _)) if pid == crate::sys::own_pid() && !cfg!(test) => format!(
                "port {port} is its own, at another address: end that first (set proxy off), or take another port"
            ),
            Some((pid, name)) => format!(
                "port {port} is in use by process {pid} ({name}); end that, or share it at another port, or at port 0"
            ),
            None => format!("port {port} is in use; share it at another port, or at port 0"),
        },
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => {
            format!("port {port} is for others than ordinary users; take one above 1023")
        }
        _ => error.to_string(),
    }
}

/// The port in the address at which a session was shared last.
pub(crate) fn port_of(url: &str) -> Option<u16> {
    url::Url::parse(url).ok()?.port_or_known_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharing(share: Share) -> Sharing {
        Sharing { share, last: None, token: None, required: true }
    }

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for (typed, shown, local) in [
            ("8080", "127.0.0.1:8080", true),
            ("0", "127.0.0.1:0", true),
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.9.9.9:1", "127.9.9.9:1", true),
            ("localhost:65535", "localhost:65535", true),
            ("[::1]:80", "[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:80", "0.0.0.0:80", false),
            ("[::]:80", "[::]:80", false),
            ("10.0.0.1:80", "10.0.0.1:80", false),
            ("my-host:80", "my-host:80", false),
            ("localhost.evil.example:80", "localhost.evil.example:80", false),
        ] {
            let share = Share::parse(typed).unwrap();
            assert_eq!((share.to_string().as_str(), share.is_local()), (shown, local));
            assert_eq!(Share::parse(shown), Ok(share.clone()));
            assert_eq!(share.check().is_ok(), local, "{typed} without a token");
            assert_eq!(Share { token: true, ..share }.check(), Ok(()));
        }
        for typed in [
            "",
            ":8080",
            "x",
            "host:",
            "host:x",
            "65536",
            "-1",
            "+1",
            "::1:80",
            "[::1]80",
            "[host]:80",
            "a b:80",
            "http://h:80",
            "h/p:80",
            "u@h:80",
        ] {
            assert_eq!(Share::parse(typed), Err(ShareError::Form), "{typed}");
        }
    }

    #[test]
    fn tokens_fail_closed() {
        assert!(check_token("").is_err() && check_token("a b").is_err() && check_token("a\n").is_err());
        assert_eq!(check_token("a-._~+/="), Ok(()));
        let share = Share { token: true, ..Share::parse("0").unwrap() };
        let lost = sharing(share.clone()).take().unwrap_err();
        assert!(lost.contains("bearer token is lost"), "{lost}");
        let empty = Sharing { token: Some(String::new()), ..sharing(share.clone()) };
        assert!(empty.take().is_err());
        let taken = Sharing { token: Some("hush".into()), ..sharing(share) };
        assert!(!format!("{taken:?}").contains("hush"));
        assert_eq!(taken.take().unwrap().options.token.as_deref(), Some("hush"));
        let open = sharing(Share::parse("0.0.0.0:0").unwrap()).take().unwrap_err();
        assert!(open.contains("--proxy-bearer-token"), "{open}");
    }

    #[test]
    fn the_listener_has_what_the_record_says() {
        let usual = sharing(Share::parse("0").unwrap()).take().unwrap().options;
        assert_eq!((usual.limits, usual.pace), Default::default());
        let text = r#"{"host":"127.0.0.1","port":0,"hosts":["box"],"origins":["https://o"],
            "limits":{"sessions":2,"hold":30,"of-later":1},"ofLater":{}}"#;
        let share: Share = serde_json::from_str(text).unwrap();
        let options = sharing(share.clone()).take().unwrap().options;
        assert_eq!(options.hosts, ["127.0.0.1", "box"]);
        assert_eq!((&options.origins[..], options.limits.sessions), (&["https://o".to_owned()][..], 2));
        assert_eq!(options.pace.hold.map(|hold| hold.as_secs()), Some(30));
        let again = serde_json::to_string(&share).unwrap();
        assert_eq!(serde_json::from_str::<Share>(&again).unwrap(), share);
        assert!(again.contains("of-later"), "a limit that is not known here is kept: {again}");
        let plain = serde_json::to_string(&Share::parse("0").unwrap()).unwrap();
        assert_eq!(plain, r#"{"host":"127.0.0.1","port":0,"token":false}"#);
    }

    #[test]
    fn a_free_port_is_the_same_again_and_one_that_is_taken_is_said() {
        let free = sharing(Share::parse("0").unwrap());
        let taken = free.take().unwrap();
        let port = port_of(&taken.url).unwrap();
        assert_eq!(taken.url, format!("http://127.0.0.1:{port}/mcp"));
        let again = sharing(Share::parse(&port.to_string()).unwrap());
        let error = again.take().unwrap_err();
        let us = format!("port {port} is in use by process {} (", std::process::id());
        assert!(error.contains(&us), "{error}");
        drop(taken);
        let last = Sharing { last: Some(port), ..free };
        let taken = last.take().unwrap();
        assert_eq!(port_of(&taken.url), Some(port));
        assert_ne!(port_of(&last.take().unwrap().url), Some(port), "another, where that is taken");
    }
}
