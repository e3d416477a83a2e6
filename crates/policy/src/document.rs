//! The policy document as types: what may be written, key by key. The table in `keys` is the one list that
//! documents, reads, merges and shows every key; this file holds what stands around it.

mod check;
mod entries;
mod keys;
mod values;

pub use entries::{
    BudgetEntry, CommandRule, Commands, CredentialEntry, Method, NetRule, Patterns, WorkspaceAccess,
    ZoneEntry, ZoneMode,
};
pub use keys::{
    Document, EnvDocument, EnvPolicy, FsDocument, FsPolicy, NetDocument, NetPolicy, Policy, ProcDocument,
    ProcPolicy, SandboxDocument, SandboxPolicy, SecurityDocument, SecurityPolicy, ToolsDocument, ToolsPolicy,
};
pub use values::{Amount, Cpus, EnvMap, EnvName, EnvValue, HeaderName, NetEntry, PolicyPath, SeccompChoice};

pub(crate) use check::{FORMATS, overgrown};
pub use keys::Row;
pub(crate) use keys::{KEYS, Merge};

use std::path::{Path, PathBuf};

use pinfold_core::path::AbsPath;

/// Where the paths of a document are taken from.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// The directory of the document.
    pub directory: &'a AbsPath,
    /// What `~` stands for.
    pub home: Option<&'a AbsPath>,
}

impl Base<'_> {
    /// The absolute path that `written` means.
    pub fn resolve(&self, written: &Path) -> Result<AbsPath, String> {
        let path = match (written.strip_prefix("~"), self.home) {
            (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => return Ok(home.clone()),
            (Ok(rest), Some(home)) => AbsPath::join_from(home, rest),
            (Ok(_), None) => return Err("`~` means the home directory, and none is known".to_owned()),
            (Err(_), _) => AbsPath::join_from(self.directory, written),
        };
        path.map_err(|error| error.to_string())
    }
}

/// A key, and what is wrong with it.
type Fault = (String, String);

impl Document {
    /// Makes every path absolute. On failure says which key is at fault, and why.
    pub(crate) fn resolve(&mut self, base: Base<'_>) -> Result<(), Fault> {
        self.each_path(&mut |key, path| {
            path.0 = base.resolve(&path.0).map_err(|why| (key, why))?.as_path().to_path_buf();
            Ok(())
        })
    }

    fn each_path(
        &mut self,
        visit: &mut dyn FnMut(String, &mut PolicyPath) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if let Some(sandbox) = &mut self.sandbox {
            for (i, zone) in sandbox.zones.iter_mut().flatten().enumerate() {
                if let Some(path) = &mut zone.host_path {
                    visit(format!("sandbox.zones[{i}].hostPath"), path)?;
                }
            }
        }
        if let Some(fs) = &mut self.fs {
            if let Some(Some(path)) = &mut fs.deps {
                visit("fs.deps".to_owned(), path)?;
            }
            for (i, path) in fs.allowed_read_paths.iter_mut().flatten().enumerate() {
                visit(format!("fs.allowedReadPaths[{i}]"), path)?;
            }
            for (i, path) in fs.allowed_write_paths.iter_mut().flatten().enumerate() {
                visit(format!("fs.allowedWritePaths[{i}]"), path)?;
            }
        }
        for (i, rule) in self.net.iter_mut().flat_map(|net| net.rules.iter_mut().flatten()).enumerate() {
            if let Some(path) = rule.credential.as_mut().and_then(|credential| credential.from_file.as_mut())
            {
                visit(format!("net.rules[{i}].credential.fromFile"), path)?;
            }
        }
        if let Some(Some(SeccompChoice::File(path))) =
            self.security.as_mut().map(|s| s.seccomp_profile.as_mut())
        {
            visit("security.seccompProfile".to_owned(), path)?;
        }
        Ok(())
    }
}

/// What a document builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extends {
    /// A built-in profile.
    Profile(crate::profile::Profile),
    /// Another document.
    File(PathBuf),
}

impl std::str::FromStr for Extends {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml") {
            return Ok(Self::File(text.into()));
        }
        text.parse().map(Self::Profile).map_err(|error: crate::profile::UnknownProfile| {
            format!("{error}; a file is written with its ending, such as ./base.yaml")
        })
    }
}
