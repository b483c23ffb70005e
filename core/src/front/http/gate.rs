//! Who may come in: `Host` and `Origin`, so that no page in a browser gets at what listens on this machine, and the
//! bearer token.

use core::net::{IpAddr, Ipv6Addr};

use super::{Header, Headers, Refusal, single};

/// The rules of one endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'c, H> {
    /// The address that a connection came in at.
    pub local: IpAddr,
    /// Names of hosts that this is, beside the address itself and those of this machine.
    pub hosts: &'c [H],
    /// Origins whose pages may come in, beside those of these hosts: `scheme://host[:port]`.
    pub origins: &'c [H],
    /// The token that is asked for.
    pub token: Option<&'c [u8]>,
}

/// A token that cannot be one: it is empty, or has characters that no header can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BadToken;

impl core::fmt::Display for BadToken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a bearer token must have at least one character, and visible ASCII characters only")
    }
}

impl core::error::Error for BadToken {}

/// Whether a token can be asked for. An empty one would let everybody in who sends none.
///
/// # Errors
/// If it cannot.
pub fn check_token(token: &[u8]) -> Result<(), BadToken> {
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) { Err(BadToken) } else { Ok(()) }
}

impl<H: AsRef<str>> Gate<'_, H> {
    /// Whether the sender of a request may come in. `authority` is that of its target, where it has one.
    ///
    /// # Errors
    /// If it may not.
    pub fn admit(&self, headers: &(impl Headers + ?Sized), authority: Option<&str>) -> Result<(), Refusal> {
        let host = single(headers, Header::Host).map_err(|_| Refusal::Host)?;
        let mut named = authority.map(str::as_bytes).into_iter().chain(host).peekable();
        if named.peek().is_none() || !named.all(|name| self.is_ours(name)) {
            return Err(Refusal::Host);
        }
        if let Some(origin) = single(headers, Header::Origin).map_err(|_| Refusal::Origin)?
            && !self.is_welcome(origin)
        {
            return Err(Refusal::Origin);
        }
        let Some(token) = self.token else { return Ok(()) };
        let given = single(headers, Header::Authorization).ok().flatten().and_then(bearer);
        // Also against a configuration that was never checked.
        if check_token(token).is_ok() && given.is_some_and(|given| is_same(token, given)) {
            Ok(())
        } else {
            Err(Refusal::Unauthorized)
        }
    }

    fn is_ours(&self, authority: &[u8]) -> bool {
        let Some(host) = core::str::from_utf8(authority).ok().and_then(host) else { return false };
        if let Some(address) = address(host) {
            let address = address.to_canonical();
            return address.is_loopback()
                || address == self.local.to_canonical()
                || self.hosts.iter().any(|name| self::address(name.as_ref()) == Some(address));
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|name| name.as_ref().eq_ignore_ascii_case(host))
    }

    fn is_welcome(&self, origin: &[u8]) -> bool {
        let named = |name: &H| name.as_ref().as_bytes().eq_ignore_ascii_case(origin);
        if self.origins.iter().any(named) {
            return true;
        }
        let rest = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
            let (start, rest) = origin.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        rest.is_some_and(|authority| self.is_ours(authority))
    }
}

/// The host of `host[:port]`; IPv6 addresses keep their brackets.
fn host(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inside) => {
            let end = inside.find(']')?.saturating_add(2);
            authority.split_at_checked(end)?
        }
        None => authority.split_at_checked(authority.find(':').unwrap_or(authority.len()))?,
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port,
        None if rest.is_empty() => "",
        None => return None,
    };
    let is_name =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':');
    (!host.is_empty() && host.bytes().all(is_name) && port.bytes().all(|byte| byte.is_ascii_digit()))
        .then_some(host)
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

/// The token of `Bearer …`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Whether both are the same. How long it takes says nothing of where they differ.
fn is_same(token: &[u8], given: &[u8]) -> bool {
    let mut differs = u8::from(token.len() != given.len());
    for (at, byte) in token.iter().enumerate() {
        differs |= byte ^ given.get(at).copied().unwrap_or_default();
        differs = core::hint::black_box(differs);
    }
    differs == 0
}
