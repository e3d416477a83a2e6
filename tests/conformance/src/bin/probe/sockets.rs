//! Attempts to make sockets of families and types that nothing inside needs.

use serde_json::{Value, json};

use crate::answer::{Attempt, check, number};

const FAMILIES: &[(&str, i32)] = &[
    ("unix", libc::AF_UNIX),
    ("inet", libc::AF_INET),
    ("inet6", libc::AF_INET6),
    ("netlink", libc::AF_NETLINK),
    ("packet", libc::AF_PACKET),
    ("alg", libc::AF_ALG),
    ("vsock", libc::AF_VSOCK),
    ("bluetooth", libc::AF_BLUETOOTH),
    ("can", libc::AF_CAN),
    ("tipc", libc::AF_TIPC),
    ("key", libc::AF_KEY),
    ("rds", libc::AF_RDS),
    ("x25", libc::AF_X25),
    ("appletalk", libc::AF_APPLETALK),
    ("xdp", libc::AF_XDP),
];

const TYPES: &[(&str, i32)] = &[
    ("stream", libc::SOCK_STREAM),
    ("datagram", libc::SOCK_DGRAM),
    ("raw", libc::SOCK_RAW),
    ("packet", 10),
    ("seqpacket", libc::SOCK_SEQPACKET),
    ("dccp", libc::SOCK_DCCP),
];

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("socket", |words| {
        let family = of(FAMILIES, words[0]);
        let kind = of(TYPES, words[1]);
        // SAFETY: takes no pointers.
        check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, number(words[2])? as i32) })
            .map(Value::from)
    }),
    ("socket-high", |words| {
        let family = of(FAMILIES, words[0]) as u64 | 0xdead_beef_0000_0000;
        // SAFETY: takes no pointers.
        check(unsafe { libc::syscall(libc::SYS_socket, family, of(TYPES, words[1]), number(words[2])?) })
            .map(Value::from)
    }),
    ("socket-pair", |words| {
        let mut pair = [0; 2];
        // SAFETY: the pair has room for two.
        check(unsafe { libc::socketpair(of(FAMILIES, words[0]), libc::SOCK_STREAM, 0, pair.as_mut_ptr()) })
            .map(|_| json!(true))
    }),
];

fn of(table: &[(&str, i32)], name: &str) -> i32 {
    table.iter().find(|(known, _)| *known == name).map_or(-1, |(_, value)| *value)
}
