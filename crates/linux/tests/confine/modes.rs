//! Every way to leave a set-id file or a device behind, and the ordinary modes beside them.

use std::ffi::CString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::attempts::{IGNORED, call, last_error};
use super::runner::answer;

pub(crate) fn inside() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut count = 0;
    let here = libc::AT_FDCWD as u64;
    let creating = (libc::O_CREAT | libc::O_WRONLY) as u64;
    for mode in [0o4755_u64, 0o2755, 0o6777, 0o4755 | IGNORED] {
        let mut attempt = |how: &str, exists: bool, make: &dyn Fn(u64) -> (i64, [u64; 6])| {
            count += 1;
            let path = file(&format!("{count}"));
            if exists {
                std::fs::write(&path, "").unwrap();
            }
            let name = c_string(&path);
            let (number, arguments) = make(name.as_ptr() as u64);
            let said = call(number, arguments);
            answer(&format!("set-id {how} {mode:o}"), planted(&path).unwrap_or(said));
        };
        #[cfg(target_arch = "x86_64")]
        {
            attempt("chmod", true, &|path| (libc::SYS_chmod, [path, mode, 0, 0, 0, 0]));
            attempt("creat", false, &|path| (libc::SYS_creat, [path, mode, 0, 0, 0, 0]));
            attempt("open", false, &|path| (libc::SYS_open, [path, creating, mode, 0, 0, 0]));
            attempt("mknod", false, &|path| {
                (libc::SYS_mknod, [path, mode | u64::from(libc::S_IFREG), 0, 0, 0, 0])
            });
        }
        attempt("fchmodat", true, &|path| (libc::SYS_fchmodat, [here, path, mode, 0, 0, 0]));
        attempt("fchmodat2", true, &|path| (452, [here, path, mode, 0, 0, 0]));
        attempt("openat", false, &|path| (libc::SYS_openat, [here, path, creating, mode, 0, 0]));
        attempt("mknodat", false, &|path| {
            (libc::SYS_mknodat, [here, path, mode | u64::from(libc::S_IFREG), 0, 0, 0])
        });

        let open = std::fs::File::create(file(&format!("fchmod {mode:o}"))).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&open) as u64;
        let said = call(libc::SYS_fchmod, [number, mode, 0, 0, 0, 0]);
        answer(
            &format!("set-id fchmod {mode:o}"),
            planted(&file(&format!("fchmod {mode:o}"))).unwrap_or(said),
        );

        let (path, flags) = (c_string(directory.path()), (libc::O_TMPFILE | libc::O_WRONLY) as u64);
        // SAFETY: the path outlives the call.
        let unnamed = unsafe { libc::syscall(libc::SYS_openat, here, path.as_ptr(), flags, mode) };
        let said = if unnamed < 0 { last_error() } else { "ok".to_owned() };
        let unnamed = planted(Path::new(&format!("/proc/self/fd/{unnamed}"))).unwrap_or(said);
        answer(&format!("set-id unnamed {mode:o}"), unnamed);
    }
    for (how, kind) in [("mknod", libc::S_IFCHR), ("mknod of a block device", libc::S_IFBLK)] {
        let path = c_string(&file(how));
        let arguments = [here, path.as_ptr() as u64, u64::from(kind | 0o600), 0x103, 0, 0];
        answer(&format!("device {how}"), call(libc::SYS_mknodat, arguments));
    }
    let plain = c_string(&file("plain"));
    let path = plain.as_ptr() as u64;
    answer("plain create", call(libc::SYS_openat, [here, path, creating, 0o644, 0, 0]));
    answer("plain open with a mode that is not used", call(libc::SYS_openat, [here, path, 0, 0o6777, 0, 0]));
    answer("plain chmod", call(libc::SYS_fchmodat, [here, path, 0o1777, 0, 0, 0]));
    let fifo = c_string(&file("fifo"));
    let arguments = [here, fifo.as_ptr() as u64, u64::from(libc::S_IFIFO | 0o600), 0, 0, 0];
    answer("plain fifo", call(libc::SYS_mknodat, arguments));
    // Not refused, because the kernel takes these bits of a new directory away by itself.
    let below = c_string(&file("directory"));
    let made = call(libc::SYS_mkdirat, [here, below.as_ptr() as u64, 0o6777, 0, 0, 0]);
    answer("plain mkdir", planted(&file("directory")).unwrap_or(made));
}

pub(crate) fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

fn planted(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o6000 != 0).then(|| format!("planted {mode:o}"))
}
