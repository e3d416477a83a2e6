//! Path patterns, as deny lists and protected names write them.
//!
//! Owns the meaning of a pattern and a set of patterns. Does not look at a file system: whoever walks one
//! asks here, with paths that are already relative to the right root or absolute.

mod name;
mod pattern;
mod set;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::path::AbsPath;
use crate::text::{excerpt, written_as_text};

use pattern::{Anchor, Component, Parsed};

pub use set::GlobSet;

/// The longest pattern in bytes: no path that a system call takes is longer.
const MAX_TEXT: usize = 4096;

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing is left that names a path.
    #[error("the pattern `{0}` names nothing: write `**` for everything")]
    Empty(String),
    /// More bytes than a path has.
    #[error("the pattern `{0}` is longer than {MAX_TEXT} bytes")]
    TooLong(String),
    /// A NUL byte, which no path holds.
    #[error("the pattern `{0}` contains a NUL byte")]
    Nul(String),
    /// A component, perhaps made by braces, that would leave the root.
    #[error("the pattern `{0}` contains `..`")]
    Parent(String),
    /// `!` at the start, which in an ignore file would take a match back.
    #[error(
        "the pattern `{0}` begins with `!`, and patterns cannot be taken back (for a name that begins so write `\\!`)"
    )]
    Negated(String),
    /// Another user's home.
    #[error(
        "the pattern `{0}` begins with `~` but not `~/`: write the directory in full (for a name that begins so write `\\~`)"
    )]
    Home(String),
    /// `**` next to other characters.
    #[error("the pattern `{0}` has `**` inside a component: it must stand between slashes")]
    Deep(String),
    /// `[` without `]`.
    #[error("the pattern `{0}` has a `[` without a `]`")]
    OpenClass(String),
    /// A class with something that readers of patterns disagree about.
    #[error(
        "the pattern `{0}` has a class that holds a slash, a backslash, a character outside ASCII, a named class \
         or a range that runs backwards"
    )]
    Class(String),
    /// Braces that do not pair up.
    #[error("the pattern `{0}` has a brace without its partner (for the character write `\\{{` or `\\}}`)")]
    Brace(String),
    /// Braces inside braces inside braces.
    #[error(
        "the pattern `{0}` stands for more than {max} patterns or nests braces deeper than {depth}",
        max = pattern::MAX_ALTERNATIVES,
        depth = pattern::MAX_DEPTH
    )]
    TooManyAlternatives(String),
    /// Alternatives of which some begin at the root.
    #[error("the pattern `{0}` has an alternative that begins with `/`: write the slash before the brace")]
    Mixed(String),
    /// A backslash with nothing to escape, or before a slash.
    #[error("the pattern `{0}` has a backslash at its end or before a slash")]
    Escape(String),
    /// A home pattern where paths are matched; nothing here knows where home is.
    #[error("the pattern `{0}` is relative to home and must be placed there first")]
    HomeNotPlaced(String),
    /// A directory that cannot be written in a pattern.
    #[error("the directory `{0}` is not UTF-8")]
    NotText(String),
    /// Too much for the matcher.
    #[error("{count} patterns are too complex to match together")]
    TooComplex {
        /// How many patterns there are.
        count: usize,
    },
}

/// A pattern of paths, relative to a root, or absolute when it begins with `/`.
///
/// `*` and `?` stand for any characters or one byte of a name and never cross a slash, `[a-z]` and `[!a-z]`
/// for one ASCII character of a set, `{a,b}` for either (expanded first, as a shell does), `**` between
/// slashes for any number of directories; a backslash takes a character's meaning away. Names that begin
/// with a dot are matched like others, and case counts.
///
/// A pattern without a slash matches **only at the root**, unlike in an ignore file: write `**/.env` for any
/// depth. `~/` at the start is kept, for [`Glob::placed_at`] to replace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob {
    text: String,
    anchor: Anchor,
    /// The components of each pattern that the braces stand for; at least one.
    alternatives: Vec<Vec<Component>>,
}

impl Glob {
    /// Reads a pattern. A trailing slash, doubled slashes and `.` components are dropped.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        if text.is_empty() {
            return Err(GlobError::Empty(String::new()));
        }
        if text.len() > MAX_TEXT {
            return Err(GlobError::TooLong(excerpt(text)));
        }
        if text.contains('\0') {
            return Err(GlobError::Nul(excerpt(text)));
        }
        let Parsed { text, anchor, alternatives } = pattern::parse(text)?;
        Ok(Self { text, anchor, alternatives })
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern begins with `~/` and has to be placed before it can be matched.
    pub fn is_home(&self) -> bool {
        self.anchor == Anchor::Home
    }

    /// Whether the pattern begins at `/`.
    pub fn is_absolute(&self) -> bool {
        self.anchor == Anchor::Root
    }

    /// The same pattern below a directory, the user's home for a home pattern; an absolute one stays.
    pub fn placed_at(&self, directory: &AbsPath) -> Result<Self, GlobError> {
        let rest = match self.anchor {
            Anchor::Root => return Ok(self.clone()),
            Anchor::Home => self.text.trim_start_matches('~'),
            Anchor::Relative => &self.text,
        };
        let directory =
            directory.as_path().to_str().ok_or_else(|| GlobError::NotText(directory.to_string()))?;
        Self::parse(&format!("{}/{rest}", pattern::escaped(directory)))
    }

    /// The one path that the pattern matches, when it has no wildcard. A home pattern keeps its `~`.
    pub fn literal(&self) -> Option<PathBuf> {
        let [only] = self.alternatives.as_slice() else { return None };
        let names: Option<PathBuf> = only.iter().map(Component::literal).collect();
        names.map(|names| self.anchor.base().join(names))
    }

    /// The leading components without a wildcard, common to all that the braces stand for: everything that
    /// matches lies there or below.
    pub fn fixed_prefix(&self) -> PathBuf {
        let fixed = |parts: &[Component]| parts.iter().map_while(Component::literal).collect::<Vec<_>>();
        let all = self.alternatives.iter().map(|parts| fixed(parts));
        let common =
            all.reduce(|a, b| a.into_iter().zip(b).map_while(|(a, b)| (a == b).then_some(a)).collect());
        self.anchor.base().join(common.unwrap_or_default().into_iter().collect::<PathBuf>())
    }

    /// Whether finding all that matches takes more than looking up names and listing one directory for each
    /// alternative: there is a `**`, or a wildcard before the last component.
    pub fn needs_walk(&self) -> bool {
        self.alternatives.iter().any(|parts| {
            let before_last = parts.split_last().map_or(&[][..], |(_, before)| before);
            parts.contains(&Component::Deep) || before_last.iter().any(|part| part.literal().is_none())
        })
    }

    /// Whether everything at or below a match of `other` is at or below a match of this. Errs towards no.
    pub fn covers(&self, other: &Self) -> bool {
        self.anchor == other.anchor
            && other
                .alternatives
                .iter()
                .all(|narrow| self.alternatives.iter().any(|wide| covers(wide, narrow)))
    }
}

/// [`Glob::covers`] for one pattern without braces and another. Works from the ends towards the start, one
/// row for each component of `wide`, so that many `**` cost no more than few.
fn covers(wide: &[Component], narrow: &[Component]) -> bool {
    // `row[at]`: whether what is left of `wide` covers `narrow[at..]`. What lies below a match is covered
    // with it, so nothing left covers all.
    let mut row = vec![true; narrow.len() + 1];
    for (place, part) in wide.iter().enumerate().rev() {
        let is_last = place + 1 == wide.len();
        let mut above = vec![false; narrow.len() + 1];
        for (at, other) in narrow.iter().enumerate().rev() {
            above[at] = match (part, other) {
                (Component::Deep, _) => is_last || row[at] || above[at + 1],
                (Component::Name(_), Component::Deep) => false,
                (Component::Name(_), Component::Name(_)) => row[at + 1] && part.covers(other),
            };
        }
        row = above;
    }
    row[0]
}

impl Anchor {
    /// What a path of the pattern begins with.
    fn base(self) -> &'static Path {
        Path::new(match self {
            Self::Relative => "",
            Self::Root => "/",
            Self::Home => "~",
        })
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        Self::parse(text)
    }
}

written_as_text!(
    Glob,
    kind: "glob",
    what: "a path pattern such as `**/*.pem`",
    description: "Path pattern with *, ?, [...], {a,b} and **. Without a slash it matches only at the root; \
                  `**/name` matches at any depth.",
    examples: ["**/.env", "**/*.pem", "secrets/**", "~/.ssh", "/etc/shadow"],
);

#[cfg(test)]
mod tests;
