//! The compiled program against a plain reading of the table, instruction by instruction; and the table
//! against itself. What the kernel makes of the program is tested in `tests/confine.rs`.

use std::collections::BTreeSet;

use super::calls::{ALL, LAST};
use super::compile::{ARCHITECTURE, op};
use super::rule::{NOT_KNOWN, REFUSED, Test};
use super::*;

const I386: u32 = 0x4000_0003;
const ARM: u32 = 0x4000_0028;
const X32: u32 = 0x4000_0000;

fn every_filter() -> Vec<Filter> {
    let mut filters = Vec::new();
    for network in [Network::Loopback, Network::Door] {
        for shares_host in [false, true] {
            let options = Options { network, shares_host };
            for profile in [SeccompProfile::Default, SeccompProfile::Strict, SeccompProfile::Debug] {
                filters.push(Filter::compile(&profile, options).unwrap());
            }
            filters
                .push(Filter::compile_file("extra", "read\nwrite # no\n\nsocket\nmseal\n", options).unwrap());
        }
    }
    filters
}

fn ordinary(profile: SeccompProfile) -> Filter {
    Filter::compile(&profile, Options { network: Network::Loopback, shares_host: false }).unwrap()
}

/// A classic BPF machine, as far as seccomp(2) allows one.
fn run(program: &[libc::sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        0 => number,
        4 => arch,
        16..64 if offset.is_multiple_of(4) => {
            (arguments[(offset as usize - 16) / 8] >> (8 * (offset % 8))) as u32
        }
        _ => panic!("load at {offset}"),
    };
    let (mut accumulator, mut here) = (0, 0);
    loop {
        let libc::sock_filter { code, jt, jf, k } = program[here];
        here += 1;
        let holds = match code {
            op::RETURN => return k,
            op::LOAD => {
                accumulator = word(k);
                continue;
            }
            op::AND => {
                accumulator &= k;
                continue;
            }
            op::JUMP => {
                here += k as usize;
                continue;
            }
            op::IF_EQUAL => accumulator == k,
            op::IF_AT_LEAST => accumulator >= k,
            op::IF_ANY_BIT => accumulator & k != 0,
            other => panic!("operation {other:#x}"),
        };
        here += usize::from(if holds { jt } else { jf });
    }
}

/// What the table says, read from the top.
fn read(filter: &Filter, arch: u32, number: u32, arguments: [u64; 6]) -> Verdict {
    if arch != ARCHITECTURE {
        return Verdict::Kill;
    }
    if !ALL.iter().any(|call| call.number == Some(number)) {
        return NOT_KNOWN;
    }
    if filter.extra.iter().any(|call| call.number == Some(number)) {
        return REFUSED;
    }
    let holds = |test: &Test| match *test {
        Test::AnyBit(argument, bits) => arguments[argument as usize] as u32 & bits != 0,
        Test::Among(argument, mask, values) => values.contains(&(arguments[argument as usize] as u32 & mask)),
        Test::NotAmong(argument, mask, values) => {
            !values.contains(&(arguments[argument as usize] as u32 & mask))
        }
    };
    filter
        .rows
        .iter()
        .find(|row| row.calls.iter().any(|call| call.number == Some(number)) && row.when.iter().all(holds))
        .map_or(Verdict::Allow, |row| row.verdict)
}

/// Values around everything that the table compares with.
fn samples(filter: &Filter) -> Vec<u64> {
    let mut values = BTreeSet::from([0, 1, 0o644, 0o100644, 0x7fff_ffff, 0xffff_ffff]);
    for test in filter.rows.iter().flat_map(|row| row.when) {
        match *test {
            Test::AnyBit(_, bits) => values.extend((0..32).map(|bit| 1 << bit).filter(|bit| bit & bits != 0)),
            Test::Among(_, mask, list) | Test::NotAmong(_, mask, list) => {
                values.extend(
                    list.iter().flat_map(|value| [*value, value + (value < &u32::MAX) as u32, value | !mask]),
                );
            }
        }
    }
    values.into_iter().map(u64::from).collect()
}

/// Argument lists in which up to two arguments differ from nothing.
fn argument_lists(filter: &Filter, number: u32) -> Vec<[u64; 6]> {
    let asked: BTreeSet<u8> = filter
        .rows
        .iter()
        .filter(|row| row.calls.iter().any(|call| call.number == Some(number)))
        .flat_map(|row| row.when)
        .map(|test| match *test {
            Test::AnyBit(argument, _) | Test::Among(argument, ..) | Test::NotAmong(argument, ..) => argument,
        })
        .collect();
    let values = samples(filter);
    let mut lists = vec![[0; 6], [u64::MAX; 6]];
    for &one in &asked {
        for &other in asked.range(one..) {
            for &a in &values {
                for &b in &values {
                    let mut list = [0; 6];
                    list[one as usize] = a;
                    list[other as usize] = b | 0xdead_beef_0000_0000; // bits that the kernel ignores
                    lists.push(list);
                }
            }
        }
    }
    lists
}

/// So many refusals that jumps need stepping stones.
fn long_filter() -> Filter {
    let mut calls: Vec<_> = ALL.iter().filter(|call| call.number.is_some()).collect();
    calls.sort_by_key(|call| call.number);
    let every_other: Vec<_> = calls.iter().step_by(2).map(|call| call.name).collect();
    let options = Options { network: Network::Door, shares_host: true };
    let filter = Filter::compile_file("long", &every_other.join("\n"), options).unwrap();
    let returns: Vec<_> =
        filter.program.iter().filter(|step| step.code == op::RETURN).map(|step| step.k).collect();
    assert!(
        returns.len() > returns.iter().collect::<BTreeSet<_>>().len(),
        "no stepping stone in {}",
        filter.len()
    );
    filter
}

#[test]
fn the_program_says_what_the_table_says() {
    for filter in every_filter().into_iter().chain([long_filter()]) {
        for number in (0..=1100).chain([X32 - 1, u32::MAX]) {
            for arguments in argument_lists(&filter, number) {
                assert_eq!(
                    run(&filter.program, ARCHITECTURE, number, arguments),
                    read(&filter, ARCHITECTURE, number, arguments).action(),
                    "number {number} with {arguments:x?}"
                );
            }
        }
    }
}

#[test]
fn foreign_architectures_are_killed_and_x32_is_not_there() {
    for filter in every_filter() {
        for number in 0..=1100 {
            for arch in [I386, ARM, 0, ARCHITECTURE ^ 1] {
                assert_eq!(run(&filter.program, arch, number, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
            }
            let x32 = run(&filter.program, ARCHITECTURE, X32 | number, [0; 6]);
            assert_eq!(x32, NOT_KNOWN.action(), "x32 number {number}");
        }
    }
}

#[test]
fn every_jump_stays_inside_and_the_kernel_would_take_it() {
    for filter in every_filter().into_iter().chain([long_filter()]) {
        let length = filter.len();
        assert!(length < 4096, "BPF_MAXINSNS");
        for (here, instruction) in filter.program.iter().enumerate() {
            let furthest = match instruction.code {
                op::JUMP => instruction.k as usize,
                op::RETURN => continue,
                _ => usize::from(instruction.jt.max(instruction.jf)),
            };
            assert!(here + 1 + furthest < length);
        }
    }
}

#[test]
fn the_profiles_stay_short() {
    for (profile, most) in
        [(SeccompProfile::Default, 160), (SeccompProfile::Strict, 190), (SeccompProfile::Debug, 160)]
    {
        let length = ordinary(profile.clone()).len();
        assert!(length <= most, "{profile:?}: {length} instructions, where each costs at every start");
    }
}

#[test]
fn the_everyday_calls_are_allowed_without_looking_at_arguments() {
    // Only these enter the kernel's list of calls that skip the filter, which keeps it off the hot path.
    let everyday = [
        "read",
        "write",
        "close",
        "fstat",
        "newfstatat",
        "statx",
        "mmap",
        "munmap",
        "mprotect",
        "brk",
        "futex",
        "poll",
        "ppoll",
        "epoll_wait",
        "epoll_pwait",
        "lseek",
        "pread64",
        "getdents64",
        "execve",
        "wait4",
        "exit_group",
        "rt_sigaction",
        "rt_sigprocmask",
        "clock_gettime",
        "nanosleep",
        "sendto",
        "recvfrom",
        "unlink",
        "renameat2",
    ];
    let filter = ordinary(SeccompProfile::Default);
    for call in ALL.iter().filter(|call| everyday.contains(&call.name)) {
        let rows = filter.rows.iter().filter(|row| row.calls.contains(call)).count();
        assert_eq!(rows, 0, "{}", call.name);
    }
}

#[test]
fn every_row_says_why_and_names_and_numbers_are_distinct() {
    for row in table::TABLE {
        assert!(!row.why.is_empty() && !row.calls.is_empty(), "{row:?}");
    }
    let names: BTreeSet<_> = ALL.iter().map(|call| call.name).collect();
    let numbers: BTreeSet<_> = ALL.iter().filter_map(|call| call.number).collect();
    assert_eq!(names.len(), ALL.len());
    assert_eq!(numbers.len(), ALL.iter().filter(|call| call.number.is_some()).count());
    assert_eq!(numbers.last(), Some(&LAST));
}

#[test]
fn a_file_is_one_name_per_line() {
    let options = Options { network: Network::Loopback, shares_host: false };
    let filter =
        Filter::compile_file("p", "# mine\n  inotify_init1\t# watching\n\nptrace\n", options).unwrap();
    let inotify = libc::SYS_inotify_init1 as u32;
    assert_eq!(run(&filter.program, ARCHITECTURE, inotify, [0; 6]), REFUSED.action());
    let plain = ordinary(SeccompProfile::Default);
    assert_eq!(run(&plain.program, ARCHITECTURE, inotify, [0; 6]), Verdict::Allow.action());

    let wrong = Filter::compile_file("my.profile", "read\n\nreed # typo\n", options).err().unwrap();
    assert_eq!(wrong.to_string(), "my.profile:3: no system call is named `reed`");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let options = Options { network: Network::Loopback, shares_host: false };
    let directory = tempfile::tempdir().unwrap();
    let profile =
        |name: &str| SeccompProfile::File(directory.path().join(name).to_str().unwrap().parse().unwrap());
    assert!(matches!(Filter::compile(&profile("absent"), options), Err(SeccompError::Read { .. })));
    std::fs::write(directory.path().join("long"), "#".repeat(70_000)).unwrap();
    assert!(matches!(Filter::compile(&profile("long"), options), Err(SeccompError::TooLong { .. })));
}

#[test]
fn the_description_is_complete() {
    let filter = ordinary(SeccompProfile::Strict);
    let lines = filter.describe();
    assert_eq!(lines[0].verdict, "killed");
    for name in ["clone3", "keyctl", "shmget", "socket"] {
        assert!(lines.iter().any(|line| line.calls.contains(&name)), "{name}");
    }
    let terminals = lines.iter().find(|line| line.calls == ["ioctl"]).unwrap();
    assert_eq!(terminals.when, "argument 1 is one of 0x5412, 0x541c");
}
