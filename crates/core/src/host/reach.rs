//! What an address reaches: the public internet, or something that a sandbox must not meet by accident.
//!
//! Owns the classification, which also looks at IPv4 addresses carried inside IPv6 ones. What is then allowed
//! is the policy's business. Ranges are those of the IANA special-purpose registries (RFC 6890 and later).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address reaches, from the harmless to the most dangerous; of several, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// The public internet.
    Public,
    /// Set aside: documentation, benchmarks, future use, this network, tunnels without a known end.
    Reserved,
    /// A group of hosts.
    Multicast,
    /// The unspecified address, which on Linux connects to the host itself.
    Unspecified,
    /// A private network: RFC 1918, carrier-grade NAT, unique local, site local.
    Private,
    /// The local link.
    LinkLocal,
    /// The host itself.
    Loopback,
    /// A cloud's metadata or control service, which hands out credentials.
    Metadata,
}

impl Reach {
    /// Whether this is the public internet.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Public)
    }

    /// The lower-case word for messages and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Reserved => "reserved",
            Self::Multicast => "multicast",
            Self::Unspecified => "unspecified",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Loopback => "loopback",
            Self::Metadata => "metadata",
        }
    }
}

/// Metadata services by IPv4. One of them (Azure's) lies in public space, so ranges alone would not find it.
const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(169, 254, 169, 254), // AWS, Azure, Google, OpenStack and most others
    Ipv4Addr::new(169, 254, 170, 2),   // AWS container credentials
    Ipv4Addr::new(169, 254, 170, 23),  // AWS pod identity
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's host agent
];

/// Metadata services by IPv6.
const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),   // AWS
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),    // AWS pod identity
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),    // Google
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),     // Scaleway
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // OpenStack
];

/// What an address reaches; for an IPv6 address that carries IPv4 ones, the worst of them all.
pub fn reach(ip: &IpAddr) -> Reach {
    match ip.to_canonical() {
        IpAddr::V4(ip) => reach_v4(ip),
        IpAddr::V6(ip) => embedded_v4(ip).into_iter().map(reach_v4).fold(reach_v6(ip), Reach::max),
    }
}

/// What an IPv4 address reaches.
fn reach_v4(ip: Ipv4Addr) -> Reach {
    if METADATA_V4.contains(&ip) {
        return Reach::Metadata;
    }
    match ip.octets() {
        [0, 0, 0, 0] => Reach::Unspecified,
        [127, ..] => Reach::Loopback,
        [169, 254, ..] => Reach::LinkLocal,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Reach::Private,
        [224..=239, ..] => Reach::Multicast,
        [0 | 240..=255, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Reach::Reserved,
        _ => Reach::Public,
    }
}

/// What an IPv6 address reaches by itself. Outside 2000::/3 only what is named here is known to be anything,
/// so the rest is reserved.
fn reach_v6(ip: Ipv6Addr) -> Reach {
    if METADATA_V6.contains(&ip) {
        return Reach::Metadata;
    }
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Reach::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Loopback,
        [0xfe80..=0xfebf, ..] => Reach::LinkLocal,
        [0xfec0..=0xfeff | 0xfc00..=0xfdff, ..] => Reach::Private,
        [0xff00..=0xffff, ..] => Reach::Multicast,
        // NAT64's well-known prefix is how a network without IPv4 reaches public IPv4.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Reach::Public,
        // Protocol assignments (Teredo among them) and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Reserved,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Reserved,
    }
}

/// The IPv4 addresses that an IPv6 address carries, in every known packing: a translator or a tunnel on the
/// way may unpack them, and then the packet arrives there.
pub fn embedded_v4(ip: Ipv6Addr) -> Vec<Ipv4Addr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    let tail = v4(s[6], s[7]);
    let mut found = match s {
        [0, 0, 0, 0, 0, 0, 0, 0..=1] => Vec::new(),
        // IPv4-compatible, IPv4-mapped, IPv4-translated (RFC 4291, RFC 7915).
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => vec![tail],
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![tail],
        // NAT64 for local use (RFC 8215): the operator chooses a prefix of 48, 56, 64 or 96 bits inside it,
        // and each puts the address elsewhere, around the unused octet in the middle.
        [0x64, 0xff9b, 1, ..] => {
            let bits = u128::from(ip);
            let (mid, at_64) = ((s[4] & 0xff) << 8 | s[5] >> 8, bits >> 24);
            let at_56 = (u32::from(s[3] & 0xff) << 24) | (((bits >> 32) & 0x00ff_ffff) as u32);
            vec![v4(s[3], mid), Ipv4Addr::from(at_56), Ipv4Addr::from((at_64 & 0xffff_ffff) as u32), tail]
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, high, low, ..] => vec![v4(high, low), v4(!s[6], !s[7])],
        _ => Vec::new(),
    };
    // ISATAP (RFC 5214) marks the interface half, below any prefix.
    if matches!(s, [.., 0 | 0x200, 0x5efe, _, _]) && !found.contains(&tail) {
        found.push(tail);
    }
    found
}
