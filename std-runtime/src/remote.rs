//! Servers behind URLs, as people write them: addresses, headers, proxies and certificates.
//!
//! Owns what may be one and what may not, with a reason that says what to do. Keeps every text as it was typed, save
//! for a scheme that was left out. Never shows the value of a header or what stands before an `@`, and never opens a
//! connection.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use url::{Host, Url};

/// Why something is not the URL of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Neither `http` nor `https`.
    #[error("drowse speaks http:// and https://, not {scheme}://")]
    Scheme {
        /// The other scheme.
        scheme: String,
    },
    /// `user:password@host`. A URL is kept and shown as it stands.
    #[error(
        "a URL must not hold a user name or password, as it is kept and shown in plain text: give them as a header, \
         -H 'Authorization: …'"
    )]
    Credentials,
    /// `#…`
    #[error("what follows # never reaches a server: leave it out")]
    Fragment,
    /// Nothing where the host should be.
    #[error("it names no host")]
    NoHost,
    /// The parser refuses it.
    #[error("it is not a URL ({what})")]
    Malformed {
        /// What the parser said.
        what: String,
    },
}

/// Why something is not a header that can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// There is no colon in it. It may be a bare secret, so it is not shown.
    #[error("a header is written `Name: value`, e.g. 'Authorization: Bearer …'")]
    NoColon,
    /// Not a name.
    #[error("`{name}` cannot be the name of a header")]
    Name {
        /// What was given.
        name: String,
    },
    /// A header that the transport itself sets.
    #[error("the header {name} is drowse's own to set: leave it out")]
    Reserved {
        /// The header.
        name: String,
    },
    /// Nothing after the colon.
    #[error("the header {name} has no value")]
    Empty {
        /// The header.
        name: String,
    },
    /// A control character, or one that is not ASCII.
    #[error("the value of the header {name} holds {what}: only printable ASCII can be sent")]
    Value {
        /// The header.
        name: String,
        /// What is wrong with it, without the value.
        what: &'static str,
    },
}

/// Why something is not the URL of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// It is not one of those that can be used.
    #[error("a proxy is written http://host:port or https://host:port")]
    Form,
    /// `user:password@host`.
    #[error(
        "the URL of a proxy must not hold a user name or password, as it is kept and shown in plain text: set \
         HTTPS_PROXY instead, which is kept with the credentials"
    )]
    Credentials,
}

/// Why a file of certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// There is no certificate in it.
    #[error("{0} holds no PEM certificate (-----BEGIN CERTIFICATE-----)")]
    None(String),
}

/// A header with its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, as it was typed.
    pub name: String,
    /// The value.
    pub value: String,
}

impl fmt::Debug for Header {
    /// Without the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Header").field(&self.name).finish()
    }
}

impl Header {
    /// Reads `Name: value`.
    ///
    /// # Errors
    /// If it is not of that form, or cannot be sent.
    pub fn parse(text: &str) -> Result<Self, HeaderError> {
        let (name, value) = text.split_once(':').ok_or(HeaderError::NoColon)?;
        let name = name.trim();
        check_header_name(name)?;
        let value = header_value(name, value)?;
        if value.is_empty() {
            return Err(HeaderError::Empty { name: name.to_owned() });
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// Headers that the transport sets, or that are between two hops and not for the server.
const RESERVED: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The protocol's own headers start so.
const RESERVED_PREFIX: &str = "mcp-";

/// Checks the name of a header that somebody wants sent.
///
/// # Errors
/// If it is no name, or that of a header which drowse sets itself.
pub fn check_header_name(name: &str) -> Result<(), HeaderError> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(HeaderError::Name { name: name.to_owned() });
    }
    let lower = name.to_ascii_lowercase();
    if RESERVED.contains(&lower.as_str()) || lower.starts_with(RESERVED_PREFIX) {
        return Err(HeaderError::Reserved { name: name.to_owned() });
    }
    Ok(())
}

/// A header's value without the white space around it.
///
/// # Errors
/// If it holds what cannot be sent.
pub fn header_value<'a>(name: &str, value: &'a str) -> Result<&'a str, HeaderError> {
    let value = value.trim_matches([' ', '\t', '\r', '\n']);
    let what = if value.contains(['\r', '\n']) {
        "a line break"
    } else if value.chars().any(|c| c.is_control() && c != '\t') {
        "a control character"
    } else if !value.is_ascii() {
        "a character that is not ASCII"
    } else {
        return Ok(value);
    };
    Err(HeaderError::Value { name: name.to_owned(), what })
}

/// The URL of a server as it was typed, with the scheme that was left out: `http://` for this machine itself, else
/// `https://`.
///
/// # Errors
/// If no server can be there.
pub fn complete_url(text: &str) -> Result<String, UrlError> {
    let text = text.trim();
    if scheme_of(text).is_some() {
        parsed(text)?;
        return Ok(text.to_owned());
    }
    for scheme in ["http", "https"] {
        if text.get(..=scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(&format!("{scheme}:"))) {
            let what = format!("is {scheme}:// meant?");
            return Err(UrlError::Malformed { what });
        }
    }
    let plain = format!("http://{text}");
    if is_loopback(&parsed(&plain)?) { Ok(plain) } else { Ok(format!("https://{text}")) }
}

/// Whether two URLs are the same address: `https://Example.com` and `https://example.com:443/` are.
#[must_use]
pub fn is_same_url(a: &str, b: &str) -> bool {
    a == b || matches!((Url::parse(a), Url::parse(b)), (Ok(a), Ok(b)) if a == b)
}

/// The host of a URL; `localhost` for every way to write this machine.
#[must_use]
pub fn host_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    if is_loopback(&url) {
        return Some("localhost".to_owned());
    }
    url.host_str().map(|host| host.trim_matches(['[', ']']).to_owned())
}

/// Checks the URL of a proxy.
///
/// # Errors
/// If it is none that can be used, or holds a password.
pub fn check_proxy(text: &str) -> Result<(), ProxyError> {
    let url = Url::parse(text).ok().filter(|_| text.contains("://")).ok_or(ProxyError::Form)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ProxyError::Credentials);
    }
    let known = matches!(url.scheme(), "http" | "https");
    let plain = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    let host = url.host_str().is_some_and(|host| !host.is_empty());
    if known && plain && host { Ok(()) } else { Err(ProxyError::Form) }
}

/// No file of certificates is larger.
const MAX_CERTIFICATES: u64 = 16 << 20;

/// Checks that a file holds certificates, so that a mistake is told from a server that cannot be trusted.
///
/// # Errors
/// If it cannot be read, or there is none in it.
pub fn check_certificates(path: &Path) -> Result<(), CertificateError> {
    let name = || path.display().to_string();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_CERTIFICATES).read_to_end(&mut bytes))
        .map_err(|error| CertificateError::Unreadable(name(), error))?;
    match memchr::memmem::find(&bytes, b"-----BEGIN CERTIFICATE-----") {
        Some(_) => Ok(()),
        None => Err(CertificateError::None(name())),
    }
}

/// The scheme, where one was typed: `a.example/?next=https://b.example` has none.
fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)).then_some(scheme)
}

fn parsed(text: &str) -> Result<Url, UrlError> {
    // The parser drops some of these without a word.
    if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(UrlError::Malformed { what: "white space or a backslash in it".to_owned() });
    }
    if let Some(scheme) = scheme_of(text) {
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(UrlError::Scheme { scheme: scheme.to_owned() });
        }
        // Here the parser would take the path for the host.
        if text.get(scheme.len() + 3..).is_some_and(|rest| rest.starts_with(['/', '?', '#'])) {
            return Err(UrlError::NoHost);
        }
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::EmptyHost => UrlError::NoHost,
        error => UrlError::Malformed { what: error.to_string() },
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::Credentials);
    }
    if url.fragment().is_some() {
        return Err(UrlError::Fragment);
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_that_was_left_out_depends_on_the_host() {
        for (typed, url) in [
            ("mcp.example.com", "https://mcp.example.com"),
            ("mcp.example.com:8443/mcp?x=1", "https://mcp.example.com:8443/mcp?x=1"),
            ("a.example/?next=https://b.example", "https://a.example/?next=https://b.example"),
            ("localhost:8080", "http://localhost:8080"),
            ("dev.localhost/mcp", "http://dev.localhost/mcp"),
            ("127.0.0.1:99/mcp", "http://127.0.0.1:99/mcp"),
            ("127.1.2.3", "http://127.1.2.3"),
            ("[::1]:8080/mcp", "http://[::1]:8080/mcp"),
            ("[2001:db8::1]/mcp", "https://[2001:db8::1]/mcp"),
            ("localhost.example.com", "https://localhost.example.com"),
            ("notlocalhost:80", "https://notlocalhost:80"),
            ("10.0.0.7:3000", "https://10.0.0.7:3000"),
            // As typed, whatever the parser would make of it.
            ("HTTPS://MCP.Example.com/A/../b", "HTTPS://MCP.Example.com/A/../b"),
            ("http://10.0.0.7", "http://10.0.0.7"),
            ("https://localhost/", "https://localhost/"),
        ] {
            assert_eq!(complete_url(typed).as_deref(), Ok(url), "{typed}");
        }
    }

    #[test]
    fn what_is_no_url_says_why_and_shows_no_password() {
        for (typed, says) in [
            ("ftp://h/x", "not ftp://"),
            ("ws://h", "not ws://"),
            ("://h", "not ://"),
            ("https://user:hush@h/mcp", "-H 'Authorization"),
            ("https://hush@h/mcp", "-H 'Authorization"),
            ("user:hush@h/mcp", "-H 'Authorization"),
            ("https://h/mcp#hush", "#"),
            ("https://", "no host"),
            ("https:///mcp", "no host"),
            ("https://:80/mcp", "no host"),
            ("http:h", "http:// meant"),
            ("HTTPS:/h", "https:// meant"),
            ("https://h:99999", "port"),
            ("https://[::1", "IPv6"),
            ("https://a b/", "white space"),
            ("https://h\\@x/", "backslash"),
            ("", "no host"),
        ] {
            let error = complete_url(typed).expect_err(typed).to_string();
            assert!(error.contains(says) && !error.contains("hush"), "{typed}: {error}");
        }
    }

    #[test]
    fn the_same_address_however_it_is_written() {
        assert!(is_same_url("https://Example.com", "https://example.com:443/"));
        assert!(!is_same_url("https://example.com", "http://example.com"));
        assert!(!is_same_url("https://example.com/a", "https://example.com/a/"));
        assert_eq!(host_of("https://MCP.Example.com:8443/x").as_deref(), Some("mcp.example.com"));
        assert_eq!(host_of("http://[::1]:80/").as_deref(), Some("localhost"));
        assert_eq!(host_of("https://[2001:db8::1]/").as_deref(), Some("2001:db8::1"));
    }

    #[test]
    fn headers() {
        let header = Header::parse("X-Api-Key:  s3cret=a:b \n").unwrap();
        assert_eq!((header.name.as_str(), header.value.as_str()), ("X-Api-Key", "s3cret=a:b"));
        assert!(!format!("{header:?}").contains("s3cret"));
        for (typed, says) in [
            ("hush", "`Name: value`"),
            (": hush", "cannot be the name"),
            ("X Y: hush", "cannot be the name"),
            ("Ä: hush", "cannot be the name"),
            ("X-A:", "no value"),
            ("X-A: hu\r\nX-B: sh", "line break"),
            ("X-A: hush\0x", "control character"),
            ("X-A: hush\u{e4}", "not ASCII"),
            ("Host: hush", "drowse's own"),
            ("content-TYPE: hush", "drowse's own"),
            ("Mcp-Session-Id: hush", "drowse's own"),
            ("MCP-Protocol-Version: hush", "drowse's own"),
            ("Transfer-Encoding: hush", "drowse's own"),
        ] {
            let error = Header::parse(typed).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hush"), "{typed}: {error}");
        }
    }

    #[test]
    fn proxies() {
        for good in ["http://proxy:3128", "https://proxy.example.com/", "http://[::1]:3128"] {
            assert_eq!(check_proxy(good), Ok(()), "{good}");
        }
        for bad in ["proxy:3128", "8080", "socks5://proxy", "http://proxy/path", "http://", ""] {
            assert_eq!(check_proxy(bad), Err(ProxyError::Form), "{bad}");
        }
        assert_eq!(check_proxy("http://u:p@proxy:3128"), Err(ProxyError::Credentials));
    }

    #[test]
    fn files_of_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        assert!(check_certificates(&file).unwrap_err().to_string().contains("cannot read"));
        assert!(check_certificates(dir.path()).unwrap_err().to_string().contains("cannot read"));
        std::fs::write(&file, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        assert!(check_certificates(&file).unwrap_err().to_string().contains("no PEM certificate"));
        std::fs::write(&file, "x\n-----BEGIN CERTIFICATE-----\n").unwrap();
        check_certificates(&file).unwrap();
    }
}
