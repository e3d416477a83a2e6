//! A host as the other end of a connection: a DNS name or an address, in one canonical form.
//!
//! Owns reading a host from hostile text (SOCKS, CONNECT, a policy) and telling what an address reaches. The
//! form made here is both the one that is checked and the one that is dialled: any difference between the two
//! would be a way past the check. Does not resolve names, and knows no ports.

mod reach;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

use crate::text::{excerpt, visible, written_as_text};

pub use reach::{Reach, embedded_v4, reach};

/// The longest name in DNS (RFC 1035, without the root's dot).
const MAX_NAME: usize = 253;
/// The longest label in DNS.
const MAX_LABEL: usize = 63;
/// The longest text worth mapping: a name of the longest length, each character in four bytes.
const MAX_TEXT: usize = 4 * (MAX_NAME + 1);

/// ASCII that no name holds, before or after mapping: all but letters, digits, `-`, `.` and `_`. The
/// underscore is no host name character, but service names with one exist and resolve.
const DENIED: AsciiDenyList = AsciiDenyList::new(true, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~");

/// Why a text is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing was written, or only a dot.
    #[error("a host is empty")]
    Empty,
    /// Bytes that are not UTF-8.
    #[error("a host is not text")]
    NotText,
    /// A character that would end or change the host for some other reader of it.
    #[error("the host `{host}` contains `{found}`")]
    Character {
        /// The host, made visible.
        host: String,
        /// The character, made visible.
        found: String,
    },
    /// More than DNS carries.
    #[error("the host `{0}` is too long: a name has at most {MAX_NAME} characters, a part of it {MAX_LABEL}")]
    TooLong(String),
    /// Two dots in a row, or one at the start.
    #[error("the host `{0}` has an empty part")]
    EmptyLabel(String),
    /// A hyphen where DNS allows none.
    #[error("a part of the host `{0}` begins or ends with a hyphen")]
    Hyphen(String),
    /// Not a name under the rules for international names (UTS #46), wrong punycode included.
    #[error("`{0}` is not a valid domain name")]
    Name(String),
    /// Ends in a number, so some readers take it for an address, but is none.
    #[error("the host `{0}` ends in a number but is not an IPv4 address")]
    Ipv4(String),
    /// Has a colon or a bracket, but is no address.
    #[error("`{0}` is not an IPv6 address (a host is written without its port)")]
    Ipv6(String),
}

/// A DNS name or an address.
///
/// A name is lower-case ASCII (punycode for the rest) without the root's dot. Whatever a resolver would
/// take for an address (`127.1`, `0x7f.1`, `2130706433`, `0177.0.0.1`, `::ffff:127.0.0.1`) is that address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Name(String),
    Ip(IpAddr),
}

impl Host {
    /// Reads a host from text that nobody vouches for.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_TEXT {
            return Err(HostError::TooLong(excerpt(text)));
        }
        let forbidden = |c: char| c.is_control() || c.is_whitespace() || "%@/\\?#".contains(c);
        if let Some(found) = text.chars().find(|c| forbidden(*c)) {
            let found = visible(found.encode_utf8(&mut [0; 4])).into_owned();
            return Err(HostError::Character { host: excerpt(text), found });
        }
        if text.contains([':', '[', ']']) {
            return parse_v6(text).map(Self::from).ok_or_else(|| HostError::Ipv6(excerpt(text)));
        }
        let mapped = Uts46::new().to_ascii(text.as_bytes(), DENIED, Hyphens::Allow, DnsLength::Ignore);
        let mapped = mapped.map_err(|_| HostError::Name(excerpt(text)))?;
        let name = mapped.strip_suffix('.').unwrap_or(&mapped);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if ends_in_number(name) {
            let ip = parse_v4(name).ok_or_else(|| HostError::Ipv4(excerpt(text)))?;
            return Ok(Self(Kind::Ip(ip.into())));
        }
        if name.len() > MAX_NAME {
            return Err(HostError::TooLong(excerpt(text)));
        }
        for label in name.split('.') {
            match label {
                "" => return Err(HostError::EmptyLabel(excerpt(text))),
                _ if label.len() > MAX_LABEL => return Err(HostError::TooLong(excerpt(text))),
                _ if label.starts_with('-') || label.ends_with('-') => {
                    return Err(HostError::Hyphen(excerpt(text)));
                }
                _ => {}
            }
        }
        Ok(Self(Kind::Name(name.to_owned())))
    }

    /// The name, unless this is an address.
    pub fn as_name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Name(name) => Some(name),
            Kind::Ip(_) => None,
        }
    }

    /// The address, unless this is a name.
    pub fn as_ip(&self) -> Option<IpAddr> {
        match self.0 {
            Kind::Name(_) => None,
            Kind::Ip(ip) => Some(ip),
        }
    }

    /// The IPv4 addresses that an IPv6 one carries inside and that something on the way may unpack.
    pub fn embedded_v4(&self) -> Vec<Ipv4Addr> {
        match self.0 {
            Kind::Ip(IpAddr::V6(ip)) => embedded_v4(ip),
            _ => Vec::new(),
        }
    }

    /// What an address reaches; nothing for a name, whose addresses are judged once it is resolved.
    pub fn reach(&self) -> Option<Reach> {
        self.as_ip().map(|ip| reach(&ip))
    }
}

/// An IPv6 address, bare or in brackets. A zone (`%eth0`) never comes this far.
fn parse_v6(text: &str) -> Option<IpAddr> {
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => text,
    };
    inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// Whether the last part looks like a number, so that the whole can only be an IPv4 address (the URL
/// standard's "ends in a number" rule; a name of this form does not exist in public DNS).
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let digits = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    digits || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// An IPv4 address as `inet_aton` reads it: one to four parts, each decimal, octal or hexadecimal, the last
/// filling whatever the others leave.
fn parse_v4(name: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = name.split('.').map(parse_v4_part).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let room = 32 - 8 * leading.len();
    if *last >= 1u64 << room {
        return None;
    }
    let high = leading.iter().fold(0, |value, part| value << 8 | part);
    u32::try_from(high << room | last).ok().map(Ipv4Addr::from)
}

/// One part of an address. `0x` alone is zero, as in the URL standard.
fn parse_v4_part(part: &str) -> Option<u64> {
    let (digits, radix) = match part.strip_prefix("0x") {
        Some("") => return Some(0),
        Some(hex) => (hex, 16),
        None if part.len() > 1 && part.starts_with('0') => (part, 8),
        None => (part, 10),
    };
    // `from_str_radix` would take a sign.
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, radix).ok())?
}

impl From<IpAddr> for Host {
    /// An address from bytes on the wire; an IPv4 address in IPv6 clothes (`::ffff:0:0/96`) loses them.
    fn from(ip: IpAddr) -> Self {
        Self(Kind::Ip(ip.to_canonical()))
    }
}

impl TryFrom<&[u8]> for Host {
    type Error = HostError;

    fn try_from(bytes: &[u8]) -> Result<Self, HostError> {
        Self::parse(str::from_utf8(bytes).map_err(|_| HostError::NotText)?)
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl fmt::Display for Host {
    /// An IPv6 address appears without brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Name(name) => f.write_str(name),
            Kind::Ip(ip) => ip.fmt(f),
        }
    }
}

written_as_text!(
    Host,
    kind: "host",
    what: "a host name or an IP address",
    description: "DNS name or IP address, without scheme, port or path.",
    examples: ["api.example.com", "192.0.2.7", "2001:db8::1"],
);

#[cfg(test)]
mod tests;
