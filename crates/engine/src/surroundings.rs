//! Facts about the caller that a plan depends on: home, name, language, git's author, toolchains.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use pinfold_core::path::AbsPath;
use pinfold_core::plan::Reads;
use pinfold_core::request::{Request, Surroundings};

use crate::dirs::Dirs;
use crate::toolchains;

/// Looks around on behalf of the caller. A plan that shows no toolchains needs none found: that is two dozen places.
pub fn surroundings(dirs: &Dirs, reads: Reads) -> Surroundings {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut environment = BTreeMap::new();
    for name in ["LANG", "TERM"] {
        if let Some(value) = variable(name).filter(|value| is_plain(value)) {
            environment.insert(name.to_owned(), value);
        }
    }
    environment.extend(git_author(dirs));
    Surroundings {
        home: Some(dirs.home.clone()),
        user: variable("USER").filter(|name| is_plain(name)).unwrap_or_else(|| "nobody".to_owned()),
        environment,
        toolchains: match reads {
            Reads::Toolchains => toolchains::find(&dirs.home, std::env::var_os("PATH")),
            Reads::Minimal | Reads::System => Vec::new(),
        },
        registries: Vec::new(),
        own: dirs.own(),
    }
}

/// A request of the caller's, in its own directory, for a plan that shows `reads`.
pub fn request(
    dirs: &Dirs,
    reads: Reads,
    workspace: AbsPath,
    directory: AbsPath,
    command: Vec<OsString>,
    terminal: bool,
) -> Request {
    Request { command, workspace, directory, terminal, surroundings: surroundings(dirs, reads) }
}

/// Names of locales, terminals and users: nothing a program could take for something else.
fn is_plain(value: &str) -> bool {
    value.len() <= 64 && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@+".contains(&b))
}

/// Name and address that git would commit under, so that commits made inside are the caller's.
fn git_author(dirs: &Dirs) -> Vec<(String, String)> {
    let config = dirs.config.parent().unwrap_or_else(|| dirs.home.clone());
    let files = [config.as_path().join("git/config"), dirs.home.as_path().join(".gitconfig")];
    let mut author = BTreeMap::new();
    for file in files {
        author.extend(user_section(&file));
    }
    let mut variables = Vec::new();
    for (key, variable) in [("name", "NAME"), ("email", "EMAIL")] {
        if let Some(value) = author.get(key) {
            variables.push((format!("GIT_AUTHOR_{variable}"), value.clone()));
            variables.push((format!("GIT_COMMITTER_{variable}"), value.clone()));
        }
    }
    variables
}

/// The `[user]` section of a git configuration. Only plain `key = value` lines count; nothing is included or run.
fn user_section(file: &Path) -> BTreeMap<String, String> {
    let text = match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() && metadata.len() < 1 << 20 => std::fs::read_to_string(file),
        _ => return BTreeMap::new(),
    };
    let mut values = BTreeMap::new();
    let mut within = false;
    for line in text.unwrap_or_default().lines().map(str::trim) {
        if line.starts_with('[') {
            within = line.eq_ignore_ascii_case("[user]");
        } else if let (true, Some((key, value))) = (within, line.split_once('=')) {
            let value = value.trim().trim_matches('"');
            if value.len() <= 256 && !value.chars().any(char::is_control) {
                values.insert(key.trim().to_lowercase(), value.to_owned());
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_author_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        std::fs::write(
            &file,
            "[core]\n\tname = no\n[user]\n\tname = \"Ada L\"\n email=ada@example.org\n[alias]\nname=x\n",
        )
        .unwrap();
        let values = user_section(&file);
        assert_eq!(values.get("name").map(String::as_str), Some("Ada L"));
        assert_eq!(values.get("email").map(String::as_str), Some("ada@example.org"));
        assert!(user_section(&dir.path().join("none")).is_empty());
    }

    #[test]
    fn odd_values_of_plain_variables_are_left_out() {
        assert!(is_plain("en_GB.UTF-8") && is_plain("xterm-256color"));
        assert!(!is_plain("x\u{1b}[31m") && !is_plain("a b") && !is_plain(&"x".repeat(65)));
    }
}
