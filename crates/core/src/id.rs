//! Names of sandboxes: short, random, safe in paths and labels.

use std::fmt;

use serde::{Serialize, Serializer};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_sixteen_hex_digits() {
        assert_eq!(SandboxId::from_random([0, 1, 2, 3, 4, 5, 254, 255]).to_string(), "000102030405feff");
    }
}
