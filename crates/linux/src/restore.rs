//! A cover that a rename on the host took away: while everything inside stands still, it is put back, and whoever got
//! hold of the file meanwhile is found.
//!
//! The guest cannot do this: it has given up what it takes. A copy of the supervisor enters the sandbox's mounts for it,
//! with the sandbox's ids, and is gone again before anything inside moves.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, statat};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::guest::reasons;
use crate::ids::Ids;
use crate::mounts;
use crate::survey::With;
use crate::sys;
use crate::sys::clone::Forked;

/// How often a cover is tried to be put back: a few milliseconds' worth.
const TRIES: usize = 1000;

/// A file, by what no rename changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct File {
    device: u64,
    inode: u64,
}

/// Puts covers back in the mount namespace `namespace`; or tells why that failed or came too late. Nothing may run
/// inside, and this process must be single-threaded.
pub(crate) fn put_back<'a>(
    namespace: &OwnedFd,
    ids: &Ids,
    covers: impl Iterator<Item = &'a (PathBuf, With)>,
) -> Result<(), String> {
    let (answer, speaker) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(words)?;
    match sys::clone::clone_into(0, None).map_err(words)? {
        Forked::Child => {
            let done = enter(namespace, ids).and_then(|()| cover_all(covers));
            let said = done.map_or_else(|why| why, |()| "done".to_owned());
            // An answer that is not heard counts as a failure.
            let written = rustix::io::write(&speaker, said.as_bytes());
            sys::clone::exit_now(i32::from(written.is_err()))
        }
        Forked::Parent(child) => {
            drop(speaker);
            let mut said = String::new();
            let read = fs::File::from(answer).read_to_string(&mut said).map_err(words);
            sys::wait::reap(child.pid).map_err(words)?;
            read?;
            match said.as_str() {
                "done" => Ok(()),
                "" => Err("what was to cover it was ended".to_owned()),
                why => Err(why.to_owned()),
            }
        }
    }
}

fn words(error: impl Into<std::io::Error>) -> String {
    reasons(&error.into())
}

/// Goes in, as who the commands are, and closed to them.
fn enter(namespace: &OwnedFd, ids: &Ids) -> Result<(), String> {
    let user = sys::ids::user_namespace_of(namespace).map_err(words)?;
    move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).map_err(words)?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount)).map_err(words)?;
    ids.take_on().map_err(|error| reasons(&error))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(words)
}

fn cover_all<'a>(covers: impl Iterator<Item = &'a (PathBuf, With)>) -> Result<(), String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(c"/", flags, Mode::empty()).map_err(words)?;
    for (at, with) in covers {
        if let Some(holder) = cover(&root, at, *with)?.and_then(holder) {
            return Err(holder);
        }
    }
    Ok(())
}

/// Covers the path again, and tells which file lay bare; or why it could not be covered.
fn cover(root: &OwnedFd, at: &Path, with: With) -> Result<Option<File>, String> {
    let mut why = String::new();
    // Looked up below the root, where a path from the root leads out (RESOLVE_BENEATH in openat2(2)).
    let at = at.strip_prefix("/").unwrap_or(at);
    // A rename takes the mount away first and then the name, so for a moment what is found cannot be mounted on.
    for _ in 0..TRIES {
        let bare = statat(root, at, AtFlags::SYMLINK_NOFOLLOW).ok();
        match mounts::cover(root, at, with) {
            Ok(()) => return Ok(bare.map(|found| File { device: found.st_dev, inode: found.st_ino })),
            Err(error) => why = reasons(&error),
        }
        rustix::thread::sched_yield();
    }
    Err(why)
}

/// Who inside can still write to `file`, in words: through an open descriptor, or through memory.
fn holder(file: File) -> Option<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = numbers.filter(|pid| *pid != 1).find(|pid| holds(*pid, file))?;
    Some(format!("process {pid} inside got hold of the file before it was covered again"))
}

/// Whether a process, which is stopped, has `file` open for writing or mapped to be written.
fn holds(pid: u32, file: File) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().any(|entry| {
        let same = fs::metadata(entry.path()).is_ok_and(|found| {
            use std::os::unix::fs::MetadataExt;
            found.dev() == file.device && found.ino() == file.inode
        });
        same && !is_read_only(pid, &entry.file_name().to_string_lossy())
    });
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let inode = file.inode.to_string();
    let mapped = maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        let shared = fields.nth(1).is_some_and(|mode| mode.contains('w') && mode.ends_with('s'));
        shared && fields.nth(2) == Some(inode.as_str())
    });
    open || mapped
}

/// Whether a descriptor only reads, by its flags in octal (proc_pid_fdinfo(5)). What cannot be told counts as writing.
fn is_read_only(pid: u32, number: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDONLY)
}
