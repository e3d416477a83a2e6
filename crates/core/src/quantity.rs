//! Quantities that a person writes with a unit: sizes and spans of time.
//!
//! Owns reading and writing them. Which quantity limits what, and which zero means none, is the policy's
//! business.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::text::{excerpt, written_as_text};

/// Units of a size, the largest first.
const SIZE_UNITS: &[(&str, u64)] = &[("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];

/// Units of a span in milliseconds, the largest first.
const SPAN_UNITS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Nothing was written.
    #[error("a quantity is empty")]
    Empty,
    /// It does not begin with a number.
    #[error("`{0}` does not begin with a number such as 64 or 1.5; signs and spaces are not allowed")]
    Number(String),
    /// Part of a byte.
    #[error("`{0}` is not a whole number of bytes: add a unit (K, M, G or T)")]
    Fraction(String),
    /// A unit that no size has.
    #[error(
        "`{0}` has an unknown unit: use B, K, M, G or T, each optionally as KB or KiB (all powers of 1024)"
    )]
    SizeUnit(String),
    /// A bare number, which some would read as seconds and some as milliseconds.
    #[error("`{0}` has no unit: write {0}s for seconds or {0}ms for milliseconds")]
    NoUnit(String),
    /// A unit that no span has.
    #[error("`{0}` has an unknown unit: use ms, s, m, h or d")]
    SpanUnit(String),
    /// `30m1h`, `1h1h` or `1.5h30m`.
    #[error(
        "the parts of `{0}` must go from the largest unit to the smallest, each once and in whole numbers"
    )]
    Parts(String),
    /// More than 64 bits hold.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// A number of bytes.
///
/// `K`, `KB` and `KiB` all mean 1024, and so on upwards. What a size ends up in (control groups, tmpfs,
/// resource limits, container engines) counts in powers of 1024, and a limit that meant two numbers depending
/// on one letter would be got wrong. A fraction of a byte is dropped, so that a limit is never above what was
/// written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// A size in bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in units of 1024 × 1024 bytes, unless that is more than 64 bits hold.
    pub const fn from_mb(megabytes: u64) -> Option<Self> {
        match megabytes.checked_mul(1 << 20) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// Reads a size such as `64M`, `1.5G`, `512KiB` or `4096`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = Number::split(text)?;
        let unit = unit.to_ascii_uppercase();
        let prefix = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
        let scale = match SIZE_UNITS.iter().find(|(name, _)| *name == prefix) {
            Some((_, scale)) => *scale,
            None if unit.is_empty() || unit == "B" => 1,
            None => return Err(QuantityError::SizeUnit(excerpt(text))),
        };
        if scale == 1 && !number.is_whole() {
            return Err(QuantityError::Fraction(excerpt(text)));
        }
        number.times(scale).map(Self).ok_or_else(|| QuantityError::TooLarge(excerpt(text)))
    }

    /// The size in bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// The size in units of 1024 × 1024 bytes, rounded up.
    pub const fn as_mb_ceil(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

impl fmt::Display for Size {
    /// In the largest unit that divides it: `1536M`, not `1.5G`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZE_UNITS.iter().find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

written_as_text!(
    Size,
    kind: "size",
    what: "a size such as `64M`",
    description: "Number of bytes, with an optional unit K, M, G or T (powers of 1024).",
    examples: ["64M", "1.5G", "4096"],
);

/// A span of time, in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// A span in milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Reads a span such as `30s`, `1500ms`, `1.5h` or `1h30m`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let too_large = || QuantityError::TooLarge(excerpt(text));
        let parts = || QuantityError::Parts(excerpt(text));
        let (mut rest, mut total, mut last, mut whole) = (text, 0u64, u64::MAX, true);
        while !rest.is_empty() || last == u64::MAX {
            let (number, tail) = Number::split(rest).map_err(|err| match err {
                QuantityError::Number(_) => QuantityError::Number(excerpt(text)),
                other => other,
            })?;
            let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            if unit.is_empty() {
                return Err(QuantityError::NoUnit(excerpt(text)));
            }
            let scale = SPAN_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
            let scale = scale.ok_or_else(|| QuantityError::SpanUnit(excerpt(text)))?;
            whole &= number.is_whole();
            if scale >= last || !(whole || (last == u64::MAX && tail.is_empty())) {
                return Err(parts());
            }
            let part = number.times(scale).ok_or_else(too_large)?;
            total = total.checked_add(part).ok_or_else(too_large)?;
            (rest, last) = (tail, scale);
        }
        Ok(Self(total))
    }

    /// The span in milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The span in seconds, rounded up: a limit of half a second must not become none.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// The span for the standard library.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Span {
    /// In the largest unit that divides it: `90m`, not `1h30m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SPAN_UNITS.iter().find(|(_, scale)| self.0 != 0 && self.0.is_multiple_of(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => f.write_str("0s"),
        }
    }
}

impl FromStr for Span {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

written_as_text!(
    Span,
    kind: "span",
    what: "a span of time such as `30s`",
    description: "Span of time: a number with a unit ms, s, m, h or d, or several such parts.",
    examples: ["30s", "1500ms", "1h30m"],
);

/// A decimal number kept exact: `mantissa / 10^places`. A float would round, and would know NaN.
struct Number {
    mantissa: u128,
    places: u32,
}

impl Number {
    /// The number that a text begins with, and what follows it.
    fn split(text: &str) -> Result<(Self, &str), QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let bad = || QuantityError::Number(excerpt(text));
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(bad());
        }
        let too_large = |_| QuantityError::TooLarge(excerpt(text));
        let whole: u64 = whole.parse().map_err(too_large)?;
        let fraction = fraction.trim_end_matches('0');
        // Twelve places tell apart single bytes of a terabyte; more would only overflow.
        let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 12).ok_or_else(bad)?;
        let part: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(too_large)? };
        Ok((Self { mantissa: u128::from(whole) * 10u128.pow(places) + u128::from(part), places }, rest))
    }

    /// Whether nothing stands after the point.
    fn is_whole(&self) -> bool {
        self.places == 0
    }

    /// The product with a unit, rounded down; nothing when 64 bits cannot hold it.
    fn times(&self, scale: u64) -> Option<u64> {
        let product = self.mantissa.checked_mul(u128::from(scale))? / 10u128.pow(self.places);
        u64::try_from(product).ok()
    }
}

#[cfg(test)]
mod tests;
