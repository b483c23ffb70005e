//! Who may come in: `Host` and `Origin`, so that no page in a browser gets at what listens on this machine, and the
//! bearer token.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
        self.come_from(headers, authority)?;
        let Some(token) = self.token else { return Ok(()) };
        let given = single(headers, Header::Authorization).ok().flatten().and_then(bearer);
        // Also against a configuration that was never checked.
        if check_token(token).is_ok() && given.is_some_and(|given| is_same(token, given)) {
            Ok(())
        } else {
            Err(Refusal::Unauthorized)
        }
    }

    /// The `Origin` of a request, if it is one of those that were allowed by name: its page has to be told so.
    #[must_use]
    pub fn page<'h>(&self, headers: &'h (impl Headers + ?Sized)) -> Option<&'h [u8]> {
        if self.origins.is_empty() {
            return None;
        }
        single(headers, Header::Origin).ok().flatten().filter(|origin| self.is_named(origin))
    }

    /// Whether an OPTIONS is a browser's question if such a page may come. It is asked without the token.
    ///
    /// # Errors
    /// If it may not.
    pub fn asks_first(
        &self,
        headers: &(impl Headers + ?Sized),
        authority: Option<&str>,
    ) -> Result<bool, Refusal> {
        if self.page(headers).is_none() || single(headers, Header::RequestMethod)?.is_none() {
            return Ok(false);
        }
        self.come_from(headers, authority).map(|()| true)
    }

    /// Whether a request comes to one of these hosts, and from a page that may come in, or none.
    fn come_from(&self, headers: &(impl Headers + ?Sized), authority: Option<&str>) -> Result<(), Refusal> {
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
        Ok(())
    }

    fn is_ours(&self, authority: &[u8]) -> bool {
        if is_usual(authority) {
            return true;
        }
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

    fn is_named(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|name| name.as_ref().as_bytes().eq_ignore_ascii_case(origin))
    }

    fn is_welcome(&self, origin: &[u8]) -> bool {
        if self.is_named(origin) {
            return true;
        }
        let rest = [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
            let (start, rest) = origin.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        rest.is_some_and(|authority| self.is_ours(authority))
    }
}

/// Whether it is what nearly everybody on this machine says, at whatever port.
fn is_usual(authority: &[u8]) -> bool {
    let rest = authority.strip_prefix(b"127.0.0.1").or_else(|| authority.strip_prefix(b"localhost"));
    match rest {
        Some([]) => true,
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        Some(_) | None => false,
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
        Some(inside) => v6(inside.as_bytes()).map(IpAddr::V6),
        None => v4(host.as_bytes()).map(IpAddr::V4),
    }
}

/// The standard library's readers of addresses have ways to panic.
fn v4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split(|byte| *byte == b'.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 1 && part.first() == Some(&b'0') {
            return None;
        }
        *octet = part.iter().try_fold(0u8, |value, byte| {
            let digit = byte.is_ascii_digit().then_some(byte & 15)?;
            value.checked_mul(10)?.checked_add(digit)
        })?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn v6(text: &[u8]) -> Option<Ipv6Addr> {
    let mut all = [0; 8];
    let Some(gap) = text.windows(2).position(|pair| pair == b"::") else {
        return (groups(text, &mut all)? == all.len()).then(|| Ipv6Addr::from(all));
    };
    let (before, after) = text.split_at_checked(gap)?;
    let mut rest = [0; 8];
    let (front, back) = (groups(before, &mut all)?, groups(after.get(2..)?, &mut rest)?);
    if front.saturating_add(back) >= all.len() {
        return None;
    }
    let places = all.iter_mut().rev().take(back);
    for (place, group) in places.zip(rest.iter().take(back).rev()) {
        *place = *group;
    }
    Some(Ipv6Addr::from(all))
}

/// Reads groups of hexadecimal digits, of which the last two may be an IPv4 address. How many there are.
fn groups(text: &[u8], out: &mut [u16; 8]) -> Option<usize> {
    let mut count = 0usize;
    if text.is_empty() {
        return Some(count);
    }
    let mut parts = text.split(|byte| *byte == b':').peekable();
    while let Some(part) = parts.next() {
        let mut put = |group| {
            *out.get_mut(count)? = group;
            count = count.saturating_add(1);
            Some(())
        };
        if parts.peek().is_none()
            && let Some(address) = v4(part)
        {
            let [a, b, c, d] = address.octets();
            put(u16::from_be_bytes([a, b]))?;
            put(u16::from_be_bytes([c, d]))?;
            continue;
        }
        if part.is_empty() || part.len() > 4 {
            return None;
        }
        put(part.iter().try_fold(0u16, |value, byte| {
            let digit = char::from(*byte).to_digit(16)?;
            Some(value << 4 | digit as u16)
        })?)?;
    }
    Some(count)
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
