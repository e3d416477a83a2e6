//! Where this caller can make groups: below its own on version 1; on version 2 in the nearest group above it, or its
//! own, that hands the controllers down and that it may write to. systemd is not asked: that takes longer than a
//! whole run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::Access;

use crate::probe::pretends_missing;

/// Which interface groups have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Hierarchies of their own for controllers.
    V1,
    /// One hierarchy.
    V2,
}

/// What limits or counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// How many processors are busy at once.
    Cpu,
    /// CPU time; on version 2 every group counts it.
    Cpuacct,
}

impl Controller {
    const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpuacct, Self::Cpu];

    /// As the kernel calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
        }
    }
}

/// A hierarchy with room for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) parent: PathBuf,
    pub(super) controllers: Vec<Controller>,
}

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// With which interface.
    pub version: Version,
    pub(super) hierarchies: Vec<Hierarchy>,
    /// Why a controller is not there, for those that are not.
    why_not: String,
}

/// A mounted hierarchy.
struct Mounted {
    root: PathBuf,
    at: PathBuf,
    kind: String,
    options: String,
}

impl Places {
    /// Looks, once: where a process is does not change under it.
    pub fn here() -> &'static Self {
        static PLACES: OnceLock<Places> = OnceLock::new();
        PLACES.get_or_init(|| {
            if pretends_missing("cgroup") {
                return Self::none("cgroup is pretended to be missing; unset PINFOLD_PRETEND_MISSING");
            }
            match (fs::read_to_string("/proc/self/cgroup"), fs::read("/proc/self/mountinfo")) {
                (Ok(own), Ok(mounts)) => Self::find(&own, &String::from_utf8_lossy(&mounts)),
                (Err(error), _) => Self::none(format!("cannot read /proc/self/cgroup: {error}")),
                (_, Err(error)) => Self::none(format!("cannot read /proc/self/mountinfo: {error}")),
            }
        })
    }

    fn none(why_not: impl Into<String>) -> Self {
        Self { version: Version::V2, hierarchies: Vec::new(), why_not: why_not.into() }
    }

    /// Whether `controller` can be had.
    pub fn has(&self, controller: Controller) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.controllers.contains(&controller))
    }

    /// What a receipt calls `controller`.
    pub fn mechanism(&self, controller: Controller) -> String {
        let version = if self.version == Version::V1 { "v1" } else { "v2" };
        format!("control group ({version} {})", controller.name())
    }

    /// Why a controller that is not there is not.
    pub fn why_not(&self) -> &str {
        &self.why_not
    }

    pub(super) fn find(own: &str, mountinfo: &str) -> Self {
        let mounts: Vec<_> = mountinfo.lines().filter_map(mounted).collect();
        let lines: Vec<_> = own.lines().filter_map(membership).collect();
        if let Some(found) = find_v2(&lines, &mounts) {
            return found;
        }
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        for controller in Controller::ALL {
            let listed = |list: &str| list.split(',').any(|word| word == controller.name());
            let path = lines.iter().find(|(controllers, _)| listed(controllers)).map(|(_, path)| path);
            let mount = mounts.iter().find(|mount| mount.kind == "cgroup" && listed(&mount.options));
            let parent = path.zip(mount).and_then(|(path, mount)| mount.place(path));
            let Some(parent) = parent.filter(|parent| is_writable(parent)) else { continue };
            match hierarchies.iter_mut().find(|hierarchy| hierarchy.parent == parent) {
                Some(hierarchy) => hierarchy.controllers.push(controller),
                None => hierarchies.push(Hierarchy { parent, controllers: vec![controller] }),
            }
        }
        let why_not = "this caller may not make control groups; \
                       root may, and so may a user to whom systemd delegates them (cgroup v2, `Delegate=yes`)";
        Self { version: Version::V1, hierarchies, why_not: why_not.to_owned() }
    }
}

/// The nearest group, its own or above, that hands memory down and may be written to.
fn find_v2(lines: &[(&str, PathBuf)], mounts: &[Mounted]) -> Option<Places> {
    let (_, own) = lines.iter().find(|(controllers, _)| controllers.is_empty())?;
    let mount = mounts.iter().find(|mount| mount.kind == "cgroup2")?;
    let own = mount.place(own)?;
    for parent in own.ancestors().take_while(|path| path.starts_with(&mount.at)) {
        let handed = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        let is_handed = |name: &str| handed.split_ascii_whitespace().any(|word| word == name);
        if !is_handed("memory") || !is_writable(parent) || !is_writable(&parent.join("cgroup.procs")) {
            continue;
        }
        let there =
            |controller: &Controller| *controller == Controller::Cpuacct || is_handed(controller.name());
        let controllers = Controller::ALL.into_iter().filter(there).collect();
        let why_not = format!("{} does not hand the controller down", parent.display());
        let hierarchies = vec![Hierarchy { parent: parent.to_owned(), controllers }];
        return Some(Places { version: Version::V2, hierarchies, why_not });
    }
    None
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

impl Mounted {
    /// Where the group `path` is seen; nothing when this mount does not show it.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        let hidden = below.components().any(|part| part == std::path::Component::ParentDir);
        // Joining nothing would leave a slash at the end.
        match below.as_os_str().is_empty() {
            true => Some(self.at.clone()),
            false => (!hidden).then(|| self.at.join(below)),
        }
    }
}

/// A line of `/proc/self/cgroup`: controllers and path (cgroups(7)).
fn membership(line: &str) -> Option<(&str, PathBuf)> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    Some((controllers, PathBuf::from(path)))
}

/// A line of mountinfo, if it is of control groups (proc_pid_mountinfo(5)).
fn mounted(line: &str) -> Option<Mounted> {
    let (mount, super_block) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, at) = (unescape(mount.next()?), unescape(mount.next()?));
    let mut super_block = super_block.split(' ');
    let kind = super_block.next().filter(|kind| kind.starts_with("cgroup"))?.to_owned();
    Some(Mounted { root, at, kind, options: super_block.nth(1)?.to_owned() })
}

/// Octal escapes stand for blanks and backslashes.
fn unescape(text: &str) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => (bytes.push(escaped), rest = &after[3..]).1,
            None => (bytes.push(byte), rest = after).1,
        }
    }
    OsString::from_vec(bytes).into()
}
