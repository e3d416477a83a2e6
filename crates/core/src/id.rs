//! Names of sandboxes: short, random, safe in paths and labels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of one sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SandboxId([u8; 8]);

impl SandboxId {
    /// An id from random bytes; getting them is the caller's part.
    pub const fn from_random(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for SandboxId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for SandboxId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(text, 16) {
            Ok(number) if hex => Ok(Self(number.to_be_bytes())),
            _ => Err("the name of a sandbox is sixteen hexadecimal digits"),
        }
    }
}

impl<'de> Deserialize<'de> for SandboxId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_is_written() {
        let id = SandboxId::from_random([0, 1, 2, 3, 4, 5, 254, 255]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "12", "00010203040506070", "+001020304050607", "000102030405fefg"] {
            assert!(wrong.parse::<SandboxId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn is_sixteen_hex_digits() {
        assert_eq!(SandboxId::from_random([0, 1, 2, 3, 4, 5, 254, 255]).to_string(), "000102030405feff");
    }
}
