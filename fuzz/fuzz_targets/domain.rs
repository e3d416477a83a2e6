//! Hosts and destinations: what is written reads back the same, and covering agrees with matching.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::destination::{Destination, DestinationSet};
use pinfold_core::host::Host;

fuzz_target!(|bytes: &[u8]| {
    // Two destinations and a host, a line each.
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (first, second, host) = (next(), next(), next());
    if let Ok(host) = Host::try_from(first) {
        let written = host.to_string();
        let again = Host::parse(&written).expect("canonical text parses");
        assert_eq!(host, again);
        assert_eq!(written, again.to_string());
        assert!(written.is_ascii() && !written.contains(|c: char| c.is_ascii_uppercase() || c.is_control()));
        assert_eq!(host.as_ip().is_some(), host.reach().is_some());
        assert!(host.as_name().is_none_or(|name| name.len() <= 253 && !name.ends_with('.')));
    }
    let Some(destination) = read(first) else { return };
    let written = destination.to_string();
    let again = Destination::parse(&written).expect("canonical text parses");
    assert_eq!(destination, again);
    assert_eq!(written, again.to_string());
    assert!(destination.covers(&destination), "{destination} covers itself");
    let Ok(host) = Host::try_from(host) else { return };
    let ports = [1, 80, 443, 8080, 65535];
    let set = DestinationSet::from_iter([destination.clone()]);
    for port in ports {
        assert_eq!(
            set.find(&host, port).is_some(),
            destination.matches(&host, port),
            "{destination} {host}:{port}"
        );
    }
    let Some(other) = read(second) else { return };
    let both = DestinationSet::from_iter([destination.clone(), other.clone()]);
    for port in ports {
        let expected = match (destination.matches(&host, port), other.matches(&host, port)) {
            (true, _) => Some(0),
            (false, true) => Some(1),
            (false, false) => None,
        };
        assert_eq!(both.find(&host, port), expected, "{destination} {other} {host}:{port}");
        if destination.covers(&other) && other.matches(&host, port) {
            assert!(destination.matches(&host, port), "{destination} covers {other}: {host}:{port}");
        }
    }
});

fn read(bytes: &[u8]) -> Option<Destination> {
    Destination::parse(str::from_utf8(bytes).ok()?).ok()
}
