//! The ports of a destination.
//!
//! Owns the range and its written form after the host.

use std::fmt;
use std::ops::RangeInclusive;

/// The ports of a destination that names none: HTTP and HTTPS.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// A set of ports: the default two, or one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ports(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Default,
    /// From and to, both included, in this order.
    Range(u16, u16),
}

impl Ports {
    /// [`DEFAULT_PORTS`].
    pub(super) const DEFAULT: Self = Self(Kind::Default);

    /// Reads `443` or `8000-8999`; port 0 is no port.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let port = |text: &str| {
            // `parse` would take a sign.
            let digits = (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse::<u16>().ok()).flatten().filter(|port| *port != 0)
        };
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (port(from)?, port(to)?);
        (from <= to).then_some(Self(Kind::Range(from, to)))
    }

    /// Whether a port is one of these.
    pub fn contains(self, port: u16) -> bool {
        match self.0 {
            Kind::Default => DEFAULT_PORTS.contains(&port),
            Kind::Range(from, to) => (from..=to).contains(&port),
        }
    }

    /// Whether all ports of `other` are among these.
    pub fn covers(self, other: Self) -> bool {
        match (self.0, other.0) {
            (_, Kind::Default) => DEFAULT_PORTS.iter().all(|port| self.contains(*port)),
            (Kind::Default, Kind::Range(from, to)) => from == to && self.contains(from),
            (Kind::Range(from, to), Kind::Range(other_from, other_to)) => {
                from <= other_from && other_to <= to
            }
        }
    }

    /// The ports as ranges that do not overlap.
    pub fn ranges(self) -> impl Iterator<Item = RangeInclusive<u16>> {
        let [http, https] = DEFAULT_PORTS;
        let (first, second) = match self.0 {
            Kind::Default => (http..=http, Some(https..=https)),
            Kind::Range(from, to) => (from..=to, None),
        };
        std::iter::once(first).chain(second)
    }
}

impl fmt::Display for Ports {
    /// As it follows a host: nothing for the default, else with the colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Default => Ok(()),
            Kind::Range(from, to) if from == to => write!(f, ":{from}"),
            Kind::Range(from, to) => write!(f, ":{from}-{to}"),
        }
    }
}
