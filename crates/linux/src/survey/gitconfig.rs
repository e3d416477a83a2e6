//! Git's configuration file, read strictly: what is not plainly understood is not trusted.
//!
//! Git's own grammar has quotes, escapes, continued lines and sections on one line with their keys; two readers of
//! such a grammar disagree somewhere, and the disagreement is an attack. So only the lines that git itself
//! writes are understood here: a section header, or `key = value` without quotes, backslashes or comments. Of
//! those, only keys from a list of harmless ones are kept (git-config(1); what runs programs is not enumerated).

use std::fmt::Write as _;
use std::path::PathBuf;

/// One setting in the form that git writes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    section: String,
    subsection: Option<String>,
    key: String,
    value: String,
}

/// What a configuration was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing in it can make the host run or reach anything.
    Inert,
    /// Something can, or was not understood; this is what is left without that.
    Active {
        /// The harmless rest, as a configuration.
        rest: String,
        /// What was left out, in a few words.
        without: Vec<String>,
    },
}

/// Judges the bytes of a configuration.
pub(crate) fn judge(bytes: &[u8]) -> Verdict {
    let mut kept: Vec<Setting> = Vec::new();
    let mut without = Vec::new();
    let mut header: Option<(String, Option<String>)> = None;
    let text = String::from_utf8_lossy(bytes);
    for line in text.split('\n') {
        match read_line(line) {
            Some(Line::Blank) => {}
            Some(Line::Header(section, subsection)) => header = Some((section, subsection)),
            Some(Line::Setting(key, value)) => match &header {
                Some((section, subsection)) => {
                    let (section, subsection) = (section.clone(), subsection.clone());
                    let setting = Setting { section, subsection, key, value };
                    if is_inert(&setting) { kept.push(setting) } else { without.push(setting.name()) }
                }
                None => without.push("a setting before any section".to_owned()),
            },
            None => {
                // A header that was not understood must not lend its settings to the one before.
                if line.trim_start().starts_with('[') {
                    header = None;
                }
                without.push(unusual(line, header.as_ref()));
            }
        }
    }
    if without.is_empty() && !bytes.contains(&0) && text.as_bytes() == bytes {
        return Verdict::Inert;
    }
    without.sort();
    without.dedup();
    Verdict::Active { rest: written(&kept), without }
}

/// What to call a line that was not understood: by its key where that is plain to see.
fn unusual(line: &str, header: Option<&(String, Option<String>)>) -> String {
    let key = line.split('=').next().unwrap_or_default().trim_matches([' ', '\t']);
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match header {
        Some((section, None)) if plain => format!("{section}.{}", key.to_ascii_lowercase()),
        Some((section, Some(_))) if plain => format!("{section}.*.{}", key.to_ascii_lowercase()),
        _ => "a line that git does not write so".to_owned(),
    }
}

/// The paths, as written, of what an existing configuration makes git run or read: where hooks are, and included
/// files. Read leniently, for it is the user's own; what is missed here is not protected at start-up.
pub(crate) fn points_to(bytes: &[u8]) -> Vec<(Points, PathBuf)> {
    let text = String::from_utf8_lossy(bytes);
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[') {
            section = head.split([']', ' ', '"', '.']).next().unwrap_or_default().to_ascii_lowercase();
        }
        let Some((key, value)) = line.rsplit(']').next().unwrap_or(line).split_once('=') else { continue };
        let value = PathBuf::from(value.trim().trim_matches('"'));
        match (section.as_str(), key.trim().to_ascii_lowercase().as_str()) {
            ("core", "hookspath") => found.push((Points::Hooks, value)),
            ("include" | "includeif", "path") => found.push((Points::Include, value)),
            _ => {}
        }
    }
    found
}

/// What a configured path is for, and so what it is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Points {
    /// Hooks: relative to the root of the work tree.
    Hooks,
    /// Another configuration: relative to the one that includes it.
    Include,
}

enum Line {
    Blank,
    Header(String, Option<String>),
    Setting(String, String),
}

/// One line, if git writes lines like it.
fn read_line(line: &str) -> Option<Line> {
    let line = line.trim_matches([' ', '\t']);
    if line.is_empty() {
        return Some(Line::Blank);
    }
    // Anything else than printable text could be seen differently by another reader.
    if line.chars().any(|c| c.is_control() || c == '\u{feff}' || c == char::REPLACEMENT_CHARACTER) {
        return None;
    }
    if let Some(head) = line.strip_prefix('[') {
        let head = head.strip_suffix(']')?;
        let (section, subsection) = match head.split_once(' ') {
            Some((section, sub)) => (section, Some(sub.strip_prefix('"')?.strip_suffix('"')?)),
            None => (head, None),
        };
        let plain = |text: &str| !text.contains(['"', '\\', '[', ']']);
        let named = !section.is_empty() && section.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        return (named && subsection.is_none_or(plain))
            .then(|| Line::Header(section.to_ascii_lowercase(), subsection.map(str::to_owned)));
    }
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim_end_matches([' ', '\t']), value.trim_start_matches([' ', '\t']));
    let named = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let plain = !value.contains(['"', '\\', '#', ';']);
    (named && plain).then(|| Line::Setting(key.to_ascii_lowercase(), value.to_owned()))
}

impl Setting {
    fn name(&self) -> String {
        match &self.subsection {
            Some(sub) => format!("{}.{sub}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }
}

/// True for a setting that cannot make git run a program or look elsewhere for its configuration.
fn is_inert(setting: &Setting) -> bool {
    let Setting { section, subsection, key, value } = setting;
    match (section.as_str(), subsection.as_deref(), key.as_str()) {
        (
            "core",
            None,
            "repositoryformatversion"
            | "filemode"
            | "bare"
            | "logallrefupdates"
            | "ignorecase"
            | "precomposeunicode"
            | "symlinks"
            | "autocrlf"
            | "eol",
        )
        | ("user", None, "name" | "email")
        | ("init", None, "defaultbranch")
        | ("extensions", None, "objectformat" | "refstorage")
        | ("remote", Some(_), "fetch" | "tagopt" | "prune")
        | ("branch", Some(_), "merge" | "rebase")
        | ("submodule", Some(_), "active") => true,
        ("remote", Some(_), "url" | "pushurl") | ("submodule", Some(_), "url") => is_plain_url(value),
        // A remote can be named by its address.
        ("branch", Some(_), "remote" | "pushremote") => is_plain_url(value),
        _ => false,
    }
}

/// True for an address that git reaches by itself: `ext::` and its like run a program of the address's choosing
/// (gitremote-helpers(7)), and a leading dash has been taken for an option before (CVE-2017-1000117).
fn is_plain_url(value: &str) -> bool {
    let scheme = value.split_once("://").map(|(scheme, _)| scheme);
    let known = scheme.is_none_or(|scheme| matches!(scheme, "http" | "https" | "ssh" | "git" | "file"));
    let host = value.split_once("://").map_or(value, |(_, rest)| rest);
    known
        && !value.contains("::")
        && !value.starts_with('-')
        && !host.starts_with('-')
        && !host.contains("@-")
}

/// The settings as git writes them.
fn written(settings: &[Setting]) -> String {
    let mut out = String::new();
    let mut header = None;
    for setting in settings {
        let head = (&setting.section, &setting.subsection);
        if header != Some(head) {
            header = Some(head);
            match &setting.subsection {
                Some(sub) => writeln!(out, "[{} \"{sub}\"]", setting.section),
                None => writeln!(out, "[{}]", setting.section),
            }
            .unwrap_or_default();
        }
        writeln!(out, "\t{} = {}", setting.key, setting.value).unwrap_or_default();
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
