//! Mounts (classes 14, 19): the host's mount table is the same before, during and after; and a mount point
//! below a link is refused.

use pinfold_conformance::live::Live;
use pinfold_conformance::{case, each, host};

#[test]
fn the_host_sees_no_mount_of_a_running_sandbox() {
    each(case!("propagation"), |place| {
        place.write("workspace/.env", "x");
        let mut live = Live::start(place.run().options(["--deny", "**/.env"]).prepare(&[], ["sh"]));
        live.say("wc -l </proc/self/mountinfo; grep -c ' / / ' /proc/self/mountinfo");
        let inside: usize = live.line().trim().parse().expect("a number");
        assert!(inside > 5, "hardly any mounts inside");
        let during = host::mounts();
        assert!(!during.contains(place.name()), "a mount of the sandbox is on the host: {during}");
        live.hang_up();
        live.wait();
        assert!(!host::mounts().contains(place.name()));
    });
}

#[test]
fn nothing_inside_propagates_or_is_shared() {
    each(case!("private"), |place| {
        let answer = place.run().probe(&["mounts"]);
        for line in answer.text().lines() {
            let options = line.split(" - ").next().unwrap_or_default();
            assert!(!options.contains("shared:"), "a shared mount: {line}");
        }
    });
}

/// Every mount is without set-id and devices, and only zones and memory can be written.
#[test]
fn every_mount_is_as_narrow_as_it_can_be() {
    each(case!("flags"), |place| {
        let answer = place.run().probe(&["mounts"]);
        for line in answer.text().lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let (at, flags) = (fields[4], fields[5]);
            // A device is one file that cannot be executed; its own mode says who may use it.
            if ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"]
                .contains(&at)
            {
                continue;
            }
            assert!(flags.contains("nosuid"), "set-id works at {at}: {flags}");
            assert!(at == "/dev/pts" || flags.contains("nodev"), "devices work at {at}: {flags}");
            let writable = ["/workspace", "/tmp", "/scratch", "/dev/shm", "/dev/pts", "/proc"];
            assert!(flags.starts_with("ro") || writable.contains(&at), "{at} can be written: {flags}");
        }
    });
}

/// A path to be shown within another, where an attacker has put a link in the way.
#[test]
fn a_mount_point_below_a_link_is_refused() {
    each(case!("below-a-link"), |place| {
        let canary = place.canary("outside/canary");
        place.mkdir("outer/real");
        place.write("elsewhere/sub/file", "x");
        // The owner asks for `outer/link/sub`; inside, `outer` is writable, so the link could be anyone's.
        place.symlink(place.path("elsewhere"), "outer/link");
        let (outer, below) = (place.path("outer"), place.path("outer/link/sub"));
        let run = place.run().options([
            "--write".as_ref(),
            outer.as_os_str(),
            "--read".as_ref(),
            below.as_os_str(),
        ]);
        let done = run.shell("true");
        assert!(done.refused().contains("link"), "not for the link: {done:?}");
        canary.assert_unchanged();
        let done = place.run().options(["--write".as_ref(), outer.as_os_str()]).shell("true");
        assert_eq!(done.status, Some(0), "the control: {done:?}");
    });
}
