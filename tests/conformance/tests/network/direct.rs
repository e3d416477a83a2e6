//! Direct ways out (class 48): to listeners on the host's loopback and own addresses, to anywhere else, by
//! every protocol; with proxy variables and without. The host's listeners hear nothing.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use pinfold_conformance::{Answer, Place, case, each, host, skip};

/// What comes back from a place that cannot be reached.
const REFUSED: &[&str] = &["ENETUNREACH", "EHOSTUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "ENETDOWN"];

/// The addresses of the host that a sandbox may try: both loopbacks, and what the host is known by outside.
fn addresses() -> Vec<IpAddr> {
    let mut all = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    all.extend(host::own_address());
    all
}

/// A listener that greets whoever comes, until the value is dropped; and how many came.
struct Greeter {
    address: SocketAddr,
    listener: TcpListener,
}

impl Greeter {
    fn new(address: IpAddr) -> Option<Self> {
        let listener = TcpListener::bind((address, 0)).ok()?;
        listener.set_nonblocking(true).expect("a listener");
        Some(Self { address: listener.local_addr().expect("an address"), listener })
    }

    /// Greets all who wait; says how many.
    fn greet(&self) -> usize {
        let mut count = 0;
        while let Ok((mut stream, _)) = self.listener.accept() {
            stream.write_all(b"greeting").unwrap_or_default();
            count += 1;
        }
        count
    }
}

#[test]
fn tcp_reaches_no_listener_of_the_host() {
    let case = case!("tcp");
    each(case, |place| {
        for address in addresses() {
            let Some(greeter) = Greeter::new(address) else {
                skip::skip(case, &format!("the host has no {address}"));
                continue;
            };
            let to = greeter.address.to_string();
            let (answers, _) = place.run().attempt(&[&["tcp", &to], &["loopback", "127.0.0.1"]]);
            assert!(answers[0].is_refused(REFUSED), "{to} was {}", answers[0]);
            assert!(answers[1].is_ok(), "its own loopback: {}", answers[1]);
            assert_eq!(greeter.greet(), 0, "somebody came to {to}");
        }
    });
}

/// Without the namespace the same connection is made, so the case above would fail.
#[test]
fn without_the_namespace_tcp_reaches_the_host() {
    each(case!("tcp-off"), |place| {
        let greeter = Greeter::new(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a loopback");
        let to = greeter.address.to_string();
        let mut came = 0;
        let answer = std::thread::scope(|scope| {
            let run = scope.spawn(|| place.run().without(&["netns"]).probe(&["tcp", &to]));
            host::until(host::PATIENCE, || {
                came += greeter.greet();
                run.is_finished()
            });
            run.join().expect("a run")
        });
        assert!(answer.is_ok() && came > 0, "{answer}, {came} came");
    });
}

#[test]
fn udp_reaches_no_listener_of_the_host() {
    each(case!("udp"), |place| {
        for address in addresses() {
            let Ok(listener) = UdpSocket::bind((address, 0)) else { continue };
            listener.set_nonblocking(true).expect("a listener");
            let to = listener.local_addr().expect("an address").to_string();
            // On its own loopback a datagram is sent and lost: what counts is that the host hears nothing.
            place.run().probe(&["udp", &to, "sentinel"]);
            assert!(listener.recv(&mut [0; 64]).is_err(), "a datagram came to {to}");
            let open = place.run().without(&["netns"]).probe(&["udp", &to, "sentinel"]);
            assert!(open.is_ok() && listener.recv(&mut [0; 64]).is_ok(), "without the namespace: {open}");
        }
    });
}

/// Names of nobody (RFC 5737, RFC 3849), a metadata service, and multicast: there is no way to any of them.
#[test]
fn there_is_no_way_anywhere() {
    each(case!("anywhere"), |place| {
        let tcp = [
            "192.0.2.1:443",
            "169.254.169.254:80",
            "[2001:db8::1]:443",
            "[fe80::1]:80",
            "10.0.0.1:53",
            "172.17.0.1:2375",
        ];
        for to in tcp {
            let (answers, _) = place.run().attempt(&[&["tcp", to], &["udp", to, "x"]]);
            // An address of the link alone cannot even be named without an interface.
            let refused = |answer: &Answer| answer.is_refused(REFUSED) || answer.is_refused(&["EINVAL"]);
            assert!(answers.iter().all(refused), "{to}: {answers:?}");
        }
        for to in ["224.0.0.1:9", "255.255.255.255:9", "[ff02::1]:9", "192.0.2.1:443"] {
            let answer = place.run().probe(&["udp", to, "x"]);
            assert!(
                answer.is_refused(&["ENETUNREACH", "EACCES", "EADDRNOTAVAIL", "EHOSTUNREACH"]),
                "{to}: {answer}"
            );
        }
    });
}

#[test]
fn echo_and_raw_packets_are_refused() {
    each(case!("raw"), |place| {
        let refused = &["EPERM", "EACCES", "EPROTONOSUPPORT", "ENETUNREACH"];
        for to in ["127.0.0.1", "192.0.2.1"] {
            let (answers, _) = place.run().attempt(&[&["icmp", to], &["raw", to]]);
            assert!(answers.iter().all(|answer| answer.is_refused(refused)), "{to}: {answers:?}");
        }
        // The host behind a virtual machine's socket, and the machine itself.
        for context in ["0", "1", "2"] {
            let answer = place.run().probe(&["vsock", context, "1024"]);
            assert!(answer.is_refused(&["EAFNOSUPPORT"]), "{context}: {answer}");
        }
    });
}

#[test]
fn there_is_one_interface() {
    each(case!("interfaces"), |place| {
        assert_eq!(place.run().probe(&["interfaces"]).to_string(), "done ([\"lo\"])");
        let own = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let outside = place.run().without(&["netns"]).probe(&["interfaces"]);
        assert_eq!(outside.value().as_array().map(Vec::len), Some(own.lines().count() - 2), "the control");
    });
}

/// A variable that names a proxy opens nothing.
#[test]
fn proxy_variables_change_nothing() {
    each(case!("proxy"), |place: &Place| {
        let greeter = Greeter::new(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a loopback");
        let proxy = format!("http://{}", greeter.address);
        let mut run = place.run();
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            run = run.variable(name, &proxy).options(["--env", &format!("{name}={proxy}")]);
        }
        let answer = run.probe(&["tcp", &greeter.address.to_string()]);
        assert!(answer.is_refused(REFUSED), "{answer}");
        assert_eq!(greeter.greet(), 0);
    });
}

/// Names are not looked up anywhere, and the look-up fails at once.
#[test]
fn names_are_not_resolved() {
    each(case!("names"), |place| {
        let done = place
            .run()
            .shell("getent hosts example.com; echo $?; getent hosts localhost >/dev/null; echo $?");
        assert_eq!(done.stdout().lines().collect::<Vec<_>>(), ["2", "0"], "{done:?}");
    });
}
