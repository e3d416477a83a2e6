//! Attempts on the kernel's surface: system calls that are refused whatever their arguments, namespaces,
//! mounts, keys, foreign ABIs.

use std::io;

use serde_json::{Value, json};

use crate::answer::{Attempt, c_string, check, number};
use crate::files::{done, open};
use crate::process::{child, file};

/// Calls that the filter refuses before it looks at arguments; they are made with arguments that no kernel
/// takes.
#[rustfmt::skip]
const CALLS: &[(&str, libc::c_long)] = &[
    ("io_uring_setup", libc::SYS_io_uring_setup), ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register), ("clone3", libc::SYS_clone3),
    ("openat2", libc::SYS_openat2), ("setns", libc::SYS_setns), ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2), ("pivot_root", libc::SYS_pivot_root), ("chroot", libc::SYS_chroot),
    ("open_tree", libc::SYS_open_tree), ("move_mount", libc::SYS_move_mount),
    ("mount_setattr", libc::SYS_mount_setattr), ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig), ("fsmount", libc::SYS_fsmount), ("fspick", libc::SYS_fspick),
    ("open_by_handle_at", libc::SYS_open_by_handle_at), ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module), ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load), ("kexec_file_load", libc::SYS_kexec_file_load),
    ("reboot", libc::SYS_reboot), ("bpf", libc::SYS_bpf), ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd), ("keyctl", libc::SYS_keyctl), ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key), ("memfd_secret", libc::SYS_memfd_secret),
    ("fanotify_init", libc::SYS_fanotify_init), ("swapon", libc::SYS_swapon), ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl), ("sethostname", libc::SYS_sethostname),
    ("settimeofday", libc::SYS_settimeofday), ("clock_settime", libc::SYS_clock_settime),
    ("adjtimex", libc::SYS_adjtimex), ("syslog", libc::SYS_syslog), ("move_pages", libc::SYS_move_pages),
    ("process_vm_writev", libc::SYS_process_vm_writev), ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("ptrace", libc::SYS_ptrace), ("kcmp", libc::SYS_kcmp),
    #[cfg(target_arch = "x86_64")] ("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")] ("modify_ldt", libc::SYS_modify_ldt),
    #[cfg(target_arch = "x86_64")] ("uselib", libc::SYS_uselib),
];

const KINDS: &[(&str, u64)] = &[
    ("mount", libc::CLONE_NEWNS as u64),
    ("cgroup", libc::CLONE_NEWCGROUP as u64),
    ("uts", libc::CLONE_NEWUTS as u64),
    ("ipc", libc::CLONE_NEWIPC as u64),
    ("user", libc::CLONE_NEWUSER as u64),
    ("pid", libc::CLONE_NEWPID as u64),
    ("net", libc::CLONE_NEWNET as u64),
    ("time", 0x80),
    // The files of a process are no namespace: unsharing them stays possible.
    ("files", libc::CLONE_FILES as u64),
];

/// Bits above the 32 that the kernel reads of an argument.
const IGNORED: u64 = 0xdead_beef_0000_0000;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("call", |words| {
        let known = CALLS.iter().find(|(name, _)| *name == words[0]);
        let (_, number) = known.ok_or_else(|| io::Error::from_raw_os_error(libc::EDOM))?;
        // SAFETY: nonsense for every argument; what the kernel were to take of it, it refuses.
        check(unsafe { libc::syscall(*number, -1i64, -1i64, -1i64, -1i64, -1i64, -1i64) }).map(Value::from)
    }),
    ("unshare", |words| {
        let flags = kind(words[0])?;
        // SAFETY: takes no pointers.
        child(|| check(unsafe { libc::syscall(libc::SYS_unshare, flags) })).map(Value::from)
    }),
    ("clone", |words| {
        let flags = kind(words[0])? | libc::SIGCHLD as u64 | IGNORED;
        clone(|| {
            // SAFETY: without CLONE_VM and without a stack it is a fork.
            unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) }
        })
    }),
    ("clone3", |words| {
        let flags = kind(words[0])?;
        // `struct clone_args`: flags first, the exit signal fifth (clone(2)).
        let arguments = [flags, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
        clone(|| {
            // SAFETY: the arguments outlive the call; without CLONE_VM it is a fork.
            unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) }
        })
    }),
    ("setns", |words| {
        let namespace = file(open(&format!("/proc/{}/ns/{}", words[0], words[1]), libc::O_RDONLY)?);
        use std::os::fd::AsRawFd;
        // SAFETY: takes no pointers.
        child(|| check(unsafe { libc::setns(namespace.as_raw_fd(), 0) })).map(Value::from)
    }),
    ("thread", |_| {
        std::thread::spawn(|| ()).join().map(|()| json!(true)).map_err(|_| io::Error::other("thread"))
    }),
    ("fork", |_| child(|| Ok(0)).map(Value::from)),
    ("mount-tmpfs", |words| {
        // SAFETY: all strings end with zeros.
        done(unsafe {
            libc::mount(c"none".as_ptr(), c_string(words[0]).as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null())
        })
    }),
    ("mount-cgroup", |words| {
        // SAFETY: as above.
        done(unsafe {
            libc::mount(
                c"none".as_ptr(),
                c_string(words[0]).as_ptr(),
                c"cgroup2".as_ptr(),
                0,
                std::ptr::null(),
            )
        })
    }),
    ("remount-writable", |words| {
        let flags = libc::MS_REMOUNT | libc::MS_BIND;
        let nothing = std::ptr::null();
        // SAFETY: as above.
        done(unsafe { libc::mount(nothing, c_string(words[0]).as_ptr(), nothing, flags, nothing.cast()) })
    }),
    ("unmount", |words| {
        // SAFETY: as above.
        done(unsafe { libc::umount2(c_string(words[0]).as_ptr(), libc::MNT_DETACH) })
    }),
    // A new user namespace first, for the capabilities that it gives; then what they are wanted for.
    ("mount-in-own-namespace", |words| {
        child(|| {
            own_namespaces()?;
            let target = c_string(words[0]);
            // SAFETY: as above.
            check(unsafe {
                libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null())
            })
        })
        .map(Value::from)
    }),
    ("unmount-in-own-namespace", |words| {
        child(|| {
            own_namespaces()?;
            // SAFETY: as above.
            check(unsafe { libc::umount2(c_string(words[0]).as_ptr(), libc::MNT_DETACH) })
        })
        .map(Value::from)
    }),
    ("remount-in-own-namespace", |words| {
        child(|| {
            own_namespaces()?;
            let (nothing, flags) = (std::ptr::null(), libc::MS_REMOUNT | libc::MS_BIND);
            // SAFETY: as above.
            check(unsafe {
                libc::mount(nothing, c_string(words[0]).as_ptr(), nothing, flags, nothing.cast())
            })
        })
        .map(Value::from)
    }),
    ("fsopen", |words| {
        // SAFETY: as above.
        check(unsafe { libc::syscall(libc::SYS_fsopen, c_string(words[0]).as_ptr(), 0) }).map(Value::from)
    }),
    ("clone-tree", |words| {
        let path = c_string(words[0]);
        // SAFETY: as above.
        check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), 1) })
            .map(Value::from)
    }),
    ("key-ring", |_| {
        let join = 1; // KEYCTL_JOIN_SESSION_KEYRING
        // SAFETY: no name means an anonymous ring.
        check(unsafe { libc::syscall(libc::SYS_keyctl, join, 0) }).map(Value::from)
    }),
    ("key", |_| {
        let ring = -2i64; // KEY_SPEC_PROCESS_KEYRING
        // SAFETY: both strings end with zeros; the payload is one byte long.
        check(unsafe {
            libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"pinfold".as_ptr(), c"x".as_ptr(), 1, ring)
        })
        .map(Value::from)
    }),
    ("io-uring", |_| {
        let mut parameters = [0u8; 120];
        // SAFETY: the parameters are as large as `struct io_uring_params`.
        check(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) }).map(Value::from)
    }),
    ("secret-memory", |_| {
        // SAFETY: takes no pointers.
        check(unsafe { libc::syscall(libc::SYS_memfd_secret, 0) }).map(Value::from)
    }),
    ("fault-handler", |_| {
        let user_mode_only = 1;
        // SAFETY: takes no pointers.
        check(unsafe { libc::syscall(libc::SYS_userfaultfd, user_mode_only) }).map(Value::from)
    }),
    ("personality", |words| {
        // SAFETY: takes no pointers.
        check(unsafe { libc::personality(number(words[0])? as libc::c_ulong) }).map(Value::from)
    }),
    ("rewrite-self", |_| {
        // SAFETY: PR_SET_MM_START_CODE with an address that the kernel refuses.
        done(unsafe { libc::prctl(libc::PR_SET_MM, 1, 0, 0, 0) })
    }),
    // The kernel is asked for the process's number in the manner of 32-bit programs.
    #[cfg(target_arch = "x86_64")]
    ("int-80", |_| {
        let number: i32;
        // SAFETY: getpid (20 in that ABI) reads and writes no memory; the kernel keeps all other registers.
        unsafe { std::arch::asm!("int 0x80", inlateout("eax") 20 => number, options(nostack)) };
        if number < 0 { Err(io::Error::from_raw_os_error(-number)) } else { Ok(number.into()) }
    }),
    #[cfg(target_arch = "x86_64")]
    ("x32", |_| {
        // SAFETY: getpid takes no arguments; the bit marks the x32 ABI.
        check(unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) }).map(Value::from)
    }),
    ("unknown-call", |words| {
        // SAFETY: a number that no kernel has, or one newer than the filter: refused either way.
        check(unsafe { libc::syscall(number(words[0])?, 0, 0, 0, 0, 0, 0) }).map(Value::from)
    }),
];

fn own_namespaces() -> io::Result<i64> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })
}

fn kind(name: &str) -> io::Result<u64> {
    let known = KINDS.iter().find(|(known, _)| *known == name);
    known.map(|(_, flag)| *flag).ok_or_else(|| io::Error::from_raw_os_error(libc::EDOM))
}

/// Makes a child by `call`; it leaves at once.
fn clone(call: impl FnOnce() -> i64) -> io::Result<Value> {
    match check(call())? {
        // SAFETY: the child of a fork leaves at once.
        0 => unsafe { libc::_exit(0) },
        made => crate::process::wait(made as i32).map(|_| json!(true)),
    }
}
