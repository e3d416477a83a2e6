//! Endings: of a command, of what it left behind, of a sandbox. Nothing is left, nothing writes later, and whoever runs
//! beside it goes on.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pinfold_core::outcome::Exit;
use pinfold_engine::live::{Command, ExecError};

use crate::harness::{
    Host, assert_none, assert_still, assert_works, begun, mark, processes, python, run, said, sh, text,
    timed_out, until, until_gone, waiting,
};

/// Leaves behind every kind of process that does not want to end: in a session of its own, twice forked, deaf to every
/// signal that can be ignored, stopped, a subreaper with an orphan. All but the stopped one write to `grows`.
fn stubborn(mark: &str, then: &str) -> Command {
    python(format!(
        r#"
import os, signal, sys, time, ctypes
def write():
    while True:
        with open('grows', 'ab') as f: f.write(b'x')
        time.sleep(0.001)
def daemon(what):
    if os.fork(): return
    os.setsid()
    for n in range(1, 32):
        if n not in (signal.SIGKILL, signal.SIGSTOP): signal.signal(n, signal.SIG_IGN)
    if os.fork(): os._exit(0)
    what()
    os._exit(0)
def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
    write()
def reaper():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        if os.fork() == 0: write()
        os._exit(0)
    write()
daemon(write); daemon(stopped); daemon(reaper); daemon(write)
while not os.path.exists('grows') or os.stat('grows').st_size < 50: time.sleep(0.001)
print('up', flush=True)
{then} # {mark}
"#
    ))
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true] {
        let other = at_once
            .then(|| begun(&sandbox, &sh("echo up; read line; echo heard").input(vec![b'x'; 1 << 20])));
        let mark = mark();
        assert_eq!(said(&sandbox, &stubborn(&mark, "pass")), "up\n");
        assert_none(&mark);
        assert_still(&host, Some(&sandbox), "project/grows");
        if let Some(other) = other {
            assert!(other.output().is_ok(), "it runs beside, and lived on");
        }
    }
}

#[test]
fn nothing_is_left_when_time_runs_out() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        let mark = mark();
        let command = stubborn(&mark, "time.sleep(1000)").timeout(Duration::from_secs(3));
        let outcome = timed_out(sandbox.exec(&command).unwrap().output());
        assert_eq!(text(&outcome), "up\n");
        assert_none(&mark);
        assert_still(&host, Some(&sandbox), "project/grows");
        if let Some(other) = other {
            other.signal(15).unwrap();
            assert_eq!(other.output().unwrap().exit, Exit::Signal(15), "it lived on until now");
        }
    }
}

#[test]
fn dropping_ends_a_command_a_future_and_a_sandbox() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true] {
        let other = at_once.then(|| waiting(&sandbox));
        let mark = mark();
        drop(begun(&sandbox, &stubborn(&mark, "time.sleep(1000)")));
        until_gone(&mark);
        assert_still(&host, Some(&sandbox), "project/grows");
        std::fs::remove_file(host.place.path("project/grows")).unwrap();
        let future = sandbox.start(&stubborn(&mark, "time.sleep(1000)")).unwrap();
        until("it runs", || {
            std::fs::metadata(host.place.path("project/grows")).is_ok_and(|file| file.len() > 0)
        });
        drop(future);
        until_gone(&mark);
        assert_still(&host, Some(&sandbox), "project/grows");
        drop(other);
    }
    let mark = mark();
    let execution = begun(&sandbox, &stubborn(&mark, "time.sleep(1000)"));
    drop(sandbox);
    assert!(!processes(&mark).is_empty(), "a command keeps its sandbox");
    drop(execution);
    until_gone(&mark);
    assert_still(&host, None, "project/grows");
    // Ended while commands run, and by another handle.
    let sandbox = host.sandbox();
    let execution = begun(&sandbox, &stubborn(&mark, "time.sleep(1000)"));
    sandbox.clone().end().unwrap();
    assert!(matches!(execution.output(), Err(ExecError::Sandbox(_))));
    assert_none(&mark);
    let gone = sandbox.exec(&Command::new("true")).map(drop);
    assert!(matches!(gone, Err(ExecError::Sandbox(_))), "{gone:?}");
}

/// Wakes the thread that waits.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = Box::pin(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_command_can_be_awaited() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let all: Vec<_> =
        (0..10).map(|number| sandbox.start(&sh(format!("echo {number}; exit {number}"))).unwrap()).collect();
    for (number, running) in all.into_iter().enumerate() {
        let outcome = wait_for(running).unwrap();
        assert_eq!((outcome.exit, text(&outcome)), (Exit::Code(number as i32), format!("{number}\n")));
    }
    let late = sandbox.start(&sh("sleep 1000").timeout(Duration::from_millis(200))).unwrap();
    assert!(matches!(wait_for(late), Err(ExecError::TimedOut(_))));
}

#[test]
fn a_fork_bomb_ends_at_its_time_and_its_neighbour_lives_on() {
    let host = Host::new();
    let asked = host.asked().set("proc.maxProcesses", 100);
    let sandbox = host.runner.blueprint(&asked).unwrap().boot().unwrap();
    let mark = mark();
    let bomb = format!("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n# {mark}");
    let bomb = python(bomb).timeout(Duration::from_secs(2));
    said(&sandbox, &sh("mkfifo fifo"));
    for beside in [false, true] {
        let script = "echo up; read line < fifo; exit 5";
        let other = beside.then(|| begun(&sandbox, &sh(script)));
        let bombing = sandbox.exec(&bomb).unwrap();
        until("it multiplies", || processes(&mark).len() > 50);
        // The host is fine, and so is another sandbox.
        assert_works(&host.sandbox());
        timed_out(bombing.output());
        assert_none(&mark);
        assert_works(&sandbox);
        if let Some(other) = other {
            std::fs::write(host.place.path("project/fifo"), "end\n").unwrap();
            assert_eq!(other.output().unwrap().exit, Exit::Code(5), "it lived on");
        }
    }
}

/// One that is never the same process for long: every link of the chain forks the next and ends.
fn chain(mark: &str, links: usize) -> Command {
    python(format!(
        r#"
import os, time
def chain():
    f = os.open('grows', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        if os.fork():
            os._exit(0)
        os.write(f, b'x')
for _ in range({links}):
    if os.fork() == 0:
        os.setsid()
        chain()
while not os.path.exists('grows') or os.stat('grows').st_size < 50: time.sleep(0.001)
print('up', flush=True) # {mark}
"#
    ))
}

#[test]
fn a_chain_of_forks_does_not_outrun_its_end() {
    let host = Host::new();
    let sandbox = host.sandbox();
    for at_once in [false, true, true, true] {
        let other = at_once.then(|| waiting(&sandbox));
        for links in [1, 1, 4] {
            let mark = mark();
            let outcome = run(&sandbox, &chain(&mark, links));
            assert_eq!(text(&outcome), "up\n");
            assert_none(&mark);
            assert_still(&host, Some(&sandbox), "project/grows");
        }
        if let Some(other) = other {
            other.signal(15).unwrap();
            assert_eq!(other.output().unwrap().exit, Exit::Signal(15), "it lived on");
        }
    }
}

#[test]
fn many_processes_left_behind_end_while_another_command_runs() {
    let host = Host::new();
    let asked = host.asked().set("proc.maxProcesses", 2000).set("proc.maxMemoryMB", 2000);
    let sandbox = host.runner.blueprint(&asked).unwrap().boot().unwrap();
    let other = waiting(&sandbox);
    let mark = mark();
    let script = format!(
        "import os, time\nfor _ in range(700):\n  if os.fork() == 0: time.sleep(1000) # {mark}\nprint('up')"
    );
    assert_eq!(said(&sandbox, &python(script)), "up\n");
    assert_none(&mark);
    other.signal(15).unwrap();
    assert_eq!(other.output().unwrap().exit, Exit::Signal(15), "it lived on");
    assert_works(&sandbox);
}

#[test]
fn orphans_are_reaped() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let other = waiting(&sandbox);
    let orphans = "import os\nfor _ in range(30):\n  if os.fork() == 0:\n    if os.fork() == 0: os._exit(0)\n    os._exit(0)\nfor _ in range(30): os.wait()";
    let zombies = "import os\nn = 0\nfor p in os.listdir('/proc'):\n  if p.isdigit():\n    try: n += open(f'/proc/{p}/stat').read().rsplit(')')[1].split()[0] == 'Z'\n    except OSError: pass\nprint(n)";
    for _ in 0..5 {
        run(&sandbox, &python(orphans));
        run(&sandbox, &python(orphans).keep_background());
    }
    until("no zombies", || said(&sandbox, &python(zombies)) == "0\n");
    drop(other);
    assert_eq!(said(&sandbox, &python(zombies)), "0\n");
}

#[test]
fn what_is_to_stay_stays_until_the_sandbox_ends() {
    let host = Host::new();
    let sandbox = host.sandbox();
    let (kept, ended) = (mark(), mark());
    let background =
        |mark: &str| sh(format!("sh -c 'while :; do echo x >> grows; sleep 0.01; done # {mark}' & echo up"));
    run(&sandbox, &background(&kept).keep_background());
    run(&sandbox, &background(&ended));
    assert_eq!((processes(&kept).is_empty(), processes(&ended).is_empty()), (false, true));
    for _ in 0..10 {
        assert_works(&sandbox);
    }
    drop(waiting(&sandbox));
    timed_out(sandbox.exec(&sh("sleep 1000").timeout(Duration::from_millis(100))).unwrap().output());
    assert!(!processes(&kept).is_empty(), "whatever else ended");
    sandbox.end().unwrap();
    assert_none(&kept);
    assert_still(&host, None, "project/grows");
}

#[test]
fn fifty_threads_run_twenty_commands_each() {
    let host = Host::new();
    let sandbox = host.sandbox();
    std::thread::scope(|scope| {
        for thread in 0..50 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for number in 0..20 {
                    let word = format!("{thread}.{number}");
                    let script = format!("cat; echo {word}; exit {}", (thread + number) % 120);
                    let outcome = run(sandbox, &sh(script).input(word.clone().into_bytes()));
                    assert_eq!(text(&outcome), format!("{word}{word}\n"));
                    assert_eq!(outcome.exit, Exit::Code((thread + number) % 120));
                }
            });
        }
    });
    // A minder says that its command ended a moment before it ends itself.
    until("the guest, the shell and the pipe's two are left", || {
        said(&sandbox, &sh("ls -d /proc/[0-9]* | wc -l")).trim() == "4"
    });
}
