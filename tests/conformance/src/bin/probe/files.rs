//! Attempts on files: every way to read, change, replace and make one.

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;

use serde_json::{Value, json};

use crate::answer::{Attempt, c_string, check, exit_error};
use crate::process::file;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("read", |words| text(&file(open(words[0], libc::O_RDONLY)?))),
    ("read-path", |words| text(&file(reopen(words[0], libc::O_RDONLY)?))),
    ("read-at", |words| {
        let directory = file(open(words[0], libc::O_RDONLY | libc::O_DIRECTORY)?);
        text(&file(open_at(&directory, &c_string(words[1]), libc::O_RDONLY)?))
    }),
    ("read-mapped", |words| mapped(&file(open(words[0], libc::O_RDONLY)?))),
    ("list", |words| {
        let names = std::fs::read_dir(words[0])?.flatten();
        Ok(names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>().into())
    }),
    ("stat", |words| {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::symlink_metadata(words[0])?;
        Ok(json!({ "mode": found.mode(), "size": found.size(), "uid": found.uid() }))
    }),
    ("write", |words| put(words[1], open(words[0], libc::O_WRONLY | libc::O_TRUNC)?)),
    ("append", |words| put(words[1], open(words[0], libc::O_WRONLY | libc::O_APPEND)?)),
    ("write-path", |words| put(words[1], reopen(words[0], libc::O_WRONLY)?)),
    ("open-write", |words| {
        open(words[0], libc::O_WRONLY).map(|opened| drop(file(opened))).map(|()| json!(true))
    }),
    ("create", |words| put(words[1], open(words[0], libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL)?)),
    ("create-or-write", |words| {
        put(words[1], open(words[0], libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)?)
    }),
    ("truncate", |words| {
        // SAFETY: the path ends with a zero.
        done(unsafe { libc::truncate(c_string(words[0]).as_ptr(), 0) })
    }),
    ("unlink", |words| {
        // SAFETY: as above.
        done(unsafe { libc::unlink(c_string(words[0]).as_ptr()) })
    }),
    ("rmdir", |words| {
        // SAFETY: as above.
        done(unsafe { libc::rmdir(c_string(words[0]).as_ptr()) })
    }),
    ("mkdir", |words| {
        // SAFETY: as above.
        done(unsafe { libc::mkdir(c_string(words[0]).as_ptr(), 0o755) })
    }),
    ("rename", |words| renameat2(words[0], words[1], 0)),
    ("exchange", |words| renameat2(words[0], words[1], libc::RENAME_EXCHANGE)),
    // A file of the sandbox's own is put in the place of another, in one step.
    ("replace", |words| {
        let own = format!("{}.new", words[1]);
        std::fs::write(&own, words[2])?;
        renameat2(&own, words[0], 0)
    }),
    ("link", |words| {
        // SAFETY: as above.
        done(unsafe { libc::link(c_string(words[0]).as_ptr(), c_string(words[1]).as_ptr()) })
    }),
    ("link-path", |words| {
        let from = file(open(words[0], libc::O_PATH)?);
        link_descriptor(&from, words[1])
    }),
    ("symlink", |words| {
        // SAFETY: as above.
        done(unsafe { libc::symlink(c_string(words[0]).as_ptr(), c_string(words[1]).as_ptr()) })
    }),
    // A file without a name, which is then given one: no name is ever opened for writing.
    ("tmpfile-link", |words| {
        let made = file(open(words[0], libc::O_TMPFILE | libc::O_WRONLY)?);
        (&made).write_all(words[2].as_bytes())?;
        link_descriptor(&made, words[1])
    }),
    ("set-times", |words| {
        // SAFETY: the path ends with a zero; no times means now.
        done(unsafe { libc::utimensat(libc::AT_FDCWD, c_string(words[0]).as_ptr(), std::ptr::null(), 0) })
    }),
    ("set-attribute", |words| {
        let (path, value) = (c_string(words[0]), b"x");
        // SAFETY: both strings end with a zero, the value is one byte long.
        done(unsafe { libc::setxattr(path.as_ptr(), c"user.pinfold".as_ptr(), value.as_ptr().cast(), 1, 0) })
    }),
    // FS_IOC_GETFLAGS and FS_IOC_SETFLAGS with what was there: an ioctl that changes a file
    // (ioctl_iflags(2)).
    ("set-flags", |words| {
        let opened = file(open(words[0], libc::O_RDONLY)?);
        let mut flags: libc::c_long = 0;
        // SAFETY: `flags` is as large as the kernel writes, and outlives both calls.
        unsafe {
            check(libc::ioctl(opened.as_raw_fd(), libc::FS_IOC_GETFLAGS as _, &raw mut flags))?;
            done(libc::ioctl(opened.as_raw_fd(), libc::FS_IOC_SETFLAGS as _, &raw const flags))
        }
    }),
    ("by-handle", by_handle),
    ("run", |words| {
        let output = Command::new(words[0]).args(&words[1..]).output()?;
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned().into()),
            Some(code) => Err(exit_error(code)),
            None => Err(exit_error(255)),
        }
    }),
];

/// A call that gives nothing but success.
pub(crate) fn done(returned: i32) -> io::Result<Value> {
    check(returned).map(|_| json!(true))
}

pub(crate) fn open(path: &str, flags: i32) -> io::Result<i64> {
    // SAFETY: the path ends with a zero.
    check(unsafe { libc::open(c_string(path).as_ptr(), flags | libc::O_CLOEXEC, 0o644) })
}

fn open_at(directory: &std::fs::File, name: &CStr, flags: i32) -> io::Result<i64> {
    // SAFETY: the name ends with a zero.
    check(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC) })
}

/// Opens the object at `path` without rights, and then again through its descriptor.
fn reopen(path: &str, flags: i32) -> io::Result<i64> {
    let object = file(open(path, libc::O_PATH)?);
    open(&format!("/proc/self/fd/{}", object.as_raw_fd()), flags)
}

fn text(mut from: &std::fs::File) -> io::Result<Value> {
    let mut bytes = vec![0; 4096];
    let count = from.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned().into())
}

fn put(text: &str, opened: i64) -> io::Result<Value> {
    file(opened).write_all(text.as_bytes()).map(|()| json!(true))
}

fn mapped(from: &std::fs::File) -> io::Result<Value> {
    let length = from.metadata()?.len() as usize;
    // SAFETY: a private mapping of a file, at an address that the kernel chooses.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length.max(1),
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            from.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is this long, and nobody shortens the file meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) };
    Ok(String::from_utf8_lossy(bytes).into_owned().into())
}

fn renameat2(from: &str, to: &str, flags: u32) -> io::Result<Value> {
    let (from, to) = (c_string(from), c_string(to));
    // SAFETY: both paths end with zeros.
    let renamed = unsafe {
        libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags)
    };
    check(renamed).map(|_| json!(true))
}

/// Gives an open file a name, by way of /proc: the form that needs no capability (open(2), `O_TMPFILE`).
fn link_descriptor(from: &std::fs::File, to: &str) -> io::Result<Value> {
    let from = c_string(&format!("/proc/self/fd/{}", from.as_raw_fd()));
    let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both paths end with zeros.
    done(unsafe { libc::linkat(here, from.as_ptr(), here, c_string(to).as_ptr(), follow) })
}

/// Opens a file by its handle, which leads past every directory (CVE-2014-9357, "shocker").
fn by_handle(words: &[&str]) -> io::Result<Value> {
    const MOST: usize = 128;
    let mut handle = [0u32; 2 + MOST / 4];
    handle[0] = MOST as u32;
    let mut mount = 0;
    let path = c_string(words[0]);
    // SAFETY: the handle has room for as many bytes as its head says; all pointers outlive the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0,
        )
    })?;
    let directory = file(open(words[1], libc::O_RDONLY | libc::O_DIRECTORY)?);
    // SAFETY: the handle is the one that the kernel has just written.
    let opened = check(unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, directory.as_raw_fd(), handle.as_ptr(), libc::O_RDONLY)
    })?;
    text(&file(opened))
}
