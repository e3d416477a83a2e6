//! What a tree of processes uses, summed from /proc: what is left where no control group counts. Private memory only:
//! shared memory and tmpfs are bounded by their own sizes. A process that has ended meanwhile has nothing.

use std::fs;
use std::time::Duration;

/// What is in use now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Private memory, in bytes.
    pub(super) memory: u64,
    /// CPU time of those that live and of those that they reaped.
    pub(super) cpu: Duration,
    /// Processes and threads.
    pub(super) processes: u64,
}

/// Sums over everything below process `guest`. Its own CPU time is left out, that of what it reaped is not.
pub(super) fn below(guest: i32) -> Sum {
    let (page, tick) = (rustix::param::page_size() as u64, rustix::param::clock_ticks_per_second());
    let (mut pages, mut processes, mut ticks) = (0, 0, times(guest).map_or(0, |times| times[2] + times[3]));
    let mut waiting = children(guest).0;
    while let Some(pid) = waiting.pop() {
        let (children, threads) = children(pid);
        pages += private_pages(pid);
        ticks += times(pid).map_or(0, |times| times.iter().sum());
        processes += threads;
        waiting.extend(children);
    }
    let cpu = Duration::from_millis(ticks.saturating_mul(1000) / tick.max(1));
    Sum { memory: pages * page, cpu, processes }
}

/// Children of every thread of a process, and how many threads it has.
fn children(pid: i32) -> (Vec<i32>, u64) {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let (mut found, mut count) = (Vec::new(), 0);
    for thread in threads {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
        count += 1;
    }
    (found, count)
}

/// Resident pages that are shared with nobody (proc_pid_statm(5)).
fn private_pages(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (numbers.nth(1).unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(shared)
}

/// User and system time, its own and that of children it reaped, in ticks: fields 14 to 17 (proc_pid_stat(5)).
fn times(pid: i32) -> Option<[u64; 4]> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, a parenthesis too; the field after it is the third.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_times_and_memory() {
        let own = std::process::id() as i32;
        assert!(times(own).is_some() && private_pages(own) > 0 && children(own).1 >= 1);
        assert_eq!(times(-1), None);
    }

    #[test]
    fn what_is_below_is_counted() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let sum = below(std::process::id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(sum.processes >= 1 && sum.memory > 0, "{sum:?}");
    }
}
