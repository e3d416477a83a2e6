//! The channel that passes descriptors: a socket that keeps the borders of messages. A message that is longer than one
//! packet comes in several; descriptors come with the first.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::wire;

/// The most descriptors of one message.
pub const MOST: usize = 4;

/// What fits into one packet, a byte that says whether more comes not counted. The kernel's buffers take several.
const PACKET: usize = 16 * 1024;

/// One end.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    /// What has come of a message that is not whole yet.
    begun: Vec<u8>,
}

/// What came in.
#[derive(Debug)]
pub enum Received {
    /// A message, and what came with it.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// A part of one: more will come.
    Part,
    /// Nothing now.
    Nothing,
    /// The other end is gone.
    End,
}

impl Link {
    /// Both ends.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((one.into(), other.into()))
    }

    /// Sends a message with descriptors; waits while the other end's buffer is full.
    pub fn send(&self, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if fds.len() > MOST || (!fds.is_empty() && message.len() > PACKET) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut fds = fds;
        let mut rest = message;
        loop {
            let (now, later) = rest.split_at(rest.len().min(PACKET));
            let more = [u8::from(!later.is_empty())];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let parts = [IoSlice::new(&more), IoSlice::new(now)];
            match sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if later.is_empty() {
                return Ok(());
            }
            (rest, fds) = (later, &[]);
        }
    }

    /// Takes what is there. With `wait`, waits for something.
    pub fn receive(&mut self, wait: bool) -> io::Result<Received> {
        let mut packet = [0; PACKET + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags =
            if wait { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
        let (length, cut) = loop {
            match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut packet)], &mut control, flags) {
                Ok(got) => {
                    break (got.bytes, got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC));
                }
                // The other end died with something unread. That is said once, before what it had sent itself.
                Err(Errno::CONNRESET | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(error) => return Err(error.into()),
            }
        };
        let fds: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        let Some((more, part)) = packet[..length].split_first() else { return Ok(Received::End) };
        if cut || *more > 1 || self.begun.len() + part.len() > wire::LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if *more == 1 {
            // Descriptors belong to whole messages; no end sends them with one that is in parts.
            if !fds.is_empty() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.begun.extend_from_slice(part);
            return Ok(Received::Part);
        }
        let mut message = std::mem::take(&mut self.begun);
        message.extend_from_slice(part);
        Ok(Received::Message(message, fds))
    }
}

impl From<OwnedFd> for Link {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, begun: Vec::new() }
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> Self {
        link.socket
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_comes_whole() {
        let (one, mut other) = Link::pair().unwrap();
        let message: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        one.send(&message, &[]).unwrap();
        assert!(matches!(other.receive(true).unwrap(), Received::Part));
        let mut heard = other.receive(true).unwrap();
        while let Received::Part = heard {
            heard = other.receive(true).unwrap();
        }
        assert!(matches!(heard, Received::Message(heard, _) if heard == message));
        assert!(matches!(other.receive(false).unwrap(), Received::Nothing));
        drop(one);
        assert!(matches!(other.receive(true).unwrap(), Received::End));
    }

    #[test]
    fn descriptors_come_with_their_message() {
        let (one, mut other) = Link::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        one.send(b"x", &[writer.as_fd(), reader.as_fd()]).unwrap();
        drop(writer);
        let Received::Message(_, fds) = other.receive(true).unwrap() else { panic!("no message") };
        rustix::io::write(&fds[0], b"y").unwrap();
        let mut byte = [0];
        assert_eq!(rustix::io::read(&reader, &mut byte).unwrap(), 1);
        let many = vec![reader.as_fd(); MOST + 1];
        assert!(one.send(b"x", &many).is_err(), "more than the other end takes");
    }

    #[test]
    fn what_no_end_sends_is_refused() {
        for packet in [&[2][..], &[9, 9]] {
            let (one, mut other) = Link::pair().unwrap();
            rustix::io::write(&one.socket, packet).unwrap();
            assert!(other.receive(true).is_err(), "{packet:?}");
        }
    }
}
