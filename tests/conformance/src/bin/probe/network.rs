//! Attempts to reach somebody: by TCP, UDP, ICMP, raw packets, UNIX sockets of both kinds, FIFOs.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::{Attempt, check, number};
use crate::files::open;
use crate::process::file;

/// Nothing that is reached at all takes longer; an address that swallows packets does not hold the test up.
const LONG: Duration = Duration::from_secs(3);

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("tcp", |words| {
        let mut stream = TcpStream::connect_timeout(&address(words[0])?, LONG)?;
        stream.set_read_timeout(Some(LONG))?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said.into())
    }),
    ("udp", |words| {
        let to = address(words[0])?;
        let from = UdpSocket::bind(if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
        from.send_to(words[1].as_bytes(), to)?;
        Ok(true.into())
    }),
    ("icmp", |words| {
        // SAFETY: takes no pointers. The datagram form needs no privilege where the host allows it (icmp(7)).
        let socket =
            file(check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP) })?);
        send(&socket, words[0])
    }),
    ("raw", |words| {
        // SAFETY: takes no pointers.
        let socket = file(check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP) })?);
        send(&socket, words[0])
    }),
    ("vsock", |words| {
        use std::os::fd::AsRawFd;
        // SAFETY: takes no pointers.
        let socket = file(check(unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0) })?);
        let mut to = [0u8; size_of::<libc::sockaddr_vm>()];
        to[..2].copy_from_slice(&(libc::AF_VSOCK as u16).to_ne_bytes());
        to[4..8].copy_from_slice(&(number(words[1])? as u32).to_ne_bytes());
        to[8..12].copy_from_slice(&(number(words[0])? as u32).to_ne_bytes());
        // SAFETY: the address is as large as is said.
        check(unsafe { libc::connect(socket.as_raw_fd(), to.as_ptr().cast(), to.len() as u32) })
            .map(Value::from)
    }),
    ("unix", |words| said(UnixStream::connect(words[0])?)),
    ("unix-datagram", |words| {
        UnixDatagram::unbound()?.send_to(words[1].as_bytes(), words[0]).map(|_| json!(true))
    }),
    ("abstract", |words| {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(words[0])?;
        said(UnixStream::connect_addr(&name)?)
    }),
    ("fifo-write", |words| {
        let opened = open(words[0], libc::O_WRONLY | libc::O_NONBLOCK)?;
        file(opened).write_all(words[1].as_bytes()).map(|()| json!(true))
    }),
    ("interfaces", |_| {
        let text = fs::read_to_string("/proc/net/dev")?;
        let names = text.lines().skip(2).filter_map(|line| line.split(':').next());
        Ok(names.map(|name| name.trim().to_owned()).collect::<Vec<_>>().into())
    }),
    // A server of the sandbox's own and its client: what network off leaves.
    ("loopback", |words| {
        let listener = TcpListener::bind(format!("{}:0", words[0]))?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        server.write_all(b"hello")?;
        drop(server);
        let mut heard = String::new();
        client.read_to_string(&mut heard)?;
        Ok(heard.into())
    }),
    ("own-abstract", |words| {
        let name = std::os::unix::net::SocketAddr::from_abstract_name(words[0])?;
        let listener = UnixListener::bind_addr(&name)?;
        let client = UnixStream::connect_addr(&name)?;
        listener.accept()?.0.write_all(b"hello")?;
        said(client)
    }),
    ("own-unix", |words| {
        let listener = UnixListener::bind(words[0])?;
        let client = UnixStream::connect(words[0])?;
        listener.accept()?.0.write_all(b"hello")?;
        said(client)
    }),
];

fn address(word: &str) -> io::Result<SocketAddr> {
    word.parse().map_err(|_| io::Error::from_raw_os_error(libc::EDOM))
}

fn said(mut stream: UnixStream) -> io::Result<Value> {
    stream.set_read_timeout(Some(LONG))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.into())
}

/// Sends an echo request to an IPv4 address.
fn send(socket: &fs::File, to: &str) -> io::Result<Value> {
    use std::os::fd::AsRawFd;
    let to: Ipv4Addr = to.parse().map_err(|_| io::Error::from_raw_os_error(libc::EDOM))?;
    let mut address = [0u8; 16];
    address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    address[4..8].copy_from_slice(&to.octets());
    let echo = [8u8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    // SAFETY: the packet and the address are as large as is said.
    check(unsafe {
        libc::sendto(socket.as_raw_fd(), echo.as_ptr().cast(), echo.len(), 0, address.as_ptr().cast(), 16)
            as i64
    })
    .map(Value::from)
}
