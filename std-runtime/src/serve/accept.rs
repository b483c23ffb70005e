//! Connections: how many there may be, how long their heads may take, and their end.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::alarm::Heads;
use super::endpoint::{CameAt, State, router, too_many};
use super::io::{Local, Watched};
use super::turns::Turns;
use super::{Options, Stop};
use crate::bridge::Hub;

/// How long connections may take to end when all does.
const GOODBYE: Duration = Duration::from_secs(2);
/// How HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest head of a request.
const HEAD: usize = 64 << 10;
/// How many headers a request may have.
const HEADERS: usize = 128;
/// How many requests one connection of HTTP/2 may have at once.
const MULTIPLEXED: u32 = 256;

/// What all connections share.
struct Door {
    state: Rc<State>,
    router: Router,
    open: Cell<usize>,
    /// All is over.
    closing: Notify,
    is_closing: Cell<bool>,
    /// Whoever is still there had his time.
    cutting: Notify,
    is_cutting: Cell<bool>,
    /// A connection ended.
    ended: Notify,
}

/// Accepts connections until the hub is retired, or that is said.
pub(super) async fn serve(
    hub: &Hub,
    listener: TcpListener,
    bound: SocketAddr,
    options: Options,
    stop: Rc<Stop>,
) {
    let state = State::new(hub, bound, options, Rc::clone(&stop));
    let door = Rc::new(Door {
        router: router(&state),
        state: Rc::clone(&state),
        open: Cell::new(0),
        closing: Notify::new(),
        is_closing: Cell::new(false),
        cutting: Notify::new(),
        is_cutting: Cell::new(false),
        ended: Notify::new(),
    });
    let mut retired = pin!(hub.retired());
    let mut stopped = pin!(stop.heard());
    let mut expire = pin!(state.expire());
    loop {
        tokio::select! {
            biased;
            () = &mut retired => break,
            () = &mut stopped => break,
            () = &mut expire => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => door.accept(stream),
                // Out of descriptors: those in use have to end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
        }
    }
    drop(listener);
    door.is_closing.set(true);
    door.closing.notify_waiters();
    state.end();
    let gone = async {
        while door.open.get() > 0 {
            door.ended.notified().await;
        }
    };
    let _ = tokio::time::timeout(GOODBYE, gone).await;
    door.is_cutting.set(true);
    door.cutting.notify_waiters();
}

impl Door {
    fn accept(self: &Rc<Self>, stream: TcpStream) {
        if self.open.get() >= self.state.options.limits.connections {
            // What does not go at once does not go.
            let _ = stream.try_write(too_many().as_bytes());
            return;
        }
        self.open.set(self.open.get() + 1);
        let door = Rc::clone(self);
        spawn_local(async move {
            let _ = stream.set_nodelay(true);
            door.serve(stream).await;
            door.open.set(door.open.get().saturating_sub(1));
            door.ended.notify_one();
            door.state.hub.guests_active();
        });
    }

    async fn serve(self: &Rc<Self>, stream: TcpStream) {
        let limits = self.state.options.limits;
        let Ok(local) = stream.local_addr() else { return };
        let Ok(Some(modern)) = tokio::time::timeout(limits.head, speaks_two(&stream)).await else { return };
        let turns = modern.then(|| Turns::new(&limits, MULTIPLEXED as usize));
        // No type of its own: so the future of a request has its place in the connection, and needs no allocation.
        let (door, at, counted) = (Rc::clone(self), CameAt(local.ip()), turns.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let door = Rc::clone(&door);
            let turn = counted.as_ref().map(Turns::begin);
            async move {
                // Nearly all of them: there is nothing to choose from.
                let response = if request.uri().path() == door.state.options.path {
                    let (head, body) = request.into_parts();
                    door.state.respond(&head, body, Some(at)).await
                } else {
                    elsewhere(&door.router, request, at).await
                };
                Ok::<_, Infallible>(match turn {
                    None => response,
                    Some(turn) => turn.watch(response),
                })
            }
        });
        let io = TokioIo::new(Watched::new(stream, limits.stalled, &self.state.hub));
        if modern {
            let connection = http2::Builder::new(Local)
                .timer(TokioTimer::new())
                .max_concurrent_streams(MULTIPLEXED)
                .max_header_list_size(HEAD as u32)
                .keep_alive_interval(limits.stalled)
                .keep_alive_timeout(limits.stalled)
                .serve_connection(io, service);
            let over = async {
                match turns {
                    Some(turns) => turns.over().await,
                    None => std::future::pending().await,
                }
            };
            self.drive(connection, http2::Connection::graceful_shutdown, over).await;
        } else {
            let connection = http1::Builder::new()
                .timer(Heads::new())
                .header_read_timeout(limits.head)
                .max_headers(HEADERS)
                .max_buf_size(HEAD)
                .serve_connection(io, service);
            self.drive(connection, http1::Connection::graceful_shutdown, std::future::pending()).await;
        }
    }

    /// Serves a connection to its end, or to that of all, or until its client was quiet for too long.
    async fn drive<C: Future>(&self, connection: C, shut: fn(Pin<&mut C>), over: impl Future<Output = ()>) {
        let mut connection = pin!(connection);
        if !self.is_closing.get() {
            tokio::select! {
                biased;
                _ = &mut connection => return,
                () = self.closing.notified() => {}
                () = over => {
                    // It is told, so that a request which it sends just now can go elsewhere.
                    shut(connection.as_mut());
                    let _ = tokio::time::timeout(GOODBYE, connection).await;
                    return;
                }
            }
        }
        shut(connection.as_mut());
        if !self.is_cutting.get() {
            tokio::select! {
                biased;
                _ = &mut connection => {}
                () = self.cutting.notified() => {}
            }
        }
    }
}

/// Whether a client begins with HTTP/2; `None` if it is gone.
async fn speaks_two(stream: &TcpStream) -> Option<bool> {
    let mut start = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut start).await.ok().filter(|count| *count > 0)?;
        let read = start.get(..count)?;
        if !PREFACE.starts_with(read) {
            return Some(false);
        }
        if count == PREFACE.len() {
            return Some(true);
        }
        // A piece of it is there, so that waiting to read would not wait.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Answers what does not go to the endpoint, at first sight.
async fn elsewhere(router: &Router, mut request: Request<Incoming>, at: CameAt) -> Response {
    request.extensions_mut().insert(at);
    let answered = Box::pin(TowerToHyperService::new(router.clone()).call(request)).await;
    answered.unwrap_or_else(|never| match never {})
}
