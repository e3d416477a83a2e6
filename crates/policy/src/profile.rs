//! The built-in profiles: documents like any other, compiled in.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::document::Document;
use crate::problem::{Problems, Source};

/// A built-in profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Where nobody says otherwise.
    #[default]
    Default,
    /// Untrusted code.
    Strict,
    /// Pure computation.
    Compute,
    /// Working on a project.
    Dev,
    /// Compiling.
    Build,
    /// Running tests.
    Test,
}

/// A name that is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no profile is named `{0}`; there are default, strict, compute, dev, build and test")]
pub struct UnknownProfile(String);

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 6] =
        [Self::Default, Self::Strict, Self::Compute, Self::Dev, Self::Build, Self::Test];

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Strict => "strict",
            Self::Compute => "compute",
            Self::Dev => "dev",
            Self::Build => "build",
            Self::Test => "test",
        }
    }

    /// What it states, as a document.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Default => include_str!("../profiles/default.yaml"),
            Self::Strict => include_str!("../profiles/strict.yaml"),
            Self::Compute => include_str!("../profiles/compute.yaml"),
            Self::Dev => include_str!("../profiles/dev.yaml"),
            Self::Build => include_str!("../profiles/build.yaml"),
            Self::Test => include_str!("../profiles/test.yaml"),
        }
    }

    /// Whether an estimate may raise this profile's limits. Who asks for `strict` or `compute` means their numbers.
    pub const fn may_be_raised(self) -> bool {
        !matches!(self, Self::Strict | Self::Compute)
    }

    /// Everything it states, with what it leaves to `default` filled in.
    pub(crate) fn document(self) -> Result<Document, Problems> {
        match self {
            Self::Default => self.read(),
            _ => Ok(Self::Default.read()?.overlay(&self.read()?)),
        }
    }

    /// What it states. Every run reads a profile, and the parser that strangers' documents need costs more than all
    /// else before a wall is chosen; what is not as plain as [`json`] expects still goes that way.
    fn read(self) -> Result<Document, Problems> {
        serde_json::from_str(&json(self.text())).or_else(|_| self.read_in_full())
    }

    /// What it states, read and checked as any other document.
    fn read_in_full(self) -> Result<Document, Problems> {
        crate::layer::read(&Source::new(self.name(), self.text())).map(|(document, _)| document)
    }
}

/// A profile as JSON. Profiles are written plainly: comments and keys on lines of their own, two blanks for each level,
/// and after a key a word, a value that JSON shares with YAML, or nothing where keys below follow.
fn json(text: &str) -> String {
    let mut json = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let trimmed = line.trim_start();
        let (key, value) = trimmed.split_once(':').unwrap_or((trimmed, ""));
        let value = value.trim_start();
        let level = 1 + (line.len() - trimmed.len()) / 2;
        if level > depth {
            json.push('{');
        } else {
            json.extend(std::iter::repeat_n('}', depth - level));
            json.push(',');
        }
        depth = level;
        let is_word =
            value.starts_with(|c: char| c.is_ascii_alphabetic()) && !matches!(value, "true" | "false");
        let quote = if is_word { "\"" } else { "" };
        json.extend(["\"", key, "\":", quote, value, quote]);
    }
    json.extend(std::iter::repeat_n('}', depth));
    json
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_plain_and_means_what_the_full_reader_says() {
        for profile in Profile::ALL {
            let plainly: Document = serde_json::from_str(&json(profile.text())).expect("is plain");
            assert_eq!(plainly, profile.read_in_full().expect("is valid"), "{profile}");
        }
    }
}
