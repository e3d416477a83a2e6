//! Cases and properties of quantities.

use super::*;
use proptest::prelude::*;

#[test]
fn sizes_count_in_powers_of_1024() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("4096B", 4096),
        ("512K", 512 << 10),
        ("64M", 64 << 20),
        ("64MiB", 64 << 20),
        ("64MB", 64 << 20),
        ("64m", 64 << 20),
        ("1.5G", 1536 << 20),
        ("1.50G", 1536 << 20),
        ("2.0", 2),
        ("0.1K", 102),
        ("2T", 2 << 40),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(Size::parse(text), Ok(Size(bytes)), "{text}");
    }
    for (size, text) in
        [(0, "0"), (1, "1"), (1 << 10, "1K"), (1536 << 20, "1536M"), (1 << 40, "1T"), (1025, "1025")]
    {
        assert_eq!(Size(size).to_string(), text);
    }
    assert_eq!(Size(1).as_mb_ceil(), 1);
    assert_eq!(Size(64 << 20).as_mb_ceil(), 64);
    assert_eq!(Size::from_mb(256), Some(Size(256 << 20)));
    assert_eq!(Size::from_mb(u64::MAX), None);
}

#[test]
fn what_is_no_size_is_refused() {
    use QuantityError as E;
    for (text, err) in [
        ("", E::Empty),
        ("-1", E::Number("-1".into())),
        ("+1", E::Number("+1".into())),
        (" 1", E::Number(" 1".into())),
        ("NaN", E::Number("NaN".into())),
        ("inf", E::Number("inf".into())),
        (".5G", E::Number(".5G".into())),
        ("1.G", E::Number("1.G".into())),
        ("1.2.3G", E::Number("1.2.3G".into())),
        ("６４M", E::Number("６４M".into())),
        ("M", E::Number("M".into())),
        ("1.5", E::Fraction("1.5".into())),
        ("64X", E::SizeUnit("64X".into())),
        ("64 M", E::SizeUnit("64 M".into())),
        ("64iB", E::SizeUnit("64iB".into())),
        ("1e9", E::SizeUnit("1e9".into())),
        ("1_000", E::SizeUnit("1_000".into())),
        ("0x10", E::SizeUnit("0x10".into())),
        ("64MM", E::SizeUnit("64MM".into())),
        ("64M\n", E::SizeUnit("64M\\n".into())),
        ("18446744073709551616", E::TooLarge("18446744073709551616".into())),
        ("16777216T", E::TooLarge("16777216T".into())),
    ] {
        assert_eq!(Size::parse(text), Err(err), "{text:?}");
    }
    let message = Size::parse("64X").unwrap_err().to_string();
    assert!(["K", "M", "G", "T"].iter().all(|unit| message.contains(unit)), "{message}");
}

#[test]
fn spans_add_their_parts() {
    for (text, millis) in [
        ("0s", 0),
        ("30s", 30_000),
        ("1500ms", 1500),
        ("1.5s", 1500),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("0.0001s", 0),
    ] {
        assert_eq!(Span::parse(text), Ok(Span(millis)), "{text}");
    }
    for (millis, text) in
        [(0, "0s"), (1500, "1500ms"), (5_400_000, "90m"), (86_400_000, "1d"), (60_000, "1m")]
    {
        assert_eq!(Span(millis).to_string(), text);
    }
    assert_eq!(Span(1).as_secs_ceil(), 1);
    assert_eq!(Span(2000).as_secs_ceil(), 2);
    assert_eq!(Span(1500).as_duration(), Duration::from_millis(1500));
}

#[test]
fn what_is_no_span_is_refused() {
    use QuantityError as E;
    for (text, err) in [
        ("", E::Empty),
        ("30", E::NoUnit("30".into())),
        ("1h30", E::NoUnit("1h30".into())),
        ("-1s", E::Number("-1s".into())),
        ("s", E::Number("s".into())),
        ("1h.m", E::Number("1h.m".into())),
        ("30x", E::SpanUnit("30x".into())),
        ("30 s", E::SpanUnit("30 s".into())),
        ("30S", E::SpanUnit("30S".into())),
        ("1h-30m", E::SpanUnit("1h-30m".into())),
        ("30m1h", E::Parts("30m1h".into())),
        ("1h1h", E::Parts("1h1h".into())),
        ("1.5h30m", E::Parts("1.5h30m".into())),
        ("1h1.5m", E::Parts("1h1.5m".into())),
        ("18446744073709551615s", E::TooLarge("18446744073709551615s".into())),
        ("213503982334d23h", E::TooLarge("213503982334d23h".into())),
    ] {
        assert_eq!(Span::parse(text), Err(err), "{text:?}");
    }
    assert!(Span::parse("30").unwrap_err().to_string().contains("30s"));
}

proptest! {
    #[test]
    fn every_value_reads_back(value in prop_oneof![any::<u64>(), (0u64..100_000, 0u32..44).prop_map(|(n, by)| n << by)]) {
        let (size, span) = (Size(value), Span(value));
        prop_assert_eq!(size.to_string().parse::<Size>(), Ok(size));
        prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        prop_assert_eq!(serde_json::from_str::<Size>(&serde_json::to_string(&size).unwrap()).unwrap(), size);
        prop_assert_eq!(serde_json::from_str::<Span>(&serde_json::to_string(&span).unwrap()).unwrap(), span);
        prop_assert!(u128::from(size.as_mb_ceil()) << 20 >= u128::from(value));
    }

    #[test]
    fn any_text_is_judged(text in prop_oneof!["\\PC*", "[0-9.]{0,25}[kKmMgGtTiIbBshd]{0,3}[0-9]{0,3}[a-z]{0,2}"]) {
        if let Ok(size) = Size::parse(&text) {
            prop_assert_eq!(Size::parse(&size.to_string()), Ok(size));
        }
        if let Ok(span) = Span::parse(&text) {
            prop_assert_eq!(Span::parse(&span.to_string()), Ok(span));
        }
    }
}
