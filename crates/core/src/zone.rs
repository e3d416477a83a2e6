//! Zones: the named parts of the host that a sandbox is given, and how far each may be used.
//!
//! Owns the name and the access mode. What lies behind a name (a host path, a tmpfs) and how it is mounted is
//! the plan's business.

use std::fmt;
use std::str::FromStr;

use crate::path::AbsPath;
use crate::text::{excerpt, written_as_text};

/// The longest zone name.
const MAX_NAME: usize = 32;

/// Directories of a system root: a zone appears at `/<name>`, and would hide what belongs there.
const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
];

/// Why a text is not a zone name or an access mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// Nothing was written.
    #[error("a zone name is empty")]
    Empty,
    /// Too many characters.
    #[error("the zone name `{0}` is longer than {MAX_NAME} characters")]
    TooLong(String),
    /// Anything outside the small alphabet, which keeps the name valid as a directory and in a variable.
    #[error("`{0}` is not a zone name: use a lower-case letter, then letters, digits, `-` or `_`")]
    Alphabet(String),
    /// The name of a system directory.
    #[error("the zone name `{0}` would hide the system directory `/{0}`: choose another")]
    System(&'static str),
    /// A zone that the policy sets by a key of its own.
    #[error("the zone `{name}` is set by `{key}`, not by a zone entry")]
    OwnKey {
        /// The name asked for.
        name: &'static str,
        /// The policy key that sets it.
        key: &'static str,
    },
    /// Not an access mode.
    #[error("`{0}` is not an access mode: use `ro` (read only) or `rw` (read and write)")]
    Access(String),
}

/// The name of a zone: its directory directly below the root, and part of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZoneName(String);

impl ZoneName {
    /// Reads a zone name.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        if text.is_empty() {
            return Err(ZoneError::Empty);
        }
        if let Some(name) = SYSTEM.iter().find(|name| **name == text) {
            return Err(ZoneError::System(name));
        }
        match text {
            "workspace" => return Err(ZoneError::OwnKey { name: "workspace", key: "fs.workspace" }),
            "deps" => return Err(ZoneError::OwnKey { name: "deps", key: "fs.deps" }),
            _ => {}
        }
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        if !text.starts_with(|c: char| c.is_ascii_lowercase()) || !text.bytes().all(inner) {
            return Err(ZoneError::Alphabet(excerpt(text)));
        }
        if text.len() > MAX_NAME {
            return Err(ZoneError::TooLong(excerpt(text)));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The variable that tells a program inside where the zone is: `PINFOLD_ZONE_INPUT` for `input`.
    ///
    /// `-` becomes `_`, so `a-b` and `a_b` share one variable: a list of zones must refuse to hold both.
    pub fn env_name(&self) -> String {
        format!("PINFOLD_ZONE_{}", self.0.to_ascii_uppercase().replace('-', "_"))
    }

    /// Where the zone appears inside.
    pub fn inside(&self) -> AbsPath {
        AbsPath::below_root(&self.0)
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ZoneName {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        Self::parse(text)
    }
}

written_as_text!(
    ZoneName,
    kind: "zone-name",
    what: "a zone name",
    description: "Name of a zone: the directory below the root at which it appears inside.",
    examples: ["input", "output", "scratch"],
    "pattern": "^[a-z][a-z0-9_-]{0,31}$",
);

/// How far a zone may be used.
///
/// Ordered by how much it gives, so that the narrower of two is their minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Contents can be read and run, not changed: `ro`.
    ReadOnly,
    /// Contents can be changed too: `rw`.
    ReadWrite,
}

impl Access {
    /// The mode as policies write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Access {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        match text {
            "ro" => Ok(Self::ReadOnly),
            "rw" => Ok(Self::ReadWrite),
            other => Err(ZoneError::Access(excerpt(other))),
        }
    }
}

written_as_text!(
    Access,
    kind: "access",
    what: "`ro` or `rw`",
    description: "Whether contents can only be read (ro) or also changed (rw).",
    examples: ["ro", "rw"],
    "enum": ["ro", "rw"],
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_a_directory_and_a_variable() {
        let name = ZoneName::parse("my-in_put2").unwrap();
        assert_eq!(name.env_name(), "PINFOLD_ZONE_MY_IN_PUT2");
        assert_eq!(name.inside(), "/my-in_put2".parse().unwrap());
        assert_eq!(ZoneName::parse("input").unwrap().env_name(), "PINFOLD_ZONE_INPUT");
        assert!(ZoneName::parse(&"a".repeat(32)).is_ok());
        assert_eq!(ZoneName::parse(&"a".repeat(33)), Err(ZoneError::TooLong("a".repeat(33))));
    }

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        for text in [
            "", "Input", "1in", "-in", "_in", "a/b", "..", "a.b", "a b", "a\0", "ä", "a\n", "/input",
            "input/",
        ] {
            assert!(ZoneName::parse(text).is_err(), "{text:?}");
        }
        for name in SYSTEM {
            assert_eq!(ZoneName::parse(name), Err(ZoneError::System(name)));
        }
        let message = |name| ZoneName::parse(name).unwrap_err().to_string();
        assert!(message("workspace").contains("fs.workspace"));
        assert!(message("deps").contains("fs.deps"));
    }

    #[test]
    fn access_reads_what_it_writes() {
        for access in [Access::ReadOnly, Access::ReadWrite] {
            let json = serde_json::to_string(&access).unwrap();
            assert_eq!(json, format!("\"{access}\""));
            assert_eq!(serde_json::from_str::<Access>(&json).unwrap(), access);
        }
        assert!(Access::ReadOnly < Access::ReadWrite);
        assert!("RW".parse::<Access>().is_err());
        assert!("tmpfs".parse::<Access>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_judged_and_a_name_reads_back(text in prop_oneof!["\\PC*", "[a-z][a-z0-9_-]{0,34}"]) {
            if let Ok(name) = ZoneName::parse(&text) {
                prop_assert_eq!(name.to_string(), text.as_str());
                let json = serde_json::to_string(&name).unwrap();
                prop_assert_eq!(serde_json::from_str::<ZoneName>(&json).unwrap(), name);
            }
        }
    }
}
