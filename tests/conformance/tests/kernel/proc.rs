//! `/proc` and what hangs on it (class 44): settings of the host are not writable, and its secrets are
//! masked.

use pinfold_conformance::{Off, case, denials, each};

const REFUSED: &[&str] = &["EROFS", "EACCES", "EPERM", "ENOENT"];
/// They are root's on the host; the read-only mount is a second lock without a switch.
const ROOT: Off = Off::Never("belongs to root on the host");

denials! {
    core_pattern {
        attempt: &["open-write", "/proc/sys/kernel/core_pattern"], refused: REFUSED, off: ROOT,
        alone: &["landlock", "seccomp"],
    }
    modprobe {
        attempt: &["open-write", "/proc/sys/kernel/modprobe"], refused: REFUSED, off: ROOT,
        alone: &["landlock", "seccomp"],
    }
    hotplug {
        attempt: &["open-write", "/proc/sys/kernel/hotplug"], refused: REFUSED, off: ROOT,
        alone: &["landlock", "seccomp"],
    }
    randomisation {
        attempt: &["open-write", "/proc/sys/kernel/randomize_va_space"], refused: REFUSED, off: ROOT,
        alone: &["landlock"],
    }
    host_name {
        attempt: &["open-write", "/proc/sys/kernel/hostname"], refused: REFUSED, off: ROOT,
        alone: &["landlock"],
    }
    forwarding {
        attempt: &["open-write", "/proc/sys/net/ipv4/ip_forward"], refused: REFUSED, off: ROOT,
        alone: &["landlock"],
    }
    binary_formats {
        attempt: &["open-write", "/proc/sys/fs/binfmt_misc/register"], refused: REFUSED, off: ROOT,
        alone: &["landlock"],
    }
    sysrq {
        attempt: &["open-write", "/proc/sysrq-trigger"], refused: REFUSED, off: ROOT,
        alone: &["landlock", "seccomp"],
    }
    own_memory_by_number { attempt: &["open-write", "/proc/kmem"], refused: REFUSED, off: ROOT }
    kernel_memory {
        attempt: &["read", "/proc/kcore"], refused: REFUSED, off: ROOT, alone: &["masks", "landlock"],
    }
    keys {
        attempt: &["read", "/proc/keys"], refused: REFUSED, off: Off::Succeeds(&["masks"]),
        alone: &["landlock"],
    }
    key_users {
        attempt: &["read", "/proc/key-users"], refused: REFUSED, off: Off::Succeeds(&["masks"]),
        alone: &["landlock"],
    }
    timers {
        attempt: &["read", "/proc/timer_list"], refused: REFUSED, off: ROOT, alone: &["masks", "landlock"],
    }
    kernel_log {
        attempt: &["read", "/proc/kmsg"], refused: REFUSED, off: ROOT, alone: &["masks", "landlock"],
    }
    id_map {
        attempt: &["write", "/proc/self/uid_map", "0 0 1"], refused: REFUSED, off: ROOT, alone: &["landlock"],
    }
    /// Lower than it was given, a process may not make itself less likely to be killed.
    out_of_memory_score {
        attempt: &["write", "/proc/self/oom_score_adj", "-1000"], refused: REFUSED, off: ROOT,
        alone: &["landlock", "seccomp"], control: &["write", "/proc/self/oom_score_adj", "900"],
    }
}

#[test]
fn what_programs_read_is_there() {
    each(case!("control"), |place| {
        for path in [
            "/proc/self/status",
            "/proc/meminfo",
            "/proc/cpuinfo",
            "/proc/sys/kernel/ostype",
            "/proc/self/maps",
            "/proc/mounts",
        ] {
            let answer = place.run().probe(&["read", path]);
            assert!(answer.is_ok(), "{path}: {answer}");
        }
    });
}
