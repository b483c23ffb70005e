//! The port of a server that is reached by a URL: free before it is started, and open before it is asked.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use url::Url;

use crate::bridge::{Client, Failed, LocalFuture, Response, local_client};
use crate::sys::procfs;

/// How often it is looked whether the port is open.
const EVERY: Duration = Duration::from_millis(25);

/// Looks whether a URL can be that of a server that is started here.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn check(url: &str) -> Result<(), String> {
    let wrong = |what: &str| format!("--backend-url {url}: {what}");
    let parsed = Url::parse(url).map_err(|error| {
        wrong(&format!(
            "it takes the URL at which the command serves, as http://127.0.0.1:3000/mcp ({error})"
        ))
    })?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("it has to be http:// or https://"));
    }
    if addresses(&parsed).is_none_or(|addresses| addresses.is_empty()) {
        return Err(wrong("its host has no address"));
    }
    Ok(())
}

fn addresses(url: &Url) -> Option<Vec<SocketAddr>> {
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
    Some((host, url.port_or_known_default()?).to_socket_addrs().ok()?.collect())
}

/// A client for the server that is about to be started there.
///
/// # Errors
/// If somebody else has the port; who, where that can be told.
pub(super) fn reserve(url: &str) -> Result<Rc<dyn Client>, String> {
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    let addresses = addresses(&parsed).unwrap_or_default();
    for address in &addresses {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let port = address.port();
                let holder = holder(port).map_or_else(String::new, |holder| format!(" by {holder}"));
                return Err(format!(
                    "port {port} is in use{holder}, so the server was not started: end that, or serve at another port"
                ));
            }
            // Not an address of this machine, or one that only others may listen at: that will show.
            Ok(_) | Err(_) => {}
        }
    }
    let client = local_client(url)?;
    Ok(Rc::new(Late { client, addresses, open: Rc::new(Cell::new(false)) }))
}

/// Sends nothing before the port is open. How long that may take is not its business.
struct Late {
    client: Rc<dyn Client>,
    addresses: Vec<SocketAddr>,
    open: Rc<Cell<bool>>,
}

impl Client for Late {
    fn send(&self, request: http::Request<Bytes>) -> LocalFuture<'static, Result<Response, Failed>> {
        let (client, open) = (Rc::clone(&self.client), Rc::clone(&self.open));
        if open.get() {
            return client.send(request);
        }
        let addresses = self.addresses.clone();
        Box::pin(async move {
            while !open.get() {
                for address in &addresses {
                    if TcpStream::connect(address).await.is_ok() {
                        open.set(true);
                    }
                }
                if !open.get() {
                    tokio::time::sleep(EVERY).await;
                }
            }
            client.send(request).await
        })
    }

    fn url(&self) -> &Url {
        self.client.url()
    }
}

/// Who listens at a port, for people.
fn holder(port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|table| {
        fs::read_to_string(table).ok()?.lines().skip(1).find_map(|line| {
            let mut fields = line.split_whitespace();
            let local = fields.nth(1)?;
            let state = fields.nth(1)?;
            let inode = fields.nth(5)?;
            let listens = state == "0A" && u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()? == port;
            listens.then(|| inode.to_owned())
        })
    })?;
    let socket = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else { continue };
        let holds = descriptors.flatten().any(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
        });
        if holds {
            let command = procfs::command_line(pid).unwrap_or_default().join(" ");
            let command: String = command.chars().filter(|c| !c.is_control()).take(120).collect();
            return Some(format!("process {pid} (`{command}`)"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_names_its_holder_and_a_free_one_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = reserve(&format!("http://127.0.0.1:{port}/mcp")).err().unwrap();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(listener);
        assert!(reserve(&format!("http://127.0.0.1:{port}/mcp")).is_ok());
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for wrong in ["", "x", "ftp://127.0.0.1/", "http://no-such-host.invalid/"] {
            assert!(check(wrong).unwrap_err().contains("--backend-url"), "{wrong}");
        }
        assert!(check("x").unwrap_err().contains("as http://127.0.0.1:3000/mcp"));
        check("http://127.0.0.1:3000/mcp").unwrap();
    }
}
