//! What a command finds inside: no descriptors but three, no privileges, and a guest that is out of reach. On the first
//! command, on later ones, and on several at once, each of which has a minder.

use pinfold_core::coverage::Status;
use pinfold_core::outcome::Exit;
use pinfold_engine::live::{Command, ExecError, Execution};

use crate::harness::{Host, assert_works, python, run, said, sh, text, waiting};

/// Says what it has: descriptors by number with what they are, capabilities, the bit and the filter of every thread, ids.
const LOOK: &str = r#"
import os, threading
at = os.open('/proc/self/fd', os.O_RDONLY | os.O_DIRECTORY)
numbers = sorted(int(n) for n in os.listdir(at) if int(n) != at)
numbers = [n for n in numbers if os.path.exists(f'/proc/self/fd/{n}') or n < 3]
print('fds', *numbers)
for n in (0, 1, 2):
    print('is', n, os.readlink(f'/proc/self/fd/{n}').split(':')[0])
hold = threading.Event()
threads = [threading.Thread(target=hold.wait) for _ in range(3)]
[t.start() for t in threads]
for task in os.listdir('/proc/self/task'):
    status = dict(l.split(':\t', 1) for l in open(f'/proc/self/task/{task}/status').read().splitlines() if ':\t' in l)
    print('thread', *(status[k] for k in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')), status['NoNewPrivs'], status['Seccomp'])
    print('uids', *status['Uid'].split())
hold.set()
"#;

/// What [`LOOK`] says is what every command has.
#[track_caller]
fn assert_confined(said: &str) {
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split(' ').collect()).collect();
    let about = |word: &str| lines.iter().filter(|line| line[0] == word).collect::<Vec<_>>();
    assert_eq!(about("fds"), [&vec!["fds", "0", "1", "2"]], "{said}");
    assert_eq!(about("thread").len(), 4, "{said}");
    for thread in about("thread") {
        assert!(thread[1..6].iter().all(|set| set.chars().all(|digit| digit == '0')), "{said}");
        assert_eq!(thread[6..], ["1", "2"], "no_new_privs and a filter: {said}");
    }
    assert!(about("uids").iter().all(|uids| !uids[1..].contains(&"0")), "{said}");
    for stream in about("is") {
        assert!(["pipe", "/dev/null", "/dev/pts/0"].contains(&stream[2]), "{said}");
    }
}

#[test]
fn every_command_has_three_descriptors_and_no_privileges() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for _ in 0..20 {
        assert_confined(&said(&sandbox, &python(LOOK)));
    }
    for _ in 0..80 {
        assert_works(&sandbox);
    }
    assert_confined(&said(&sandbox, &python(LOOK).input(b"something".to_vec())));
    // Now there are minders.
    let first = waiting(&sandbox);
    let second = waiting(&sandbox);
    let at_once: Vec<_> = (0..6).map(|_| sandbox.exec(&python(LOOK).keep_background()).unwrap()).collect();
    for execution in at_once {
        assert_confined(&text(&execution.output().unwrap()));
    }
    drop((first, second));
    assert_confined(&said(&sandbox, &python(LOOK)));
}

#[test]
fn the_guest_and_the_minders_are_out_of_reach() {
    let host = Host::new();
    let sandbox = host.sandbox();
    // What each attempt gives: a word, or the error. The last is the control: the same on a process of one's own.
    let script = r#"
import os, ctypes, subprocess, errno
libc = ctypes.CDLL(None, use_errno=True)
def said(call):
    try: return str(call())
    except OSError as e: return errno.errorcode[e.errno]
def system(*args):
    if libc.syscall(*args) == -1: return errno.errorcode[ctypes.get_errno()]
    return 'done'
own = subprocess.Popen(['sleep', '1000'])
parent = os.getppid()
me = os.stat('/proc/self').st_uid
for name, pid in (('guest', 1), ('parent', parent), ('own', own.pid)):
    for file in ('mem', 'environ', 'maps', 'auxv', 'io', 'stack', 'syscall'):
        print(name, file, said(lambda: len(os.read(os.open(f'/proc/{pid}/{file}', os.O_RDONLY), 0))))
    for link in ('exe', 'cwd', 'root', 'fd/0', 'fd/3', 'ns/mnt'):
        print(name, link, said(lambda: 'found ' + os.readlink(f'/proc/{pid}/{link}')))
    print(name, 'fd', said(lambda: len(os.listdir(f'/proc/{pid}/fd')) >= 0))
    print(name, 'write', said(lambda: os.open(f'/proc/{pid}/mem', os.O_WRONLY)))
    print(name, 'ptrace', system(101, 16, pid, 0, 0))
    print(name, 'pidfd_getfd', system(438, os.pidfd_open(pid), 0, 0))
own.kill()
"#;
    let attempts = |out: &str| {
        for name in ["guest", "parent"] {
            let lines: Vec<_> = out.lines().filter(|line| line.starts_with(name)).collect();
            assert_eq!(lines.len(), 17, "{out}");
            for line in lines {
                let answer = line.rsplit(' ').next().unwrap();
                assert!(["EACCES", "EPERM", "ENOENT", "ENOSYS"].contains(&answer), "{line}\n{out}");
            }
        }
        assert!(out.contains("own maps 0") && out.contains("own exe found"), "{out}");
        assert!(out.contains("own fd True"), "{out}");
    };
    attempts(&said(&sandbox, &python(script)));
    attempts(&said(&sandbox, &python(script)));
    let other = waiting(&sandbox);
    attempts(&said(&sandbox, &python(script)));
    attempts(&said(&sandbox, &python(script).keep_background()));
    drop(other);
    assert_works(&sandbox);
}

#[test]
fn signals_do_nothing_to_the_guest() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let script = "for s in KILL STOP TERM INT HUP USR1 SEGV ABRT CHLD CONT; do kill -$s 1; done; echo here";
    for _ in 0..3 {
        assert_eq!(said(&sandbox, &sh(script)), "here\n");
    }
    assert_works(&sandbox);
}

#[test]
fn what_cannot_start_is_told_and_the_sandbox_lives_on() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let not_started = |command: Command| match sandbox.exec(&command).unwrap().output() {
        Err(ExecError::NotStarted { source, .. }) => source.raw_os_error(),
        other => panic!("{other:?}"),
    };
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        assert_eq!(not_started(Command::new("no-such-program")), Some(2));
        assert_eq!(not_started(Command::new("/no/such/program")), Some(2));
        assert_eq!(not_started(Command::new("/etc/passwd")), Some(13));
        assert_eq!(not_started(Command::new("/")), Some(13));
        assert_eq!(not_started(Command::new("")), Some(2));
        assert_eq!(not_started(Command::new("true").arg("a\0b")), Some(22), "a NUL in an argument");
        assert_eq!(not_started(Command::new("true").env("A", "b\0c")), Some(22), "a NUL in a variable");
        // More than exec(2) takes.
        assert_eq!(not_started(Command::new("true").arg("x".repeat(1 << 20))), Some(7));
        match sandbox.exec(&Command::new("true").directory("/no/such/place")).unwrap().output() {
            Err(ExecError::Step { message, .. }) => assert!(message.contains("/no/such/place"), "{message}"),
            other => panic!("{other:?}"),
        }
        assert_works(&sandbox);
        drop(other);
    }
}

#[test]
fn a_megabyte_of_arguments_and_variables_arrives() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let words = (0..10).map(|_| "a".repeat(100_000));
    let mut command = python("import os, sys; print(sum(map(len, sys.argv[1:])), len(os.environ['BIG']))")
        .args(words)
        .env("BIG", "b".repeat(100_000));
    assert_eq!(said(&sandbox, &command), "1000000 100000\n");
    let other = waiting(&sandbox);
    command = command.keep_background();
    assert_eq!(said(&sandbox, &command), "1000000 100000\n");
    drop(other);
}

#[test]
fn more_than_a_message_takes_is_refused() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for _ in 0..2 {
        let words = (0..80).map(|_| "a".repeat(100_000));
        let refused = sandbox.exec(&Command::new("true").args(words)).and_then(Execution::output);
        match refused {
            Err(ExecError::NotStarted { source, .. }) => assert_eq!(source.raw_os_error(), Some(7)),
            other => panic!("{other:?}"),
        }
        assert_works(&sandbox);
    }
}

#[test]
fn exit_codes_and_signals_come_through() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        for code in [0, 1, 2, 42, 126, 127, 128, 137, 255] {
            assert_eq!(run(&sandbox, &sh(format!("exit {code}"))).exit, Exit::Code(code));
        }
        for signal in [1, 2, 6, 9, 11, 13, 14, 15, 31] {
            assert_eq!(run(&sandbox, &sh(format!("kill -{signal} $$"))).exit, Exit::Signal(signal));
        }
        for signal in [1, 2, 10, 12, 15] {
            let script = format!("trap 'exit 40' {signal}; echo up; while :; do sleep 0.01; done");
            let mut trapping = sandbox.exec(&sh(script)).unwrap();
            trapping.next_piece().unwrap();
            trapping.signal(signal).unwrap();
            assert_eq!(trapping.output().unwrap().exit, Exit::Code(40), "signal {signal}");
        }
        let ended = waiting(&sandbox);
        ended.signal(15).unwrap();
        assert_eq!(ended.output().unwrap().exit, Exit::Signal(15));
        let ended = waiting(&sandbox);
        ended.kill().unwrap();
        assert_eq!(ended.output().unwrap().exit, Exit::Signal(9));
        drop(other);
    }
}

#[test]
fn the_receipt_admits_what_a_live_sandbox_cannot_hold() {
    let host = Host::new();
    let blueprint = host.runner.blueprint(&host.asked()).unwrap();
    let cpu = blueprint.receipt().iter().find(|line| line.control.name() == "limit.cpu").unwrap();
    assert_eq!((cpu.status, cpu.mechanism.as_str()), (Status::Partial, "RLIMIT_CPU"));
    let insisting = host.asked().set("requirements", serde_json::json!({ "limit.cpu": "required" }));
    let refused = host.runner.blueprint(&insisting).unwrap_err();
    assert!(refused.code() == "PF-WALL-004" && refused.message().contains("limit.cpu"), "{refused}");
}
