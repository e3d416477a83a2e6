//! What network off leaves (control `network.direct`): a loopback of the sandbox's own, of which nobody
//! outside knows.

use std::net::TcpStream;

use pinfold_conformance::live::Live;
use pinfold_conformance::{case, each, skip};

#[test]
fn both_versions_work_inside() {
    each(case!("own"), |place| {
        let (answers, _) = place.run().attempt(&[
            &["loopback", "127.0.0.1"],
            &["loopback", "[::1]"],
            &["loopback", "127.9.9.9"],
        ]);
        assert!(answers.iter().all(|answer| answer.to_string() == "done (\"hello\")"), "{answers:?}");
    });
}

/// A server inside is not there for the host, nor for another sandbox.
#[test]
fn a_server_inside_is_not_seen_outside() {
    let case = case!("server");
    each(case, |place| {
        if skip::needs(case, "python3", "python3").is_none() {
            return;
        }
        let script = "import socket\ns = socket.create_server(('0.0.0.0', 0))\nprint(s.getsockname()[1], \
            flush=True)\ninput()";
        let mut live = Live::start(place.run().prepare(&[], ["python3", "-c", script]));
        let port = live.line();
        let to = format!("127.0.0.1:{port}");
        assert!(TcpStream::connect(&to).is_err(), "the host reaches a server inside");
        let other = place.run().probe(&["tcp", &to]);
        assert!(other.is_refused(&["ECONNREFUSED"]), "another sandbox reaches it: {other}");
        live.say("");
        assert!(live.wait().0.success());
    });
}
