//! HTTP, done by reqwest: connections, TLS, proxies, redirections.
//!
//! Nothing here knows MCP. Where redirections may lead is the core's rule; why a connection failed is put into words.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use drowse_core::http::exchange;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, NoProxy, Proxy};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use crate::wire::Remote;

use super::backend::{Body, Client, Failed, LocalFuture, Response};

/// How long a connection that nobody uses is kept.
const POOL_IDLE: Duration = Duration::from_secs(15);
/// How long making a connection may take: a port that hangs is not waited for as long as an answer.
const CONNECT: Duration = Duration::from_secs(20);
/// How long a connection may be dead before that is noticed.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How often a server may send a request on.
const REDIRECTIONS: usize = 5;

pub(super) struct HttpClient {
    client: reqwest::Client,
    url: Url,
    /// The same, as most requests have it.
    uri: http::Uri,
    /// What the user wants to be sent along, always.
    headers: HeaderMap,
}

impl HttpClient {
    /// A client for one server. `environment` is the session's own.
    pub(super) fn new(
        remote: &Remote,
        environment: &[(String, String)],
        connect: Duration,
    ) -> Result<Self, String> {
        let url = Url::parse(&remote.url).map_err(|error| format!("`{}`: {error}", remote.url))?;
        let environment: HashMap<&str, &str> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("drowse/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::custom(follow))
            .referer(false)
            .connect_timeout(connect.min(CONNECT))
            .pool_idle_timeout(POOL_IDLE)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .no_proxy();
        for proxy in proxies(remote, &environment)? {
            builder = builder.proxy(proxy);
        }
        let may_need_tls = url.scheme() == "https" || remote.proxy.is_some() || has_proxy(&environment);
        builder = if may_need_tls {
            // Set once a process; a second client finds it done.
            let _ = rustls::crypto::ring::default_provider().install_default();
            trust(builder, remote, &environment)?
        } else {
            // What is never used need not read the system's certificates.
            builder.tls_backend_preconfigured(plain()?)
        };
        let client = builder.build().map_err(|error| format!("setting up HTTP: {}", explain(&error)))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &remote.headers {
            let bad = || format!("the header `{name}` has a name or a value that HTTP does not allow");
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        let uri = url.as_str().parse().map_err(|error| format!("`{url}`: {error}"))?;
        Ok(Self { client, url, uri, headers })
    }
}

fn plain() -> Result<rustls::ClientConfig, String> {
    let provider = rustls::crypto::ring::default_provider();
    Ok(rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("setting up TLS: {error}"))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

fn trust(
    mut builder: reqwest::ClientBuilder,
    remote: &Remote,
    environment: &HashMap<&str, &str>,
) -> Result<reqwest::ClientBuilder, String> {
    builder = builder.tls_danger_accept_invalid_certs(remote.insecure);
    if let Some(path) = &remote.cacert {
        builder = builder.tls_certs_merge(authorities(path, true)?);
    }
    // The session's own, which need not be this process's.
    if let Some(path) = environment.get("SSL_CERT_FILE").filter(|path| !path.is_empty()) {
        builder = builder.tls_certs_merge(authorities(Path::new(path), false)?);
    }
    Ok(builder)
}

/// The certificates in a file. One that nothing can be verified by is an error if the user chose the file for this server
/// (`strict`); among those that a system collects there may be some.
fn authorities(path: &Path, strict: bool) -> Result<Vec<Certificate>, String> {
    let bad = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| bad(&error))?;
    let mut found = Vec::new();
    for der in CertificateDer::pem_slice_iter(&bytes) {
        let der = der.map_err(|error| bad(&format_args!("it is not in PEM form: {error}")))?;
        match rustls::RootCertStore::empty().add(der.clone()) {
            Ok(()) => found.push(Certificate::from_der(&der).map_err(|error| bad(&explain(&error)))?),
            Err(_) if strict => return Err(bad(&"it holds something that is no certificate")),
            Err(_) => {}
        }
    }
    if found.is_empty() && strict {
        return Err(bad(&"it holds no certificate in PEM form"));
    }
    Ok(found)
}

/// The value of a proxy variable, in either case of letters. `HTTP_PROXY` in capitals is what a web server makes of a
/// header `Proxy`, but drowse is none.
fn variable<'e>(environment: &HashMap<&str, &'e str>, name: &str) -> Option<&'e str> {
    let lower = name.to_ascii_lowercase();
    [lower.as_str(), name]
        .into_iter()
        .filter_map(|name| environment.get(name).copied())
        .find(|value| !value.is_empty())
}

fn has_proxy(environment: &HashMap<&str, &str>) -> bool {
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].iter().any(|name| variable(environment, name).is_some())
}

fn proxies(remote: &Remote, environment: &HashMap<&str, &str>) -> Result<Vec<Proxy>, String> {
    // Its address may hold a password.
    let bad = |name: &str, error: reqwest::Error| format!("the proxy of {name}: {}", explain(&error));
    if let Some(text) = &remote.proxy {
        return Ok(vec![Proxy::all(text).map_err(|error| bad("--proxy", error))?]);
    }
    // Addresses included, of which reqwest's own reading of it knows nothing.
    if variable(environment, "NO_PROXY").is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
    {
        return Ok(Vec::new());
    }
    let except = || variable(environment, "NO_PROXY").and_then(NoProxy::from_string);
    let mut found = Vec::new();
    type Make = fn(String) -> reqwest::Result<Proxy>;
    let makers: [(&str, Make); 3] =
        [("HTTP_PROXY", Proxy::http), ("HTTPS_PROXY", Proxy::https), ("ALL_PROXY", Proxy::all)];
    for (name, make) in makers {
        if let Some(text) = variable(environment, name) {
            let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
            found.push(make(text).map_err(|error| bad(name, error))?.no_proxy(except()));
        }
    }
    Ok(found)
}

fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
    if exchange::may_follow(attempt.status().as_u16(), same) && attempt.previous().len() <= REDIRECTIONS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

impl Client for HttpClient {
    fn send(&self, mut request: http::Request<Bytes>) -> LocalFuture<'static, Result<Response, Failed>> {
        let client = self.client.clone();
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        // It need not be parsed for each request.
        let url = (*request.uri() == self.uri).then(|| self.url.clone());
        Box::pin(async move {
            let request = match url {
                Some(url) => {
                    let (parts, body) = request.into_parts();
                    let mut request = reqwest::Request::new(parts.method, url);
                    *request.headers_mut() = parts.headers;
                    *request.body_mut() = Some(body.into());
                    request
                }
                None => reqwest::Request::try_from(request).map_err(|error| failed(&error, false))?,
            };
            match client.execute(request).await {
                Ok(mut response) => {
                    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
                    let body: Box<dyn Body> = Box::new(HttpBody(response));
                    let mut answer = Response::new(body);
                    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
                    Ok(answer)
                }
                Err(error) => Err(failed(&error, !error.is_connect() && !error.is_builder())),
            }
        })
    }

    fn url(&self) -> &Url {
        &self.url
    }
}

struct HttpBody(reqwest::Response);

impl Body for HttpBody {
    fn chunk(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, Failed>> {
        Box::pin(async { self.0.chunk().await.map_err(|error| failed(&error, true)) })
    }
}

fn failed(error: &reqwest::Error, connected: bool) -> Failed {
    Failed { connected, text: explain(error) }
}

/// The innermost cause says the most, and the outer ones repeat the URL, in which there may be a secret.
fn explain(error: &reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return "the connection could not be made in time".to_owned();
    }
    let mut texts = Vec::new();
    let mut next: Option<&dyn Error> = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    let all = texts.join(": ");
    if texts.is_empty() {
        return "the request could not be made".to_owned();
    }
    // Whom to trust is known then; it is no certificate for a server.
    if all.contains("CaUsedAsEndEntity") {
        return format!(
            "{all} (it shows the certificate of an authority: let it show one for its name, signed by that, or trust nobody in particular with --insecure)"
        );
    }
    if all.contains("certificate") || all.contains("UnknownIssuer") {
        return format!(
            "{all} (trust its authority with --cacert FILE, or nobody in particular with --insecure)"
        );
    }
    if all.contains("dns error") || all.contains("failed to lookup") {
        return format!("its name cannot be resolved ({all})");
    }
    texts.pop().unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(proxy: Option<&str>) -> Remote {
        let remote = serde_json::json!({"url": "http://127.0.0.1/mcp", "proxy": proxy});
        serde_json::from_value(remote).unwrap()
    }

    #[test]
    fn no_proxy_may_name_all_hosts() {
        let count = |no_proxy, proxy| {
            let environment = HashMap::from([("HTTP_PROXY", "proxy.example:1"), ("NO_PROXY", no_proxy)]);
            proxies(&remote(proxy), &environment).unwrap().len()
        };
        assert_eq!(["*", "a.example, *"].map(|hosts| count(hosts, None)), [0, 0]);
        assert_eq!(["", "*.example"].map(|hosts| count(hosts, None)), [1, 1]);
        // What the user named for this server is used.
        assert_eq!(count("*", Some("http://named.example:1")), 1);
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("authority.pem");
        for text in ["", "words\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            fs::write(&file, text).unwrap();
            let error = authorities(&file, true).unwrap_err();
            assert!(error.starts_with(&file.display().to_string()), "{error}");
            assert!(authorities(&file, false).unwrap().is_empty());
        }
        fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
        assert!(authorities(&file, true).unwrap_err().contains("not in PEM form"));
        assert!(authorities(&directory.path().join("none.pem"), false).is_err());
    }
}
