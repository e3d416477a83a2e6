//! What the supervisor and the guest tell each other: small messages over a socket that keeps their borders
//! and can carry a descriptor. Private to this crate and version: both ends are one program, forked.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::survey::With;

/// The longest message: a path and a little more; a longer text is cut.
const LONGEST: usize = 8192;

/// From the supervisor.
#[derive(Debug)]
pub(crate) enum Order {
    /// The ids are mapped: go on.
    Go,
    /// The mount for the next place that shows something of the host.
    Mount(OwnedFd),
    /// A way into a control group, one for each hierarchy.
    Enter(OwnedFd),
    /// Paths to cover, each in the zone with its number. Many in one message: each message wakes the guest.
    Covers(Vec<Cover>),
    /// That was all of them.
    Covered,
    /// Let nothing inside run on.
    Stop,
    /// Let it run on again.
    Continue,
    /// Send the command's processes a signal.
    Signal(i32),
    /// One more way in for commands.
    Door(OwnedFd),
}

/// From the inside.
#[derive(Debug)]
pub(crate) enum Report {
    /// A step failed, and nothing will run.
    Failed {
        /// Which.
        step: String,
        /// Why.
        message: String,
    },
    /// The other end of the inner terminal.
    Terminal(OwnedFd),
    /// The mounts inside, to watch.
    Mounts(OwnedFd),
    /// The namespace that they are in.
    Namespace(OwnedFd),
    /// Everything inside is stopped.
    Stopped,
    /// Everything is set up and in force; the text is Landlock's status.
    Confined(String),
    /// How many commands run, each time it changes from or to none.
    Busy(bool),
    /// The program cannot be started.
    NoExec(i32),
    /// The command ended.
    Ended(Ended),
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its status as wait(2) encodes it.
    pub(crate) status: i32,
    /// Whether the guest has no process left below it.
    pub(crate) alone: bool,
    /// User and system time of everything that ran inside, in microseconds.
    pub(crate) cpu_us: u64,
    /// The largest resident set of any one process.
    pub(crate) peak_memory_bytes: u64,
}

/// A path to cover, as far as the guest needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    /// The position, among places that show something of the host.
    pub(crate) zone: usize,
    /// The path below it.
    pub(crate) path: PathBuf,
    /// With what.
    pub(crate) with: With,
}

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Both ends.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends an order.
    pub(crate) fn order(&self, order: Order) -> io::Result<()> {
        match order {
            Order::Go => self.send(b"g", None),
            Order::Mount(fd) => self.send(b"m", Some(fd.as_fd())),
            Order::Enter(fd) => self.send(b"j", Some(fd.as_fd())),
            Order::Covers(covers) => {
                let mut bytes = vec![b'c'];
                for cover in covers {
                    let cover = encode(&cover);
                    if bytes.len() + 2 + cover.len() > LONGEST {
                        self.send(&bytes, None)?;
                        bytes.truncate(1);
                    }
                    bytes.extend_from_slice(&(cover.len() as u16).to_ne_bytes());
                    bytes.extend_from_slice(&cover);
                }
                self.send(&bytes, None)
            }
            Order::Covered => self.send(b"d", None),
            Order::Stop => self.send(b"z", None),
            Order::Continue => self.send(b"r", None),
            Order::Door(fd) => self.send(b"o", Some(fd.as_fd())),
            Order::Signal(signal) => self.send(&message(b's', &signal.to_ne_bytes()), None),
        }
    }

    /// Waits for an order; nothing when the supervisor is gone.
    pub(crate) fn next_order(&self) -> io::Result<Option<Order>> {
        let mut buffer = [0; LONGEST];
        let (bytes, fd) = self.receive(&mut buffer)?;
        Ok(Some(match (bytes, fd) {
            ([], _) => return Ok(None),
            (b"g", _) => Order::Go,
            (b"m", Some(fd)) => Order::Mount(fd),
            (b"j", Some(fd)) => Order::Enter(fd),
            ([b'c', rest @ ..], _) => Order::Covers(decode_all(rest).ok_or(io::ErrorKind::InvalidData)?),
            (b"d", _) => Order::Covered,
            (b"z", _) => Order::Stop,
            (b"r", _) => Order::Continue,
            (b"o", Some(fd)) => Order::Door(fd),
            ([b's', rest @ ..], _) => Order::Signal(i32::from_ne_bytes(exactly(rest)?)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }))
    }

    /// Sends a report.
    pub(crate) fn report(&self, report: Report) -> io::Result<()> {
        match report {
            Report::Failed { step, message: text } => {
                self.send(&message(b'f', format!("{step}\0{text}").as_bytes()), None)
            }
            Report::Terminal(fd) => self.send(b"t", Some(fd.as_fd())),
            Report::Confined(status) => self.send(&message(b'c', status.as_bytes()), None),
            Report::NoExec(errno) => self.send(&message(b'n', &errno.to_ne_bytes()), None),
            Report::Mounts(fd) => self.send(b"w", Some(fd.as_fd())),
            Report::Namespace(fd) => self.send(b"m", Some(fd.as_fd())),
            Report::Stopped => self.send(b"z", None),
            Report::Busy(busy) => self.send(if busy { b"b" } else { b"i" }, None),
            Report::Ended(ended) => {
                let mut bytes = message(if ended.alone { b'a' } else { b'e' }, &ended.status.to_ne_bytes());
                bytes.extend_from_slice(&ended.cpu_us.to_ne_bytes());
                bytes.extend_from_slice(&ended.peak_memory_bytes.to_ne_bytes());
                self.send(&bytes, None)
            }
        }
    }

    /// Receives a report; nothing when the inside is gone.
    pub(crate) fn next_report(&self) -> io::Result<Option<Report>> {
        let mut buffer = [0; LONGEST];
        let (bytes, fd) = self.receive(&mut buffer)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Some(match (bytes, fd) {
            ([], _) => return Ok(None),
            ([b'f', rest @ ..], _) => {
                let (step, message) =
                    rest.split_at(rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len()));
                Report::Failed {
                    step: text(step),
                    message: text(message.strip_prefix(&[0]).unwrap_or(message)),
                }
            }
            (b"t", Some(fd)) => Report::Terminal(fd),
            (b"w", Some(fd)) => Report::Mounts(fd),
            (b"m", Some(fd)) => Report::Namespace(fd),
            (b"z", _) => Report::Stopped,
            (b"b", _) => Report::Busy(true),
            (b"i", _) => Report::Busy(false),
            ([b'c', rest @ ..], _) => Report::Confined(text(rest)),
            ([b'n', rest @ ..], _) => Report::NoExec(i32::from_ne_bytes(exactly(rest)?)),
            ([tag @ (b'a' | b'e'), rest @ ..], _) if rest.len() == 20 => Report::Ended(Ended {
                status: i32::from_ne_bytes(exactly(&rest[..4])?),
                alone: *tag == b'a',
                cpu_us: u64::from_ne_bytes(exactly(&rest[4..12])?),
                peak_memory_bytes: u64::from_ne_bytes(exactly(&rest[12..])?),
            }),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }))
    }

    fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = fd.map(|fd| [fd]);
        if let Some(fds) = &fds {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<(&'b [u8], Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let length = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received.bytes,
                // The other end died with something unread. That is said once, before what it had sent
                // itself.
                Err(Errno::CONNRESET | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok((&buffer[..length], fd))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn message(tag: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(rest);
    bytes
}

fn exactly<const N: usize>(bytes: &[u8]) -> io::Result<[u8; N]> {
    bytes.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

fn encode(cover: &Cover) -> Vec<u8> {
    let with = match cover.with {
        With::Pinned => 0,
        With::Itself => 1,
        With::Absent => 2,
        With::EmptyFile => 3,
        With::EmptyDir => 4,
    };
    let mut bytes = (cover.zone as u64).to_ne_bytes().to_vec();
    bytes.push(with);
    bytes.extend_from_slice(cover.path.as_os_str().as_bytes());
    bytes
}

fn decode_all(mut bytes: &[u8]) -> Option<Vec<Cover>> {
    let mut covers = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (cover, rest) = rest.split_at_checked(usize::from(u16::from_ne_bytes(*length)))?;
        covers.push(decode(cover)?);
        bytes = rest;
    }
    bytes.is_empty().then_some(covers)
}

fn decode(bytes: &[u8]) -> Option<Cover> {
    let (zone, rest) = bytes.split_first_chunk::<8>()?;
    let (with, path) = rest.split_first()?;
    let with = match with {
        0 => With::Pinned,
        1 => With::Itself,
        2 => With::Absent,
        3 => With::EmptyFile,
        4 => With::EmptyDir,
        _ => return None,
    };
    Some(Cover { zone: u64::from_ne_bytes(*zone) as usize, path: OsStr::from_bytes(path).into(), with })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_come_through() {
        let (host, guest) = Channel::pair().unwrap();
        host.order(Order::Signal(15)).unwrap();
        assert!(matches!(guest.next_order().unwrap(), Some(Order::Signal(15))));
        let cover =
            Cover { zone: 3, path: PathBuf::from(OsStr::from_bytes(b"a/\xff b")), with: With::Absent };
        let many = vec![cover; 1000];
        host.order(Order::Covers(many.clone())).unwrap();
        let mut heard = Vec::new();
        while heard.len() < many.len() {
            let Some(Order::Covers(some)) = guest.next_order().unwrap() else { panic!("no covers came") };
            heard.extend(some);
        }
        assert_eq!(heard, many);
        guest.report(Report::Failed { step: "proc".into(), message: "no".into() }).unwrap();
        assert!(matches!(host.next_report().unwrap(),
            Some(Report::Failed { step, message }) if step == "proc" && message == "no"));
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        guest.report(Report::Terminal(writer)).unwrap();
        let Some(Report::Terminal(writer)) = host.next_report().unwrap() else {
            panic!("no descriptor came")
        };
        rustix::io::write(writer, b"x").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(reader, &mut byte).unwrap(), 1);
    }

    #[test]
    fn a_closed_end_is_the_end() {
        let (host, guest) = Channel::pair().unwrap();
        drop(host);
        assert!(guest.next_order().unwrap().is_none());
    }

    #[test]
    fn what_was_sent_before_the_end_is_heard() {
        let (host, guest) = Channel::pair().unwrap();
        host.order(Order::Go).unwrap();
        guest.report(Report::NoExec(2)).unwrap();
        drop(guest);
        assert!(matches!(host.next_report().unwrap(), Some(Report::NoExec(2))));
        assert!(host.next_report().unwrap().is_none());
    }

    #[test]
    fn a_long_text_is_cut_and_still_one_message() {
        let (host, guest) = Channel::pair().unwrap();
        guest.report(Report::Failed { step: "x".into(), message: "y".repeat(20_000) }).unwrap();
        let ended = Ended { status: 0, alone: true, cpu_us: 5, peak_memory_bytes: 1 << 40 };
        guest.report(Report::Ended(ended)).unwrap();
        assert!(matches!(host.next_report().unwrap(), Some(Report::Failed { .. })));
        assert!(matches!(host.next_report().unwrap(), Some(Report::Ended(heard)) if heard == ended));
    }
}
