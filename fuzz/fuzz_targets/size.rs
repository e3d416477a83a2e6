//! Sizes and spans: what is written reads back the same, and nothing wraps around.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::quantity::{Size, Span};

fuzz_target!(|text: &str| {
    if let Ok(size) = Size::parse(text) {
        assert_eq!(Size::parse(&size.to_string()), Ok(size));
        assert_eq!(size.as_mb_ceil(), size.as_bytes().div_ceil(1 << 20));
        // A unit never makes a number smaller, except for what a fraction cuts off.
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        assert!(digits.parse::<u64>().is_ok_and(|whole| size.as_bytes() >= whole), "{text}");
    }
    if let Ok(span) = Span::parse(text) {
        assert_eq!(Span::parse(&span.to_string()), Ok(span));
        assert!(span.as_secs_ceil().saturating_mul(1000) >= span.as_millis());
        assert_eq!(span.as_duration().as_millis(), u128::from(span.as_millis()));
    }
});
