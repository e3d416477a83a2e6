//! A destination as an allow or block list writes it: which hosts, on which ports.
//!
//! Owns the pattern, whether it matches, and whether it covers another. Does not know whether it allows or
//! blocks, nor names for groups (`@registries`), which are expanded before they get here.
//!
//! An IPv6 address that carries an IPv4 one matches as itself: a block list must also be asked about
//! [`Host::embedded_v4`].

mod ports;
mod set;

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;

use crate::host::{Host, HostError};
use crate::text::{excerpt, written_as_text};

pub use ports::{DEFAULT_PORTS, Ports};
pub use set::DestinationSet;

/// Why a text is not a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// Nothing was written.
    #[error("a destination is empty")]
    Empty,
    /// A URL.
    #[error("`{0}` has a scheme: write the host alone, such as `example.com` or `example.com:443`")]
    Scheme(String),
    /// `user@host`.
    #[error("`{0}` has a user part: write the host alone")]
    User(String),
    /// A slash that begins no prefix length.
    #[error("`{0}` has a path: write the host alone (a prefix length goes with an address: `10.0.0.0/8`)")]
    Path(String),
    /// A `*` that is not the whole first part.
    #[error(
        "`{0}` has a `*` inside a name: write `*.example.com` for everything below example.com, or `*` for any name"
    )]
    Wildcard(String),
    /// `*.` before an address.
    #[error("`{0}` has a `*` before an address: write a network such as `10.0.0.0/8`")]
    WildcardAddress(String),
    /// Not a port or a range of ports.
    #[error("`{0}` has a wrong port: use 1 to 65535, or a range such as 8000-8999")]
    Port(String),
    /// A longer prefix than the address has bits, or not a number.
    #[error("`{0}` has a wrong prefix length")]
    Prefix(String),
    /// A bare IPv6 network with a port, where the colons would be ambiguous.
    #[error("`{0}` needs brackets around the address: write `[2001:db8::/32]:443`")]
    Brackets(String),
    /// An address inside a network instead of the network.
    #[error("`{written}` has bits set after its prefix: write `{network}`")]
    HostBits {
        /// What was written.
        written: String,
        /// The network that the address lies in.
        network: IpNet,
    },
    /// The host part is no host.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A pattern of hosts and ports.
///
/// | written | matches |
/// |---|---|
/// | `example.com` | that name, not what is below it |
/// | `*.example.com` | every name below it at any depth, not itself |
/// | `*` | every name, no address |
/// | `192.0.2.7`, `2001:db8::1` | that address, in whatever spelling |
/// | `10.0.0.0/8`, `fd00::/8` | every address of the network |
///
/// Each may be followed by `:port` or `:from-to` (`[2001:db8::1]:443`, `[fd00::/8]:443`); without one it
/// means [`DEFAULT_PORTS`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    target: Target,
    ports: Ports,
}

/// The hosts of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    /// Every name.
    AnyName,
    /// Every name below this one.
    Below(String),
    /// One host. A network of one address is this too, so that equal patterns are equal values.
    Exact(Host),
    /// Every address of a network, which has no bits set after its prefix.
    Net(IpNet),
}

impl Destination {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        if text.is_empty() {
            return Err(DestinationError::Empty);
        }
        if text.contains("://") {
            return Err(DestinationError::Scheme(excerpt(text)));
        }
        if text.contains('@') {
            return Err(DestinationError::User(excerpt(text)));
        }
        let (host, prefix, ports) = split(text)?;
        let ports = match ports {
            Some(ports) => Ports::parse(ports).ok_or_else(|| DestinationError::Port(excerpt(text)))?,
            None => Ports::DEFAULT,
        };
        let target = match prefix {
            Some(prefix) => parse_net(text, host, prefix)?,
            None => parse_target(text, host)?,
        };
        Ok(Self { target, ports })
    }

    /// Whether a connection to this host and port falls under the pattern.
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.ports.contains(port)
            && match &self.target {
                Target::AnyName => host.as_name().is_some(),
                Target::Below(suffix) => host.as_name().is_some_and(|name| is_below(name, suffix)),
                Target::Exact(exact) => exact == host,
                Target::Net(net) => host.as_ip().is_some_and(|ip| net.contains(&ip)),
            }
    }

    /// Whether everything that `other` matches is matched by this too.
    pub fn covers(&self, other: &Self) -> bool {
        self.ports.covers(other.ports)
            && match (&self.target, &other.target) {
                (Target::AnyName, Target::AnyName | Target::Below(_)) => true,
                (Target::AnyName, Target::Exact(host)) => host.as_name().is_some(),
                (Target::Below(suffix), Target::Below(other)) => other == suffix || is_below(other, suffix),
                (Target::Below(suffix), Target::Exact(host)) => {
                    host.as_name().is_some_and(|name| is_below(name, suffix))
                }
                (Target::Exact(host), Target::Exact(other)) => host == other,
                (Target::Net(net), Target::Exact(host)) => host.as_ip().is_some_and(|ip| net.contains(&ip)),
                (Target::Net(net), Target::Net(other)) => net.contains(other),
                (Target::AnyName | Target::Below(_) | Target::Exact(_), Target::Net(_))
                | (Target::Below(_) | Target::Exact(_) | Target::Net(_), Target::AnyName)
                | (Target::Exact(_) | Target::Net(_), Target::Below(_)) => false,
            }
    }

    /// The ports of the pattern.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// The one host of the pattern, unless it has many.
    pub fn exact_host(&self) -> Option<&Host> {
        match &self.target {
            Target::Exact(host) => Some(host),
            _ => None,
        }
    }
}

/// Whether a name lies below another: one dot at least stands between.
fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).and_then(|rest| rest.strip_suffix('.')).is_some_and(|rest| !rest.is_empty())
}

/// Host, prefix length and ports as written.
type Parts<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// Takes a pattern apart; brackets are dropped once it is known that an IPv6 address stands in them.
fn split(text: &str) -> Result<Parts<'_>, DestinationError> {
    if let Some(rest) = text.strip_prefix('[') {
        let ipv6 = || HostError::Ipv6(excerpt(text));
        let (inner, rest) = rest.split_once(']').ok_or_else(ipv6)?;
        // Only IPv6 wears brackets.
        if !inner.contains(':') {
            return Err(ipv6().into());
        }
        let (rest, ports) = split_pair(rest, ':');
        return match (split_pair(inner, '/'), split_pair(rest, '/')) {
            ((host, inside), ("", None)) => Ok((host, inside, ports)),
            ((host, None), ("", outside)) => Ok((host, outside, ports)),
            _ => Err(ipv6().into()),
        };
    }
    if text.bytes().filter(|b| *b == b':').count() > 1 {
        let (host, prefix) = split_pair(text, '/');
        if prefix.is_some_and(|prefix| prefix.contains(':')) {
            return Err(DestinationError::Brackets(excerpt(text)));
        }
        return Ok((host, prefix, None));
    }
    let (rest, ports) = split_pair(text, ':');
    let (host, prefix) = split_pair(rest, '/');
    if ports.is_some_and(|ports| ports.contains('/')) {
        return Err(DestinationError::Path(excerpt(text)));
    }
    Ok((host, prefix, ports))
}

/// What stands before a character, and what after it.
fn split_pair(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// A name, a wildcard or an address.
fn parse_target(text: &str, host: &str) -> Result<Target, DestinationError> {
    if host == "*" {
        return Ok(Target::AnyName);
    }
    let suffix = host.strip_prefix("*.");
    if suffix.unwrap_or(host).contains('*') || suffix == Some("") {
        return Err(DestinationError::Wildcard(excerpt(text)));
    }
    let Some(suffix) = suffix else { return Ok(Target::Exact(Host::parse(host)?)) };
    match Host::parse(suffix)?.as_name() {
        Some(name) => Ok(Target::Below(name.to_owned())),
        None => Err(DestinationError::WildcardAddress(excerpt(text))),
    }
}

/// A network: an address and a prefix length.
fn parse_net(text: &str, host: &str, prefix: &str) -> Result<Target, DestinationError> {
    // Whatever is no address before a slash was meant as a URL.
    let address = Host::parse(host).ok().and_then(|host| host.as_ip());
    let address = address.ok_or_else(|| DestinationError::Path(excerpt(text)))?;
    let bad_prefix = || DestinationError::Prefix(excerpt(text));
    let digits = (1..=3).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_digit());
    let mut length: u8 = digits.then(|| prefix.parse().ok()).flatten().ok_or_else(bad_prefix)?;
    // A network of mapped addresses is the IPv4 network that they are read as.
    if address.is_ipv4() && host.contains(':') {
        length = length.checked_sub(96).ok_or_else(bad_prefix)?;
    }
    let net = IpNet::new(address, length).map_err(|_| bad_prefix())?;
    if net.trunc() != net {
        return Err(DestinationError::HostBits { written: excerpt(text), network: net.trunc() });
    }
    Ok(if length == net.max_prefix_len() { Target::Exact(address.into()) } else { Target::Net(net) })
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_v6 = match &self.target {
            Target::Exact(host) => host.as_ip().is_some_and(|ip| ip.is_ipv6()),
            Target::Net(net) => matches!(net, IpNet::V6(_)),
            Target::AnyName | Target::Below(_) => false,
        };
        let (open, close) = if is_v6 && self.ports != Ports::DEFAULT { ("[", "]") } else { ("", "") };
        f.write_str(open)?;
        match &self.target {
            Target::AnyName => f.write_str("*")?,
            Target::Below(suffix) => write!(f, "*.{suffix}")?,
            Target::Exact(host) => host.fmt(f)?,
            Target::Net(net) => net.fmt(f)?,
        }
        f.write_str(close)?;
        self.ports.fmt(f)
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        Self::parse(text)
    }
}

written_as_text!(
    Destination,
    kind: "destination",
    what: "a destination such as `example.com` or `*.example.com:443`",
    description: "Host name, `*.name` for everything below a name, `*` for any name, IP address or network; \
                  optionally with `:port` or `:from-to` (80 and 443 otherwise).",
    examples: ["api.example.com", "*.example.org:443", "10.0.0.0/8:5432", "[2001:db8::1]:8000-8999"],
);

#[cfg(test)]
mod tests;
