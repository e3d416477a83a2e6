//! Devices (class 16): none can be made, one that lies in a zone cannot be used, and `/dev` has only what all
//! may have.

use pinfold_conformance::{Off, case, denials, each, skip};

const KERNEL: Off = Off::Never("the kernel refuses devices in every user namespace but the first (mknod(2))");

denials! {
    make_character {
        attempt: &["device", "/workspace/mem", "character", "1", "1"], refused: &["EPERM", "EACCES"],
        off: KERNEL, alone: &["seccomp", "landlock", "capabilities"], control: &["fifo", "/workspace/fifo"],
    }
    make_block {
        attempt: &["device", "/workspace/disk", "block", "8", "0"], refused: &["EPERM", "EACCES"],
        off: KERNEL, alone: &["seccomp", "landlock", "capabilities"], control: &["fifo", "/workspace/fifo"],
    }
    make_at_a_descriptor {
        attempt: &["device-at", "/workspace/mem", "character", "1", "1"], refused: &["EPERM", "EACCES"],
        off: KERNEL, alone: &["seccomp", "landlock", "capabilities"],
    }
    make_in_memory {
        attempt: &["device", "/dev/shm/null", "character", "1", "3"], refused: &["EPERM", "EACCES"],
        off: KERNEL, alone: &["seccomp", "landlock", "capabilities"],
    }
    make_in_dev {
        attempt: &["create", "/dev/planted", "x"], refused: &["EROFS", "EACCES"],
        alone: &["landlock", "mounts"], off: Off::Never("/dev is part of the root, which is read-only"),
    }
}

/// Only root can leave a device in a workspace; whoever runs the sandbox, it opens nothing.
#[test]
fn a_device_that_lies_in_a_zone_cannot_be_opened() {
    let case = case!("planted");
    each(case, |place| {
        if !rustix::process::geteuid().is_root() {
            return skip::skip(case, "only root can make a device to begin with");
        }
        let Some(mknod) = skip::needs(case, "mknod", "coreutils") else { return };
        let device = place.workspace("zero");
        let made =
            std::process::Command::new(mknod).arg(&device).args(["c", "1", "5"]).status().expect("mknod");
        assert!(made.success());
        std::fs::set_permissions(&device, std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .expect("open it");
        place.caller.own(&device);
        let (answers, _) = place.run().attempt(&[&["read", "/workspace/zero"], &["read", "/dev/zero"]]);
        assert!(answers[0].is_refused(&["EACCES"]), "{}", answers[0]);
        assert!(answers[1].is_ok(), "the device of its own: {}", answers[1]);
    });
}

#[test]
fn dev_has_only_what_everyone_may_have() {
    each(case!("dev"), |place| {
        let answer = place.run().probe(&["list", "/dev"]);
        let mut names: Vec<&str> =
            answer.value().as_array().expect("names").iter().filter_map(|n| n.as_str()).collect();
        names.sort_unstable();
        let expected = [
            "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
            "urandom", "zero",
        ];
        assert_eq!(names, expected);
        let (answers, _) =
            place.run().attempt(&[&["list", "/dev/pts"], &["list", "/dev/shm"], &["list", "/sys"]]);
        assert_eq!(answers[0].to_string(), "done ([\"ptmx\"])");
        assert_eq!(answers[1].to_string(), "done ([])");
        assert!(answers[2].is_refused(&["ENOENT", "EACCES"]), "{}", answers[2]);
    });
}
