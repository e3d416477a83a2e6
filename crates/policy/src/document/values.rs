//! The single values of a policy document that belong to no other part of Pinfold. Each refuses what makes no
//! sense, so that what comes after need not ask again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use pinfold_core::destination::Destination;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Implements serde and schema for a type that is written as one word: `FromStr` in, `Display` out.
macro_rules! word {
    ($type:ty, $format:literal, $description:literal, $example:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $format.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string", "format": $format, "description": $description, "examples": [$example],
                })
            }
        }
    };
}

/// A whole number from 1 to 10¹², so that no unit can make it overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Amount(u64);

impl Amount {
    /// The largest amount.
    pub const MAX: u64 = 1_000_000_000_000;

    /// `value`, if it is in range.
    pub fn new(value: u64) -> Option<Self> {
        (1..=Self::MAX).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = u64::deserialize(deserializer)?;
        Self::new(value)
            .ok_or_else(|| serde::de::Error::custom(format!("expected a number from 1 to {}", Self::MAX)))
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": Self::MAX })
    }
}

/// How many CPUs may be busy at once; a fraction is fine. Nothing stated means all of them.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Cpus(f64);

impl Cpus {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match f64::deserialize(deserializer)? {
            value if (0.01..=4096.0).contains(&value) => Ok(Self(value)),
            _ => Err(serde::de::Error::custom("expected a number from 0.01 to 4096")),
        }
    }
}

impl JsonSchema for Cpus {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cpus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0.01, "maximum": 4096 })
    }
}

/// A path as written; [`super::Document::resolve`] makes it absolute, from the document's own directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyPath(pub(super) PathBuf);

impl PolicyPath {
    /// The path: absolute once the document is resolved.
    pub fn as_path(&self) -> &std::path::Path {
        &self.0
    }
}

impl From<PathBuf> for PolicyPath {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

/// A path that cannot be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing at all.
    #[error("a path cannot be empty")]
    Empty,
    /// No file system takes it.
    #[error("a path cannot contain NUL")]
    Nul,
    /// `~user` would mean asking the user database.
    #[error("write `~/` for the home directory; `~name` is not understood")]
    OtherHome,
    /// A path is taken as it stands.
    #[error("variables and wildcards are not expanded in a path")]
    Wildcard,
}

impl FromStr for PolicyPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        match text {
            "" => Err(PathError::Empty),
            _ if text.contains('\0') => Err(PathError::Nul),
            _ if text.starts_with('~') && text != "~" && !text.starts_with("~/") => Err(PathError::OtherHome),
            _ if text.contains(['*', '$']) => Err(PathError::Wildcard),
            _ => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for PolicyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

word!(PolicyPath, "pinfold-path", "A path: absolute, from `~/`, or relative to this document.", "./data");

/// The name of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvName(String);

/// A name that no variable may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvNameError {
    /// Not a name that shells take.
    #[error("a variable's name has letters, digits and `_`, and does not begin with a digit")]
    Characters,
    /// One of ours.
    #[error("variables that begin with PINFOLD are set by Pinfold alone")]
    Reserved,
}

impl EnvName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvName {
    type Err = EnvNameError;

    fn from_str(name: &str) -> Result<Self, EnvNameError> {
        let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
        let mut bytes = name.bytes();
        let fits = bytes.next().is_some_and(letter) && bytes.all(|b| letter(b) || b.is_ascii_digit());
        match () {
            () if !fits || name.len() > 128 => Err(EnvNameError::Characters),
            () if name == "PINFOLD" || name.starts_with("PINFOLD_") => Err(EnvNameError::Reserved),
            () => Ok(Self(name.to_owned())),
        }
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

word!(EnvName, "pinfold-env-name", "The name of an environment variable.", "LANG");

/// The value of an environment variable: any text without NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvValue(String);

impl EnvValue {
    /// The value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvValue {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.contains('\0') {
            Err("a variable's value cannot contain NUL")
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

impl fmt::Display for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

word!(EnvValue, "pinfold-env-value", "The variable's value; quote numbers: \"1\".", "1");

/// An entry of an allow list: a destination, or a named group of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NetEntry {
    /// A host, pattern, address or network.
    Destination(Destination),
    /// The hosts that the user's own package managers are set to use.
    Registries,
}

impl FromStr for NetEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('@') {
            Some("registries") => Ok(Self::Registries),
            Some(_) => Err(format!("no group is named `{text}`; there is `@registries`")),
            None => text.parse().map(Self::Destination).map_err(|error| format!("{error}")),
        }
    }
}

impl fmt::Display for NetEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destination(destination) => destination.fmt(f),
            Self::Registries => f.write_str("@registries"),
        }
    }
}

word!(
    NetEntry,
    "pinfold-net-entry",
    "A host, `*.suffix`, address or network, each with an optional `:port`; or `@registries`.",
    "*.example.org:443"
);

/// A table of refused system calls, by name or file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SeccompChoice {
    /// Everything ordinary programs use.
    Default,
    /// What pure computation uses.
    #[default]
    Strict,
    /// The default, and tracing one's own children.
    Debug,
    /// The default, and what a file refuses on top.
    File(PolicyPath),
}

impl FromStr for SeccompChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "strict" => Ok(Self::Strict),
            "debug" => Ok(Self::Debug),
            _ if text.contains('/') => {
                text.parse().map(Self::File).map_err(|error: PathError| error.to_string())
            }
            _ => Err(format!(
                "`{text}` is no profile; there are default, strict, debug, or a file such as ./calls.txt"
            )),
        }
    }
}

impl fmt::Display for SeccompChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Strict => f.write_str("strict"),
            Self::Debug => f.write_str("debug"),
            Self::File(path) => path.fmt(f),
        }
    }
}

word!(
    SeccompChoice,
    "pinfold-seccomp",
    "`default`, `strict`, `debug`, or a file that refuses more.",
    "default"
);

/// The name of an HTTP header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderName(String);

impl FromStr for HeaderName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        match !text.is_empty() && text.len() <= 128 && text.bytes().all(token) {
            true => Ok(Self(text.to_owned())),
            false => Err("expected the name of a header, such as Authorization"),
        }
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

word!(HeaderName, "pinfold-header", "The name of an HTTP header.", "Authorization");

/// Variables with their values.
pub type EnvMap = BTreeMap<EnvName, EnvValue>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_positive_and_cannot_overflow() {
        assert_eq!(Amount::new(0), None);
        assert_eq!(Amount::new(Amount::MAX + 1), None);
        assert!(Amount::MAX.checked_mul(1 << 20).is_some());
    }

    #[test]
    fn names_of_variables() {
        assert!("LANG".parse::<EnvName>().is_ok());
        assert!("_x9".parse::<EnvName>().is_ok());
        for bad in ["", "9A", "A-B", "A=B", "A B", "É", "PINFOLD", "PINFOLD_ZONE_X"] {
            assert!(bad.parse::<EnvName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_are_taken_as_they_stand() {
        for good in ["./data", "/srv/x", "~/x", "~", "a b"] {
            assert!(good.parse::<PolicyPath>().is_ok(), "{good}");
        }
        for bad in ["", "~bob/x", "$HOME/x", "/data/*", "a\0b"] {
            assert!(bad.parse::<PolicyPath>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn groups_are_known_by_name() {
        assert_eq!("@registries".parse(), Ok(NetEntry::Registries));
        assert!("@registry".parse::<NetEntry>().is_err());
    }
}
