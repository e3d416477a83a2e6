//! The attempts, made by raw system calls: no library stands between them and the kernel, or tidies their
//! arguments.

use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::modes::c_string;
use super::runner::answer;

/// Bits above the 32 that the kernel reads of a mode, a request or a family.
pub(crate) const IGNORED: u64 = 0xdead_beef_0000_0000;

pub(crate) fn call(number: i64, arguments: [u64; 6]) -> String {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: every caller passes either nonsense that the kernel refuses, or pointers to memory that
    // outlives the call and that the call in question only reads or fills within its bounds.
    let returned = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if returned >= 0 { "ok".to_owned() } else { last_error() }
}

pub(crate) fn last_error() -> String {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
    let names = [
        (libc::EPERM, "EPERM"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EACCES, "EACCES"),
        (libc::EINVAL, "EINVAL"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
        (libc::EMFILE, "EMFILE"),
        (libc::EFBIG, "EFBIG"),
    ];
    names
        .iter()
        .find(|(known, _)| *known == code)
        .map_or(format!("error {code}"), |(_, name)| (*name).to_owned())
}

/// Runs `attempt` in a child, for what would change this process; the answer comes back as the exit status.
fn in_child(attempt: impl FnOnce() -> bool) -> String {
    // SAFETY: the child makes system calls and exits at once, without running anything that was interrupted.
    match unsafe { libc::fork() } {
        0 => {
            let code =
                if attempt() { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap_or(255) };
            // SAFETY: leaves without any of the parent's clean-up.
            unsafe { libc::_exit(code) }
        }
        child if child > 0 => status_of(child),
        _ => last_error(),
    }
}

fn status_of(child: i32) -> String {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => "ok".to_owned(),
        libc::EPERM => "EPERM".to_owned(),
        other => format!("error {other}"),
    }
}

/// Refused whatever the arguments: name, number, answer.
#[rustfmt::skip]
pub(crate) const REFUSED: &[(&str, i64, &str)] = &[
    ("clone3", libc::SYS_clone3, "ENOSYS"), ("openat2", libc::SYS_openat2, "ENOSYS"),
    ("io_uring_setup", libc::SYS_io_uring_setup, "EPERM"),
    ("io_uring_enter", libc::SYS_io_uring_enter, "EPERM"),
    ("io_uring_register", libc::SYS_io_uring_register, "EPERM"), ("setns", libc::SYS_setns, "EPERM"),
    ("mount", libc::SYS_mount, "EPERM"), ("umount2", libc::SYS_umount2, "EPERM"),
    ("pivot_root", libc::SYS_pivot_root, "EPERM"), ("chroot", libc::SYS_chroot, "EPERM"),
    ("open_tree", libc::SYS_open_tree, "EPERM"), ("open_tree_attr", 467, "EPERM"),
    ("move_mount", libc::SYS_move_mount, "EPERM"), ("mount_setattr", libc::SYS_mount_setattr, "EPERM"),
    ("fsopen", libc::SYS_fsopen, "EPERM"), ("fsconfig", libc::SYS_fsconfig, "EPERM"),
    ("fsmount", libc::SYS_fsmount, "EPERM"), ("fspick", libc::SYS_fspick, "EPERM"),
    ("statmount", 457, "ENOSYS"), ("listmount", 458, "ENOSYS"), ("lsm_set_self_attr", 460, "ENOSYS"),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, "EPERM"),
    ("init_module", libc::SYS_init_module, "EPERM"), ("finit_module", libc::SYS_finit_module, "EPERM"),
    ("delete_module", libc::SYS_delete_module, "EPERM"), ("kexec_load", libc::SYS_kexec_load, "EPERM"),
    ("kexec_file_load", libc::SYS_kexec_file_load, "EPERM"), ("reboot", libc::SYS_reboot, "EPERM"),
    ("bpf", libc::SYS_bpf, "EPERM"), ("perf_event_open", libc::SYS_perf_event_open, "EPERM"),
    ("userfaultfd", libc::SYS_userfaultfd, "EPERM"), ("keyctl", libc::SYS_keyctl, "EPERM"),
    ("add_key", libc::SYS_add_key, "EPERM"), ("request_key", libc::SYS_request_key, "EPERM"),
    ("memfd_secret", libc::SYS_memfd_secret, "EPERM"), ("fanotify_init", libc::SYS_fanotify_init, "EPERM"),
    ("swapon", libc::SYS_swapon, "EPERM"), ("swapoff", libc::SYS_swapoff, "EPERM"),
    ("acct", libc::SYS_acct, "EPERM"), ("quotactl", libc::SYS_quotactl, "EPERM"),
    ("quotactl_fd", libc::SYS_quotactl_fd, "EPERM"), ("vhangup", libc::SYS_vhangup, "EPERM"),
    ("sethostname", libc::SYS_sethostname, "EPERM"), ("setdomainname", libc::SYS_setdomainname, "EPERM"),
    ("settimeofday", libc::SYS_settimeofday, "EPERM"), ("clock_settime", libc::SYS_clock_settime, "EPERM"),
    ("clock_adjtime", libc::SYS_clock_adjtime, "EPERM"), ("adjtimex", libc::SYS_adjtimex, "EPERM"),
    ("syslog", libc::SYS_syslog, "EPERM"), ("move_pages", libc::SYS_move_pages, "EPERM"),
    ("migrate_pages", libc::SYS_migrate_pages, "EPERM"), ("pidfd_getfd", libc::SYS_pidfd_getfd, "EPERM"),
    ("process_vm_writev", libc::SYS_process_vm_writev, "EPERM"),
    ("process_madvise", libc::SYS_process_madvise, "EPERM"),
    #[cfg(target_arch = "x86_64")] ("iopl", libc::SYS_iopl, "EPERM"),
    #[cfg(target_arch = "x86_64")] ("ioperm", libc::SYS_ioperm, "EPERM"),
    #[cfg(target_arch = "x86_64")] ("modify_ldt", libc::SYS_modify_ldt, "EPERM"),
];

pub(crate) fn refused() {
    let harmless_only = std::env::var("CONFINE_WALL").as_deref() == Ok("None");
    for (name, number, _) in REFUSED {
        // vhangup(2) has no arguments that would stop it.
        if !(harmless_only && *name == "vhangup") {
            answer(name, call(*number, [u64::MAX; 6]));
        }
    }
}

pub(crate) fn namespaces() {
    let kinds = [
        ("mount", libc::CLONE_NEWNS),
        ("cgroup", libc::CLONE_NEWCGROUP),
        ("uts", libc::CLONE_NEWUTS),
        ("ipc", libc::CLONE_NEWIPC),
        ("user", libc::CLONE_NEWUSER),
        ("pid", libc::CLONE_NEWPID),
        ("net", libc::CLONE_NEWNET),
    ];
    for (name, flag) in kinds {
        // SAFETY: without CLONE_VM and a stack this is a fork; the child leaves at once.
        let child = unsafe {
            libc::syscall(libc::SYS_clone, flag as u64 | libc::SIGCHLD as u64 | IGNORED, 0, 0, 0, 0)
        };
        answer(
            &format!("clone {name}"),
            match child {
                // SAFETY: as in `in_child`.
                0 => unsafe { libc::_exit(0) },
                child if child > 0 => status_of(child as i32),
                _ => last_error(),
            },
        );
        // SAFETY: takes no pointers.
        answer(&format!("unshare {name}"), in_child(|| unsafe { libc::unshare(flag) } == 0));
    }
    // SAFETY: takes no pointers.
    answer("unshare time", in_child(|| unsafe { libc::unshare(0x80) } == 0));
    // SAFETY: takes no pointers.
    answer("unshare files", in_child(|| unsafe { libc::unshare(libc::CLONE_FILES) } == 0));
    answer("fork", in_child(|| true));
    answer("thread", std::thread::spawn(|| "ok").join().unwrap());
}

/// Name, family, type, protocol, whether anyone has it without a filter, answer.
#[rustfmt::skip]
pub(crate) const BAD_SOCKETS: &[(&str, i32, i32, i32, bool, &str)] = &[
    ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0, false, "EAFNOSUPPORT"),
    ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0, false, "EAFNOSUPPORT"),
    ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0x300, false, "EAFNOSUPPORT"),
    ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1, false, "EAFNOSUPPORT"),
    ("key", libc::AF_KEY, libc::SOCK_RAW, 2, false, "EAFNOSUPPORT"),
    ("xdp", libc::AF_XDP, libc::SOCK_RAW, 0, false, "EAFNOSUPPORT"),
    ("uevents", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT, true, "EPROTONOSUPPORT"),
    ("netfilter", libc::AF_NETLINK, libc::SOCK_DGRAM, libc::NETLINK_NETFILTER, false, "EPROTONOSUPPORT"),
    ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP, false, "EPERM"),
    ("raw 6", libc::AF_INET6, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW, false, "EPERM"),
    ("old packet", libc::AF_INET, 10, 0x300, false, "EPERM"),
    ("sctp", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP, false, "EPROTONOSUPPORT"),
    ("udplite", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE, false, "EPROTONOSUPPORT"),
    ("ping", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP, false, "EPROTONOSUPPORT"),
];

#[rustfmt::skip]
pub(crate) const GOOD_SOCKETS: &[(&str, i32, i32, i32)] = &[
    ("unix stream", libc::AF_UNIX, libc::SOCK_STREAM, 0),
    ("unix packets", libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0),
    ("tcp", libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0),
    ("tcp by number", libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP),
    ("udp", libc::AF_INET6, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::IPPROTO_UDP),
    ("routes", libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE),
];

pub(crate) fn sockets() {
    let attempt = |name: &str, family: i32, kind: i32, protocol: i32| {
        let plain = [family as u64, kind as u64, protocol as u64, 0, 0, 0];
        let answers =
            [plain, plain.map(|argument| argument | IGNORED)].map(|list| call(libc::SYS_socket, list));
        assert_eq!(answers[0], answers[1], "{name}: bits that the kernel ignores made a difference");
        answer(name, &answers[0]);
    };
    for (name, family, kind, protocol, ..) in BAD_SOCKETS {
        attempt(name, *family, *kind, *protocol);
    }
    for (name, family, kind, protocol) in GOOD_SOCKETS {
        attempt(name, *family, *kind, *protocol);
    }
    let mut pair = [0_i32; 2];
    for (name, family) in [("pair inet", libc::AF_INET), ("pair unix", libc::AF_UNIX)] {
        let arguments = [family as u64, libc::SOCK_STREAM as u64, 0, &raw mut pair as u64, 0, 0];
        answer(name, call(libc::SYS_socketpair, arguments));
    }
}

pub(crate) fn terminal() {
    let ask = |request: u64| call(libc::SYS_ioctl, [u64::MAX, request, 0, 0, 0, 0]);
    answer("TIOCSTI", ask(libc::TIOCSTI));
    answer("TIOCSTI with high bits", ask(libc::TIOCSTI | IGNORED));
    answer("TIOCLINUX", ask(libc::TIOCLINUX));
    answer("TIOCSETD", ask(0x5423));

    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ptsname(&master, Vec::new()).unwrap();
    let slave = std::fs::File::options().read(true).write(true).open(slave.to_str().unwrap()).unwrap();
    let slave = std::os::fd::AsRawFd::as_raw_fd(&slave) as u64;
    for typed in [b'x', b'\n'] {
        call(libc::SYS_ioctl, [slave, libc::TIOCSTI | IGNORED, &raw const typed as u64, 0, 0, 0]);
    }
    let mut waiting = 0_i32;
    call(libc::SYS_ioctl, [slave, libc::FIONREAD, &raw mut waiting as u64, 0, 0, 0]);
    answer("typed", if waiting > 0 { "yes" } else { "no" });
    let mut size = [0_u16; 4];
    answer("TIOCGWINSZ", call(libc::SYS_ioctl, [slave, libc::TIOCGWINSZ, &raw mut size as u64, 0, 0, 0]));
}

/// getpid by the 32-bit gate, where it has number 20.
pub(crate) fn int80() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the gate saves every register but the result; number 20 takes no arguments and touches no
    // memory.
    unsafe {
        std::arch::asm!(
            "int 0x80", inout("eax") 20 => _, out("r8") _, out("r9") _, out("r10") _, out("r11") _
        );
    }
    answer("int80", "survived");
}

pub(crate) fn numbers() {
    for number in [0x4000_0000 + 39, 0x4000_0000 + 520, 470, 500, 1000, 0xffff_ffff, u32::MAX as i64 - 1] {
        answer(&format!("{number}"), call(number, [0; 6]));
    }
}

pub(crate) fn profiles() {
    // SAFETY: a request to be traced by the parent takes no memory.
    answer("ptrace", in_child(|| unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } == 0));
    let (from, mut to) = (7_u8, 0_u8);
    let local = libc::iovec { iov_base: (&raw mut to).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: (&raw const from).cast_mut().cast(), iov_len: 1 };
    let me = u64::from(std::process::id());
    let arguments = [me, &raw const local as u64, 1, &raw const remote as u64, 1, 0];
    answer("process_vm_readv", call(libc::SYS_process_vm_readv, arguments));
    let personality = |name: &str, value: u64| {
        // SAFETY: takes no pointers; the child is gone before it matters.
        answer(name, in_child(|| unsafe { libc::syscall(libc::SYS_personality, value | IGNORED) } >= 0));
    };
    personality("no randomisation", 0x0004_0000);
    personality("read implies exec", 0x0040_0000);
    personality("personality query", 0xffff_ffff);
    let allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut() };
    let filter = |flags: u64| {
        // SAFETY: the program outlives the call, which only reads it.
        in_child(|| unsafe { libc::syscall(libc::SYS_seccomp, 1_u64, flags, &raw const program) } >= 0)
    };
    answer("listener", filter(1 << 3 | IGNORED));
    answer("own filter", filter(0));
    answer("PR_SET_MM", call(libc::SYS_prctl, [libc::PR_SET_MM as u64 | IGNORED, 99, 0, 0, 0, 0]));
    answer(
        "PR_SET_NAME",
        call(libc::SYS_prctl, [libc::PR_SET_NAME as u64, c"probe".as_ptr() as u64, 0, 0, 0, 0]),
    );
    // SAFETY: makes and removes a segment of this process's own; no memory is passed.
    answer(
        "shmget",
        in_child(|| unsafe {
            let segment = libc::shmget(libc::IPC_PRIVATE, 4096, 0o600);
            segment >= 0 && libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()) == 0
        }),
    );
    let mut limit = [0_u64; 2];
    let mut read_limit =
        |process: u64| call(libc::SYS_prlimit64, [process, 7, 0, &raw mut limit as u64, 0, 0]);
    answer("own limit", read_limit(0));
    // SAFETY: the child only waits to be killed.
    let other = match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        },
        other => other,
    };
    answer("limit of another", read_limit(other as u64));
    // SAFETY: ends and reaps the child made above; nothing is written.
    unsafe {
        libc::kill(other, libc::SIGKILL);
        libc::waitpid(other, std::ptr::null_mut(), 0);
    }
}

/// A thread that exists before the wall does.
pub(crate) struct Early(Option<(mpsc::Sender<()>, JoinHandle<String>)>);

pub(crate) fn start_early(what: &str) -> Early {
    Early((what == "threads").then(|| {
        let (go, wait) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            wait.recv().unwrap();
            set_personality()
        });
        (go, thread)
    }))
}

fn set_personality() -> String {
    call(libc::SYS_personality, [0x0004_0000, 0, 0, 0, 0, 0])
}

pub(crate) fn threads(early: Early) {
    let (go, thread) = early.0.unwrap();
    go.send(()).unwrap();
    answer("started before", thread.join().unwrap());
    answer("started after", std::thread::spawn(set_personality).join().unwrap());
}

pub(crate) fn capabilities() {
    let sets = |prefix: &str, status: &str| {
        for (name, value) in status.lines().filter_map(|line| line.split_once(":\t")) {
            if name.starts_with("Cap") {
                answer(&format!("{prefix}{name}"), value);
            }
        }
    };
    sets("", &std::fs::read_to_string("/proc/thread-self/status").unwrap());
    let output = std::process::Command::new("/bin/cat").arg("/proc/self/status").output().unwrap();
    sets("after exec ", &String::from_utf8(output.stdout).unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = c_string(file.path());
    answer(
        "chown",
        call(libc::SYS_fchownat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, 12345, 12345, 0, 0]),
    );
}

pub(crate) fn limits() {
    let directory = tempfile::tempdir().unwrap();
    let opened: Vec<_> = (0..100).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
    let answered = if opened.len() == 100 { "ok".to_owned() } else { last_error() };
    let bounded = if opened.len() <= 20 { " after 20 or fewer" } else { "" };
    answer("descriptors", answered + if opened.len() == 100 { "" } else { bounded });
    drop(opened);
    // SAFETY: a signal that is ignored runs nothing.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let file = std::fs::File::create(directory.path().join("file")).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file) as u64;
    answer("file size", call(libc::SYS_ftruncate, [number, 8192, 0, 0, 0, 0]));
    let more = [1_u64 << 40; 2];
    answer(
        "raise",
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as u64, &raw const more as u64, 0, 0, 0]),
    );
    // The soft limit starts at 0 here, so the control raises it; behind limits that fails.
    let script = "ulimit -c unlimited 2>/dev/null; kill -SEGV $$";
    let status =
        std::process::Command::new("/bin/sh").args(["-c", script]).current_dir(directory.path()).status();
    status.unwrap();
    let left = std::fs::read_dir(directory.path()).unwrap().count() > 1;
    answer("core", if left { "left" } else { "none" });
}
