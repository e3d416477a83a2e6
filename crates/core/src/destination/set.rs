//! Many destinations asked at once.
//!
//! Owns the lookup: what it costs depends on the labels of a name and the distinct prefix lengths, not on how
//! many patterns there are, so that a long block list does not slow every connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Destination, Ports, Target};
use crate::host::Host;

/// A list of destinations, in the order listed.
#[derive(Clone, Debug, Default)]
pub struct DestinationSet {
    any_name: PortTable,
    below: HashMap<String, PortTable>,
    exact: HashMap<Host, PortTable>,
    nets: HashMap<IpNet, PortTable>,
    /// Which prefix lengths `nets` has, for IPv4 and for IPv6.
    prefixes: [BTreeSet<u8>; 2],
    len: usize,
}

impl DestinationSet {
    /// The place in the list of the first destination that matches.
    pub fn find(&self, host: &Host, port: u16) -> Option<usize> {
        let exact = self.exact.get(host).and_then(|table| table.find(port));
        let wider = match (host.as_name(), host.as_ip()) {
            (Some(name), _) => self.find_name(name, port),
            (_, Some(ip)) => self.find_net(ip, port),
            (None, None) => None,
        };
        first(exact, wider)
    }

    /// How many destinations the list has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first among `*` and the names above this one.
    fn find_name(&self, name: &str, port: u16) -> Option<usize> {
        let mut best = self.any_name.find(port);
        if !self.below.is_empty() {
            let mut rest = name;
            while let Some((_, above)) = rest.split_once('.') {
                best = first(best, self.below.get(above).and_then(|table| table.find(port)));
                rest = above;
            }
        }
        best
    }

    /// The first among the networks around this address.
    fn find_net(&self, ip: IpAddr, port: u16) -> Option<usize> {
        let mut best = None;
        for prefix in &self.prefixes[usize::from(ip.is_ipv6())] {
            let net = IpNet::new(ip, *prefix).ok().map(|net| net.trunc());
            best = first(best, net.and_then(|net| self.nets.get(&net)).and_then(|table| table.find(port)));
        }
        best
    }
}

/// The earlier of two places.
fn first(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    a.into_iter().chain(b).min()
}

impl FromIterator<Destination> for DestinationSet {
    fn from_iter<I: IntoIterator<Item = Destination>>(list: I) -> Self {
        let (mut any_name, mut below, mut exact, mut nets) =
            (Vec::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let mut prefixes = [BTreeSet::new(), BTreeSet::new()];
        let mut len = 0;
        for Destination { target, ports } in list {
            let rule = (ports, len);
            match target {
                Target::AnyName => any_name.push(rule),
                Target::Below(suffix) => below.entry(suffix).or_insert_with(Vec::new).push(rule),
                Target::Exact(host) => exact.entry(host).or_insert_with(Vec::new).push(rule),
                Target::Net(net) => {
                    prefixes[usize::from(net.addr().is_ipv6())].insert(net.prefix_len());
                    nets.entry(net).or_insert_with(Vec::new).push(rule);
                }
            }
            len += 1;
        }
        Self {
            any_name: PortTable::new(&any_name),
            below: tables(below),
            exact: tables(exact),
            nets: tables(nets),
            prefixes,
            len,
        }
    }
}

/// A table for each key.
fn tables<K: Eq + Hash>(rules: HashMap<K, Vec<(Ports, usize)>>) -> HashMap<K, PortTable> {
    rules.into_iter().map(|(key, rules)| (key, PortTable::new(&rules))).collect()
}

/// For each port the first place that has it: stretches that do not overlap, sorted by where they begin.
#[derive(Clone, Debug, Default)]
struct PortTable(Vec<(u16, u16, usize)>);

impl PortTable {
    fn new(rules: &[(Ports, usize)]) -> Self {
        // Where places begin and cease to count; the end may lie one past the last port.
        let mut edges: BTreeMap<u32, Vec<(usize, bool)>> = BTreeMap::new();
        for (ports, place) in rules {
            for range in ports.ranges() {
                edges.entry(u32::from(*range.start())).or_default().push((*place, true));
                edges.entry(u32::from(*range.end()) + 1).or_default().push((*place, false));
            }
        }
        let mut open = BTreeSet::new();
        let mut table = Vec::new();
        let mut begin = 0;
        for (edge, changes) in edges {
            if let Some(place) = open.first()
                && let (Ok(from), Ok(to)) = (u16::try_from(begin), u16::try_from(edge.saturating_sub(1)))
            {
                table.push((from, to, *place));
            }
            for (place, opens) in changes {
                if opens {
                    open.insert(place)
                } else {
                    open.remove(&place)
                };
            }
            begin = edge;
        }
        Self(table)
    }

    fn find(&self, port: u16) -> Option<usize> {
        let after = self.0.partition_point(|(from, ..)| *from <= port);
        let (_, to, place) = self.0.get(after.checked_sub(1)?)?;
        (port <= *to).then_some(*place)
    }
}
