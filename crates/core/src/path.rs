//! Absolute paths in one written form.
//!
//! Owns the lexical form only: nothing here asks a file system. A path that is equal here can still be
//! reached through a symbolic link; whoever opens it must refuse or resolve links at that moment.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;

use crate::text::{excerpt, visible_bytes};

/// Why a path is not usable as an absolute path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Nothing was written.
    #[error("a path is empty")]
    Empty,
    /// The path does not begin at the root.
    #[error("the path `{0}` is not absolute")]
    Relative(String),
    /// The kernel would stop reading at the NUL, and open another path than the one checked.
    #[error("the path `{0}` contains a NUL byte")]
    Nul(String),
    /// Not hexadecimal digits in pairs.
    #[error("`{0}` is not a path in hexadecimal")]
    Hex(String),
}

/// An absolute path without `.`, `..` or doubled slashes; not necessarily UTF-8.
///
/// `..` is resolved lexically, and never above `/`. Comparison is by component, so `/work-evil` does not
/// begin with `/work`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AbsPath(PathBuf);

impl AbsPath {
    /// Reads an absolute path.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, PathError> {
        let path = path.as_ref();
        check(path)?;
        if !path.has_root() {
            return Err(PathError::Relative(shown(path)));
        }
        Ok(Self(normalised(Path::new("/"), path)))
    }

    /// Reads a path as someone standing in `base` wrote it: a relative one begins there.
    pub fn join_from(base: &Self, written: &Path) -> Result<Self, PathError> {
        check(written)?;
        Ok(Self(normalised(&base.0, written)))
    }

    /// `/` itself.
    pub fn root() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A path directly below the root; `name` must be one ordinary component.
    pub(crate) fn below_root(name: &str) -> Self {
        Self(normalised(Path::new("/"), Path::new(name)))
    }

    /// Whether this is `base` or lies below it, component by component.
    pub fn starts_with(&self, base: &Self) -> bool {
        self.0.starts_with(&base.0)
    }

    /// What is left below `base`, when this is `base` or lies below it.
    pub fn strip_prefix(&self, base: &Self) -> Option<&Path> {
        self.0.strip_prefix(&base.0).ok()
    }

    /// The directory above; nothing for `/`.
    pub fn parent(&self) -> Option<Self> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// The path for a call to the operating system.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

/// Refuses what no path can be.
fn check(path: &Path) -> Result<(), PathError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(PathError::Empty);
    }
    if bytes.contains(&0) {
        return Err(PathError::Nul(shown(path)));
    }
    Ok(())
}

/// `written`, from `base` unless it is absolute, with every `.` and `..` resolved.
fn normalised(base: &Path, written: &Path) -> PathBuf {
    let mut out = base.to_owned();
    for component in written.components() {
        match component {
            Component::RootDir => out = PathBuf::from("/"),
            Component::Normal(name) => out.push(name),
            // `pop` leaves `/` alone, as the kernel does.
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// A path as an error shows it.
fn shown(path: &Path) -> String {
    excerpt(&visible_bytes(path.as_os_str().as_bytes()))
}

impl fmt::Display for AbsPath {
    /// For reading: hidden characters and bytes that are not UTF-8 appear as escapes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible_bytes(self.0.as_os_str().as_bytes()))
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl FromStr for AbsPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::new(text)
    }
}

impl TryFrom<PathBuf> for AbsPath {
    type Error = PathError;

    fn try_from(path: PathBuf) -> Result<Self, PathError> {
        Self::new(path)
    }
}

impl serde::Serialize for AbsPath {
    /// A string, or `{"hex": "…"}` for a path that is not UTF-8 and has no faithful string.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = self.0.to_str() {
            return serializer.serialize_str(text);
        }
        let hex: String = self.0.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex)?;
        map.end()
    }
}

impl<'de> serde::Deserialize<'de> for AbsPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathVisitor)
    }
}

/// Reads both forms that [`AbsPath`] is written in.
struct PathVisitor;

impl<'de> Visitor<'de> for PathVisitor {
    type Value = AbsPath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an absolute path, or {\"hex\": …}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AbsPath, E> {
        AbsPath::new(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AbsPath, A::Error> {
        let Some((key, hex)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::missing_field("hex"));
        };
        if key != "hex" {
            return Err(de::Error::unknown_field(&excerpt(&key), &["hex"]));
        }
        if map.next_key::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::custom("a path has one entry, `hex`"));
        }
        let path = unhex(&hex).ok_or_else(|| PathError::Hex(excerpt(&hex)));
        path.and_then(AbsPath::new).map_err(de::Error::custom)
    }
}

/// The path whose bytes are written in pairs of hexadecimal digits.
fn unhex(hex: &str) -> Option<OsString> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { return None };
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    bytes.map(OsString::from_vec)
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for AbsPath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AbsPath".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Absolute path; `{\"hex\": …}` when its bytes are not UTF-8.",
            "examples": ["/usr/lib"],
            "anyOf": [
                {"type": "string", "format": "pinfold-path"},
                {
                    "type": "object",
                    "properties": {"hex": {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}},
                    "required": ["hex"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests;
