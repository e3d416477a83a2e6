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
        let read = |profile: Self| {
            crate::layer::read(&Source::new(profile.name(), profile.text())).map(|(doc, _)| doc)
        };
        match self {
            Self::Default => read(self),
            _ => Ok(read(Self::Default)?.overlay(&read(self)?)),
        }
    }
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
