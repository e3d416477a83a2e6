//! Protected names: which there are in the zones, and what covers each. Those that exist are mounted on themselves,
//! read-only, and the directories above them pinned; those that do not get a placeholder.
//!
//! A protected name that is a link is neither refused nor left open. Linux mounts on a link itself when the mount
//! point is given as a descriptor (move_mount(2)), so the link is kept from being replaced; the way it leads is
//! followed as the host would follow it, every link and directory of the way that lies in a writable zone is kept
//! too, and what is at its end is protected like the name itself: covered, or, if absent, given a placeholder.
//!
//! `.git` itself, when absent, stays free: `git init` must work. What is made there is judged at the end.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pinfold_core::glob::GlobSet;
use pinfold_core::plan::Protect;
use rustix::fs::{FileType, Stat};

use super::covers::Covers;
use super::digest::{Kept, Moment};
use super::links::{End, Trace, trace};
use super::placeholders::{Holder, Kind, Stands, Wanted, is_socket_placeholder, is_untouched};
use super::places::{Place, is_one_name, split};
use super::repositories::{common_dir, directory_at, follow, git_file, pointed_to, within};
use super::scan::Seen;
use super::state::{Mark, Record, StateDir};
use super::walk::{Bounds, Then, walk};
use super::{Because, SurveyError, With};

/// A git directory, or a `.git` file or link, that was covered from the start.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its inode: it is known wherever it is moved.
    pub(crate) device: u64,
    /// See `device`.
    pub(crate) inode: u64,
}

/// What protecting found and made.
pub(crate) struct Found {
    pub(crate) kept: Vec<Kept>,
    pub(crate) known: Vec<Known>,
    /// Work trees whose names are covered.
    pub(crate) roots: HashSet<(usize, PathBuf)>,
    pub(crate) holders: Vec<Holder>,
}

/// Protects the names of a plan in one zone after the other.
pub(crate) struct Protector<'a, 'z> {
    protect: &'a Protect,
    places: &'a [Place<'z>],
    covers: &'a mut Covers,
    now: Moment,
    /// What tells this run from others.
    id: String,
    wanted: Vec<Wanted>,
    /// Names that an earlier or another run may have left a placeholder at.
    recorded: HashSet<(usize, PathBuf)>,
    entries: HashSet<(usize, PathBuf)>,
    git_dirs: HashSet<(usize, PathBuf)>,
    /// What of the protected names is in the root of the zone that is being protected, if that is known.
    top: Option<Vec<PathBuf>>,
    /// The directory that the last absent name lay in.
    directory: Option<(usize, OsString)>,
    found: Found,
}

impl<'a, 'z> Protector<'a, 'z> {
    /// Starts with the placeholders that deny globs want.
    pub(crate) fn new(
        protect: &'a Protect,
        places: &'a [Place<'z>],
        covers: &'a mut Covers,
        now: Moment,
        wanted: Vec<Wanted>,
    ) -> Self {
        let found = Found { kept: Vec::new(), known: Vec::new(), roots: HashSet::new(), holders: Vec::new() };
        Self {
            protect,
            places,
            covers,
            now,
            id: run_id(),
            wanted,
            recorded: HashSet::new(),
            entries: HashSet::new(),
            git_dirs: HashSet::new(),
            top: None,
            directory: None,
            found,
        }
    }

    /// Protects what `place` holds: the names of its root if it is the workspace, and its repositories, seen near the
    /// root or known from before.
    pub(crate) fn zone(
        &mut self,
        place: &Place<'z>,
        workspace: bool,
        seen: &Seen,
        record: &Record,
    ) -> Result<(), SurveyError> {
        self.top = seen.top.clone();
        self.recorded.extend(record.placeholders().map(|(_, path)| (place.index, path.to_owned())));
        if workspace {
            self.work_tree(place, Path::new(""))?;
            self.extra(place)?;
        }
        let in_git = |path: &Path| path.parent().is_some_and(|up| up.iter().any(|name| name == ".git"));
        for (path, _) in seen.git.iter().filter(|(path, _)| !in_git(path)) {
            self.git_entry(place, path)?;
        }
        for path in seen.bare.iter().filter(|path| !in_git(path)) {
            self.git_dir(place, path, None)?;
        }
        for path in record.repositories() {
            match place.stat(path)?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(_) if path.ends_with(".git") => self.git_entry(place, path)?,
                Some(FileType::Directory) => self.git_dir(place, path, None)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Joins the users of the zone and makes the placeholders that it needs.
    pub(crate) fn hold(
        &mut self,
        state: &StateDir,
        place: &Place<'z>,
        record: Record,
    ) -> Result<(), SurveyError> {
        let here: Vec<Wanted> = self.wanted.extract_if(.., |want| want.zone == place.index).collect();
        let known = self.found.known.iter().map(|known| (known.device, known.inode)).collect();
        let mark = Mark { id: self.id.clone(), since: self.now.stamp(), known };
        let (holder, stand) = Holder::join(state, place, record, &here, mark)?;
        self.found.holders.push(holder);
        for (path, stands) in stand {
            self.covers.pin_above(place, &path, Because::Placeholder);
            match stands {
                Stands::Placeholder(with) => self.covers.add(place, &path, with, Because::Placeholder),
                Stands::Other(kind) => {
                    self.covers.add(place, &path, With::Itself, Because::Placeholder);
                    self.name(place, &path, kind)?;
                }
            }
        }
        Ok(())
    }

    /// What was found.
    pub(crate) fn finish(self) -> Found {
        self.found
    }

    /// Protects the names in the root of a work tree.
    fn work_tree(&mut self, place: &Place<'z>, root: &Path) -> Result<(), SurveyError> {
        if !self.found.roots.insert((place.index, root.to_owned())) {
            return Ok(());
        }
        for name in self.protect.names.iter().filter(|name| *name != ".git") {
            let first = Path::new(name.split('/').next().unwrap_or_default());
            // Most names are absent, and the root has been read. One that was made since is found when its place is
            // to be taken.
            if root.as_os_str().is_empty()
                && let Some(top) = &self.top
                && !top.iter().any(|there| there.as_os_str() == first.as_os_str())
            {
                self.wanted.push(Wanted { zone: place.index, path: first.to_owned(), kind: Kind::Socket });
                continue;
            }
            self.name(place, &root.join(name), Kind::Socket)?;
        }
        Ok(())
    }

    /// Protects what the policy adds.
    fn extra(&mut self, place: &Place<'z>) -> Result<(), SurveyError> {
        for glob in &self.protect.extra {
            if let Some(path) = glob.literal() {
                if !glob.is_absolute() {
                    self.name(place, &path, Kind::Socket)?;
                } else if let Some(below) = place.below(&path)?.map(Path::to_owned) {
                    self.name(place, &below, Kind::Socket)?;
                }
                continue;
            }
            let set = GlobSet::new([glob])?;
            let prefix = glob.fixed_prefix();
            let start =
                if glob.is_absolute() { place.below(&prefix)?.unwrap_or(Path::new("")) } else { &prefix };
            let slashes = glob.as_str().matches('/').count();
            let depth = slashes.saturating_sub(prefix.components().count());
            let depth = if glob.needs_walk() { usize::MAX } else { depth };
            let (matched, _) = walk(place.root, start, Bounds { depth, ..Bounds::NONE }, |entry, matched| {
                if set.matches(entry.path).or_else(|| set.matches(&place.host.join(entry.path))).is_some() {
                    matched.push(entry.path.to_owned());
                    return Then::Skip;
                }
                Then::Descend
            });
            for path in matched {
                self.name(place, &path, Kind::Socket)?;
            }
        }
        Ok(())
    }

    /// Protects one name, whatever is or is not there.
    fn name(&mut self, place: &Place<'z>, path: &Path, absent: Kind) -> Result<(), SurveyError> {
        let found = place.stat(path)?;
        match found {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink => {
                self.existing(place, path, &stat, absent)
            }
            // Most names are absent from a root that is no link: no way to follow.
            None if is_one_name(path) => {
                self.wanted.push(Wanted { zone: place.index, path: path.to_owned(), kind: absent });
                Ok(())
            }
            None if self.lies_in_directory(place, path)? => {
                self.covers.pin_above(place, path, Because::Protected);
                self.wanted.push(Wanted { zone: place.index, path: path.to_owned(), kind: absent });
                Ok(())
            }
            _ => {
                let way = trace(self.places, place, path)?;
                self.way(place, path, way, absent)
            }
        }
    }

    /// Whether the directory of `path` is there, reached without a link, and in no other zone: then there is no way to
    /// follow, which would take a look at every directory above, for every name.
    fn lies_in_directory(&mut self, place: &Place<'z>, path: &Path) -> Result<bool, SurveyError> {
        let (above, _) = split(path);
        if self
            .directory
            .as_ref()
            .is_some_and(|(zone, known)| *zone == place.index && known == above.as_os_str())
        {
            return Ok(true);
        }
        for other in self.places.iter().filter(|other| other.index != place.index) {
            if place.below(other.real()?)?.is_some() {
                return Ok(false);
            }
        }
        let is = place
            .stat(above)?
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is {
            self.directory = Some((place.index, above.as_os_str().to_owned()));
        }
        Ok(is)
    }

    /// Protects what a followed way leads to, and the way.
    fn way(&mut self, place: &Place<'z>, path: &Path, way: Trace, absent: Kind) -> Result<(), SurveyError> {
        let places = self.places;
        self.covers.pin_way(places, &way.passed, Because::Protected);
        for step in way.passed.iter().filter(|step| step.kind == FileType::Symlink) {
            if let Some(stat) = places[step.zone].stat(&step.path)? {
                self.keep(&places[step.zone], &step.path, &stat)?;
            }
        }
        match way.end {
            End::Inside { zone, path, .. } | End::Blocked { zone, path } if places[zone].writable() => {
                match places[zone].stat(&path)? {
                    Some(stat) => self.existing(&places[zone], &path, &stat, absent),
                    None => Ok(()),
                }
            }
            End::Absent { zone, path: missing } if places[zone].writable() => {
                // What is missing on the way is a directory that could be made with anything in it.
                let kind = if zone == place.index && missing == path { absent } else { Kind::Socket };
                self.wanted.push(Wanted { zone, path: missing, kind });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Protects something that is there and is no link.
    fn existing(
        &mut self,
        place: &Place<'z>,
        path: &Path,
        stat: &Stat,
        absent: Kind,
    ) -> Result<(), SurveyError> {
        // The root of a zone is the user's choice; it is a mount point, and its names are protected one by one.
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket | FileType::RegularFile if self.is_placeholder(place, path, stat, absent)? => {
                self.wanted.push(Wanted { zone: place.index, path: path.to_owned(), kind: absent });
            }
            FileType::RegularFile | FileType::Directory => {
                self.covers.pin_above(place, path, Because::Protected);
                self.covers.add(place, path, With::Itself, Because::Protected);
                self.keep(place, path, stat)?;
            }
            // A socket, FIFO or device under such a name is nothing that the host obeys, and nothing to reach.
            _ => self.covers.add(place, path, With::EmptyFile, Because::Special),
        }
        Ok(())
    }

    /// Whether this is no file of the user's but a placeholder, to be shared or taken over.
    fn is_placeholder(
        &self,
        place: &Place<'z>,
        path: &Path,
        stat: &Stat,
        kind: Kind,
    ) -> Result<bool, SurveyError> {
        if is_socket_placeholder(stat) {
            return Ok(true);
        }
        // Only a placeholder is that small and listed.
        if stat.st_size > 2 || !self.recorded.contains(&(place.index, path.to_owned())) {
            return Ok(false);
        }
        is_untouched(place.root, path, kind)
            .map_err(|source| SurveyError::Look { path: place.shown(path), source })
    }

    fn keep(&mut self, place: &Place<'z>, path: &Path, stat: &Stat) -> Result<(), SurveyError> {
        let kept = Kept::new(place.root, place.index, path, stat, &self.now)
            .map_err(|source| SurveyError::Look { path: place.shown(path), source })?;
        self.found.kept.push(kept);
        Ok(())
    }

    /// Protects the repository whose `.git` is at `path`: its work tree and its git directory.
    fn git_entry(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let root = path.parent().unwrap_or(Path::new(""));
        if !self.entries.insert((place.index, path.to_owned())) {
            return Ok(());
        }
        self.work_tree(place, root)?;
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        self.found.known.push(Known { device: stat.st_dev, inode: stat.st_ino });
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.git_dir(place, path, Some(root)),
            FileType::RegularFile => {
                self.existing(place, path, &stat, Kind::Socket)?;
                self.git_file_target(place, place, path, root)
            }
            FileType::Symlink => {
                let places = self.places;
                let way = trace(places, place, path)?;
                match &way.end {
                    End::Inside { zone, path: target, kind: FileType::Directory } => {
                        self.covers.pin_way(places, &way.passed, Because::Protected);
                        self.git_dir(&places[*zone], &target.clone(), Some(root))
                    }
                    End::Inside { zone, path: target, kind: FileType::RegularFile } => {
                        let (zone, target) = (*zone, target.clone());
                        self.way(place, path, way, Kind::Socket)?;
                        self.git_file_target(place, &places[zone], &target, root)
                    }
                    _ => self.way(place, path, way, Kind::Socket),
                }
            }
            _ => Ok(()),
        }
    }

    /// Protects the git directory that the `.git` file at `path` of `holder` names; a relative one begins at `root` of
    /// `place`, where `.git` is, also when that is a link to the file.
    fn git_file_target(
        &mut self,
        place: &Place<'z>,
        holder: &Place<'z>,
        path: &Path,
        root: &Path,
    ) -> Result<(), SurveyError> {
        let places = self.places;
        let Some(written) = git_file(holder, path)? else { return Ok(()) };
        let way = follow(places, place, root, &written)?;
        match directory_at(&way) {
            Some((zone, target)) => {
                self.covers.pin_way(places, &way.passed, Because::Protected);
                self.git_dir(&places[zone], target, Some(root))
            }
            None => self.way(holder, path, way, Kind::Socket),
        }
    }

    /// Protects the names in a git directory, and in those within it.
    fn git_dir(
        &mut self,
        place: &Place<'z>,
        path: &Path,
        work_tree: Option<&Path>,
    ) -> Result<(), SurveyError> {
        let places = self.places;
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        if !place.writable() || !self.git_dirs.insert((place.index, path.to_owned())) {
            return Ok(());
        }
        self.found.known.push(Known { device: stat.st_dev, inode: stat.st_ino });
        self.covers.pin_above(place, path, Because::Protected);
        if !path.as_os_str().is_empty() {
            self.covers.add(place, path, With::Pinned, Because::Protected);
        }
        // The private directory of a linked work tree takes everything but its own few files from another one.
        let common = common_dir(place, path)?.filter(|common| common != Path::new("."));
        for name in &self.protect.git {
            let kind = if name == "commondir" { Kind::Common } else { Kind::File };
            let shared = !matches!(name.as_str(), "config.worktree" | "commondir" | "gitdir");
            let at = path.join(name);
            // Nobody reads `gitdir` but in such a directory.
            let needless = if common.is_some() { shared } else { name == "gitdir" };
            if !needless || place.stat(&at)?.is_some() {
                self.name(place, &at, kind)?;
            }
        }
        if let Some(common) = common {
            let way = follow(places, place, path, &common)?;
            if let Some((zone, target)) = directory_at(&way) {
                self.covers.pin_way(places, &way.passed, Because::Protected);
                self.git_dir(&places[zone], target, None)?;
            }
        }
        for (base, written) in pointed_to(place, path, work_tree)? {
            let way = follow(places, place, &base, &written)?;
            self.way(place, path, way, Kind::Socket)?;
        }
        for inner in within(place, path)? {
            self.git_dir(place, &inner, None)?;
        }
        Ok(())
    }
}

/// A name for this run that no other has: by the process, the time, and a count, for one process
/// can begin several at once.
fn run_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    format!("{:x}-{:x}-{:x}-{count:x}", rustix::process::getpid().as_raw_nonzero(), now.tv_sec, now.tv_nsec)
}
