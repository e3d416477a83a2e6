//! The probe: a small static program that runs inside and tries what no shell can. It prints one line of JSON
//! for each attempt: `{"attempt": …, "ok": …}`, or the `errno` it was refused with, or the signal it was
//! `killed` by.
//!
//! `pinfold-probe ATTEMPT [WORD…] [++ ATTEMPT [WORD…]]…`. Each attempt runs in a process of its own, so one
//! that is killed, or changes its process, leaves the next ones unharmed.

mod answer;
mod files;
mod ipc;
mod kernel;
mod modes;
mod network;
mod process;
mod processes;
mod sockets;
mod status;
mod terminals;

use std::process::ExitCode;

use answer::Attempt;

/// Everything that can be tried, by topic.
const TOPICS: &[&[Attempt]] = &[
    files::ATTEMPTS,
    modes::ATTEMPTS,
    processes::ATTEMPTS,
    status::ATTEMPTS,
    kernel::ATTEMPTS,
    terminals::ATTEMPTS,
    sockets::ATTEMPTS,
    network::ATTEMPTS,
    ipc::ATTEMPTS,
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // What is meant to stay: it must be this very process that others look for.
    if let Some((first, rest)) = words.split_first()
        && first == "linger"
    {
        process::linger(rest);
    }
    for attempt in words.split(|word| word == "++") {
        let Some((name, rest)) = attempt.split_first() else {
            eprintln!("nothing to attempt");
            return ExitCode::FAILURE;
        };
        let Some((_, run)) = TOPICS.iter().flat_map(|topic| topic.iter()).find(|(known, _)| known == name)
        else {
            eprintln!("no attempt is named {name}");
            return ExitCode::FAILURE;
        };
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        answer::print(name, process::apart(name, || run(&rest)));
    }
    ExitCode::SUCCESS
}
