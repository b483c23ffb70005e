//! A server that writes down what it is told, and closes.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use drowse_tests::harness::LIMIT;

/// One at a port of its own. Ends when dropped.
#[derive(Debug)]
pub(super) struct Mirror {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Mirror {
    /// One that refuses whatever it is asked.
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&heard);
        let thread = thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if !answer(&socket, &lines) {
                    break;
                }
            }
        });
        Self { address, heard, thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The lines of all heads, in order.
    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// Whether there may be more.
fn answer(socket: &TcpStream, lines: &Mutex<Vec<String>>) -> bool {
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut any = false;
    for line in BufReader::new(socket).lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if line == "STOP" {
            return false;
        }
        any = true;
        lines.lock().unwrap().push(line);
    }
    if any {
        let mut socket = socket;
        let _ = socket.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let _ = socket.shutdown(Shutdown::Write);
        // Closed with something unread, it would be a reset, which may overtake the answer.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    }
    true
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Ok(mut socket) = TcpStream::connect(self.address) {
            let _ = socket.write_all(b"STOP\r\n");
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
