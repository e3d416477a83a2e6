//! Which system calls are refused, how and why: the whole policy of the filter, one topic after another.
//! Everything that has a name and no row is allowed; every number without a name is refused with ENOSYS.
//!
//! Rows are read from the top; the first that applies to a call and holds of its arguments decides. What only
//! privileged processes may do is listed too: an empty capability set already refuses it, and this is the
//! second lock.

use super::calls::call::*;
use super::rule::Applies::{Debug, ExceptDebug, SharingHost, Strict, StrictOffline};
use super::rule::Errno::{Eafnosupport, Enosys, Eprotonosupport};
use super::rule::Test::{Among, AnyBit, NotAmong};
use super::rule::{ALL_BITS, Row, refuse};

/// Every `CLONE_NEW*` that clone(2) takes; `CLONE_NEWTIME` lies in its exit-signal byte.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const CLONE_NEWTIME: u32 = 0x80;

const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// The flags with which open(2) makes a file. `O_TMPFILE` without the `O_DIRECTORY` that libc folds into it.
const CREATES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;
const DEVICES: &[u32] = &[libc::S_IFCHR, libc::S_IFBLK];

const UNIX: u32 = libc::AF_UNIX as u32;
const INTERNET: &[u32] = &[libc::AF_INET as u32, libc::AF_INET6 as u32];
const NETLINK: u32 = libc::AF_NETLINK as u32;
const FAMILIES: &[u32] = &[UNIX, libc::AF_INET as u32, libc::AF_INET6 as u32, NETLINK];
/// `SOCK_TYPE_MASK` of linux/net.h: the rest of the argument is flags.
const SOCKET_TYPE: u32 = 0xf;
const STREAM_OR_DATAGRAM: &[u32] = &[libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32];
const TCP_OR_UDP: &[u32] = &[0, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32];

const TIOCSETD: u32 = 0x5423;

const QUERY: u32 = u32::MAX;
const PER_LINUX32: u32 = 8;
const NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE as u32;

/// The rows. Changing one changes what every wall with a filter lets through.
pub(super) const TABLE: &[Row] = &[
    // Calls whose arguments lie in memory, where a filter cannot see them.
    refuse(&[clone3])
        .with(Enosys)
        .because("its flags lie in memory: namespaces look like threads; libc falls back to clone"),
    refuse(&[openat2])
        .with(Enosys)
        .because("its mode lies in memory: a set-id file could be made unseen; callers fall back to openat"),
    refuse(&[io_uring_setup, io_uring_enter, io_uring_register])
        .because("performs other calls where no filter sees them; CVE-2022-29582, CVE-2023-2598"),
    // Namespaces and mounts: the wall itself.
    refuse(&[clone])
        .when(&[AnyBit(0, NEW_NAMESPACES)])
        .because("a user namespace gives capabilities over kernel code that is else out of reach"),
    refuse(&[unshare])
        .when(&[AnyBit(0, NEW_NAMESPACES | CLONE_NEWTIME)])
        .because("as clone; unshare(2) of descriptors and directories stays"),
    refuse(&[setns]).because("enters namespaces by descriptor, setns(2)"),
    refuse(&[mount, umount2, pivot_root, chroot, open_tree, open_tree_attr, move_mount, mount_setattr])
        .because("rearranges what is visible, mount(2), open_tree(2)"),
    refuse(&[fsopen, fsconfig, fsmount, fspick])
        .because("reaches file-system parsers; CVE-2022-0185 was in fsconfig"),
    refuse(&[statmount, listmount])
        .with(Enosys)
        .because("mounts by number; callers fall back to /proc/self/mountinfo"),
    refuse(&[open_by_handle_at])
        .because("opens files by number past every directory, open_by_handle_at(2); the shocker escape"),
    // The kernel and the machine.
    refuse(&[init_module, finit_module, delete_module, create_module, get_kernel_syms, query_module])
        .because("kernel modules, init_module(2)"),
    refuse(&[kexec_load, kexec_file_load, reboot]).because("replaces or stops the kernel"),
    refuse(&[bpf]).because("programs in the kernel; CVE-2021-3490, CVE-2022-23222"),
    refuse(&[perf_event_open]).because("watches other processes; CVE-2013-2094, CVE-2023-5717"),
    refuse(&[userfaultfd]).because("stops the kernel in mid-access, a help to exploits, userfaultfd(2)"),
    refuse(&[keyctl, add_key, request_key])
        .because("key rings outlive sandboxes, request_key(2) runs a helper on the host; CVE-2016-0728"),
    refuse(&[memfd_secret]).because("memory that no supervisor can inspect, memfd_secret(2)"),
    refuse(&[fanotify_init]).because("watches whole file systems, fanotify(7)"),
    refuse(&[iopl, ioperm]).because("hardware ports, iopl(2)"),
    refuse(&[modify_ldt]).because("segments for 16-bit code, modify_ldt(2); CVE-2017-17053"),
    refuse(&[swapon, swapoff, acct, quotactl, quotactl_fd, vhangup, sethostname, setdomainname])
        .because("administers the machine"),
    refuse(&[settimeofday, clock_settime, clock_adjtime, adjtimex])
        .because("there is one clock for all, adjtimex(2)"),
    refuse(&[syslog]).because("the kernel's log shows addresses and other people's events, syslog(2)"),
    refuse(&[lsm_get_self_attr, lsm_set_self_attr, lsm_list_modules])
        .with(Enosys)
        .because("changes security labels; nothing uses it yet"),
    refuse(&[_sysctl, uselib, ustat, sysfs, nfsservctl, lookup_dcookie, vserver])
        .because("obsolete, unimplemented(2)"),
    refuse(&[getpmsg, putpmsg, afs_syscall, tuxcall, security, epoll_ctl_old, epoll_wait_old])
        .because("never implemented, unimplemented(2)"),
    refuse(&[move_pages, migrate_pages])
        .because("moves the pages of other processes; CVE-2017-14140. Placing one's own (mbind) stays"),
    // Other processes.
    refuse(&[ptrace, process_vm_readv, kcmp])
        .only(SharingHost)
        .because("without a process id namespace the same user's host processes could be read and driven"),
    refuse(&[ptrace, process_vm_readv, kcmp])
        .only(ExceptDebug)
        .because("reads and drives other processes, ptrace(2); the debug profile allows it"),
    refuse(&[process_vm_writev, pidfd_getfd, process_madvise])
        .because("reaches into other processes' memory and descriptors, pidfd_getfd(2)"),
    refuse(&[prlimit64])
        .when(&[NotAmong(0, ALL_BITS, &[0])])
        .because("sets limits of other processes, process 1 among them, getrlimit(2); one's own stay"),
    refuse(&[seccomp])
        .when(&[AnyBit(1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32)])
        .because("a listener answers for other processes, seccomp_unotify(2); plain filters stay"),
    refuse(&[prctl])
        .when(&[Among(0, ALL_BITS, &[libc::PR_SET_MM as u32])])
        .because("rewrites what the process says about itself in /proc, prctl(2)"),
    refuse(&[personality]).only(Strict).because("other execution domains, personality(2)"),
    refuse(&[personality])
        .when(&[NotAmong(0, ALL_BITS, &[0, PER_LINUX32, QUERY])])
        .only(ExceptDebug)
        .because("old execution domains switch protections off, personality(2)"),
    refuse(&[personality])
        .when(&[NotAmong(0, ALL_BITS, &[0, PER_LINUX32, NO_RANDOMIZE, QUERY])])
        .only(Debug)
        .because("as elsewhere, but debuggers switch address randomisation off"),
    // Sockets.
    refuse(&[socket, connect, bind, listen, accept, accept4])
        .only(StrictOffline)
        .because("pure computation talks to nobody; a socketpair stays"),
    refuse(&[socket])
        .when(&[NotAmong(0, ALL_BITS, &[UNIX])])
        .only(SharingHost)
        .with(Eafnosupport)
        .because("without a network namespace every other family reaches the host's network"),
    refuse(&[socket])
        .when(&[NotAmong(0, ALL_BITS, FAMILIES)])
        .with(Eafnosupport)
        .because("AF_PACKET, AF_ALG, AF_VSOCK and rarer; CVE-2016-8655, CVE-2019-8912, CVE-2021-26708"),
    refuse(&[socket])
        .when(&[Among(0, ALL_BITS, &[NETLINK]), NotAmong(2, ALL_BITS, &[libc::NETLINK_ROUTE as u32])])
        .with(Eprotonosupport)
        .because("ip(8) and name look-ups need NETLINK_ROUTE alone; netfilter had CVE-2024-1086"),
    refuse(&[socket])
        .when(&[Among(0, ALL_BITS, INTERNET), NotAmong(1, SOCKET_TYPE, STREAM_OR_DATAGRAM)])
        .because("raw and packet sockets, raw(7)"),
    refuse(&[socket])
        .when(&[Among(0, ALL_BITS, INTERNET), NotAmong(2, ALL_BITS, TCP_OR_UDP)])
        .with(Eprotonosupport)
        .because("SCTP, DCCP, L2TP and others load rarely used code; CVE-2021-23133, CVE-2017-6074"),
    refuse(&[socketpair])
        .when(&[NotAmong(0, ALL_BITS, &[UNIX])])
        .with(Eafnosupport)
        .because("only UNIX sockets have a use in pairs, socketpair(2)"),
    // Terminals.
    refuse(&[ioctl])
        .when(&[Among(1, ALL_BITS, &[libc::TIOCSTI as u32, libc::TIOCLINUX as u32])])
        .because("types into a terminal for others to execute; CVE-2017-5226"),
    refuse(&[ioctl])
        .when(&[Among(1, ALL_BITS, &[TIOCSETD])])
        .because("loads line disciplines, ioctl_tty(2); CVE-2017-2636, CVE-2023-6546"),
    // Set-id modes and devices: what would be left on the host. mkdir(2) drops these bits by itself.
    refuse(&[chmod, fchmod, creat])
        .when(&[AnyBit(1, SET_ID)])
        .because("a set-id file left in the workspace belongs to a user of the host"),
    refuse(&[fchmodat, fchmodat2]).when(&[AnyBit(2, SET_ID)]).because("as chmod"),
    refuse(&[open]).when(&[AnyBit(1, CREATES), AnyBit(2, SET_ID)]).because("as chmod"),
    refuse(&[openat]).when(&[AnyBit(2, CREATES), AnyBit(3, SET_ID)]).because("as chmod"),
    refuse(&[mknod]).when(&[AnyBit(1, SET_ID)]).because("as chmod"),
    refuse(&[mknod]).when(&[Among(1, libc::S_IFMT, DEVICES)]).because("device files, mknod(2)"),
    refuse(&[mknodat]).when(&[AnyBit(2, SET_ID)]).because("as chmod"),
    refuse(&[mknodat]).when(&[Among(2, libc::S_IFMT, DEVICES)]).because("device files, mknod(2)"),
    // System V and POSIX queues.
    refuse(SYSTEM_V)
        .only(SharingHost)
        .because("without an IPC namespace the same user's host segments are open"),
    refuse(SYSTEM_V).only(Strict).because("pure computation shares no memory by key, sysvipc(7)"),
    refuse(QUEUES)
        .only(SharingHost)
        .because("without an IPC namespace the host's queues are open, mq_overview(7)"),
    refuse(QUEUES).only(Strict).because("pure computation has nobody to queue for, mq_overview(7)"),
    // What pure computation does without.
    refuse(&[mbind, set_mempolicy, set_mempolicy_home_node])
        .only(Strict)
        .because("placement of memory; CVE-2017-7616"),
    refuse(&[io_setup, io_destroy, io_submit, io_cancel, io_getevents, io_pgetevents])
        .only(Strict)
        .with(Enosys)
        .because("the first asynchronous I/O, a database's tool; CVE-2012-6701"),
    refuse(&[name_to_handle_at, fanotify_mark]).only(Strict).because("halves of what is refused everywhere"),
];

const SYSTEM_V: &[super::calls::Call] =
    &[shmget, shmat, shmctl, shmdt, semget, semop, semtimedop, semctl, msgget, msgsnd, msgrcv, msgctl];

const QUEUES: &[super::calls::Call] =
    &[mq_open, mq_unlink, mq_timedsend, mq_timedreceive, mq_notify, mq_getsetattr];
