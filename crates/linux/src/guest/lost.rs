//! A cover that a rename on the host took away: everything inside stops, the cover is put back, and whoever got hold of
//! the file meanwhile is found. The guest alone can do this: it keeps its capabilities.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, statat};

use super::{Channel, GuestError, Report, reasons};
use crate::mounts;
use crate::survey::With;
use crate::sys;

/// How often a cover is tried to be put back: a few milliseconds' worth.
const TRIES: usize = 1000;

/// A file, by what no rename changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct File {
    device: u64,
    inode: u64,
}

/// Puts cover `number` back, and says so if that fails or came too late.
pub(super) fn restore(channel: &Channel, covers: &[(PathBuf, With)], number: u32) -> Result<(), GuestError> {
    let Some((at, with)) = covers.get(number as usize) else { return Ok(()) };
    sys::signal::send_to_all(libc::SIGSTOP).map_err(GuestError::Signals)?;
    let answer = match put_back(at, *with)? {
        Ok(uncovered) => uncovered.and_then(holder),
        Err(why) => Some(why),
    };
    match answer {
        None => sys::signal::send_to_all(libc::SIGCONT).map_err(GuestError::Signals),
        // Nothing inside goes on: the supervisor ends it.
        Some(message) => {
            channel.report(Report::NotRestored { cover: number, message }).map_err(GuestError::Channel)
        }
    }
}

/// Covers the path again, and tells which file lay bare; or why it could not be covered.
fn put_back(at: &Path, with: With) -> Result<Result<Option<File>, String>, GuestError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root =
        rustix::fs::open(c"/", flags, Mode::empty()).map_err(|error| GuestError::Mounts(error.into()))?;
    let mut why = String::new();
    // A rename takes the mount away first and then the name, so for a moment what is found cannot be mounted on.
    for _ in 0..TRIES {
        let bare = statat(&root, at, AtFlags::SYMLINK_NOFOLLOW).ok();
        match mounts::cover(&root, at, with) {
            Ok(()) => return Ok(Ok(bare.map(|found| File { device: found.st_dev, inode: found.st_ino }))),
            Err(error) => why = reasons(&error),
        }
        rustix::thread::sched_yield();
    }
    Ok(Err(why))
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
