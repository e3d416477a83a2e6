//! Sockets and FIFOs that lie in zones: a pathname socket is found by its file, so it crosses network namespaces and
//! read-only binds alike, and what listens there is outside.
//!
//! Three ways to keep the inside from them were weighed. Landlock can refuse to resolve sockets made outside the
//! domain, completely and also for those made later, from ABI 9 (`LANDLOCK_ACCESS_FS_RESOLVE_UNIX`); where it is
//! there, it is the better answer and this one is a second line. seccomp cannot see a path. Walking every zone finds
//! all that are there at the time, at a cost that start-up must not have.
//!
//! So the kernel is asked which sockets are bound (sock_diag(7); it lists those of the caller's network namespace),
//! and each that lies in a zone is covered wherever it lies; besides, every socket and FIFO that the look near the
//! root, or a walk, has met. What stays open below ABI 9, and is said in the receipt: far from the root, FIFOs and
//! the sockets of servers in other network namespaces; and what is made after start-up.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::covers::Covers;
use super::links::{End, trace_host};
use super::placeholders::is_socket_placeholder;
use super::places::Place;
use super::scan::Seen;
use super::{Because, Left, SurveyError, With};

/// A socket that is bound to a name in the file system.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    /// The name as given to bind(2): absolute, or relative to a directory that nobody knows any more.
    name: PathBuf,
    /// The low half of the file's inode number and its device, when the kernel tells.
    file: Option<(u32, u32)>,
}

/// Covers sockets and FIFOs in every zone.
pub(crate) fn apply(
    places: &[Place<'_>],
    near: &[Seen],
    covers: &mut Covers,
    left: &mut Vec<Left>,
) -> Result<(), SurveyError> {
    for (place, seen) in places.iter().zip(near) {
        for path in &seen.special {
            cover(place, path, covers)?;
        }
        let kind = FileType::from_raw_mode(place.stat.st_mode);
        if matches!(kind, FileType::Socket | FileType::Fifo) {
            covers.add(place, Path::new(""), With::EmptyFile, Because::Special);
        }
    }
    // Nothing that was walked wholly can hold another.
    if near.iter().all(|seen| seen.whole) {
        return Ok(());
    }
    let bound = match ask_kernel() {
        Ok(bound) => bound,
        Err(_) => match std::fs::read("/proc/net/unix") {
            Ok(text) => parse_proc(&text),
            Err(_) => {
                left.push(Left::SocketsUnknown);
                return Ok(());
            }
        },
    };
    for socket in bound {
        if socket.name.is_absolute() {
            if let End::Inside { zone, path, kind: FileType::Socket } = trace_host(places, &socket.name)?.end
            {
                cover(&places[zone], &path, covers)?;
            }
        } else {
            place_relative(places, near, &socket, covers, left)?;
        }
    }
    Ok(())
}

/// Looks for a socket whose name is relative at the roots of the zones, and says so when it may lie elsewhere in one.
fn place_relative(
    places: &[Place<'_>],
    near: &[Seen],
    socket: &Bound,
    covers: &mut Covers,
    left: &mut Vec<Left>,
) -> Result<(), SurveyError> {
    let is_it = |inode: u64| socket.file.is_none_or(|(file, _)| file == inode as u32);
    for (place, seen) in places.iter().zip(near).filter(|(place, _)| place.is_dir()) {
        if let Some(stat) = place.stat(&socket.name)?
            && FileType::from_raw_mode(stat.st_mode) == FileType::Socket
        {
            cover(place, &socket.name, covers)?;
            if is_it(stat.st_ino) {
                return Ok(());
            }
        }
        for path in &seen.special {
            if place.stat(path)?.is_some_and(|stat| is_it(stat.st_ino)) {
                return Ok(());
            }
        }
    }
    let same_device = |place: &Place<'_>, device: u32| kernel_device(place.stat.st_dev) == device;
    let possible = |(place, seen): (&Place<'_>, &Seen)| {
        !seen.whole && socket.file.is_none_or(|(_, device)| same_device(place, device))
    };
    if places.iter().zip(near).any(possible) {
        left.push(Left::UnplacedSocket(socket.name.clone()));
    }
    Ok(())
}

/// Covers one, unless it is a placeholder, which nobody listens on and which is covered as such.
fn cover(place: &Place<'_>, path: &Path, covers: &mut Covers) -> Result<(), SurveyError> {
    if place.stat(path)?.is_some_and(|stat| !is_socket_placeholder(&stat)) {
        covers.add(place, path, With::EmptyFile, Because::Special);
    }
    Ok(())
}

/// A device number as the kernel keeps it: 12 bits of major, 20 of minor.
fn kernel_device(device: u64) -> u32 {
    (rustix::fs::major(device) << 20) | rustix::fs::minor(device)
}

/// The states of interest: a datagram socket that is bound is "closed" (7), a stream socket that waits is "listening"
/// (10); a connected one leads nowhere new (linux/tcp_states.h).
const STATES: u32 = 1 << 7 | 1 << 10;

/// Asks for all bound sockets of this network namespace (unix_diag, linux/unix_diag.h).
fn ask_kernel() -> Result<Vec<Bound>, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut request = Vec::with_capacity(40);
    request.extend(40u32.to_ne_bytes());
    request.extend(20u16.to_ne_bytes()); // SOCK_DIAG_BY_FAMILY
    request.extend(0x301u16.to_ne_bytes()); // NLM_F_REQUEST | NLM_F_DUMP
    request.extend([0; 8]); // sequence and port, unused here
    request.extend([1, 0, 0, 0]); // AF_UNIX
    request.extend(STATES.to_ne_bytes());
    request.extend(0u32.to_ne_bytes());
    request.extend(3u32.to_ne_bytes()); // UDIAG_SHOW_NAME | UDIAG_SHOW_VFS
    request.extend([0; 8]);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match rustix::net::recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((length, _)) if !parse_reply(&buffer[..length], &mut found)? => return Ok(found),
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(source),
        }
    }
}

/// Reads one batch of netlink messages; false after the last.
fn parse_reply(mut bytes: &[u8], found: &mut Vec<Bound>) -> Result<bool, Errno> {
    while let Some((length, kind)) = message_head(bytes) {
        let message = bytes.get(..length).ok_or(Errno::BADMSG)?;
        match kind {
            3 => return Ok(false), // NLMSG_DONE
            2 => {
                let code =
                    message.get(16..20).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
                return if code == 0 { Ok(false) } else { Err(Errno::from_raw_os_error(-code)) };
            }
            20 => found.extend(parse_socket(message.get(32..).ok_or(Errno::BADMSG)?)),
            _ => return Err(Errno::BADMSG),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if bytes.is_empty() { Ok(true) } else { Err(Errno::BADMSG) }
}

fn message_head(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    (length >= 16).then_some((length, kind))
}

/// The name and file of one socket, from its attributes; nothing for one without a name in the file system.
fn parse_socket(mut bytes: &[u8]) -> Option<Bound> {
    let mut name = None;
    let mut file = None;
    while let (Some(length), Some(kind)) = (bytes.get(..2), bytes.get(2..4)) {
        let length = usize::from(u16::from_ne_bytes(length.try_into().ok()?));
        let value = bytes.get(4..length)?;
        match u16::from_ne_bytes(kind.try_into().ok()?) {
            0 => name = Some(value),
            1 => {
                let word = |at: usize| Some(u32::from_ne_bytes(value.get(at..at + 4)?.try_into().ok()?));
                file = Some((word(0)?, word(4)?));
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    // An abstract name begins with a NUL (unix(7)); a pathname may end with one.
    let name = name?;
    let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
    Some(Bound { name: PathBuf::from(OsStr::from_bytes(name)), file })
}

/// The same from `/proc/net/unix` (proc_net(5)), where there is no unix_diag. A name with a line feed in it is cut
/// there, and then found by neither half: the other way is better.
fn parse_proc(text: &[u8]) -> Vec<Bound> {
    let line = |line: &[u8]| {
        let name = line.splitn(8, |byte| *byte == b' ').nth(7)?;
        let name = name.trim_ascii_start();
        (!name.is_empty() && name[0] != b'@')
            .then(|| Bound { name: PathBuf::from(OsStr::from_bytes(name)), file: None })
    };
    text.split(|byte| *byte == b'\n').skip(1).filter_map(line).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn the_kernel_lists_listeners_and_datagram_receivers_with_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let (stream, datagram) = (directory.path().join("a\nb"), directory.path().join("d"));
        let _stream = UnixListener::bind(&stream).unwrap();
        let _datagram = UnixDatagram::bind(&datagram).unwrap();
        let bound = ask_kernel().unwrap();
        for path in [stream, datagram] {
            let stat = rustix::fs::stat(&path).unwrap();
            let expected = Bound { name: path, file: Some((stat.st_ino as u32, kernel_device(stat.st_dev))) };
            assert!(bound.contains(&expected), "{expected:?} in {bound:?}");
        }
    }

    #[test]
    fn the_other_list_gives_names_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("with space");
        let _listener = UnixListener::bind(&path).unwrap();
        let bound = parse_proc(&std::fs::read("/proc/net/unix").unwrap());
        assert!(bound.contains(&Bound { name: path, file: None }), "{bound:?}");
    }

    #[test]
    fn garbage_is_refused_and_does_not_panic() {
        for length in 0..64 {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 % 251) as u8).collect();
            let _ = parse_reply(&bytes, &mut Vec::new());
            let _ = parse_socket(&bytes);
            let _ = parse_proc(&bytes);
        }
        assert!(parse_reply(&[255; 32], &mut Vec::new()).is_err());
    }
}
