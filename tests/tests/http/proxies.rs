//! Proxies: those of the environment that a session was connected in, and the one that `--proxy` names.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use drowse_tests::harness::{Home, HttpServer, LIMIT, Run, Session, in_both_eras};

use super::seen::{check, says};

/// A proxy for plain HTTP, and for connections to anywhere (`CONNECT`). Ends when dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub(super) fn start() -> Self {
        Self::refusing(None)
    }

    /// One that answers everything with this status.
    fn refusing(status: Option<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::clone(&asked);
        let thread = thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let mut begin = [0; 4];
                if socket.peek(&mut begin).is_ok_and(|read| &begin[..read] == b"STOP") {
                    break;
                }
                let heads = Arc::clone(&heads);
                // Each connection ends with the client's, and the client's with the session.
                thread::spawn(move || _ = serve(&socket, &heads, status));
            }
        });
        Self { address, asked, thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn with_password(&self) -> String {
        format!("http://user:p4ss-of-the-proxy@{}", self.address)
    }

    /// The heads of what it was asked, in order.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Ok(mut socket) = TcpStream::connect(self.address) {
            let _ = socket.write_all(b"STOP");
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Serves one request a connection, which is all that a test needs.
fn serve(socket: &TcpStream, heads: &Mutex<Vec<String>>, refuse: Option<u16>) -> std::io::Result<()> {
    socket.set_read_timeout(Some(LIMIT))?;
    let mut reader = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    heads.lock().unwrap().push(head.clone());
    let mut back = socket;
    if let Some(status) = refuse {
        write!(back, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        back.shutdown(Shutdown::Write)?;
        return std::io::copy(&mut reader, &mut std::io::sink()).map(|_| ());
    }
    let mut words = head.split(' ');
    let (verb, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let Ok(upstream) = TcpStream::connect(authority) else {
        return back.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    if verb == "CONNECT" {
        back.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    } else {
        // The next request on this connection would need a look of its own, so there is none.
        let head = head.replacen(&format!("http://{authority}"), "", 1);
        // The password was for the proxy.
        let is_own = |line: &&str| line.to_ascii_lowercase().starts_with("proxy-");
        let lines: Vec<&str> = head.split("\r\n").filter(|line| !is_own(line)).collect();
        let head = lines.join("\r\n").replacen("\r\n", "\r\nConnection: close\r\n", 1);
        (&upstream).write_all(head.as_bytes())?;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pump(&upstream, socket);
            // What the server has said last is on its way; nothing else follows.
            let _ = socket.shutdown(Shutdown::Both);
        });
        let buffered = reader.buffer().to_vec();
        let _ = (&upstream).write_all(&buffered);
        let _ = pump(socket, &upstream);
        let _ = upstream.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn pump(mut from: &TcpStream, mut to: &TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 1 << 14];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            read => to.write_all(&buffer[..read])?,
        }
    }
}

fn connect_with<'h>(
    home: &'h Home,
    url: &str,
    variables: &[(&str, &str)],
    flags: &[&str],
) -> (Session<'h>, Run) {
    let mut command = home.command(["connect", url, "@s", "--json"]);
    command.args(flags).envs(variables.iter().copied());
    (home.session("@s"), home.finish(command))
}

#[test]
fn the_proxy_of_the_environment() {
    in_both_eras(|era| {
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
            let proxy = Proxy::start();
            let server = HttpServer::start(&["--era", era]);
            let home = Home::new();
            let (session, run) = connect_with(&home, &server.url(), &[(name, &proxy.url())], &[]);
            run.ok();
            // A caller without that variable uses the same: the session's is pinned.
            assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
            assert_eq!(server.executions("a"), 1);
            let asked = proxy.asked();
            let calls = asked.iter().filter(|head| head.starts_with(&format!("POST {} ", server.url())));
            assert!(calls.count() >= 2, "{name}: {asked:?}");
            home.run(["close", "@s"]).ok();
            if era == "legacy" {
                assert!(proxy.asked().iter().any(|head| head.starts_with("DELETE ")), "{:?}", proxy.asked());
            }
        }
    });
}

#[test]
fn hosts_that_need_none() {
    let server = HttpServer::start(&["--era", "modern"]);
    for (no_proxy, is_used) in [
        ("127.0.0.1", false),
        ("example.com,127.0.0.0/8", false),
        ("*", false),
        ("example.com", true),
        ("", true),
    ] {
        let proxy = Proxy::start();
        let home = Home::new();
        let variables = [("HTTP_PROXY", proxy.url()), ("NO_PROXY", no_proxy.to_owned())];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let (session, run) = connect_with(&home, &server.url(), &variables, &[]);
        run.ok();
        session.call("tag", &["tag=a"]).ok();
        assert_eq!(!proxy.asked().is_empty(), is_used, "NO_PROXY={no_proxy}");
    }
    // HTTPS_PROXY is not for this.
    let proxy = Proxy::start();
    let home = Home::new();
    connect_with(&home, &server.url(), &[("HTTPS_PROXY", &proxy.url())], &[]).1.ok();
    assert_eq!(proxy.asked(), [] as [String; 0]);
}

#[test]
fn the_proxy_that_is_named() {
    let server = HttpServer::start(&["--era", "modern"]);
    let (named, other) = (Proxy::start(), Proxy::start());
    let home = Home::new();
    let variables = [("HTTP_PROXY", other.url()), ("NO_PROXY", "*".to_owned())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (session, run) = connect_with(&home, &server.url(), &variables, &["--proxy", &named.url()]);
    run.ok();
    session.call("tag", &["tag=a"]).ok();
    assert_eq!((server.executions("a"), other.asked().len()), (1, 0));
    assert!(named.asked().len() >= 2, "{:?}", named.asked());
}

/// The password of a proxy goes to the proxy alone.
#[test]
fn a_proxy_with_a_password() {
    let server = HttpServer::start(&["--era", "modern"]);
    let proxy = Proxy::start();
    let home = Home::new();
    let url = proxy.with_password();
    let (session, run) = connect_with(&home, &server.url(), &[("HTTP_PROXY", &url)], &[]);
    let said = [run.ok(), session.call("tag", &["tag=a"]).ok(), home.run(["--json"]), session.run(["logs"])];
    let heads = proxy.asked();
    assert!(!heads.is_empty());
    for head in heads {
        let head = head.to_ascii_lowercase();
        // user:p4ss-of-the-proxy
        assert!(head.contains("proxy-authorization: basic dxnlcjpwnhnzlw9mlxrozs1wcm94eq=="), "{head}");
    }
    for run in said {
        assert!(!run.out.contains("p4ss-of") && !run.err.contains("p4ss-of"), "{run:?}");
    }
    let calls = server.requests("tools/call");
    let headers = calls.last().unwrap().fields["headers"].to_string();
    assert!(!headers.contains("dXNlcjpw"), "the server has it: {headers}");
    // Not by a flag: it would be shown.
    let run = home.run(["connect", &server.url(), "@t", "--json", "--proxy", &url]);
    says(&run.fails(1), &["--proxy", "HTTPS_PROXY"]);
    assert!(!run.err.contains("p4ss-of") && !home.session("@t").exists());
}

#[test]
fn proxies_that_do_not_work() {
    let server = HttpServer::start(&["--era", "modern"]);
    let home = Home::new();
    let connect = |proxy: &str| connect_with(&home, &server.url(), &[("HTTP_PROXY", proxy)], &[]).1;
    let gone = Proxy::start().url();
    let failed = connect(&gone).fails(3);
    check(&failed, "network", "no");
    says(&failed, &["cannot be reached", "refused"]);
    for (status, code, kind) in [(407, 2, "http"), (502, 2, "http")] {
        let proxy = Proxy::refusing(Some(status));
        let failed = connect(&proxy.url()).fails(code);
        check(&failed, kind, "no");
        says(&failed, &[&status.to_string()]);
    }
    let run = connect("://nonsense");
    assert!(run.code != 0 && !run.err.is_empty(), "{run:?}");
    assert_eq!(server.events("http"), [], "it was not asked past its proxy");
    assert!(!home.session("@s").exists());
}
