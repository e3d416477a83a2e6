//! Mounts and control groups (classes 40, 45): nothing can be mounted, unmounted or remounted; no control
//! group is to be seen, let alone written.

use pinfold_conformance::{Off, case, denials, each};

const KERNEL: Off = Off::Never("the kernel asks for CAP_SYS_ADMIN, which no exec of an ordinary user keeps");
const REFUSED: &[&str] = &["EPERM"];

denials! {
    mount {
        attempt: &["mount-tmpfs", "/tmp"], refused: REFUSED, off: KERNEL,
        alone: &["seccomp", "landlock", "capabilities"],
    }
    mount_control_groups {
        attempt: &["mount-cgroup", "/tmp"], refused: REFUSED, off: KERNEL,
        alone: &["seccomp", "landlock", "capabilities"],
    }
    remount {
        attempt: &["remount-writable", "/usr"], refused: REFUSED, off: KERNEL,
        alone: &["seccomp", "landlock"],
    }
    unmount {
        attempt: &["unmount", "/workspace"], refused: REFUSED, off: KERNEL, alone: &["seccomp", "landlock"],
    }
    unmount_a_mask {
        attempt: &["unmount", "/workspace/.env"], refused: REFUSED, off: KERNEL,
        alone: &["seccomp", "landlock"], options: &["--deny", "**/.env"],
        setup: |place| { place.write("workspace/.env", "x"); Vec::new() },
    }
    new_file_system {
        attempt: &["fsopen", "tmpfs"], refused: REFUSED, off: KERNEL, alone: &["seccomp", "landlock"],
    }
    copy_of_a_mount {
        attempt: &["clone-tree", "/workspace"], refused: REFUSED, off: KERNEL,
        alone: &["seccomp", "landlock"],
    }
}

#[test]
fn control_groups_are_not_there() {
    each(case!("cgroups"), |place| {
        let (answers, _) = place.run().attempt(&[
            &["list", "/sys/fs/cgroup"],
            &["create", "/sys/fs/cgroup/release_agent", "x"],
            &["read", "/proc/self/cgroup"],
        ]);
        assert!(answers[0].is_refused(&["ENOENT", "EACCES"]), "{}", answers[0]);
        assert!(answers[1].is_refused(&["ENOENT", "EACCES", "EROFS"]), "{}", answers[1]);
        // What is left is one's own, with no path of the host in it.
        for line in answers[2].text().lines() {
            assert!(line.ends_with(":/") || line.contains(":/.."), "a path of the host: {line}");
        }
        assert!(!place.run().probe(&["mounts"]).text().contains("cgroup"), "a control group is mounted");
    });
}
