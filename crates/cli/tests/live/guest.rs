//! Commands that turn on the guest, on minders and on each other. Whatever they do, the caller gets an answer, and the
//! sandbox either serves on or is gone.

use std::time::Duration;

use pinfold_core::outcome::{Exit, LimitKind};
use pinfold_engine::live::{Command, ExecError};

use crate::harness::{
    Host, assert_none, assert_works, begun, mark, python, run, sh, timed_out, until_gone, waiting,
};

#[test]
fn killing_everyone_leaves_a_sandbox_of_use() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for _ in 0..3 {
        let outcome = run(&sandbox, &sh("kill -9 -1; exit 7"));
        assert!([Exit::Code(7), Exit::Signal(9)].contains(&outcome.exit), "{outcome:?}");
        assert_works(&sandbox);
    }
    // With others beside it, whose minders it can signal, too.
    for signal in ["KILL", "TERM", "USR1"] {
        let (first, second) = (waiting(&sandbox), waiting(&sandbox));
        let outcome = run(&sandbox, &sh(format!("kill -{signal} -1; exit 7")));
        assert!([Exit::Code(7), Exit::Signal(9)].contains(&outcome.exit), "{outcome:?}");
        for other in [first, second] {
            assert!(matches!(other.output().unwrap().exit, Exit::Signal(_)));
        }
        assert_works(&sandbox);
    }
}

#[test]
fn one_who_ends_its_own_minder_ends_too() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for signal in ["KILL", "TERM", "SEGV"] {
        let other = waiting(&sandbox);
        let mark = mark();
        let script = format!(
            "import os, signal, time\nos.kill(os.getppid(), signal.SIG{signal})\ntime.sleep(1000) # {mark}"
        );
        let outcome = run(&sandbox, &python(script));
        assert_eq!(outcome.exit, Exit::Signal(9));
        assert_none(&mark);
        drop(other);
        assert_works(&sandbox);
    }
}

#[test]
fn one_who_stops_its_minder_still_ends_in_time() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for who in ["os.getppid()", "-1"] {
        let other = waiting(&sandbox);
        let mark = mark();
        let script = format!(
            "import os, signal, time\nprint('up', flush=True)\nos.kill({who}, signal.SIGSTOP)\ntime.sleep(1000) # {mark}"
        );
        let ended = sandbox.exec(&python(script).timeout(Duration::from_secs(2))).unwrap().output();
        match ended {
            Ok(outcome) => assert_eq!(outcome.exit, Exit::Signal(9)),
            Err(ExecError::TimedOut(_)) => {}
            other => panic!("{other:?}"),
        }
        until_gone(&mark);
        drop(other);
        assert_works(&sandbox);
    }
}

#[test]
fn one_who_stops_everyone_all_the_time_keeps_no_caller_waiting() {
    let host = Host::new();
    let mark = mark();
    let script = format!(
        "import os, signal\nprint('up', flush=True)\nwhile True:\n  try: os.kill(-1, signal.SIGSTOP)\n  except OSError: pass\n# {mark}"
    );
    for keeps in [false, true] {
        let sandbox = host.sandbox();
        let command = python(&script).timeout(Duration::from_secs(8));
        let command = if keeps { command.keep_background() } else { command };
        let attacker = begun(&sandbox, &command);
        let commands: Vec<_> =
            (0..20).map(|_| sandbox.exec(&Command::new("true").timeout(Duration::from_secs(2)))).collect();
        for command in commands {
            // However it ends: it does.
            drop(command.map(|command| command.output()));
        }
        drop(attacker.output());
        drop(sandbox);
        until_gone(&mark);
    }
    assert_works(&host.sandbox());
}

#[test]
fn limits_set_on_the_guest_and_the_minders_keep_no_caller_waiting() {
    let host = Host::new();
    let mark = mark();
    // RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_STACK, RLIMIT_NPROC, RLIMIT_CPU.
    for limit in [7, 1, 9, 3, 6, 0] {
        let sandbox = host.sandbox();
        let other = waiting(&sandbox);
        let script = format!(
            "import os, resource, sys, time\nfor p in (1, os.getppid()):\n  try: resource.prlimit(p, {limit}, (0, 0))\n  except OSError as e: print(e)\nprint('up', flush=True)\ntime.sleep(1000) # {mark}"
        );
        let attacker = begun(&sandbox, &python(script).timeout(Duration::from_secs(1)));
        drop(
            sandbox
                .exec(&Command::new("true").timeout(Duration::from_secs(2)))
                .map(|command| command.output()),
        );
        drop(attacker.output());
        drop((other, sandbox));
        until_gone(&mark);
    }
    assert_works(&host.sandbox());
}

#[test]
fn a_memory_bomb_is_labelled_and_others_live_on() {
    let host = Host::new();
    let beside = host.sandbox();
    let receipt = host.runner.blueprint(&host.asked()).unwrap().receipt().to_vec();
    let enforced = receipt.iter().any(|line| {
        let line = serde_json::to_value(line).unwrap();
        line["control"] == "limit.memory" && line["status"] == "enforced"
    });
    for bomb in [
        python("x = bytearray(300 << 20)"),
        python("x = []\nwhile True: x.append(bytearray(1 << 20))"),
        python("x = []\nwhile True: x.append(bytearray(1 << 20))").keep_background(),
        // The one that is killed is a child, and its parent would go on.
        sh(format!("{} -c 'x = bytearray(300 << 20)'; sleep 1000", crate::harness::PYTHON)),
        sh("head -c 300m /dev/zero > /dev/shm/bomb"),
    ] {
        if !enforced && format!("{bomb:?}").contains("/dev/shm") {
            continue; // Only a control group counts that, and the receipt says so.
        }
        let asked = host.asked().set("proc.maxMemoryMB", 64);
        let sandbox = host.runner.blueprint(&asked).unwrap().boot().unwrap();
        assert_works(&sandbox);
        let outcome = run(&sandbox, &bomb);
        assert_eq!((outcome.limit, outcome.exit), (Some(LimitKind::Memory), Exit::Signal(9)), "{bomb:?}");
        assert_works(&beside);
        assert_works(&host.sandbox());
    }
}

#[test]
fn limits_that_the_kernel_keeps_are_named() {
    let host = Host::new();
    let asked = host.asked().set("proc.maxDiskMB", 1).set("proc.maxCpuSeconds", 1);
    let sandbox = host.runner.blueprint(&asked).unwrap().boot().unwrap();
    for _ in 0..2 {
        let busy = run(&sandbox, &python("while True: pass"));
        assert_eq!(busy.limit, Some(LimitKind::Cpu), "{busy:?}");
        let large = run(&sandbox, &sh("exec head -c 3000000 /dev/zero > /tmp/large"));
        assert_eq!(large.limit, Some(LimitKind::Disk), "{large:?}");
        assert_works(&sandbox);
    }
    let sandbox = host.sandbox();
    assert_eq!(
        run(&sandbox, &sh("kill -XCPU $$")).limit,
        None,
        "ending by a signal of its own choice is no limit"
    );
    let outcome = run(&sandbox, &python("while True: pass").max_cpu_seconds(1));
    assert_eq!(outcome.limit, Some(LimitKind::Cpu), "{outcome:?}");
    let opens = python("import os\ntry:\n  while True: os.dup(0)\nexcept OSError as e: print(e.errno)");
    assert!(crate::harness::said(&sandbox, &opens.max_file_descriptors(20)).starts_with("24"));
    assert_works(&sandbox);
    drop(timed_out(sandbox.exec(&sh("sleep 1000").timeout(Duration::from_millis(100))).unwrap().output()));
}

#[test]
fn one_who_stops_a_process_before_it_is_a_program_delays_no_time_out() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let mark = mark();
    // A minder and its command have the next two numbers; the second is the one to hit, so as not to alarm the guest.
    let script = format!(
        "import os, signal\nprint('up', flush=True)\nnext = range(os.getpid() + 2, os.getpid() + 120, 2)\nwhile True:\n  for p in next:\n    try: os.kill(p, signal.SIGSTOP)\n    except OSError: pass\n# {mark}"
    );
    let attacker = begun(&sandbox, &python(script));
    for _ in 0..50 {
        let command = Command::new("true").timeout(Duration::from_millis(300));
        match sandbox.exec(&command).and_then(|command| command.output()) {
            Ok(_) | Err(ExecError::TimedOut(_)) => {}
            Err(ExecError::Sandbox(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    drop((attacker, sandbox));
    until_gone(&mark);
    assert_works(&host.sandbox());
}

#[test]
fn every_command_is_recorded_before_it_runs() {
    let host = Host::new();
    let sandbox = host.sandbox();
    run(&sandbox, &sh("true # first"));
    drop(sandbox.exec(&Command::new("no-such-program")).unwrap().output());
    drop(begun(&sandbox, &sh("echo up; sleep 1000 # dropped")));
    let record = host.place.read("state/pinfold/record.jsonl");
    let events = |event: &str| record.lines().filter(|line| line.contains(event)).count();
    assert_eq!(events("execution.started"), 3, "{record}");
    assert_eq!((events("execution.completed"), events("execution.failed")), (1, 2), "{record}");
    let first = record.lines().position(|line| line.contains("# first"));
    assert!(first < record.lines().position(|line| line.contains("execution.completed")), "{record}");
}
