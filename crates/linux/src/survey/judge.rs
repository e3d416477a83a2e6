//! Judging repositories at the end: what git on the host would execute in one that was not covered from the start goes to
//! quarantine; inert configuration and sample hooks stay, so that a repository made inside stays usable.
//!
//! Git directories that were covered from the start are not judged again, but for commands in an unfinished rebase.
//! Others are, if anything about them changed during the run: a directory becomes a repository only by a change of its
//! own entries, by being renamed, or by a new `.git` file or link that names it, and each of these leaves a change time
//! within the run.

use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::SurveyError;
use super::digest::changed_below;
use super::end::End;
use super::gitconfig::{Verdict, judge};
use super::links::{End as WayEnd, Trace, trace};
use super::placeholders::is_socket_placeholder;
use super::places::Place;
use super::quarantine::write_new;
use super::repositories::{common_dir, directory_at, follow, git_file};
use super::scan::Seen;

/// A configuration longer than this is not one.
const MOST_CONFIG: usize = 256 << 10;
/// A list of what a rebase has yet to do longer than this is not one.
const MOST_TODO: usize = 4 << 20;
/// Repositories remembered for the next start.
const MOST_KNOWN: usize = 500;
/// Where git keeps what it has yet to do, commands to run included (git-rebase(1), `--exec`).
const UNFINISHED: &[(&str, &str)] = &[
    ("rebase-merge", "git-rebase-todo"),
    ("rebase-merge", "git-rebase-todo.backup"),
    ("rebase-apply", "git-rebase-todo"),
    ("sequencer", "todo"),
];

impl<'z> End<'_, 'z> {
    fn is_fresh(&self, stat: &Stat) -> bool {
        self.timeless || self.since.is_before_change_of(stat)
    }

    fn is_known(&self, stat: &Stat) -> bool {
        self.known.contains(&(stat.st_dev, stat.st_ino))
    }

    /// Judges the repositories of a zone, every one, whatever the others are. Returns all git directories, for the
    /// next start.
    pub(super) fn repositories(&mut self, place: &Place<'z>, seen: &Seen) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for (path, kind) in &seen.git {
            let done = self.repository(place, path, *kind);
            self.unless_judged(place, path, done);
            found.push(path.clone());
        }
        for path in &seen.bare {
            let done = self.git_dir(place, path, self.timeless);
            self.unless_judged(place, path, done);
            found.push(path.clone());
        }
        found.truncate(MOST_KNOWN);
        found
    }

    /// What cannot be judged cannot stay, unless it was covered all the time.
    fn unless_judged(&mut self, place: &Place<'z>, path: &Path, done: Result<(), SurveyError>) {
        let Err(error) = done else { return };
        match place.stat(path) {
            Ok(Some(stat)) if !self.is_known(&stat) => {
                let taken = self.take(place, path, &format!("could not be judged: {error}"));
                self.note(place, path, taken);
            }
            _ => self.note(place, path, Err(error)),
        }
    }

    /// Judges one repository by its `.git`.
    fn repository(&mut self, place: &Place<'z>, path: &Path, kind: FileType) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        let root = path.parent().unwrap_or(Path::new(""));
        if !self.is_known(&stat) && !self.roots.contains(&(place.index, root.to_owned())) {
            self.work_tree(place, root)?;
        }
        match kind {
            FileType::Directory => self.git_dir(place, path, self.timeless),
            FileType::RegularFile | FileType::Symlink => {
                self.pointer(place, path, kind, self.is_fresh(&stat))
            }
            _ => Ok(()),
        }
    }

    /// Takes the protected names of a work tree that nobody protected, as far as they changed.
    fn work_tree(&mut self, place: &Place<'z>, root: &Path) -> Result<(), SurveyError> {
        for at in 0..self.names.len() {
            let path = root.join(&self.names[at]);
            let Some(stat) = place.stat(&path)? else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            // Another sandbox that knows the repository keeps its names free.
            if path.ends_with(".git") || is_socket_placeholder(&stat) {
                continue;
            }
            // A file can be rewritten without its directory noticing.
            let below = kind == FileType::Directory && changed_below(place.root, &path, &self.since);
            if self.is_fresh(&stat) || below {
                self.take(place, &path, "a protected name in a repository that was not known at the start")?;
            }
        }
        Ok(())
    }

    /// Whether a link that was passed changed: then what it leads to is as new as the link.
    fn is_way_fresh(&self, way: &Trace) -> Result<bool, SurveyError> {
        for step in way.passed.iter().filter(|step| step.kind == FileType::Symlink) {
            if self.places[step.zone].stat(&step.path)?.is_some_and(|stat| self.is_fresh(&stat)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Judges the git directory that a `.git` file or link names, as git finds it: a link may lead to a file, and a
    /// relative path in that file begins where `.git` is, not where the link led.
    fn pointer(
        &mut self,
        place: &Place<'z>,
        path: &Path,
        kind: FileType,
        mut fresh: bool,
    ) -> Result<(), SurveyError> {
        let places = self.places;
        let (mut zone, mut file) = (place.index, path.to_owned());
        if kind == FileType::Symlink {
            let way = trace(places, place, path)?;
            fresh |= self.is_way_fresh(&way)?;
            match way.end {
                WayEnd::Inside { zone, path, kind: FileType::Directory } => {
                    return self.git_dir(&places[zone], &path, fresh);
                }
                WayEnd::Inside { zone: other, path, kind: FileType::RegularFile } => {
                    (zone, file) = (other, path);
                }
                _ => return Ok(()),
            }
            fresh |= places[zone].stat(&file)?.is_some_and(|stat| self.is_fresh(&stat));
        }
        match git_file(&places[zone], &file) {
            Ok(Some(written)) => {
                let way = follow(places, place, path.parent().unwrap_or(Path::new("")), &written)?;
                fresh |= self.is_way_fresh(&way)?;
                match directory_at(&way) {
                    Some((zone, target)) => self.git_dir(&places[zone], target, fresh),
                    None => Ok(()),
                }
            }
            // Whatever git makes of it, it was not there before.
            Ok(None) | Err(_) if fresh => self.take(place, path, "a .git file that is not understood"),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Judges one git directory, unless it was covered all the time or nothing about it changed.
    fn git_dir(&mut self, place: &Place<'z>, path: &Path, fresh: bool) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        let judged = !self.judged.insert((stat.st_dev, stat.st_ino, fresh));
        if judged || !place.writable() {
            return Ok(());
        }
        self.unfinished(place, path)?;
        if self.is_known(&stat) {
            return Ok(());
        }
        let hooks = path.join("hooks");
        let mut touched = fresh || self.is_fresh(&stat);
        for name in ["config", "config.worktree", "commondir", "hooks"] {
            touched |= place.stat(&path.join(name))?.is_some_and(|stat| self.is_fresh(&stat));
        }
        if !touched {
            // A hook can be rewritten without its directory noticing.
            let Some(stat) = place.stat(&hooks)? else { return Ok(()) };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                for (name, _) in place.list(&hooks, usize::MAX)?.0 {
                    touched |= place.stat(&hooks.join(name))?.is_some_and(|stat| self.is_fresh(&stat));
                }
            }
        }
        if !touched {
            return Ok(());
        }
        self.configuration(place, &path.join("config"))?;
        self.configuration(place, &path.join("config.worktree"))?;
        self.hooks(place, &hooks)?;
        self.common(place, path)
    }

    /// Takes what would be run when an unfinished rebase goes on. No cover keeps it from being written: git inside has
    /// to be able to rebase.
    fn unfinished(&mut self, place: &Place<'z>, git_dir: &Path) -> Result<(), SurveyError> {
        for (directory, name) in UNFINISHED {
            let directory = git_dir.join(directory);
            let Some(above) = place.stat(&directory)? else { continue };
            let path = directory.join(name);
            let Some(stat) = place.stat(&path)? else { continue };
            if !self.is_fresh(&above) && !self.is_fresh(&stat) {
                continue;
            }
            let text = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => place.read(&path, MOST_TODO),
                _ => Ok(None),
            };
            match text {
                Ok(Some(text)) if !text.split(|byte| *byte == b'\n').any(is_command) => {}
                Ok(Some(_)) => self.take(place, &path, "an unfinished rebase that runs a command")?,
                Ok(None) => self.take(place, &path, "an unfinished rebase that is no ordinary list")?,
                Err(error) => {
                    let why = format!("an unfinished rebase that cannot be read: {}", reason(&error));
                    self.take(place, &path, &why)?;
                }
            }
        }
        Ok(())
    }

    /// Leaves an inert configuration, and only the inert part of any other.
    pub(super) fn configuration(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        let bytes = match FileType::from_raw_mode(stat.st_mode) {
            // One that cannot be read is not left to be read by another.
            FileType::RegularFile => place.read(path, MOST_CONFIG),
            _ => Ok(None),
        };
        let (rest, why) = match bytes.map(|bytes| bytes.as_deref().map(judge)) {
            Ok(Some(Verdict::Inert)) => return Ok(()),
            Ok(Some(Verdict::Active { rest, without })) => {
                (rest, format!("git configuration: {}", without.join(", ")))
            }
            Ok(None) => (String::new(), "git configuration that is no ordinary file".to_owned()),
            Err(error) => {
                (String::new(), format!("git configuration that cannot be read: {}", reason(&error)))
            }
        };
        self.take(place, path, &why)?;
        let failed = |source| SurveyError::Quarantine { path: place.shown(path), source };
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let parent =
            place.open(above, rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY).map_err(failed)?;
        write_new(std::os::fd::AsFd::as_fd(&parent), name, rest.as_bytes(), Some(&stat)).map_err(failed)
    }

    /// Leaves samples, and what is no file: git runs files alone.
    pub(super) fn hooks(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let Some(stat) = place.stat(path)? else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                for (name, kind) in place.list(path, usize::MAX)?.0 {
                    let sample = name.as_os_str().as_encoded_bytes().ends_with(b".sample");
                    if !sample && kind != FileType::Directory {
                        self.take(place, &path.join(name), "a git hook")?;
                    }
                }
                Ok(())
            }
            FileType::Symlink => self.take(place, path, "git hooks kept elsewhere"),
            _ => Ok(()),
        }
    }

    /// Leaves a `commondir` as linked work trees have it; any other takes the configuration from somewhere else.
    fn common(&mut self, place: &Place<'z>, path: &Path) -> Result<(), SurveyError> {
        let at = path.join("commondir");
        if place.stat(&at)?.is_none() {
            return Ok(());
        }
        let linked = path.parent().is_some_and(|up| up.ends_with("worktrees"));
        match common_dir(place, path) {
            Ok(Some(common)) if linked && common == Path::new("../..") => Ok(()),
            _ => self.take(place, &at, "takes git's configuration from another directory"),
        }
    }
}

/// What the system said, for a finding that names the path already.
fn reason(error: &SurveyError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whether a line of a rebase's list is a command to run.
fn is_command(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    matches!(word, b"exec" | b"x")
}
