//! Attempts on other processes: seeing, signalling, tracing and reading them; and on making too many.

use std::fs;
use std::io::{self, Read};

use serde_json::{Value, json};

use crate::answer::{Attempt, check, number};
use crate::files::{done, open};
use crate::process::{daemon, file, wait};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("pids", |_| Ok(pids()?.into())),
    ("kill", |words| {
        // SAFETY: takes no pointers; so below.
        done(unsafe { libc::kill(number(words[0])? as i32, number(words[1])? as i32) })
    }),
    ("queue-signal", |words| {
        let nothing = libc::sigval { sival_ptr: std::ptr::null_mut() };
        // SAFETY: the value is passed on, never followed.
        done(unsafe { libc::sigqueue(number(words[0])? as i32, number(words[1])? as i32, nothing) })
    }),
    ("pidfd-open", |words| {
        // SAFETY: as above.
        check(unsafe { libc::syscall(libc::SYS_pidfd_open, number(words[0])?, 0) }).map(Value::from)
    }),
    ("trace", |words| trace(words[0], libc::PTRACE_ATTACH)),
    ("seize", |words| trace(words[0], libc::PTRACE_SEIZE)),
    ("memory", |words| {
        open(&format!("/proc/{}/mem", words[0]), libc::O_RDWR)
            .map(|opened| drop(file(opened)))
            .map(|()| json!(true))
    }),
    ("proc", |words| {
        let mut bytes = Vec::new();
        let path = format!("/proc/{}/{}", words[0], words[1]);
        file(open(&path, libc::O_RDONLY)?).take(65536).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned().into())
    }),
    ("proc-link", |words| {
        let target = fs::read_link(format!("/proc/{}/{}", words[0], words[1]))?;
        Ok(target.to_string_lossy().into_owned().into())
    }),
    ("proc-list", |words| {
        let names = fs::read_dir(format!("/proc/{}/{}", words[0], words[1]))?.flatten();
        Ok(names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>().into())
    }),
    ("vm-read", |words| vm(libc::SYS_process_vm_readv, words[0])),
    ("vm-write", |words| vm(libc::SYS_process_vm_writev, words[0])),
    ("steal-descriptor", |words| {
        // SAFETY: as above.
        unsafe {
            let process = check(libc::syscall(libc::SYS_pidfd_open, number(words[0])?, 0))?;
            check(libc::syscall(libc::SYS_pidfd_getfd, process, number(words[1])?, 0)).map(Value::from)
        }
    }),
    ("set-limits", |words| {
        let limit = libc::rlimit { rlim_cur: 10, rlim_max: 10 };
        let process = number(words[0])? as i32;
        // SAFETY: `limit` outlives the call, and the old one is not asked for.
        done(unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) })
    }),
    // The probe's own child: what is refused of others must be refused even here, or work in the debug
    // profile.
    ("trace-child", |_| trace_child()),
    ("fork-until-refused", |_| Ok(fork_until_refused()?.into())),
    ("daemon", |words| daemon(words[0], &words[1..]).map(|()| json!(true))),
    ("orphans", |words| {
        for _ in 0..number(words[0])? {
            orphan()?;
        }
        Ok(true.into())
    }),
    // Waits until no process is a zombie but gives up when one stays: its reaper does not reap.
    ("zombies", |_| zombies()),
    ("dump-core", |_| {
        // SAFETY: ends this process, by the signal whose default is a core dump.
        unsafe { libc::abort() }
    }),
];

fn pids() -> io::Result<Vec<i64>> {
    let names = fs::read_dir("/proc")?.flatten();
    Ok(names.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok())).collect())
}

fn trace(pid: &str, request: libc::c_uint) -> io::Result<Value> {
    let pid = number(pid)?;
    // SAFETY: both requests take numbers alone.
    check(unsafe { libc::syscall(libc::SYS_ptrace, request, pid, 0, 0) }).map(|_| json!(true))
}

/// Reads from, or writes to, one byte of another process at an address that it surely has: the vector is what
/// counts.
fn vm(call: libc::c_long, pid: &str) -> io::Result<Value> {
    let mut byte = [0u8; 1];
    let local = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // An address of this very program: a fork of it has the same.
    let remote = libc::iovec { iov_base: (trace as *const ()).cast_mut().cast(), iov_len: 1 };
    // SAFETY: both vectors outlive the call; the remote address is only given to the kernel.
    check(unsafe { libc::syscall(call, number(pid)?, &raw const local, 1, &raw const remote, 1, 0) })
        .map(Value::from)
}

fn trace_child() -> io::Result<Value> {
    // SAFETY: this process has one thread.
    let child = check(unsafe { libc::fork() })? as i32;
    if child == 0 {
        loop {
            // SAFETY: takes no arguments.
            unsafe { libc::pause() };
        }
    }
    let traced = trace(&child.to_string(), libc::PTRACE_SEIZE);
    // SAFETY: takes no pointers; the child is this process's own.
    unsafe { libc::kill(child, libc::SIGKILL) };
    wait(child)?;
    traced
}

/// Forks until the kernel refuses, or far too often; then ends all of them. Gives how many there were.
fn fork_until_refused() -> io::Result<i64> {
    const FAR_TOO_MANY: usize = 2_000;
    let mut children = Vec::new();
    while children.len() < FAR_TOO_MANY {
        // SAFETY: this process has one thread; the child waits to be killed.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: takes no arguments.
                unsafe { libc::pause() };
            },
            child if child > 0 => children.push(child),
            _ => break,
        }
    }
    for child in &children {
        // SAFETY: takes no pointers; the child is this process's own.
        unsafe { libc::kill(*child, libc::SIGKILL) };
        wait(*child)?;
    }
    Ok(children.len() as i64)
}

/// Leaves a process behind whose parent is gone, and that ends at once: whoever inherits it must reap it.
fn orphan() -> io::Result<()> {
    // SAFETY: this process has one thread; both children leave at once.
    unsafe {
        let child = check(libc::fork())? as i32;
        if child == 0 {
            libc::fork();
            libc::_exit(0);
        }
        wait(child).map(drop)
    }
}

fn zombies() -> io::Result<Value> {
    let mut left = Vec::new();
    for _ in 0..2_000 {
        left.clear();
        for pid in pids()? {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')) {
                left.push(pid);
            }
        }
        if left.is_empty() {
            break;
        }
        std::thread::yield_now();
    }
    Ok(left.into())
}
