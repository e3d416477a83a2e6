//! Memory of everything inside, sampled: what is left where no control group can be had. Counts the private memory of
//! the processes below the guest; shared memory and tmpfs are bounded by their own sizes.

use std::fs;
use std::time::{Duration, Instant};

/// Often enough to catch a bomb before the host feels it, seldom enough not to be felt.
const PERIOD: Duration = Duration::from_millis(50);

/// Looks at the memory of a process tree from time to time.
#[derive(Debug)]
pub(crate) struct Sampler {
    limit_pages: u64,
    due: Instant,
    peak_pages: u64,
}

impl Sampler {
    /// Allows `limit` bytes.
    pub(crate) fn new(limit: u64, now: Instant) -> Self {
        let page = rustix::param::page_size() as u64;
        Self { limit_pages: limit / page, due: now + PERIOD, peak_pages: 0 }
    }

    /// When to look next.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Looks at everything below process `guest`.
    pub(crate) fn is_exceeded_below(&mut self, guest: i32) -> bool {
        self.due = Instant::now() + PERIOD;
        let mut pages = 0;
        let mut waiting = children(guest);
        while let Some(pid) = waiting.pop() {
            pages += private_pages(pid);
            waiting.extend(children(pid));
        }
        self.peak_pages = self.peak_pages.max(pages);
        pages > self.limit_pages
    }
}

/// Children of every thread of a process. One that has ended meanwhile has none.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for thread in threads {
        let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    found
}

/// Resident pages that are shared with nobody (proc_pid_statm(5)).
fn private_pages(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (numbers.nth(1).unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(shared)
}
