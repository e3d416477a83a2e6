//! Where Pinfold keeps its own files: configuration, state, sockets.

use std::ffi::OsString;
use std::path::PathBuf;

use pinfold_core::path::AbsPath;

/// A place that cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum DirsError {
    /// Without a home there is no place for the user's files.
    #[error(
        "HOME is not set to an absolute path, so there is no place for Pinfold's configuration and state"
    )]
    NoHome,
}

/// The directories in use. None of them need exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// The user's home.
    pub home: AbsPath,
    /// The operator's configuration.
    pub machine: AbsPath,
    /// The user's configuration.
    pub config: AbsPath,
    /// State that outlives a run.
    pub state: AbsPath,
    /// Sockets and locks of live sandboxes.
    pub runtime: AbsPath,
}

impl Dirs {
    /// The caller's directories, by the XDG base directory rules: a relative value counts as unset.
    pub fn of_caller() -> Result<Self, DirsError> {
        Self::from_environment(&|name| std::env::var_os(name))
    }

    fn from_environment(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, DirsError> {
        let absolute = |name: &str| variable(name).and_then(|value| AbsPath::new(PathBuf::from(value)).ok());
        let home = absolute("HOME").ok_or(DirsError::NoHome)?;
        let below = |base: &AbsPath, rest: &str| {
            AbsPath::join_from(base, rest.as_ref()).unwrap_or_else(|_| base.clone())
        };
        let own = |name: &str, fallback: &str| {
            let base = absolute(name).unwrap_or_else(|| below(&home, fallback));
            below(&base, "pinfold")
        };
        let state = own("XDG_STATE_HOME", ".local/state");
        Ok(Self {
            machine: machine(variable),
            config: own("XDG_CONFIG_HOME", ".config"),
            runtime: match absolute("XDG_RUNTIME_DIR") {
                Some(base) => below(&base, "pinfold"),
                None => below(&state, "run"),
            },
            state,
            home,
        })
    }

    /// Everything that must stay out of reach inside, whatever a policy says.
    pub fn own(&self) -> Vec<AbsPath> {
        vec![self.machine.clone(), self.config.clone(), self.state.clone(), self.runtime.clone()]
    }
}

/// `/etc/pinfold`. Tests of debug builds put it elsewhere; a release build cannot be told to look away from it.
fn machine(variable: &dyn Fn(&str) -> Option<OsString>) -> AbsPath {
    let moved = if cfg!(debug_assertions) { variable("PINFOLD_ETC") } else { None };
    moved
        .and_then(|path| AbsPath::new(PathBuf::from(path)).ok())
        .or_else(|| AbsPath::new("/etc/pinfold").ok())
        .unwrap_or_else(AbsPath::root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(variables: &[(&str, &str)]) -> Result<Dirs, DirsError> {
        Dirs::from_environment(&|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn follows_xdg_and_ignores_relative_values() {
        let dirs = dirs(&[("HOME", "/home/me"), ("XDG_STATE_HOME", "relative"), ("XDG_CONFIG_HOME", "/cfg")]);
        let dirs = dirs.expect("home is set");
        assert_eq!(dirs.config.as_path().to_str(), Some("/cfg/pinfold"));
        assert_eq!(dirs.state.as_path().to_str(), Some("/home/me/.local/state/pinfold"));
        assert_eq!(dirs.runtime.as_path().to_str(), Some("/home/me/.local/state/pinfold/run"));
    }

    #[test]
    fn without_a_home_there_is_no_place() {
        assert!(dirs(&[]).is_err());
        assert!(dirs(&[("HOME", "here")]).is_err());
    }
}
