//! Where a value came from: the answer to "why this number?". Owns the words, not the values.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::text::visible;

/// Who asked for a value, down to the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A value of a built-in profile that no document overrode.
    Profile(Arc<str>),
    /// A line of a policy document.
    Line(Place),
    /// A command-line option, as typed.
    Option(Arc<str>),
    /// The estimator's table, for the command named.
    Estimate(Arc<str>),
    /// What earlier runs used, in a few words.
    Learned(Arc<str>),
    /// A rule of Pinfold itself, in a few words.
    Rule(&'static str),
}

/// A position in a policy document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The document's name: a file path, or what stands in for one.
    pub document: Arc<str>,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
}

impl Origin {
    /// True while no person or operator has stated the value: only then may an estimate raise it.
    pub fn is_default(&self) -> bool {
        matches!(self, Self::Profile(_) | Self::Rule(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Line(place) => place.fmt(f),
            Self::Option(option) => write!(f, "option {}", visible(option)),
            Self::Estimate(command) => write!(f, "estimate for `{}`", visible(command)),
            Self::Learned(words) => f.write_str(&visible(words)),
            Self::Rule(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", visible(&self.document), self.line, self.column)
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
