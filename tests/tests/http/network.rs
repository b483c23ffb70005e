//! Names, ports and addresses: those that lead nowhere, and those that lead where they should.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use drowse_tests::harness::{Home, HttpServer, Run, in_both_eras};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with};
use serde_json::json;

use super::bystander::Bystander;
use super::confined::Confined;
use super::seen::{check, lives, says};

/// Connects through an entry, which can say how long that may take.
fn connect_within(home: &Home, url: &str, secs: u64) -> Run {
    let file = home.path().join("s.json");
    let entry = json!({"url": url, "connectTimeoutSecs": secs});
    std::fs::write(&file, json!({"mcpServers": {"s": entry}}).to_string()).unwrap();
    home.run(["connect", &format!("{}:s", file.display()), "@s", "--json"])
}

#[test]
fn a_name_that_does_not_resolve() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let run = connect_within(&home, "http://no-such-name.invalid/mcp", 20);
    let failed = run.fails(3);
    check(&failed, "network", "no");
    says(&failed, &["cannot be reached", "cannot be resolved"]);
    assert!(!home.session("@s").exists());
    other.noticed_nothing();
}

/// A port at which nobody ever answers the knocking.
struct Hanging {
    _sockets: Vec<OwnedFd>,
    url: String,
}

impl Hanging {
    fn new() -> Self {
        let new =
            || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let listener = new();
        let local: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        bind(&listener, &local).unwrap();
        listen(&listener, 0).unwrap();
        let address: std::net::SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
        // Whoever comes once its queue is full gets no answer at all.
        let mut sockets = vec![listener];
        for _ in 0..8 {
            let socket = socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            )
            .unwrap();
            let _ = connect(&socket, &address);
            sockets.push(socket);
        }
        Self { _sockets: sockets, url: format!("http://{address}/mcp") }
    }
}

#[test]
fn a_port_that_hangs() {
    let hanging = Hanging::new();
    let home = Home::new();
    let other = Bystander::of(&home);
    let run = connect_within(&home, &hanging.url, 2);
    assert!(run.took < Duration::from_secs(20), "{:?}", run.took);
    let failed = run.fails(3);
    assert_eq!(failed["ran"], "no", "{failed}");
    assert!(["network", "timeout"].iter().any(|kind| failed["kind"] == *kind), "{failed}");
    assert!(!home.session("@s").exists());
    other.noticed_nothing();
}

/// It takes connections and never says a word.
#[test]
fn a_port_that_takes_and_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = Home::new();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let failed = connect_within(&home, &url, 1).fails(3);
    check(&failed, "timeout", "no");
    says(&failed, &["within 1 s", "URL"]);
    assert!(!home.session("@s").exists());
}

#[test]
fn a_port_of_something_else() {
    for words in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b"\0\0\0\0\0", b"HTTP/1.1 999999 What\r\n\r\n", b""] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = Home::new();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                // Until the test's own connection, which says that it is over.
                for mut socket in listener.incoming().flatten() {
                    if socket.peer_addr().unwrap().port() == 0 || done(&socket) {
                        break;
                    }
                    let _ = socket.write_all(words);
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                    let _ = std::io::copy(&mut socket, &mut std::io::sink());
                }
            });
            let failed = connect_within(&home, &url, 10).fails(3);
            check(&failed, "network", "no");
            says(&failed, &["connection broke"]);
            let mut end = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            end.write_all(b"STOP").unwrap();
            drop(end);
            server.join().unwrap();
        });
        assert!(!home.session("@s").exists());
    }
}

fn done(socket: &std::net::TcpStream) -> bool {
    let mut begin = [0; 4];
    socket.peek(&mut begin).is_ok_and(|read| &begin[..read] == b"STOP")
}

#[test]
fn an_address_of_ipv6() {
    in_both_eras(|era| {
        if TcpListener::bind("[::1]:0").is_err() {
            eprintln!("skipped: no IPv6 here");
            return;
        }
        let server = HttpServer::start_at("[::1]:0", &["--era", era]);
        assert!(server.url().starts_with("http://[::1]:"), "{}", server.url());
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        session.call("tag", &["tag=a"]).ok();
        session.wait_until_asleep();
        lives_after_waking(&session, &server);
    });
}

#[track_caller]
fn lives_after_waking(session: &drowse_tests::harness::Session<'_>, server: &HttpServer) {
    assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
    assert_eq!((server.executions("a"), server.executions("b")), (1, 1));
}

/// A name that resolves to addresses of both kinds, while the server is at one of them.
#[test]
fn localhost() {
    let home = Home::new();
    let hosts = home.path().join("hosts");
    std::fs::write(&hosts, "::1 localhost\n127.0.0.1 localhost\n").unwrap();
    let Some(place) = Confined::mounts(&format!("mount --bind '{}' /etc/hosts", hosts.display())) else {
        return;
    };
    for (address, name) in [("127.0.0.1:0", "@four"), ("[::1]:0", "@six")] {
        if TcpListener::bind(address).is_err() {
            eprintln!("skipped: {address} is not to be had here");
            continue;
        }
        let server = HttpServer::start_at(address, &["--era", "legacy"]);
        let target = format!("localhost:{}/mcp", server.address().port());
        let _ = place.run(&home, ["connect", &target, name, "--json"]).ok();
        let run = place.run(&home, [name, "tools-call", "tag", "tag=a", "--json"]).ok();
        assert_eq!((run.text().as_str(), server.executions("a")), ("a", 1));
        let _ = place.run(&home, ["close", name, "--json"]).ok();
        assert_eq!(server.requests("DELETE").len(), 1);
    }
}

#[test]
fn requests_are_bounded_like_answers() {
    let server = HttpServer::start(&["--era", "modern"]);
    let home = Home::new();
    let session = home.connect_http("@s", &["--timeout", "60"], &server);
    let call = |bytes: usize| {
        let file = home.path().join(format!("arguments-{bytes}.json"));
        std::fs::write(&file, json!({"text": "y".repeat(bytes)}).to_string()).unwrap();
        let mut command = home.command(["@s", "tools-call", "echo", "-", "--json"]);
        command.stdin(std::fs::File::open(file).unwrap());
        home.finish(command)
    };
    assert_eq!(call(10 << 20).ok().text().len(), 10 << 20);
    check(&call(70 << 20).fails(2), "too-large", "no");
    lives(&session, &server);
}
