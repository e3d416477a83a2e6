//! Which parts of the host's system are shown, which entries of `/proc` are covered and which devices exist,
//! as data. How they are mounted is decided in `layout` and `build`.

use std::ffi::CStr;
use std::path::Path;

/// Directories of the distribution: shown whole where they are directories, as links where they are links.
pub(super) const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix"];

/// The same for a plan that reads as little as possible: libraries, without which nothing starts.
pub(super) const LIBRARIES: &[&str] =
    &["lib", "lib32", "lib64", "libx32", "usr/lib", "usr/lib32", "usr/lib64", "usr/libx32", "usr/libexec"];

/// Entries of `/etc` that programs of a distribution need and that tell nothing about the host's owner. The
/// directory itself is never shown: it holds keys, mail settings, and tokens of package managers. Each entry
/// costs a mount at every start, so what nothing misses is not here.
pub(super) const ETC: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "crypto-policies",
    "fonts",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "os-release",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "services",
    "ssl",
    "terminfo",
    "timezone",
];

/// The few of [`ETC`] without which programs do not even start.
pub(super) const ETC_MINIMAL: &[&str] = &["ld.so.cache", "localtime"];

/// Whether a shown path lies where only root can change names: in a directory of the distribution, or in `/etc`.
pub(super) fn is_roots(path: &Path) -> bool {
    let first = path.iter().next();
    first.is_some_and(|first| first == "etc" || SYSTEM.iter().any(|name| first == *name))
}

/// Entries of `/proc` that are covered: kernel memory, keys, timers with addresses, and doors to hardware.
/// The list of runc and Docker, without what no kernel of the last years has.
pub(super) const PROC_MASKED: &[&str] =
    &["acpi", "asound", "kcore", "key-users", "keys", "latency_stats", "sched_debug", "scsi", "timer_list"];

/// Entries of `/proc` that are settings of the host: read-only whatever their modes say. The other such
/// entries (`bus`, `fs`, `irq`) belong to the host's root alone, which the command never is.
pub(super) const PROC_READ_ONLY: &[&CStr] = &[c"proc/sys", c"proc/sysrq-trigger"];

/// Devices that programs may expect anywhere. `/dev/tty` is the opener's own terminal (tty(4)).
pub(super) const DEVICES: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];

/// Links in `/dev`, as udev makes them.
pub(super) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];

/// The home directory inside.
pub(super) const HOME: &str = "/scratch/home";

/// `/etc/passwd` inside: the one user there is, and the owner of whatever is not theirs.
pub(super) fn passwd(user: &str, id: u32) -> Vec<u8> {
    let mut text = format!("{user}:x:{id}:{id}:{user}:{HOME}:/bin/sh\n");
    if id != 0 {
        text.push_str("root:x:0:0:root:/:/bin/false\n");
    }
    text.into_bytes()
}

/// `/etc/group` inside.
pub(super) fn group(user: &str, id: u32) -> Vec<u8> {
    let mut text = format!("{user}:x:{id}:\n");
    if id != 0 {
        text.push_str("root:x:0:\n");
    }
    text.into_bytes()
}

/// `/etc/nsswitch.conf` inside: files alone, and names of hosts by DNS where there is a door.
pub(super) const NSSWITCH: &[u8] = b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n\
    networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n";

/// `/etc/hosts` inside.
pub(super) const HOSTS: &[u8] = b"127.0.0.1 localhost pinfold\n::1 localhost ip6-localhost ip6-loopback\n";
