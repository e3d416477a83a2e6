//! What the new root consists of, as data: made from a plan before the clone, so that mistakes in a plan are
//! found while nothing has been started.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use pinfold_core::path::AbsPath;
use pinfold_core::plan::{Plan, Reads, ZoneSource};
use pinfold_core::zone::Access;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;

use super::program::{Part, parts};
use super::source::{Kind, Source};
use super::{MountError, denied, lookup, system};
use crate::survey::With;

/// Something of the root's own tmpfs. Paths here and below are relative to the new root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A directory with a mode.
    Directory(PathBuf, u32),
    /// A symlink and its target.
    Link(PathBuf, PathBuf),
    /// A small file made up for the inside.
    File(PathBuf, Vec<u8>),
    /// An empty file to mount on.
    Point(PathBuf),
}

/// What is mounted at a place.
#[derive(Debug)]
pub(crate) enum What {
    /// A path of the host.
    Host(Source),
    /// Memory of this many megabytes.
    Memory(u64),
}

/// A zone or a shown path.
#[derive(Debug)]
pub(crate) struct Place {
    /// What messages call it.
    pub(crate) name: String,
    /// Where it is mounted.
    pub(crate) at: PathBuf,
    /// What is mounted.
    pub(crate) what: What,
    /// The name of the mount of the host that the mount point lies in, when it is not in the root's own
    /// tmpfs.
    pub(crate) within: Option<String>,
    /// True when a debug build shows it although the plan does not ask for it.
    pub(crate) unasked: bool,
}

/// The whole file system inside.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// The root's own entries, parents first.
    pub(crate) entries: Vec<Entry>,
    /// Host paths shown read-only at the same place.
    pub(crate) system: Vec<PathBuf>,
    /// What of those is covered because the plan denies it.
    pub(crate) denied: Vec<(PathBuf, With)>,
    /// Zones and shown paths, outer ones first.
    pub(crate) places: Vec<Place>,
    /// Whether there is a writable `/dev/shm`.
    pub(crate) shared_memory: bool,
    made: HashSet<PathBuf>,
}

/// A second name for `/tmp` that programs expect.
const OWN_TMP: &str = "var/tmp";

/// Memory for what the plan does not declare itself.
const UNDECLARED_MB: u64 = 64;

impl Layout {
    /// The layout of `plan` for a command line that begins with `program`.
    pub(crate) fn new(plan: &Plan, program: &OsStr, path: &OsStr) -> Result<Self, MountError> {
        let sources = lookup::look_up(&plan.files)?;
        let mut layout = Self { shared_memory: !plan.files.readonly_root, ..Self::default() };
        layout.own_entries();
        layout.generated(plan);
        match plan.files.reads {
            Reads::Minimal => {
                layout.shown(system::LIBRARIES)?;
                layout.etc(system::ETC_MINIMAL)?;
                layout.program(program, path, &sources)?;
            }
            Reads::System | Reads::Toolchains => {
                layout.shown(system::SYSTEM)?;
                layout.etc(system::ETC)?;
            }
        }
        #[cfg(debug_assertions)]
        if crate::probe::without("mounts") {
            layout.whole_host()?;
        }
        layout.zones(plan, sources)?;
        layout.settle()?;
        layout.denied = denied::covers(&plan.files.deny, &layout.system)?;
        Ok(layout)
    }

    /// The places that show something of the host, with what they show.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&Place, &Source)> {
        self.places.iter().filter_map(|place| match &place.what {
            What::Host(source) => Some((place, source)),
            What::Memory(_) => None,
        })
    }

    /// What the places show of the host, in the same order.
    pub(crate) fn sources(&mut self) -> impl Iterator<Item = &mut Source> {
        self.places.iter_mut().filter_map(|place| match &mut place.what {
            What::Host(source) => Some(source),
            What::Memory(_) => None,
        })
    }

    /// Directories every root has, and what covers and masks are made of.
    fn own_entries(&mut self) {
        for directory in ["etc", "proc", "dev", "dev/pts", "dev/shm", "var"] {
            self.directory(Path::new(directory));
        }
        self.entries.push(Entry::Link(OWN_TMP.into(), "/tmp".into()));
        for (at, target) in system::DEVICE_LINKS {
            self.entries.push(Entry::Link(at.into(), target.into()));
        }
        for device in system::DEVICES {
            self.entries.push(Entry::Point(Path::new("dev").join(device)));
        }
        self.entries.push(Entry::Directory(".pinfold".into(), 0o700));
        self.entries.push(Entry::Directory(super::build::path_of(super::build::NO_DIRECTORY).into(), 0));
        self.entries.push(Entry::Point(super::build::path_of(super::build::NO_FILE).into()));
        // In the root, which is read-only: reading finds nothing, and writing through it makes nothing.
        self.entries.push(Entry::Link(super::build::path_of(super::build::NO_LINK).into(), "/absent".into()));
    }

    /// Files of `/etc` that name the inside and not the host.
    fn generated(&mut self, plan: &Plan) {
        let user = plan.environment.set.get("USER").map_or("pinfold", String::as_str);
        let id = plan.privileges.user_id;
        for (name, text) in [
            ("passwd", system::passwd(user, id)),
            ("group", system::group(user, id)),
            ("nsswitch.conf", system::NSSWITCH.to_vec()),
            ("hosts", system::HOSTS.to_vec()),
        ] {
            self.entries.push(Entry::File(Path::new("etc").join(name), text));
        }
    }

    /// System directories of the host: links stay links.
    fn shown(&mut self, names: &[&str]) -> Result<(), MountError> {
        for name in names {
            let host = Path::new("/").join(name);
            match readlinkat(CWD, &host, Vec::new()) {
                Ok(target) => {
                    self.parents(Path::new(name));
                    self.entries
                        .push(Entry::Link(name.into(), OsString::from_vec(target.into_bytes()).into()));
                }
                Err(Errno::INVAL) => {
                    self.directory(Path::new(name));
                    self.system.push(name.into());
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(MountError::Inspect { path: host, source: error.into() }),
            }
        }
        Ok(())
    }

    /// The allowed entries of `/etc`, as far as the host has them. Asking for each is quicker than reading
    /// the directory.
    fn etc(&mut self, names: &[&str]) -> Result<(), MountError> {
        let failed = |source: Errno| MountError::Inspect { path: "/etc".into(), source: source.into() };
        let directory = match openat(CWD, c"/etc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for name in names {
            let at = Path::new("etc").join(name);
            let status = match statat(&directory, *name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => status,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(failed(error)),
            };
            match FileType::from_raw_mode(status.st_mode) {
                FileType::Symlink => {
                    let target = readlinkat(&directory, *name, Vec::new()).map_err(failed)?;
                    self.entries.push(Entry::Link(at, OsString::from_vec(target.into_bytes()).into()));
                }
                FileType::Directory => {
                    self.directory(&at);
                    self.system.push(at);
                }
                FileType::RegularFile => {
                    self.entries.push(Entry::Point(at.clone()));
                    self.system.push(at);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What a minimal root needs for its one program to start.
    fn program(&mut self, program: &OsStr, path: &OsStr, sources: &[Source]) -> Result<(), MountError> {
        for part in parts(program, path, sources)? {
            let (Part::Link(at, _) | Part::File(at)) = &part;
            let at = self.past_links(at.strip_prefix("/").unwrap_or(at));
            if self.system.iter().any(|shown| at.starts_with(shown)) || !self.made.insert(at.clone()) {
                continue;
            }
            self.parents(&at);
            match part {
                Part::Link(_, target) => self.entries.push(Entry::Link(at, target)),
                Part::File(_) => {
                    self.entries.push(Entry::Point(at.clone()));
                    self.system.push(at);
                }
            }
        }
        Ok(())
    }

    /// Zones and shown paths of the plan, and memory where a program expects some and the plan is silent.
    fn zones(&mut self, plan: &Plan, sources: Vec<Source>) -> Result<(), MountError> {
        let mut sources = sources.into_iter();
        for zone in &plan.files.zones {
            let what = match &zone.source {
                ZoneSource::Host { path, .. } => {
                    // `lookup` goes through the zones in the same order.
                    let absent = || MountError::LookUp { path: path.clone(), source: Errno::NOENT.into() };
                    What::Host(sources.next().ok_or_else(absent)?)
                }
                ZoneSource::Tmpfs { size_mb } => What::Memory(*size_mb),
            };
            self.place(format!("zone {}", zone.name), &zone.inside, what)?;
        }
        for source in sources {
            if !self.shows_already(&source) {
                let path = source.asked.clone();
                self.place(path.to_string(), &path, What::Host(source))?;
            }
        }
        for undeclared in ["tmp", "scratch"] {
            if self.places.iter().any(|place| place.at == Path::new(undeclared)) {
                continue;
            }
            self.directory(Path::new(undeclared));
            if plan.files.readonly_root {
                continue;
            }
            self.places.push(Place {
                name: format!("/{undeclared}"),
                at: undeclared.into(),
                what: What::Memory(UNDECLARED_MB),
                within: None,
                unasked: false,
            });
        }
        Ok(())
    }

    /// Whether a path asked for read-only is visible already, by its own name, as part of the system.
    fn shows_already(&self, source: &Source) -> bool {
        let at = source.asked.as_path().strip_prefix("/").unwrap_or(source.asked.as_path());
        let real = source.real.strip_prefix("/").unwrap_or(&source.real);
        // `/lib/x` is visible through the link `/lib` when `/usr/lib/x` is.
        let through_link =
            self.entries.iter().any(|entry| matches!(entry, Entry::Link(link, _) if at.starts_with(link)));
        source.access == Access::ReadOnly
            && self
                .system
                .iter()
                .any(|shown| real.starts_with(shown) && (at.starts_with(shown) || through_link))
    }

    fn place(&mut self, name: String, inside: &AbsPath, what: What) -> Result<(), MountError> {
        let at = inside.as_path().strip_prefix("/").unwrap_or(inside.as_path()).to_owned();
        let reserved = |reason| MountError::Reserved { path: inside.as_path().to_owned(), reason };
        if at.as_os_str().is_empty() {
            return Err(reserved("it is the root itself; name the directories below it"));
        }
        for (taken, reason) in [
            ("proc", "/proc belongs to the sandbox"),
            ("dev", "/dev belongs to the sandbox"),
            (".pinfold", "/.pinfold belongs to the sandbox"),
        ] {
            if at.starts_with(taken) {
                return Err(reserved(reason));
            }
        }
        if let Some(other) = self.places.iter().find(|place| place.at == at) {
            let path = inside.as_path().to_owned();
            return Err(MountError::Twice { path, first: other.name.clone(), second: name });
        }
        self.places.push(Place { name, at, what, within: None, unasked: false });
        Ok(())
    }

    /// Puts outer places before inner ones, and decides for each whether its mount point is made or must
    /// exist.
    fn settle(&mut self) -> Result<(), MountError> {
        for index in 0..self.places.len() {
            let at = self.places[index].at.clone();
            self.places[index].at = self.past_links(&at);
        }
        self.places.sort_by_key(|place| place.at.components().count());
        for index in 0..self.places.len() {
            let at = self.places[index].at.clone();
            let outer = self.places[..index].iter().rev().find(|outer| at.starts_with(&outer.at));
            let system = self.system.iter().find(|shown| at.starts_with(shown));
            let within = match (outer, system) {
                (Some(outer), _) => Some(outer.name.clone()),
                (None, Some(shown)) => Some(format!("/{}", shown.display())),
                (None, None) => None,
            };
            if within.is_none() {
                match &self.places[index].what {
                    What::Host(source) if source.kind == Kind::File => {
                        self.parents(&at);
                        self.entries.push(Entry::Point(at));
                    }
                    _ => self.directory(&at),
                }
            }
            self.places[index].within = within;
        }
        Ok(())
    }

    /// Where `at` is once the root's own links in it are followed: `/lib/x` lies in `/usr/lib`. The link that
    /// only stands for a directory programs expect gives way to one.
    fn past_links(&mut self, at: &Path) -> PathBuf {
        self.entries.retain(|entry| {
            !matches!(entry, Entry::Link(link, _)
            if link == Path::new(OWN_TMP) && at.starts_with(link))
        });
        let through = self.entries.iter().find_map(|entry| match entry {
            Entry::Link(link, target) => Some((at.strip_prefix(link).ok()?, link, target)),
            _ => None,
        });
        let Some((rest, link, target)) = through else { return at.to_owned() };
        let mut real = link.parent().map(Path::to_owned).unwrap_or_default();
        for component in target.components() {
            match component {
                Component::RootDir => real = PathBuf::new(),
                Component::ParentDir => drop(real.pop()),
                Component::Normal(name) => real.push(name),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        if rest.as_os_str().is_empty() { real } else { real.join(rest) }
    }

    /// For tests: every directory of the host, writable, so that only what is not a mount holds.
    #[cfg(debug_assertions)]
    fn whole_host(&mut self) -> Result<(), MountError> {
        let failed = |source: std::io::Error| MountError::Inspect { path: "/".into(), source };
        for entry in std::fs::read_dir("/").map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let at = PathBuf::from(entry.file_name());
            let taken =
                ["proc", "dev", "sys", "tmp", "scratch", "usr"].iter().any(|name| at == Path::new(name));
            if !taken && entry.file_type().map_err(failed)?.is_dir() {
                self.system.retain(|shown| !shown.starts_with(&at));
                self.entries.retain(|own| match own {
                    Entry::Link(path, _) | Entry::File(path, _) | Entry::Point(path) => {
                        !path.starts_with(&at)
                    }
                    Entry::Directory(path, _) => !path.starts_with(&at) || path == &at,
                });
                let path =
                    AbsPath::new(entry.path()).map_err(|error| failed(std::io::Error::other(error)))?;
                let source = lookup::look_up_unchecked(&path, Access::ReadWrite)?;
                self.place(format!("/{}", at.display()), &path, What::Host(source))?;
                if let Some(place) = self.places.last_mut() {
                    place.unasked = true;
                }
            }
        }
        Ok(())
    }

    /// A directory of the root's own, with what is above it.
    fn directory(&mut self, at: &Path) {
        self.parents(at);
        if self.made.insert(at.to_owned()) {
            self.entries.push(Entry::Directory(at.to_owned(), 0o755));
        }
    }

    fn parents(&mut self, at: &Path) {
        if let Some(parent) = at.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.directory(parent);
        }
    }
}
