//! Privileges (class 26): no capability in any set, no new privileges, the filter, and nobody's id, in every
//! thread of every process.

use pinfold_conformance::{Place, case, each};

const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

fn tasks(place: &Place, without: &[&str]) -> Vec<serde_json::Value> {
    let answer = place.run().options(["--processes", "32"]).without(without).probe(&["privileges"]);
    answer.value().as_array().expect("tasks").clone()
}

#[test]
fn every_thread_has_none() {
    each(case!("none"), |place| {
        let tasks = tasks(place, &[]);
        // The probe, the child that asks with its second thread, the shell and its own child.
        assert!(tasks.len() >= 5, "{tasks:?}");
        for task in &tasks {
            for set in SETS {
                assert_eq!(task[set], "0000000000000000", "{set} is not empty: {task}");
            }
            assert_eq!(task["NoNewPrivs"], "1", "{task}");
            assert_eq!(task["Seccomp"], "2", "{task}");
            assert_eq!(task["Groups"], "", "supplementary groups: {task}");
            assert_eq!(task["Uid"], "65534\t65534\t65534\t65534", "{task}");
        }
    });
}

/// Each is seen to be missing when it is switched off, so that the case above would fail without it.
#[test]
fn each_comes_from_its_own_defence() {
    each(case!("off"), |place| {
        assert!(tasks(place, &["seccomp"]).iter().all(|task| task["Seccomp"] == "0"));
        // Executing a program as an ordinary user drops the other sets by itself (capabilities(7)).
        assert!(tasks(place, &["capabilities"]).iter().all(|task| task["CapBnd"] != "0000000000000000"));
    });
}

/// On the host, the command is nobody: not root, and not the caller when the caller is root.
#[test]
fn on_the_host_it_is_an_unprivileged_user() {
    each(case!("host-id"), |place| {
        let mark = pinfold_conformance::canary::random();
        let mut live = pinfold_conformance::live::Live::start(
            place.run().prepare(&[], ["sh", "-c", "echo ready; read x", &mark]),
        );
        assert_eq!(live.line(), "ready");
        let inside: Vec<i32> =
            pinfold_conformance::host::processes(&mark).into_iter().filter(|pid| *pid != live.id()).collect();
        assert_eq!(inside.len(), 1, "the command is not found on the host");
        let status = std::fs::read_to_string(format!("/proc/{}/status", inside[0])).expect("its status");
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("ids");
        for id in ids.split_whitespace() {
            let id: u32 = id.parse().expect("a number");
            assert_ne!(id, 0, "root on the host");
            assert_eq!(id == place.caller.id(), !place.caller.is_root(), "the id is {id}");
        }
        live.hang_up();
        live.wait();
    });
}

/// Two sandboxes of root's have different ids, or one could signal or trace the other.
#[test]
fn two_sandboxes_of_root_are_two_users() {
    each(case!("two-ids"), |place| {
        if !place.caller.is_root() {
            return;
        }
        let mut ids = Vec::new();
        let mut running = Vec::new();
        for _ in 0..2 {
            let mark = pinfold_conformance::canary::random();
            let mut live = pinfold_conformance::live::Live::start(
                place.run().prepare(&[], ["sh", "-c", "echo ready; read x", &mark]),
            );
            assert_eq!(live.line(), "ready");
            let inside =
                pinfold_conformance::host::processes(&mark).into_iter().find(|pid| *pid != live.id());
            let status = std::fs::read_to_string(format!("/proc/{}/status", inside.expect("the command")))
                .expect("status");
            ids.push(status.lines().find(|line| line.starts_with("Uid:")).expect("ids").to_owned());
            running.push(live);
        }
        assert_ne!(ids[0], ids[1]);
    });
}
