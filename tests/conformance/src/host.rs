//! The host's side: which processes there are, which mounts, which addresses; and waiting for a condition.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::Place;

/// How long anything may take that ends by itself. Far more than it does: reaching it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long the processes of a sandbox may be seen after their supervisor is gone.
pub const SOON: Duration = Duration::from_secs(1);

/// Looks until `condition` holds; false when it still does not after `patience`.
pub fn until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// The processes of which a word of the command line, or the path of the program, contains `mark`. Only what
/// the tester may look at is seen; run by root that is all.
pub fn processes(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("read /proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let has = |bytes: Vec<u8>| bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
        let words = fs::read(entry.path().join("cmdline")).is_ok_and(has);
        let program =
            fs::read_link(entry.path().join("exe")).is_ok_and(|path| path.to_string_lossy().contains(mark));
        // One that has ended and waits to be reaped by its parent is not running.
        let ended = fs::read_to_string(entry.path().join("stat")).map_or(true, |stat| {
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
        });
        if (words || program) && !ended && pid != own_pid() {
            found.push(pid);
        }
    }
    found
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Fails if a process of the place's binary still runs, or a mount of it is to be seen.
pub fn nothing_left(place: &Place) {
    let mark = format!("{}/bin/pinfold", place.name());
    assert!(until(SOON, || processes(&mark).is_empty()), "processes are left: {:?}", processes(&mark));
    let mounts = mounts();
    assert!(!mounts.contains(place.name()), "mounts are left: {mounts}");
}

/// The mount table of the tester.
pub fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").expect("read the mount table")
}

/// The address that the host uses towards the outside, if it has any. Nothing is sent to find out.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

/// The kernel's hash of nothing in particular: a file's bytes, for comparing before and after.
pub fn bytes(path: impl AsRef<std::path::Path>) -> Vec<u8> {
    fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.as_ref().display()))
}
