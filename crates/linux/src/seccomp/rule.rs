//! What a row of the table is made of, and what it means when it is read plainly. Neither the rows themselves
//! nor their translation for the kernel.

use std::fmt;

use super::Options;
use super::calls::Call;

/// One row: these calls, when this holds of their arguments, are answered like this, because of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) calls: &'static [Call],
    /// All of these hold; an empty list always does.
    pub(super) when: &'static [Test],
    pub(super) verdict: Verdict,
    pub(super) applies: Applies,
    pub(super) why: &'static str,
}

/// Begins a row: refused with EPERM, always, in every profile, unless the row goes on to say otherwise.
pub(super) const fn refuse(calls: &'static [Call]) -> Row {
    Row { calls, when: &[], verdict: REFUSED, applies: Applies::Everywhere, why: "" }
}

impl Row {
    /// Only when all of `when` hold.
    pub(super) const fn when(self, when: &'static [Test]) -> Self {
        Self { when, ..self }
    }

    /// Answered with `errno` instead.
    pub(super) const fn with(self, errno: Errno) -> Self {
        Self { verdict: Verdict::Errno(errno), ..self }
    }

    /// Only there.
    pub(super) const fn only(self, applies: Applies) -> Self {
        Self { applies, ..self }
    }

    /// The reason, which ends a row.
    pub(super) const fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }
}

/// The table's columns: the profiles a user can name. A file extends the default one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Default,
    Strict,
    Debug,
}

/// Where a row is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applies {
    /// In every profile.
    Everywhere,
    /// In every profile but `debug`.
    ExceptDebug,
    /// In `debug` alone.
    Debug,
    /// In `strict` alone.
    Strict,
    /// In `strict`, where there is no door to the network.
    StrictOffline,
    /// In every profile, where the wall shares process ids, IPC and network with the host.
    SharingHost,
}

impl Applies {
    pub(super) fn to(self, profile: Profile, options: Options) -> bool {
        match self {
            Self::Everywhere => true,
            Self::ExceptDebug => profile != Profile::Debug,
            Self::Debug => profile == Profile::Debug,
            Self::Strict => profile == Profile::Strict,
            Self::StrictOffline => profile == Profile::Strict && options.network == super::Network::Loopback,
            Self::SharingHost => options.shares_host,
        }
    }
}

/// The plain refusal.
pub(super) const REFUSED: Verdict = Verdict::Errno(Errno::Eperm);
/// The answer to numbers without a name: what a kernel that does not have the call would say.
pub(super) const NOT_KNOWN: Verdict = Verdict::Errno(Errno::Enosys);

/// What the caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Errno(Errno),
    Kill,
}

/// The errors that refusals use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errno {
    Eperm,
    Enosys,
    Eafnosupport,
    Eprotonosupport,
}

impl Verdict {
    /// The filter's return value, as seccomp(2) defines it.
    pub(super) const fn action(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Self::Errno(errno) => {
                libc::SECCOMP_RET_ERRNO
                    | match errno {
                        Errno::Eperm => libc::EPERM,
                        Errno::Enosys => libc::ENOSYS,
                        Errno::Eafnosupport => libc::EAFNOSUPPORT,
                        Errno::Eprotonosupport => libc::EPROTONOSUPPORT,
                    } as u32
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allow => "allowed",
            Self::Kill => "killed",
            Self::Errno(Errno::Eperm) => "EPERM",
            Self::Errno(Errno::Enosys) => "ENOSYS",
            Self::Errno(Errno::Eafnosupport) => "EAFNOSUPPORT",
            Self::Errno(Errno::Eprotonosupport) => "EPROTONOSUPPORT",
        })
    }
}

/// A question about one argument, counted from 0.
///
/// Only its low 32 bits are looked at. The kernel reads every argument named in the table as a 32-bit
/// quantity, so a comparison of all 64 would be passed by setting a bit that the kernel then ignores
/// (CVE-2019-10063).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// At least one of these bits is set.
    AnyBit(u8, u32),
    /// The argument, reduced to the mask, is one of these.
    Among(u8, u32, &'static [u32]),
    /// The argument, reduced to the mask, is none of these.
    NotAmong(u8, u32, &'static [u32]),
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, arg: u8, mask: u32, verb: &str, values: &[u32]| {
            write!(f, "argument {arg}")?;
            if mask != ALL_BITS {
                write!(f, " & {mask:#x}")?;
            }
            write!(f, " {verb} ")?;
            for (index, value) in values.iter().enumerate() {
                write!(f, "{}{value:#x}", if index == 0 { "" } else { ", " })?;
            }
            Ok(())
        };
        match *self {
            Self::AnyBit(arg, bits) => write!(f, "argument {arg} has any of {bits:#x}"),
            Self::Among(arg, mask, values) => list(f, arg, mask, "is one of", values),
            Self::NotAmong(arg, mask, values) => list(f, arg, mask, "is none of", values),
        }
    }
}

/// The mask that leaves an argument as it is.
pub(super) const ALL_BITS: u32 = u32::MAX;
