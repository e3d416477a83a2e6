//! The toolchains that live in a home directory, as data: what to show of each, and never its credentials.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pinfold_core::path::AbsPath;
use pinfold_core::request::Toolchain;

/// A toolchain: its name, the directories below home that hold it, and variables that point programs at them.
struct Known {
    name: &'static str,
    read: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

/// `~/.cargo`, `~/.npm`, `~/.config` and their like hold tokens beside tools, so only the parts without are named.
const KNOWN: &[Known] = &[
    Known { name: "rustup", read: &[".rustup", ".cargo/bin"], variables: &[("RUSTUP_HOME", ".rustup")] },
    Known { name: "nvm", read: &[".nvm/versions"], variables: &[] },
    Known { name: "fnm", read: &[".local/share/fnm/node-versions"], variables: &[] },
    Known { name: "volta", read: &[".volta/bin", ".volta/tools"], variables: &[("VOLTA_HOME", ".volta")] },
    Known { name: "bun", read: &[".bun/bin"], variables: &[] },
    Known { name: "deno", read: &[".deno/bin"], variables: &[] },
    Known { name: "pyenv", read: &[".pyenv"], variables: &[("PYENV_ROOT", ".pyenv")] },
    Known { name: "uv", read: &[".local/share/uv/python", ".local/share/uv/tools"], variables: &[] },
    Known { name: "pipx", read: &[".local/share/pipx"], variables: &[] },
    Known { name: "rbenv", read: &[".rbenv"], variables: &[("RBENV_ROOT", ".rbenv")] },
    Known { name: "go", read: &["go/bin", "sdk"], variables: &[] },
    Known { name: "sdkman", read: &[".sdkman/candidates"], variables: &[] },
    Known { name: "ghcup", read: &[".ghcup"], variables: &[] },
    Known { name: "asdf", read: &[".asdf"], variables: &[("ASDF_DATA_DIR", ".asdf")] },
    Known { name: "mise", read: &[".local/share/mise/installs", ".local/share/mise/shims"], variables: &[] },
];

/// The toolchains that `home` has. Those directories of the caller's `PATH` that lie in one come with it.
pub(crate) fn find(home: &AbsPath, path: Option<OsString>) -> Vec<Toolchain> {
    let path: Vec<AbsPath> =
        path.iter().flat_map(std::env::split_paths).filter_map(|entry| AbsPath::new(entry).ok()).collect();
    KNOWN.iter().filter_map(|known| known.look(home, &path)).collect()
}

impl Known {
    fn look(&self, home: &AbsPath, path: &[AbsPath]) -> Option<Toolchain> {
        let below = |name: &str| AbsPath::join_from(home, name.as_ref()).ok();
        let read: Vec<AbsPath> = self
            .read
            .iter()
            .filter_map(|name| below(name))
            .filter(|place| place.as_path().is_dir())
            .collect();
        if read.is_empty() {
            return None;
        }
        let mut on_path: Vec<AbsPath> = Vec::new();
        for entry in path {
            if read.iter().any(|place| entry.starts_with(place)) && !on_path.contains(entry) {
                on_path.push(entry.clone());
            }
        }
        let variables = self.variables.iter().filter_map(|(name, place)| {
            let place = below(place).filter(|place| place.as_path().is_dir())?;
            Some(((*name).to_owned(), place.as_path().to_str()?.to_owned()))
        });
        let environment: BTreeMap<String, String> = variables.collect();
        Some(Toolchain { name: self.name.to_owned(), read, path: on_path, environment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_is_there_and_brings_its_part_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let home = AbsPath::new(dir.path()).unwrap();
        for made in [".rustup", ".cargo/bin", ".nvm/versions/node/v22/bin"] {
            std::fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        let path =
            format!("{0}/.nvm/versions/node/v22/bin:{0}/bin:/usr/bin:{0}/.cargo/bin", dir.path().display());
        let found = find(&home, Some(path.into()));
        let names: Vec<&str> = found.iter().map(|toolchain| toolchain.name.as_str()).collect();
        assert_eq!(names, ["rustup", "nvm"]);
        assert_eq!(found[0].path.len(), 1);
        assert!(found[1].path[0].as_path().ends_with(".nvm/versions/node/v22/bin"));
        assert!(found[0].environment.contains_key("RUSTUP_HOME"));
    }

    #[test]
    fn nothing_that_holds_credentials_is_named() {
        let secret = [
            ".cargo",
            ".npm",
            ".config",
            ".ssh",
            ".gnupg",
            ".aws",
            ".docker",
            ".netrc",
            ".local",
            ".local/share",
        ];
        for known in KNOWN {
            for place in known.read {
                assert!(!secret.contains(place), "{place} holds credentials");
            }
        }
    }
}
