//! UNIX sockets and FIFOs of the host (class 46): abstract names, agents and daemons by their paths, and what
//! lies in a zone, which crosses network namespaces and read-only mounts.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use pinfold_conformance::{Answer, Place, case, each, host};

const REFUSED: &[&str] = &["ECONNREFUSED", "EPERM", "EACCES", "ENOENT", "ENXIO", "EROFS"];

/// Runs `attempt` while the host greets whoever connects to `listener`; gives the answer and how many came.
fn greeted(listener: &UnixListener, attempt: impl FnOnce() -> Answer + Send) -> (Answer, usize) {
    listener.set_nonblocking(true).expect("a listener");
    let mut came = 0;
    let answer = std::thread::scope(|scope| {
        let run = scope.spawn(attempt);
        host::until(host::PATIENCE, || {
            while let Ok((mut stream, _)) = listener.accept() {
                stream.write_all(b"greeting").unwrap_or_default();
                came += 1;
            }
            run.is_finished()
        });
        run.join().expect("a run")
    });
    (answer, came)
}

/// A socket that everyone on the host may use, as agents and daemons have it.
fn listen(place: &Place, name: &str) -> UnixListener {
    place.mkdir(std::path::Path::new(name).parent().expect("a directory"));
    let listener = UnixListener::bind(place.path(name)).expect("bind a socket");
    std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o777))
        .expect("open a socket");
    place.caller.own(&place.path(name));
    listener
}

#[test]
fn abstract_names_of_the_host_are_not_there() {
    each(case!("abstract"), |place| {
        let name = place.name().to_owned();
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixListener::bind_addr(&address).expect("bind a name");
        // The namespace holds it, and so does Landlock where it knows scopes.
        for without in [&[][..], &["landlock"], &["seccomp"], &["netns"]] {
            let (answer, came) =
                greeted(&listener, || place.run().without(without).probe(&["abstract", &name]));
            assert!(answer.is_refused(REFUSED) && came == 0, "{answer} without {without:?}");
        }
        let (answer, came) =
            greeted(&listener, || place.run().without(&["netns", "landlock"]).probe(&["abstract", &name]));
        assert!(answer.is_ok() && came == 1, "without either it is {answer}");
        assert!(place.run().probe(&["own-abstract", "own"]).is_ok(), "the control");
    });
}

#[test]
fn agents_and_daemons_of_the_host_are_not_there() {
    each(case!("agents"), |place| {
        for path in [
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/run/containerd/containerd.sock",
            "/run/podman/podman.sock",
            "/run/dbus/system_bus_socket",
            "/run/systemd/private",
            "/run/systemd/journal/stdout",
            "/run/udev/control",
            "/tmp/.X11-unix/X0",
            "/dev/log",
            "/run/nscd/socket",
        ] {
            let answer = place.run().probe(&["unix", path]);
            assert!(answer.is_refused(&["ENOENT", "EACCES"]), "{path} was {answer}");
        }
    });
}

#[test]
fn a_socket_outside_is_not_reached() {
    each(case!("outside"), |place| {
        let listener = listen(place, "outside/agent");
        let path = place.path("outside/agent").display().to_string();
        let (answer, came) =
            greeted(&listener, || place.run().variable("SSH_AUTH_SOCK", &path).probe(&["unix", &path]));
        assert!(answer.is_refused(&["ENOENT", "EACCES"]) && came == 0, "{answer}");
    });
}

#[test]
fn sockets_in_zones_are_masked() {
    each(case!("zones"), |place| {
        for (host, inside, zone) in [
            ("workspace/agent", "/workspace/agent", ""),
            ("workspace/a/b/agent", "/workspace/a/b/agent", ""),
            ("workspace/a/b/c/d/e/f/agent", "/workspace/a/b/c/d/e/f/agent", ""),
            ("data/agent", "/input/agent", "ro"),
            ("data/x/y/z/agent", "/input/x/y/z/agent", "ro"),
        ] {
            let listener = listen(place, host);
            let zone_option = format!("input={}:ro", place.path("data").display());
            let options: &[&str] = if zone.is_empty() { &[] } else { &["--zone", &zone_option] };
            let run = || place.run().options(options);
            let (answer, came) = greeted(&listener, || run().probe(&["unix", inside]));
            assert!(answer.is_refused(REFUSED) && came == 0, "{host} was {answer}");
            let (answer, came) = greeted(&listener, || run().without(&["masks"]).probe(&["unix", inside]));
            assert!(answer.is_ok() && came == 1, "{host} without the mask: {answer}");
            std::fs::remove_file(place.path(host)).expect("remove the socket");
        }
        assert!(place.run().probe(&["own-unix", "/workspace/own"]).is_ok(), "its own sockets work");
    });
}

#[test]
fn datagrams_and_fifos_in_zones_reach_nobody() {
    each(case!("datagrams"), |place| {
        let receiver = UnixDatagram::bind(place.workspace("journal")).expect("bind a socket");
        std::fs::set_permissions(place.workspace("journal"), std::fs::Permissions::from_mode(0o777))
            .expect("open it");
        place.caller.own(&place.workspace("journal"));
        receiver.set_nonblocking(true).expect("a socket");
        place.host_output("mkfifo", &["-m", "666", "pipe"]);
        // Open for reading on the host, so that a writer inside would not have to wait.
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
        let pipe = rustix::fs::open(place.workspace("pipe"), flags, rustix::fs::Mode::empty())
            .expect("open the pipe");
        let attempts: &[&[&str]] =
            &[&["unix-datagram", "/workspace/journal", "x"], &["fifo-write", "/workspace/pipe", "x"]];
        let (answers, _) = place.run().attempt(attempts);
        assert!(answers.iter().all(|answer| answer.is_refused(REFUSED)), "{answers:?}");
        assert!(
            receiver.recv(&mut [0; 8]).is_err() && rustix::io::read(&pipe, &mut [0; 8]).is_err(),
            "something came"
        );
        let (answers, _) = place.run().without(&["masks"]).attempt(attempts);
        assert!(answers.iter().all(Answer::is_ok), "without the mask: {answers:?}");
        assert!(
            receiver.recv(&mut [0; 8]).is_ok() && rustix::io::read(&pipe, &mut [0; 8]).is_ok(),
            "nothing came"
        );
    });
}

/// One that is made in the workspace while the sandbox runs: from Landlock's ninth ABI on it is out of reach;
/// below, that is admitted in the receipt's words.
#[test]
fn a_socket_made_later_is_admitted() {
    each(case!("later"), |place| {
        let mut live = pinfold_conformance::live::Live::start(place.run().prepare(&[], ["sh"]));
        live.say("echo ready");
        assert_eq!(live.line(), "ready");
        let listener = listen(place, "workspace/later");
        let (_, came) = greeted(&listener, || {
            live.say("/tools/pinfold-probe unix /workspace/later");
            Answer::parse(&live.line()).1
        });
        live.hang_up();
        live.wait();
        if came > 0 {
            let done = place.run().shell("true").ok();
            let line = done.receipt("ipc.isolated");
            let admitted = line["status"] != "enforced"
                || line["detail"].as_str().is_some_and(|text| text.contains("socket"));
            assert!(admitted, "reached, and the receipt calls it enforced: {line}");
        }
    });
}
