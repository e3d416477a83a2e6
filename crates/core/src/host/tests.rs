//! Cases and properties of hosts: the spellings an attacker tries, and that no text breaks the reader.

use super::*;
use proptest::prelude::*;

fn host(text: &str) -> Host {
    Host::parse(text).unwrap_or_else(|err| panic!("{text:?}: {err}"))
}

#[test]
fn one_name_for_every_spelling() {
    for (text, name) in [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("localhost", "localhost"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("r3---sn-x.example.com", "r3---sn-x.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        // Non-transitional: sharp s is a letter of its own.
        ("faß.example", "xn--fa-hia.example"),
        ("ｅｘａｍｐｌｅ．ｃｏｍ", "example.com"),
        ("example。com", "example.com"),
        ("example.com。", "example.com"),
        ("exa\u{ad}mple.com", "example.com"),
        ("127.0.0.1.example.com", "127.0.0.1.example.com"),
        ("1.2.3.4a", "1.2.3.4a"),
        ("0xg", "0xg"),
    ] {
        assert_eq!(host(text).as_name(), Some(name), "{text:?}");
    }
}

#[test]
fn every_spelling_of_an_address_is_the_address() {
    for text in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F000001",
        "0x7f.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "0177.0.0.01",
        "00000000177.1",
        "017700000001",
        "127.0x0.01",
        "１２７．０．０．１",
        "127。0。0。1",
        "①②⑦.1",
        "[::ffff:127.0.0.1]",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0:0:0:0:0:FFFF:7F00:0001",
    ] {
        assert_eq!(host(text).as_ip(), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), "{text:?}");
    }
    for (text, ip) in [
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("255.255.255.255", "255.255.255.255"),
        ("4294967295", "255.255.255.255"),
        ("1.16777215", "1.255.255.255"),
        ("[::1]", "::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("64:ff9b::7f00:1", "64:ff9b::7f00:1"),
    ] {
        assert_eq!(host(text).as_ip(), Some(ip.parse().unwrap()), "{text:?}");
        assert_eq!(host(text).to_string(), ip);
    }
}

#[test]
fn what_is_no_host_is_refused() {
    for text in [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a..",
        "。",
        "a。。b",
        "example.com\0",
        "\0",
        "example.com\0.evil.com",
        "a\r\nb",
        "a\n",
        " a",
        "a ",
        "a b",
        "a\u{a0}b",
        "a\u{3000}b",
        "a\tb",
        "a\u{7f}",
        "a\u{85}b",
        "a\u{2028}b",
        "%61.com",
        "a％41.com",
        "a%00b",
        "user@example.com",
        "a＠b",
        "example.com/",
        "a／b",
        "a\\b",
        "a?b",
        "a#b",
        "a:80",
        "example.com：80",
        "-a.com",
        "a-.com",
        "a.-b",
        "a.b-",
        "a*b",
        "*.example.com",
        "a,b",
        "a!b",
        "a$b",
        "a'b",
        "a(b)",
        "a;b",
        "a=b",
        "a|b",
        "a~b",
        "a^b",
        "a`b",
        "a{b}",
        "<a>",
        "\"a\"",
        "a+b",
        "a&b",
    ] {
        assert!(Host::parse(text).is_err(), "{text:?} gave {:?}", Host::parse(text));
    }
    assert!(Host::parse(&"a".repeat(64)).is_err());
    assert!(Host::parse(&"a".repeat(63)).is_ok());
    assert!(Host::parse(&format!("{}aaa", "a.".repeat(125))).is_ok());
    assert!(Host::parse(&format!("{}aaaa", "a.".repeat(125))).is_err());
    assert!(Host::parse(&"ü.".repeat(60)).is_err());
    assert!(Host::parse(&"a".repeat(1 << 20)).is_err());
}

#[test]
fn bad_punycode_is_refused() {
    for text in [
        "xn--",
        "xn--.com",
        "xn--a.com",
        "xn--0.com",
        "xn--abc-.com",
        "xn--\u{fc}.com",
        "xn--zzzzzzzzzzzz.com",
        "a\u{200d}b.com",
    ] {
        assert!(Host::parse(text).is_err(), "{text:?} gave {:?}", Host::parse(text));
    }
}

#[test]
fn what_only_looks_like_an_address_is_refused() {
    for text in [
        "256.0.0.1",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.65536",
        "1.16777216",
        "4294967296",
        "99999999999999999999999999",
        "08.0.0.1",
        "0x100000000",
        "1..2",
        "example.com.1",
        "example.0x1",
        "a.1.",
        "0xzz.1",
        "1.-2",
        "1.+2",
        "[127.0.0.1]",
        "[::1",
        "::1]",
        "[::1].",
        "[[::1]]",
        "[::1]:80",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "[]",
        "1::2::3",
        ":",
        ":::",
        "12345::",
        "::ffff:127.1",
        "::ffff:0177.0.0.1",
        "[v1.x]",
        "：：1",
    ] {
        assert!(Host::parse(text).is_err(), "{text:?} gave {:?}", Host::parse(text));
    }
}

#[test]
fn an_error_shows_hostile_text_safely() {
    let message = Host::parse(&format!("evil\u{1b}[2J{}", "x".repeat(500))).unwrap_err().to_string();
    assert!(message.contains("evil\\x1b[2J") && message.len() < 200, "{message}");
    assert_eq!(Host::try_from(&b"a\xff"[..]), Err(HostError::NotText));
}

#[test]
fn addresses_reach_what_they_reach() {
    use Reach::*;
    for (text, expected) in [
        ("8.8.8.8", Public),
        ("2606:4700::1111", Public),
        ("64:ff9b::808:808", Public),
        ("2002:808:808::1", Public),
        ("100.63.255.255", Public),
        ("100.128.0.0", Public),
        ("172.15.0.1", Public),
        ("172.32.0.1", Public),
        ("127.1", Loopback),
        ("127.255.255.254", Loopback),
        ("::1", Loopback),
        ("::127.0.0.1", Loopback),
        ("64:ff9b::127.0.0.1", Loopback),
        ("2002:7f00:1::", Loopback),
        ("2606:4700::5efe:7f00:1", Loopback),
        ("2606:4700::200:5efe:7f00:1", Loopback),
        ("::ffff:0:127.0.0.1", Loopback),
        ("0.0.0.0", Unspecified),
        ("::", Unspecified),
        ("0.1.2.3", Reserved),
        ("10.0.0.1", Private),
        ("172.31.255.255", Private),
        ("192.168.1.1", Private),
        ("100.64.0.1", Private),
        ("fc00::1", Private),
        ("fd12::1", Private),
        ("fec0::1", Private),
        ("64:ff9b:1::a00:1", Private),
        ("64:ff9b:1:a00:0:100::", Private),
        ("64:ff9b:1:7f:0:1::", Loopback),
        ("64:ff9b:1:0:7f:0:100::", Loopback),
        ("2001:0:a00:1::", Private),
        ("2001:0:808:808::f5ff:fffe", Private),
        ("169.254.1.1", LinkLocal),
        ("fe80::1", LinkLocal),
        ("224.0.0.1", Multicast),
        ("239.255.255.255", Multicast),
        ("ff02::1", Multicast),
        ("198.18.0.1", Reserved),
        ("198.19.255.255", Reserved),
        ("192.0.2.1", Reserved),
        ("192.0.0.1", Reserved),
        ("203.0.113.1", Reserved),
        ("240.0.0.1", Reserved),
        ("255.255.255.255", Reserved),
        ("2001:db8::1", Reserved),
        ("3fff::1", Reserved),
        ("100::1", Reserved),
        ("4000::1", Reserved),
    ] {
        assert_eq!(host(text).reach(), Some(expected), "{text}");
    }
    assert_eq!(host("localhost").reach(), None);
    assert_eq!(reach(&"::ffff:10.0.0.1".parse().unwrap()), Private);
}

#[test]
fn metadata_is_found_in_any_spelling() {
    for text in [
        "169.254.169.254",
        "169.254.43518",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "１６９。２５４。１６９。２５４",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "2002:a9fe:a9fe::1",
        "fe80::5efe:a9fe:a9fe",
        "2001:0:a9fe:a9fe::",
        "2001:0:808:808::5601:5601",
        "fe80::a9fe:a9fe",
        "fd00:ec2::254",
        "fd00:0ec2:0:0:0:0:0:0254",
        "fd20:ce::254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
    ] {
        assert_eq!(host(text).reach(), Some(Reach::Metadata), "{text}");
    }
}

/// Every way to write one part in one of three bases.
fn part(value: u64) -> impl Strategy<Value = String> {
    prop_oneof![
        Just(format!("{value}")),
        (0usize..4).prop_map(move |zeros| format!("0{}{value:o}", "0".repeat(zeros))),
        (0usize..4).prop_map(move |zeros| format!("0x{}{value:x}", "0".repeat(zeros))),
        Just(format!("0X{value:X}")),
    ]
}

/// A random address and a random spelling of it.
fn spelt() -> impl Strategy<Value = (u32, String)> {
    (any::<u32>(), 0u32..4, any::<bool>(), any::<bool>()).prop_flat_map(|(ip, leading, wide, dot)| {
        let mut parts: Vec<u64> = (0..leading).map(|at| u64::from(ip.to_be_bytes()[at as usize])).collect();
        parts.push(u64::from(ip) & ((1 << (32 - 8 * leading)) - 1));
        parts.into_iter().map(part).collect::<Vec<_>>().prop_map(move |parts| {
            let text = parts.join(".") + if dot { "." } else { "" };
            let widen = |c: char| char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c);
            (ip, if wide { text.chars().map(widen).collect() } else { text })
        })
    })
}

/// Text near a host, so that more than the first check is reached.
fn near_host() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC*",
        ".*",
        "[a-zA-Z0-9._-]{0,30}",
        "(xn--)?[a-z0-9-]{0,12}\\.?[0-9a-fx:.\\[\\]]{0,12}",
        "[äßÜéあ中１２．。ａＺ\u{200c}\u{200d}\u{ad}a-c.-]{0,16}",
    ]
}

proptest! {
    #[test]
    fn all_spellings_of_an_address_agree((ip, text) in spelt()) {
        let expected = Host::from(IpAddr::V4(Ipv4Addr::from(ip)));
        prop_assert_eq!(Host::parse(&text), Ok(expected.clone()), "{}", text);
        let mapped = Ipv4Addr::from(ip).to_ipv6_mapped();
        prop_assert_eq!(Host::parse(&format!("[{mapped}]")), Ok(expected), "{}", mapped);
    }

    #[test]
    fn any_text_is_judged_and_the_form_is_stable(text in near_host()) {
        if let Ok(host) = Host::parse(&text) {
            let canonical = host.to_string();
            prop_assert_eq!(Host::parse(&canonical), Ok(host.clone()), "{:?} {}", text, canonical);
            prop_assert_eq!(serde_json::from_str::<Host>(&serde_json::to_string(&host).unwrap()).unwrap(), host.clone());
            if let Some(name) = host.as_name() {
                prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b)));
                prop_assert!(name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len())));
                prop_assert!(name.parse::<IpAddr>().is_err());
            }
        }
    }

    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Host::try_from(&bytes[..]);
    }

    #[test]
    fn case_and_the_root_dot_do_not_matter(name in "([a-z_][a-z0-9]{0,8}\\.){0,4}[a-z]{2,6}") {
        let expected = Host::parse(&name);
        prop_assert!(expected.is_ok());
        prop_assert_eq!(Host::parse(&name.to_uppercase()), expected.clone());
        prop_assert_eq!(Host::parse(&format!("{name}.")), expected);
        let twice = Host::parse(&format!("{name}.."));
        prop_assert!(twice.is_err());
    }

    #[test]
    fn v6_reads_back_and_carries_its_v4(bits in any::<u128>(), v4 in any::<u32>()) {
        let ip = IpAddr::V6(Ipv6Addr::from(bits));
        let expected = Host::from(ip);
        prop_assert_eq!(Host::parse(&ip.to_string()), Ok(expected.clone()));
        prop_assert_eq!(Host::parse(&format!("[{ip}]")), Ok(expected));
        let (inner, high, low) = (Ipv4Addr::from(v4), (v4 >> 16) as u16, v4 as u16);
        for carrier in [
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, bits as u16, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, 0x808, 0x808, 0, 0, !high, !low),
            Ipv6Addr::new(0x2a00, bits as u16, 0, 0, 0, 0x5efe, high, low),
        ] {
            prop_assert!(embedded_v4(carrier).contains(&inner), "{}", carrier);
            prop_assert!(reach(&carrier.into()) >= reach(&inner.into()), "{}", carrier);
        }
    }
}
