//! Attempts on shared memory and message queues of System V and POSIX, whose names are the host's unless kept
//! apart.

use std::io;

use serde_json::{Value, json};

use crate::answer::{Attempt, c_string, check, number};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("shared-memory-make", |words| {
        let id = segment(words[0], libc::IPC_CREAT | libc::IPC_EXCL | 0o666)?;
        let at = attach(id)?;
        // SAFETY: the segment is 4096 bytes long, and the text is cut to fewer; what is not written is zero.
        unsafe { std::ptr::copy_nonoverlapping(words[1].as_ptr(), at.cast(), words[1].len().min(4095)) };
        Ok(id.into())
    }),
    ("shared-memory", |words| {
        let at = attach(segment(words[0], 0)?)?;
        // SAFETY: the segment is 4096 bytes long and its maker left zeros at the end.
        let text = unsafe { std::ffi::CStr::from_ptr(at.cast()) };
        Ok(text.to_string_lossy().into_owned().into())
    }),
    ("shared-memory-remove", |words| {
        let id = segment(words[0], 0)?;
        // SAFETY: removal reads no memory.
        check(unsafe { libc::shmctl(id as i32, libc::IPC_RMID, std::ptr::null_mut()) }).map(Value::from)
    }),
    ("message-queue-make", |words| {
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o666;
        // SAFETY: takes no pointers.
        check(unsafe { libc::msgget(number(words[0])? as i32, flags) }).map(Value::from)
    }),
    ("message-queue", |words| {
        // SAFETY: takes no pointers.
        check(unsafe { libc::msgget(number(words[0])? as i32, 0) }).map(Value::from)
    }),
    ("message-queue-remove", |words| {
        // SAFETY: takes no pointers but one that may be none.
        unsafe {
            let id = check(libc::msgget(number(words[0])? as i32, 0))?;
            check(libc::msgctl(id as i32, libc::IPC_RMID, std::ptr::null_mut())).map(Value::from)
        }
    }),
    ("posix-queue-make", |words| {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
        queue(words[0], flags)
    }),
    ("posix-queue", |words| queue(words[0], libc::O_RDWR)),
    ("posix-queue-remove", |words| {
        // SAFETY: the name ends with a zero. The kernel's names have no slash before them (mq_open(3)).
        check(unsafe { libc::syscall(libc::SYS_mq_unlink, c_string(words[0]).as_ptr()) }).map(Value::from)
    }),
];

fn segment(key: &str, flags: i32) -> io::Result<i64> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::shmget(number(key)? as i32, 4096, flags) })
}

fn attach(id: i64) -> io::Result<*mut libc::c_void> {
    // SAFETY: the kernel chooses the address.
    let at = unsafe { libc::shmat(id as i32, std::ptr::null(), 0) };
    if at as isize == -1 { Err(io::Error::last_os_error()) } else { Ok(at) }
}

fn queue(name: &str, flags: i32) -> io::Result<Value> {
    let (name, nothing) = (c_string(name), std::ptr::null::<u8>());
    // SAFETY: the name ends with a zero; no attributes means the usual ones.
    check(unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o666, nothing) })
        .map(|_| json!(true))
}
