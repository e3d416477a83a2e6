//! Cases and properties of destinations and sets of them.

use super::*;
use proptest::prelude::*;

fn dest(text: &str) -> Destination {
    Destination::parse(text).unwrap_or_else(|err| panic!("{text:?}: {err}"))
}

fn hits(pattern: &str, host: &str, port: u16) -> bool {
    dest(pattern).matches(&Host::parse(host).unwrap(), port)
}

#[test]
fn a_wildcard_matches_below_and_nothing_else() {
    for (host, expected) in [
        ("a.example.com", true),
        ("a.b.example.com", true),
        ("A.EXAMPLE.COM.", true),
        ("_x.example.com", true),
        ("example.com", false),
        ("evilexample.com", false),
        ("example.com.evil.com", false),
        ("a.example.com.evil.com", false),
        ("a.example.comm", false),
        ("com", false),
        ("127.0.0.1", false),
    ] {
        assert_eq!(hits("*.example.com", host, 443), expected, "{host}");
    }
    assert!(!hits("example.com", "a.example.com", 443));
    assert!(hits("*.BÜCHER.example.", "a.xn--bcher-kva.example", 443));
}

#[test]
fn any_name_is_no_address() {
    assert!(hits("*", "localhost", 80));
    assert!(hits("*", "a.b.c", 443));
    for address in ["127.1", "2130706433", "::1", "8.8.8.8", "0x8.8"] {
        assert!(!hits("*", address, 443), "{address}");
    }
    assert!(!hits("*", "a.b", 22));
    assert!(hits("*:22", "a.b", 22));
}

#[test]
fn addresses_match_in_every_spelling() {
    for spelling in ["10.1.2.3", "167838211", "0xa.1.2.3", "012.1.2.3", "::ffff:10.1.2.3"] {
        assert!(hits("10.1.2.3", spelling, 80), "{spelling}");
        assert!(hits("10.0.0.0/8", spelling, 80), "{spelling}");
        assert!(hits("::ffff:10.0.0.0/104", spelling, 80), "{spelling}");
        assert_eq!(dest(spelling), dest("10.1.2.3"));
    }
    assert!(!hits("10.0.0.0/8", "11.0.0.1", 80));
    assert!(hits("fd00::/8", "fd12::1", 80));
    assert!(!hits("::/0", "10.0.0.1", 80));
    assert!(!hits("0.0.0.0/0", "::1", 80));
    assert!(!hits("0.0.0.0/0", "example.com", 80));
}

#[test]
fn ports_are_the_default_two_one_or_a_range() {
    assert!(hits("a.b", "a.b", 80) && hits("a.b", "a.b", 443) && !hits("a.b", "a.b", 8080));
    assert!(hits("a.b:22", "a.b", 22) && !hits("a.b:22", "a.b", 443));
    assert!(hits("a.b:1-65535", "a.b", 65535) && hits("a.b:8000-8999", "a.b", 8999));
    assert!(!hits("a.b:8000-8999", "a.b", 9000));
    assert_eq!(dest("a.b").ports().ranges().collect::<Vec<_>>(), [80..=80, 443..=443]);
    assert_eq!(dest("a.b:5-9").ports().ranges().collect::<Vec<_>>(), [5..=9]);
}

#[test]
fn one_text_for_every_spelling() {
    for (written, canonical) in [
        ("Example.COM.", "example.com"),
        ("example.com:0443", "example.com:443"),
        ("example.com:443-443", "example.com:443"),
        ("*.Example.com:80-90", "*.example.com:80-90"),
        ("*", "*"),
        ("*:443", "*:443"),
        ("127.1", "127.0.0.1"),
        ("10.0.0.1/32", "10.0.0.1"),
        ("10.0.0.0/8:443", "10.0.0.0/8:443"),
        ("0x0a.0.0.0/08", "10.0.0.0/8"),
        ("[::1]", "::1"),
        ("::1:443", "::1:443"),
        ("[::1]:443", "[::1]:443"),
        ("[fd00::]/8", "fd00::/8"),
        ("[fd00::/8]:443", "[fd00::/8]:443"),
        ("[fd00::]/8:443", "[fd00::/8]:443"),
        ("[::ffff:10.0.0.1]:443", "10.0.0.1:443"),
        ("2001:db8::1/128", "2001:db8::1"),
    ] {
        assert_eq!(dest(written).to_string(), canonical, "{written}");
        assert_eq!(dest(canonical), dest(written));
    }
}

#[test]
fn mistakes_are_named() {
    let message = |text: &str| Destination::parse(text).expect_err(text).to_string();
    for (text, word) in [
        ("", "empty"),
        ("https://example.com", "write the host alone"),
        ("https://example.com/x", "scheme"),
        ("example.com/x", "path"),
        ("example.com/8", "path"),
        ("example.com:80/x", "path"),
        ("*/x", "path"),
        ("user@example.com", "user part"),
        ("*foo.com", "`*` inside a name"),
        ("*.", "`*` inside a name"),
        ("**", "`*` inside a name"),
        ("a.*.com", "`*` inside a name"),
        ("*.*.com", "`*` inside a name"),
        ("a.*", "`*` inside a name"),
        ("*.10.0.0.1", "before an address"),
        ("a.b:0", "port"),
        ("a.b:65536", "port"),
        ("a.b:", "port"),
        ("a.b:+1", "port"),
        ("a.b:9-5", "port"),
        ("a.b:0-5", "port"),
        ("a.b:-5", "port"),
        ("a.b:*", "port"),
        ("a.b:http", "port"),
        ("10.0.0.0/33", "prefix"),
        ("10.0.0.0/", "prefix"),
        ("10.0.0.0/-1", "prefix"),
        ("fd00::/129", "prefix"),
        ("::ffff:10.0.0.0/8", "prefix"),
        ("fd00::/8:443", "brackets"),
        ("10.0.0.1/8", "write `10.0.0.0/8`"),
        ("[fd12::1/8]:443", "write `fd00::/8`"),
        ("[example.com]", "IPv6"),
        ("[10.0.0.1]:80", "IPv6"),
        ("[::1", "IPv6"),
        ("[::1]x", "IPv6"),
        ("[::1/64]/64", "IPv6"),
        ("a..b", "empty part"),
        ("a b", "contains"),
        ("a.b\0", "contains"),
        ("fe80::1%eth0", "contains"),
        ("＊.com", "not a valid domain name"),
    ] {
        assert!(message(text).contains(word), "{text:?}: {}", message(text));
    }
}

#[test]
fn covering_is_what_it_says() {
    for (wide, narrow) in [
        ("*", "*.example.com"),
        ("*", "example.com"),
        ("*.com", "*.example.com"),
        ("*.example.com", "a.example.com"),
        ("*.example.com", "*.a.example.com"),
        ("*.example.com", "*.example.com"),
        ("10.0.0.0/8", "10.1.0.0/16"),
        ("10.0.0.0/8", "10.1.2.3"),
        ("a.b:1-65535", "a.b"),
        ("a.b", "a.b:80"),
        ("a.b:80-443", "a.b"),
    ] {
        assert!(dest(wide).covers(&dest(narrow)), "{wide} {narrow}");
        assert!(wide == narrow || !dest(narrow).covers(&dest(wide)), "{narrow} {wide}");
    }
    for (a, b) in [
        ("*", "10.0.0.1"),
        ("*", "0.0.0.0/0"),
        ("*.example.com", "example.com"),
        ("*.example.com", "evilexample.com"),
        ("*.example.com", "*.evilexample.com"),
        ("a.b", "a.b:80-443"),
        ("a.b:443", "a.b"),
        ("0.0.0.0/0", "::/0"),
    ] {
        assert!(!dest(a).covers(&dest(b)), "{a} {b}");
    }
}

#[test]
fn a_set_answers_with_the_first_listed() {
    let list = [
        "*.example.com",
        "a.example.com:22",
        "*:8000-9000",
        "10.0.0.0/8",
        "10.1.2.3:1-65535",
        "*.com:8500",
        "[::/0]:53",
    ];
    let set: DestinationSet = list.iter().map(|text| dest(text)).collect();
    assert_eq!(set.len(), list.len());
    for (host, port, expected) in [
        ("a.example.com", 443, Some(0)),
        ("a.example.com", 22, Some(1)),
        ("a.example.com", 8500, Some(2)),
        ("example.com", 443, None),
        ("10.1.2.3", 80, Some(3)),
        ("10.1.2.3", 81, Some(4)),
        ("10.1.2.4", 81, None),
        ("2001:db8::1", 53, Some(6)),
    ] {
        assert_eq!(set.find(&Host::parse(host).unwrap(), port), expected, "{host}:{port}");
    }
    assert!(DestinationSet::default().is_empty());
    assert_eq!(DestinationSet::default().find(&Host::parse("a.b").unwrap(), 80), None);
}

/// Hosts from a small world, so that patterns often meet.
fn some_host() -> impl Strategy<Value = String> {
    prop_oneof![
        "([ab]\\.){0,3}(x|y|ax)\\.z",
        (0u8..2, 0u8..4, 0u8..4).prop_map(|(a, b, c)| format!("10.{a}.{}.{}", b * 64, c * 64)),
        (0u8..2, 0u8..4).prop_map(|(a, b)| format!("fd00:{a}::{b}")),
    ]
}

fn some_pattern() -> impl Strategy<Value = Destination> {
    let target = prop_oneof![
        2 => some_host(),
        2 => "([ab]\\.){0,2}(x|y|ax)\\.z".prop_map(|name| format!("*.{name}")),
        1 => Just("*".to_owned()),
        1 => Just("*.z".to_owned()),
        2 => (some_host(), 0u8..=128).prop_filter_map("an address", |(host, length)| {
            let ip = Host::parse(&host).ok()?.as_ip()?;
            let net = IpNet::new(ip, if ip.is_ipv4() { length % 33 } else { length }).ok()?.trunc();
            Some(if ip.is_ipv4() { net.to_string() } else { format!("[{net}]") })
        }),
    ];
    let ports = prop_oneof![
        Just(String::new()),
        prop::sample::select(vec![":80", ":443", ":80-443", ":1-65535", ":442-443"]).prop_map(str::to_owned),
        (1u16..=6, 0u16..=4).prop_map(|(from, more)| format!(":{from}-{}", from + more)),
    ];
    (target, ports).prop_filter_map("a destination", |(target, ports)| {
        let target = if target.starts_with("fd00") { format!("[{target}]") } else { target };
        Destination::parse(&format!("{target}{ports}")).ok()
    })
}

fn some_port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(80), Just(443), 1u16..12, 400u16..450, Just(65535), any::<u16>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn covers_implies_matches(wide in some_pattern(), narrow in some_pattern(), host in some_host(), port in some_port()) {
        let host = Host::parse(&host).unwrap();
        if wide.covers(&narrow) && narrow.matches(&host, port) {
            prop_assert!(wide.matches(&host, port), "{} {} {}:{}", wide, narrow, host, port);
        }
        prop_assert!(wide.covers(&wide));
    }

    #[test]
    fn a_set_agrees_with_asking_one_by_one(
        list in prop::collection::vec(some_pattern(), 0..20), host in some_host(), port in some_port(),
    ) {
        let host = Host::parse(&host).unwrap();
        let expected = list.iter().position(|pattern| pattern.matches(&host, port));
        prop_assert_eq!(list.into_iter().collect::<DestinationSet>().find(&host, port), expected);
    }

    #[test]
    fn a_pattern_reads_back(pattern in some_pattern()) {
        prop_assert_eq!(Destination::parse(&pattern.to_string()), Ok(pattern.clone()));
        let json = serde_json::to_string(&pattern).unwrap();
        prop_assert_eq!(serde_json::from_str::<Destination>(&json).unwrap(), pattern);
    }

    #[test]
    fn any_text_is_judged(text in prop_oneof!["\\PC*", ".*", "[*a.:/\\[\\]0-9f@-]{0,16}", "[0-9a-f:]{2,9}(/[0-9]{1,3})?(:[0-9-]{1,8})?"]) {
        if let Ok(pattern) = Destination::parse(&text) {
            prop_assert_eq!(Destination::parse(&pattern.to_string()), Ok(pattern), "{:?}", text);
        }
    }
}
