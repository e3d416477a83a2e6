//! Other processes (classes 23, 24, 25, 28, 36): those of the host are not there, and process 1, the wall's
//! own, can be neither traced, nor read, nor stopped.

use pinfold_conformance::live::Live;
use pinfold_conformance::{Off, Place, Vars, case, denials, each, host};

const NAMESPACE: Off = Off::Never("without a pid namespace there is no /proc to mount, so nothing starts");
const GUEST: Off = Off::Never("the guest is not dumpable, which has no switch");
/// Refused by the filter, by the file's owner, or because it is not there.
const REFUSED: &[&str] = &["EPERM", "EACCES", "ESRCH", "ENOENT"];

/// A process of the caller's on the host, with a canary in its environment.
struct Victim(Live);

impl Victim {
    fn new(place: &Place) -> Self {
        let mut command = place.host("sh");
        command.args(["-c", "echo ready; read line"]).env("CANARY", "in the environment");
        let mut live = Live::start(command);
        assert_eq!(live.line(), "ready");
        Self(live)
    }

    fn assert_alive(self) {
        let Self(mut live) = self;
        live.say("end");
        assert!(live.wait().0.success(), "the host's process was harmed");
    }
}

#[test]
fn processes_of_the_host_cannot_be_seen_or_touched() {
    each(case!("host"), |place| {
        let victim = Victim::new(place);
        let pid = victim.0.id().to_string();
        let attempts: &[&[&str]] = &[
            &["kill", &pid, "9"],
            &["kill", &pid, "19"],
            &["queue-signal", &pid, "15"],
            &["pidfd-open", &pid],
            &["trace", &pid],
            &["seize", &pid],
            &["memory", &pid],
            &["vm-read", &pid],
            &["vm-write", &pid],
            &["steal-descriptor", &pid, "0"],
            &["set-limits", &pid],
            &["proc", &pid, "environ"],
            &["proc", &pid, "cmdline"],
            &["proc-link", &pid, "root"],
            &["proc-link", &pid, "cwd"],
            &["proc-list", &pid, "fd"],
        ];
        // Whether filter and Landlock are there or not, the process is in another world.
        for without in [&[][..], &["seccomp"], &["landlock"], &["seccomp", "landlock"]] {
            let (answers, _) = place.run().without(without).attempt(attempts);
            for (answer, attempt) in answers.iter().zip(attempts) {
                assert!(answer.is_refused(REFUSED), "{attempt:?} was {answer} without {without:?}");
            }
        }
        victim.assert_alive();
    });
}

#[test]
fn only_the_sandbox_s_own_processes_are_in_proc() {
    each(case!("pids"), |place| {
        let answer = place.run().probe(&["pids"]);
        let pids: Vec<i64> =
            answer.value().as_array().expect("numbers").iter().filter_map(|n| n.as_i64()).collect();
        // The guest, the probe, and the process that asks.
        assert_eq!(pids.len(), 3, "{pids:?}");
        let namespaces = place.run().probe(&["namespaces"]);
        for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
            let own = std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
            assert_ne!(namespaces.value()[kind].as_str(), own.to_str(), "{kind} is shared with the host");
        }
        assert_eq!(place.run().probe(&["host-name"]).text(), "pinfold");
    });
}

/// Signals to all processes reach those of the sandbox alone.
#[test]
fn signals_to_everyone_stay_inside() {
    each(case!("everyone"), |place| {
        let victim = Victim::new(place);
        let done = place.run().shell("kill -TERM -1; kill -KILL -1");
        assert!(done.json["exit"]["signal"].is_u64() || done.json["exit"]["code"].is_u64(), "{done:?}");
        victim.assert_alive();
    });
}

denials! {
    trace_process_1 {
        attempt: &["trace", "1"], refused: REFUSED, off: GUEST, alone: &["seccomp", "landlock"],
    }
    seize_process_1 {
        attempt: &["seize", "1"], refused: REFUSED, off: GUEST, alone: &["seccomp", "landlock"],
    }
    memory_of_process_1 {
        attempt: &["memory", "1"], refused: REFUSED, off: GUEST, alone: &["seccomp", "landlock"],
    }
    read_process_1 {
        attempt: &["vm-read", "1"], refused: REFUSED, off: GUEST, alone: &["seccomp", "landlock"],
    }
    write_process_1 {
        attempt: &["vm-write", "1"], refused: REFUSED, off: GUEST, alone: &["seccomp", "landlock"],
    }
    descriptors_of_process_1 {
        attempt: &["proc-list", "1", "fd"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    steal_from_process_1 {
        attempt: &["steal-descriptor", "1", "3"], refused: REFUSED, off: GUEST,
        alone: &["seccomp", "landlock"],
    }
    environment_of_process_1 {
        attempt: &["proc", "1", "environ"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    maps_of_process_1 { attempt: &["proc", "1", "maps"], refused: REFUSED, off: GUEST, alone: &["landlock"] }
    root_of_process_1 {
        attempt: &["proc-link", "1", "root"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    directory_of_process_1 {
        attempt: &["proc-link", "1", "cwd"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    program_of_process_1 {
        attempt: &["proc-link", "1", "exe"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    namespaces_of_process_1 {
        attempt: &["proc-link", "1", "ns/mnt"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    list_the_root_of_process_1 {
        attempt: &["list", "/proc/1/root/"], refused: REFUSED, off: GUEST, alone: &["landlock"],
    }
    trace_own_child {
        attempt: &["trace-child"], refused: &["EPERM"], off: Off::Succeeds(&["seccomp"]), control: &["fork"],
    }
    write_own_program {
        attempt: &["open-write", "/proc/self/exe"], refused: &["ETXTBSY", "EROFS", "EACCES"],
        alone: &["landlock", "seccomp"],
        off: Off::Never("the kernel keeps running programs from being written, and the zone is read-only"),
    }
    write_the_program_of_process_1 {
        attempt: &["open-write", "/proc/1/exe"], refused: REFUSED, off: GUEST,
        alone: &["landlock", "seccomp"],
    }
    see_a_process_of_the_host {
        attempt: &["proc", "{pid}", "cmdline"], refused: REFUSED, off: NAMESPACE,
        alone: &["seccomp", "landlock"],
        setup: |_| -> Vars { vec![("{pid}", std::process::id().to_string())] },
    }
}

/// Signals that process 1 has no handler for are not delivered to it (pid_namespaces(7)).
#[test]
fn process_1_cannot_be_killed_or_stopped() {
    each(case!("signals-to-1"), |place| {
        let script = "for s in HUP INT QUIT TERM KILL STOP TSTP USR1 CHLD ABRT SEGV; do kill -$s 1 \
            2>/dev/null; done; echo alive";
        let done = place.run().shell(script).ok();
        assert_eq!(done.stdout(), "alive\n");
    });
}

/// Our own binary, as far as anything inside can reach it, is the same afterwards.
#[test]
fn the_binary_is_unchanged() {
    each(case!("binary"), |place| {
        let binary = place.path("bin/own");
        place.copy(&place.path("bin/pinfold"), "bin/own");
        place.caller.own(&binary);
        let before = host::bytes(&binary);
        let zone = format!("tools={}:ro", place.path("tools").display());
        let script = "for p in /proc/[0-9]*/exe; do ( echo x >$p ) 2>/dev/null; ( cat /bin/true >$p ) \
            2>/dev/null; done; echo done";
        let mut command = place.host(&binary);
        command.args(["run", "--zone", &zone, "--", "sh", "-c", script]);
        let output = command.output().expect("run the copy");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{output:?}");
        assert!(host::bytes(&binary) == before, "the binary was changed");
    });
}
