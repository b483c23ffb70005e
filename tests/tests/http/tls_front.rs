//! A server behind TLS: it decrypts, and passes on to a fixture that speaks plain HTTP/1.1.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use drowse_tests::harness::HttpServer;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

/// Its certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Signed by itself, for localhost.
    SelfSigned,
    /// Signed by an authority of the test.
    OfAuthority,
    /// The same, for a name that is not its own.
    OfAnother,
    /// The same, of long ago.
    Expired,
}

/// One that runs. Ends when dropped.
#[derive(Debug)]
pub(super) struct TlsFront {
    directory: TempDir,
    port: u16,
    /// What each connection agreed to speak.
    spoken: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TlsFront {
    /// One that offers these protocols (ALPN).
    pub(super) fn start(server: &HttpServer, shown: Shown, protocols: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (chain, key, authority) = certificate(shown);
        std::fs::write(directory.path().join("authority.pem"), authority).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let mut config = rustls::ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (spoken, upstream) = (Arc::new(Mutex::new(Vec::new())), server.address());
        let (stop, stopped) = oneshot::channel();
        let noted = Arc::clone(&spoken);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let serve = async {
                    while let Ok((socket, _)) = listener.accept().await {
                        spawn_local(decrypt(socket, acceptor.clone(), upstream, Arc::clone(&noted)));
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        });
        Self { directory, port, spoken, stop: Some(stop), thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("https://localhost:{}/mcp", self.port)
    }

    /// The same place, without TLS.
    pub(super) fn plain_url(&self) -> String {
        format!("http://localhost:{}/mcp", self.port)
    }

    /// The certificate to trust.
    pub(super) fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn spoken(&self) -> Vec<String> {
        self.spoken.lock().unwrap().clone()
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

type Certificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, String);

fn certificate(shown: Shown) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let name = if shown == Shown::OfAnother { "another.example" } else { "localhost" };
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if shown == Shown::SelfSigned {
        let certificate = params.self_signed(&key).unwrap();
        return (vec![certificate.der().clone()], der, certificate.pem());
    }
    if shown == Shown::Expired {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }
    let mut of_authority = CertificateParams::new(Vec::new()).unwrap();
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    of_authority.distinguished_name.push(DnType::CommonName, "An authority for tests");
    let authority_key = KeyPair::generate().unwrap();
    let authority = of_authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(of_authority, authority_key);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    (vec![certificate.der().clone()], der, authority.pem())
}

async fn decrypt(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    upstream: SocketAddr,
    spoken: Arc<Mutex<Vec<String>>>,
) {
    let Ok(mut stream) = acceptor.accept(socket).await else { return };
    let protocol = stream.get_ref().1.alpn_protocol().unwrap_or(b"none");
    let protocol = String::from_utf8_lossy(protocol).into_owned();
    spoken.lock().unwrap().push(protocol.clone());
    if protocol == "h2" {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((request, respond))) = connection.accept().await {
            spawn_local(async move { _ = forward(request, respond, upstream).await });
        }
    } else if let Ok(mut plain) = TcpStream::connect(upstream).await {
        let _ = copy_bidirectional(&mut stream, &mut plain).await;
    }
}

/// Passes a request of HTTP/2 on, and its answer back. Only answers with a length are understood.
async fn forward(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    upstream: SocketAddr,
) -> io::Result<()> {
    let (parts, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = incoming.data().await {
        let _ = incoming.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
    }
    let authority = parts.uri.authority().map(ToString::to_string).unwrap_or_default();
    let mut head = format!("{} {} HTTP/1.1\r\nHost: {authority}\r\n", parts.method, parts.uri.path());
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != "content-length") {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
    let mut plain = TcpStream::connect(upstream).await?;
    plain.write_all(head.as_bytes()).await?;
    plain.write_all(&body).await?;
    let mut answer = Vec::new();
    tokio::select! {
        read = plain.read_to_end(&mut answer) => { read?; }
        // The client is no longer interested in this one; the connection goes on.
        _ = poll_fn(|context| respond.poll_reset(context)) => return Ok(()),
    }
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("500");
    let mut response = http::Response::builder().status(status);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if !["connection", "content-length"].contains(&name.to_ascii_lowercase().as_str()) {
            response = response.header(name.to_ascii_lowercase(), value);
        }
    }
    let response = response.body(()).map_err(io::Error::other)?;
    let mut stream = respond.send_response(response, false).map_err(io::Error::other)?;
    stream.send_data(Bytes::copy_from_slice(&answer[end + 4..]), true).map_err(io::Error::other)
}
