//! Turns rows into a classic BPF program. The kernel's rules that shape it: jumps go forward only, a
//! conditional jump reaches 255 instructions, and loading costs time per instruction.
//!
//! The program is built from its end: what a jump leads to exists before the jump does, so every target is
//! known when it is needed, and an instruction that equals an earlier one is never emitted twice. Numbers are
//! told apart by a balanced tree whose leaves are short chains; a straight list of all of them would be
//! walked by the kernel once for every system call there is when it works out which are always allowed
//! (`seccomp_cache_prepare`).

use libc::sock_filter;

use super::calls::{ALL, Call, LAST};
use super::rule::{ALL_BITS, NOT_KNOWN, REFUSED, Row, Test, Verdict};

/// `AUDIT_ARCH_*` of linux/audit.h: the ELF machine, 64-bit, little-endian.
#[cfg(target_arch = "x86_64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_0000 | libc::EM_X86_64 as u32;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCHITECTURE: u32 = 0xc000_0000 | libc::EM_AARCH64 as u32;

/// Offsets into `struct seccomp_data`. Both architectures are little-endian: an argument's low word comes
/// first.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The classic BPF operations that seccomp(2) filters here consist of.
pub(super) mod op {
    pub(crate) const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    pub(crate) const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    pub(crate) const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
    pub(crate) const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    pub(crate) const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    pub(crate) const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    pub(crate) const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
}

/// How many comparisons a leaf of the tree makes in a row: more would lengthen every look-up, fewer the
/// program.
const CHAIN: usize = 4;

/// The furthest a conditional jump is made to reach. The field holds 255; placing a stepping stone takes a
/// few.
const REACH: usize = 240;

/// Compiles `rows`, and the calls that `extra` refuses before any row is asked.
pub(super) fn compile(rows: &[&Row], extra: &[Call]) -> Vec<sock_filter> {
    let mut program = Program { code: Vec::with_capacity(256) };
    let unknown = program.end(NOT_KNOWN);
    let refused = program.end(REFUSED);
    let allowed = program.end(Verdict::Allow);
    let killed = program.end(Verdict::Kill);

    let mut answers = [unknown; LAST as usize + 1];
    for number in ALL.iter().filter_map(|call| call.number) {
        answers[number as usize] = allowed;
    }
    // From the last row to the first: what a row does not decide is left to the rows below it, which exist
    // already.
    let mut below: Vec<(u32, Block)> = Vec::with_capacity(32);
    for row in rows.iter().rev() {
        for number in row.calls.iter().filter_map(|call| call.number) {
            let slot = below.iter().position(|(known, _)| *known == number).unwrap_or_else(|| {
                below.push((number, Block::at(allowed)));
                below.len() - 1
            });
            let verdict = Block::at(program.end(row.verdict));
            let otherwise = below[slot].1;
            below[slot].1 =
                row.when.iter().rev().fold(verdict, |held, test| program.test(*test, held, otherwise));
        }
    }
    for (number, block) in below {
        answers[number as usize] = program.enter(block, None);
    }
    for number in extra.iter().filter_map(|call| call.number) {
        answers[number as usize] = refused;
    }

    let tree = program.tree(&spans(&answers));
    let known = program.branch(op::IF_AT_LEAST, LAST + 1, unknown, tree);
    let number = program.load(NUMBER, known);
    let native = program.branch(op::IF_EQUAL, ARCHITECTURE, number, killed);
    program.load(ARCH, native);
    program.finish()
}

/// Where an instruction stands, counted from the program's end.
type Place = u16;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Instruction {
    code: u16,
    k: u32,
    yes: Place,
    no: Place,
}

/// Code that expects `argument` in the accumulator. Whoever enters it with that argument at hand skips the
/// load.
#[derive(Clone, Copy)]
struct Block {
    place: Place,
    argument: Option<u8>,
}

impl Block {
    fn at(place: Place) -> Self {
        Self { place, argument: None }
    }
}

/// Numbers from `first` to `last` that are all answered at `answer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    first: u32,
    last: u32,
    answer: Place,
}

fn spans(answers: &[Place]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::with_capacity(128);
    for (number, &answer) in (0..).zip(answers) {
        match spans.last_mut() {
            Some(span) if span.answer == answer => span.last = number,
            _ => spans.push(Span { first: number, last: number, answer }),
        }
    }
    spans
}

/// The program so far, last instruction first.
struct Program {
    code: Vec<Instruction>,
}

impl Program {
    fn push(&mut self, instruction: Instruction) -> Place {
        self.code.push(instruction);
        self.code.len() as Place - 1
    }

    fn find(&self, instruction: Instruction) -> Option<Place> {
        (0..).zip(&self.code).find(|(_, known)| **known == instruction).map(|(place, _)| place)
    }

    fn place(&mut self, instruction: Instruction) -> Place {
        self.find(instruction).unwrap_or_else(|| self.push(instruction))
    }

    fn end(&mut self, verdict: Verdict) -> Place {
        self.place(Instruction { code: op::RETURN, k: verdict.action(), yes: 0, no: 0 })
    }

    /// An instruction that does not jump is followed by what stands right after it, so `next` must be that.
    fn straight(&mut self, code: u16, k: u32, next: Place) -> Place {
        let wanted = Instruction { code, k, yes: next, no: next };
        if let Some(known) = self.find(wanted) {
            return known;
        }
        if usize::from(next) + 1 != self.code.len() {
            self.push(Instruction { code: op::JUMP, k: 0, yes: next, no: next });
        }
        self.push(wanted)
    }

    fn load(&mut self, offset: u32, next: Place) -> Place {
        self.straight(op::LOAD, offset, next)
    }

    /// Enters a block with `held` in the accumulator.
    fn enter(&mut self, block: Block, held: Option<u8>) -> Place {
        match block.argument {
            Some(argument) if held != Some(argument) => {
                self.load(ARGUMENTS + 8 * u32::from(argument), block.place)
            }
            _ => block.place,
        }
    }

    fn branch(&mut self, code: u16, k: u32, yes: Place, no: Place) -> Place {
        if yes == no {
            return yes;
        }
        let (yes, no) = (self.reachable(yes), self.reachable(no));
        self.place(Instruction { code, k, yes, no })
    }

    /// `place` itself when a jump from here reaches it, else a stepping stone.
    fn reachable(&mut self, place: Place) -> Place {
        let nearest = self.code.len().saturating_sub(REACH);
        if usize::from(place) >= nearest {
            return place;
        }
        let stone = match self.code[usize::from(place)] {
            far if far.code == op::RETURN => far,
            _ => Instruction { code: op::JUMP, k: 0, yes: place, no: place },
        };
        match self.code[nearest..].iter().position(|known| *known == stone) {
            Some(offset) => (nearest + offset) as Place,
            None => self.push(stone),
        }
    }

    /// One question about an argument.
    fn test(&mut self, test: Test, held: Block, otherwise: Block) -> Block {
        let (argument, mask) = match test {
            Test::AnyBit(argument, _) => (argument, ALL_BITS),
            Test::Among(argument, mask, _) | Test::NotAmong(argument, mask, _) => (argument, mask),
        };
        // A masked argument is no longer the argument.
        let at_hand = (mask == ALL_BITS).then_some(argument);
        let (yes, no) = (self.enter(held, at_hand), self.enter(otherwise, at_hand));
        let place = match test {
            Test::AnyBit(_, bits) => self.branch(op::IF_ANY_BIT, bits, yes, no),
            Test::Among(_, _, values) => self.any_of(values, yes, no),
            Test::NotAmong(_, _, values) => self.any_of(values, no, yes),
        };
        let place = if mask == ALL_BITS { place } else { self.straight(op::AND, mask, place) };
        Block { place, argument: Some(argument) }
    }

    fn any_of(&mut self, values: &[u32], yes: Place, no: Place) -> Place {
        values.iter().rev().fold(no, |next, value| self.branch(op::IF_EQUAL, *value, yes, next))
    }

    /// Code that finds the span of the number in the accumulator. `spans` is never empty and has no gaps.
    fn tree(&mut self, spans: &[Span]) -> Place {
        // Neighbours differ, so a chain of so many comparisons cannot tell more spans apart than this.
        if spans.len() <= 2 * CHAIN + 1 {
            let ground = commonest(spans);
            let cost: usize = spans.iter().map(|span| cost(span, ground, spans)).sum();
            if cost <= CHAIN || spans.len() <= 2 {
                return self.chain(spans, ground);
            }
        }
        let (low, high) = spans.split_at(spans.len() / 2);
        let at_least = self.tree(high);
        let below = self.tree(low);
        self.branch(op::IF_AT_LEAST, high[0].first, at_least, below)
    }

    /// One comparison or two per span that is not answered at `ground`, in ascending order.
    fn chain(&mut self, spans: &[Span], ground: Place) -> Place {
        let Some((lowest, highest)) = spans.first().zip(spans.last()).map(|(a, b)| (a.first, b.last)) else {
            return ground;
        };
        let mut next = ground;
        for &Span { first, last, answer } in spans.iter().rev().filter(|span| span.answer != ground) {
            next = if first == last {
                self.branch(op::IF_EQUAL, first, answer, next)
            } else if last == highest {
                self.branch(op::IF_AT_LEAST, first, answer, next)
            } else {
                let within = self.branch(op::IF_AT_LEAST, last + 1, next, answer);
                if first == lowest { within } else { self.branch(op::IF_AT_LEAST, first, within, ground) }
            };
        }
        next
    }

    fn finish(self) -> Vec<sock_filter> {
        let Self { code } = self;
        code.iter()
            .enumerate()
            .rev()
            .map(|(here, instruction)| {
                let distance = |to: Place| here - usize::from(to) - 1;
                let (k, jt, jf) = match instruction.code {
                    op::JUMP => (distance(instruction.yes) as u32, 0, 0),
                    op::IF_EQUAL | op::IF_AT_LEAST | op::IF_ANY_BIT => {
                        (instruction.k, narrow(distance(instruction.yes)), narrow(distance(instruction.no)))
                    }
                    _ => (instruction.k, 0, 0),
                };
                sock_filter { code: instruction.code, jt, jf, k }
            })
            .collect()
    }
}

/// `reachable` keeps every conditional jump within this.
fn narrow(distance: usize) -> u8 {
    u8::try_from(distance).expect("a stepping stone stands within reach of every conditional jump")
}

fn commonest(spans: &[Span]) -> Place {
    let count = |answer: Place| spans.iter().filter(|span| span.answer == answer).count();
    spans.iter().map(|span| span.answer).max_by_key(|&answer| count(answer)).unwrap_or_default()
}

fn cost(span: &Span, ground: Place, spans: &[Span]) -> usize {
    let at_edge = spans.first() == Some(span) || spans.last() == Some(span);
    match (span.answer == ground, span.first == span.last || at_edge) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}
