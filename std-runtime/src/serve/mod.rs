//! Clients over HTTP, in front of a [`Hub`]: Streamable HTTP of 2026-07-28, and that of 2025-03-26 to 2025-11-25.
//!
//! Reads requests, hands their messages to the hub by direct calls, and writes what it says. What a request is, who may
//! send it, and what there may be of everything, is the core's ([`drowse_core::front::http`]).

mod accept;
mod alarm;
mod body;
mod endpoint;
mod held;
mod io;
mod lane;
pub mod limits;
mod once;
mod session;
mod turns;
mod view;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use drowse_core::activity::Asker;
use drowse_core::front::http::gate::{self, BadToken};
use drowse_core::front::http::{Limits, Pace};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::bridge::Hub;

/// How an endpoint is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// The path of the endpoint.
    pub path: String,
    /// Names of hosts that it is known by, beside its address and those of this machine.
    pub hosts: Vec<String>,
    /// Origins whose pages may come in, beside those of these hosts: `scheme://host[:port]`.
    pub origins: Vec<String>,
    /// The bearer token that each request has to have.
    pub token: Option<String>,
    /// What kind of clients these are.
    pub asker: Asker,
    /// How much of everything there may be.
    pub limits: Limits,
    /// When answers become streams.
    pub pace: Pace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: "/mcp".to_owned(),
            hosts: Vec::new(),
            origins: Vec::new(),
            token: None,
            asker: Asker::DevProxy,
            limits: Limits::default(),
            pace: Pace::default(),
        }
    }
}

/// Why an endpoint cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The token is none.
    #[error("{0}")]
    Token(#[from] BadToken),
    /// The path is none.
    #[error("the path of an endpoint begins with / and has no blanks and none of ? # {{ }} * :, e.g. /mcp")]
    Path,
    /// The listener does not work.
    #[error("the listener: {0}")]
    Listener(#[from] std::io::Error),
}

impl Options {
    /// Looks whether an endpoint can be served like this.
    ///
    /// # Errors
    /// If it cannot: an empty token, for instance, would let everybody in.
    pub fn check(&self) -> Result<(), ServeError> {
        if let Some(token) = &self.token {
            gate::check_token(token.as_bytes())?;
        }
        let path = self.path.as_bytes();
        let fits = |byte: &u8| byte.is_ascii_graphic() && !b"?#{}*:".contains(byte);
        if path.first() != Some(&b'/') || !path.iter().all(fits) {
            return Err(ServeError::Path);
        }
        Ok(())
    }
}

/// Serves the endpoint until the hub is retired. To be called within a `LocalSet`.
///
/// # Errors
/// If the options cannot be served, or the listener has no address.
pub async fn http(hub: &Hub, listener: TcpListener, options: Options) -> Result<(), ServeError> {
    http_until(hub, listener, options, Rc::default()).await
}

/// The same, until that is said. From then on nothing more is accepted; who is answered has a moment to read it.
///
/// # Errors
/// As [`http()`].
pub(crate) async fn http_until(
    hub: &Hub,
    listener: TcpListener,
    options: Options,
    stop: Rc<Stop>,
) -> Result<(), ServeError> {
    options.check()?;
    let local: SocketAddr = listener.local_addr()?;
    accept::serve(hub, listener, local, options, stop).await;
    Ok(())
}

/// Ends an endpoint before its hub ends.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    said: Cell<bool>,
    heard: Notify,
}

impl Stop {
    /// Nothing more is accepted.
    pub(crate) fn say(&self) {
        self.said.set(true);
        self.heard.notify_waiters();
    }

    pub(crate) fn is_said(&self) -> bool {
        self.said.get()
    }

    /// Resolves when it is said.
    async fn heard(&self) {
        while !self.said.get() {
            self.heard.notified().await;
        }
    }
}
