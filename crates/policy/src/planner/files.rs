//! The files of a plan: zones in mount order, shown paths, and the refusal of what would show too much.

use std::collections::HashMap;

use pinfold_core::path::AbsPath;
use pinfold_core::plan::{Files, Limits, Protect, Reads, Zone, ZoneSource};
use pinfold_core::request::Request;
use pinfold_core::zone::{Access, ZoneName};

use super::PlanError;
use crate::document::{Policy, PolicyPath, WorkspaceAccess, ZoneEntry, ZoneMode};
use crate::protected;

/// Places that a wall makes itself; no host path may stand there.
const OWN_PLACES: &[&str] = &["/proc", "/dev", "/sys", "/workspace", "/deps", "/scratch"];

pub(super) fn files(request: &Request, policy: &Policy, limits: &Limits) -> Result<Files, PlanError> {
    let fs = &policy.fs;
    let zones = zones(request, policy, limits)?;
    let mut read = paths(request, "fs.allowedReadPaths", &fs.allowed_read_paths.value, &zones)?;
    let write = paths(request, "fs.allowedWritePaths", &fs.allowed_write_paths.value, &zones)?;
    if fs.reads.value == Reads::Toolchains {
        read.extend(request.surroundings.toolchains.iter().flat_map(|toolchain| toolchain.read.clone()));
    }
    let names = |list: &[(&str, &str)]| list.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut deny = Vec::new();
    for glob in &fs.deny.value {
        deny.push(match (&request.surroundings.home, glob.is_home()) {
            (Some(home), true) => glob.placed_at(home).map_err(|error| bad("fs.deny", error))?,
            (None, true) => return Err(bad("fs.deny", "`~` means the home directory, and none is known")),
            (_, false) => glob.clone(),
        });
    }
    Ok(Files {
        reads: fs.reads.value,
        zones,
        read: sorted(read),
        write: sorted(write),
        deny,
        protect: Protect {
            names: names(protected::NAMES),
            git: names(protected::GIT),
            extra: fs.protect.value.clone(),
        },
        own: sorted(request.surroundings.own.clone()),
        readonly_root: policy.security.read_only_root_filesystem.value,
    })
}

/// Parents before what lies in them, each once.
fn sorted(mut paths: Vec<AbsPath>) -> Vec<AbsPath> {
    paths.sort();
    paths.dedup();
    paths
}

fn zones(request: &Request, policy: &Policy, limits: &Limits) -> Result<Vec<Zone>, PlanError> {
    let mut zones = Vec::new();
    let access = match policy.fs.workspace.value {
        WorkspaceAccess::None => None,
        WorkspaceAccess::Ro => Some(Access::ReadOnly),
        WorkspaceAccess::Rw => Some(Access::ReadWrite),
    };
    if let Some(access) = access {
        let path = request.workspace.clone();
        showable(request, "the workspace", &path)?;
        zones.push(Zone {
            name: "workspace".into(),
            inside: place("/workspace"),
            source: ZoneSource::Host { path, access },
        });
    }
    if let Some(deps) = &policy.fs.deps.value {
        let path = absolute("fs.deps", deps)?;
        showable(request, "fs.deps", &path)?;
        let source = ZoneSource::Host { path, access: Access::ReadOnly };
        zones.push(Zone { name: "deps".into(), inside: place("/deps"), source });
    }
    let mut names: HashMap<String, &ZoneName> = HashMap::new();
    for entry in &policy.sandbox.zones.value {
        let variable = entry.name.env_name();
        if let Some(other) = names.insert(variable.clone(), &entry.name) {
            let what = format!("zone `{other}` has the variable {variable}");
            return Err(PlanError::Conflict { what, other: format!("so has zone `{}`", entry.name) });
        }
        zones.push(zone(request, entry, limits)?);
    }
    // A place for HOME and one for temporary files are always there. They count as memory, so they share it.
    for name in ["scratch", "tmp"] {
        if !zones.iter().any(|zone| zone.name == name) {
            let size_mb = (limits.max_memory_mb.value / 2).max(1);
            let inside = place(&format!("/{name}"));
            zones.push(Zone { name: name.into(), inside, source: ZoneSource::Tmpfs { size_mb } });
        }
    }
    Ok(zones)
}

fn zone(request: &Request, entry: &ZoneEntry, limits: &Limits) -> Result<Zone, PlanError> {
    let name = entry.name.to_string();
    let what = format!("zone `{name}`");
    let memory = &limits.max_memory_mb;
    let source = match (entry.mode, &entry.host_path) {
        (ZoneMode::Ro | ZoneMode::Rw, Some(path)) => {
            let path = absolute(&what, path)?;
            showable(request, &what, &path)?;
            let access = if entry.mode == ZoneMode::Ro { Access::ReadOnly } else { Access::ReadWrite };
            ZoneSource::Host { path, access }
        }
        (ZoneMode::Ro | ZoneMode::Rw, None) => {
            return Err(bad(&what, "it shows nothing: hostPath is missing"));
        }
        (ZoneMode::Tmpfs, _) => {
            let size_mb = entry.size_mb.map_or((memory.value / 2).max(1), |size| size.get());
            if size_mb > memory.value {
                let because = memory.because.to_string();
                return Err(PlanError::TmpfsOverMemory {
                    zone: name,
                    size: size_mb,
                    memory: memory.value,
                    because,
                });
            }
            ZoneSource::Tmpfs { size_mb }
        }
    };
    Ok(Zone { name, inside: entry.name.inside(), source })
}

fn paths(
    request: &Request,
    key: &str,
    written: &[PolicyPath],
    zones: &[Zone],
) -> Result<Vec<AbsPath>, PlanError> {
    let mut paths = Vec::new();
    for path in written {
        let path = absolute(key, path)?;
        showable(request, key, &path)?;
        // Something of the host's /tmp may well be shown in the one inside; not in place of it.
        let of_zone =
            |zone: &Zone| path == zone.inside || (zone.name != "tmp" && path.starts_with(&zone.inside));
        if OWN_PLACES.iter().any(|place| path.as_path().starts_with(place)) || zones.iter().any(of_zone) {
            return Err(PlanError::OwnPlace { what: key.to_owned(), path });
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Refuses the whole file system, the whole home directory and the kernel's own files, which hold what the wall is
/// there to hide.
fn showable(request: &Request, what: &str, path: &AbsPath) -> Result<(), PlanError> {
    let kernel = ["/proc", "/sys", "/dev"].iter().any(|place| path.as_path().starts_with(place));
    let in_shm = path.as_path().strip_prefix("/dev/shm").is_ok_and(|rest| !rest.as_os_str().is_empty());
    if kernel && !in_shm {
        return Err(PlanError::OwnPlace { what: what.to_owned(), path: path.clone() });
    }
    let why = match &request.surroundings.home {
        _ if *path == AbsPath::root() => "the whole file system",
        Some(home) if home == path => "your home directory with its keys and configuration",
        Some(home) if home.starts_with(path) => "which holds your home directory",
        _ => return Ok(()),
    };
    Err(PlanError::TooMuch { what: what.to_owned(), path: path.clone(), why })
}

/// Where commands start: at the caller's place in the workspace, else at home.
pub(super) fn directory(request: &Request, files: &Files) -> AbsPath {
    let inside = |zone: &Zone| {
        let (host, _) = zone.host()?;
        let rest = request.directory.strip_prefix(host)?;
        AbsPath::new(zone.inside.as_path().join(rest)).ok()
    };
    files.zones.iter().find_map(inside).unwrap_or_else(|| place("/scratch/home"))
}

pub(super) fn absolute(what: &str, path: &PolicyPath) -> Result<AbsPath, PlanError> {
    AbsPath::new(path.as_path()).map_err(|error| bad(what, error))
}

fn bad(what: &str, why: impl ToString) -> PlanError {
    PlanError::BadPath { what: what.to_owned(), why: why.to_string() }
}

/// A place inside, all of which are absolute by their spelling.
pub(super) fn place(text: &str) -> AbsPath {
    AbsPath::new(text).unwrap_or_else(|_| AbsPath::root())
}
