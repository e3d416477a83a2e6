//! Sockets of families and protocols that nothing inside needs (class 41).

use pinfold_conformance::{Off, case, denials, each};

const REFUSED: &[&str] = &["EAFNOSUPPORT", "EPROTONOSUPPORT", "EPERM"];
/// Where the kernel of this host has it, it would be given without the filter; elsewhere there is nothing to
/// show.
const SECOND: Off = Off::Never("not every kernel has it, and some ask for a capability");
const CONTROL: &[&str] = &["socket", "inet", "stream", "0"];

denials! {
    packet {
        attempt: &["socket", "packet", "raw", "0"], refused: &["EAFNOSUPPORT"],
        off: Off::Reaches(&["seccomp"]), control: CONTROL,
    }
    crypto { attempt: &["socket", "alg", "seqpacket", "0"], refused: REFUSED, off: SECOND, control: CONTROL }
    virtual_machine {
        attempt: &["socket", "vsock", "stream", "0"], refused: REFUSED, off: SECOND, control: CONTROL,
    }
    virtual_machine_with_high_bits {
        attempt: &["socket-high", "vsock", "stream", "0"], refused: REFUSED, off: SECOND, control: CONTROL,
    }
    netfilter {
        attempt: &["socket", "netlink", "raw", "12"], refused: REFUSED, off: SECOND,
        control: &["socket", "netlink", "raw", "0"],
    }
    audit {
        attempt: &["socket", "netlink", "raw", "9"], refused: REFUSED, off: SECOND,
        control: &["socket", "netlink", "raw", "0"],
    }
    raw { attempt: &["socket", "inet", "raw", "1"], refused: REFUSED, off: SECOND, control: CONTROL }
    raw_of_the_sixth_version {
        attempt: &["socket", "inet6", "raw", "58"], refused: REFUSED, off: SECOND, control: CONTROL,
    }
    echo { attempt: &["socket", "inet", "datagram", "1"], refused: REFUSED, off: SECOND, control: CONTROL }
    sctp { attempt: &["socket", "inet", "stream", "132"], refused: REFUSED, off: SECOND, control: CONTROL }
    multipath {
        attempt: &["socket", "inet", "stream", "262"], refused: REFUSED, off: SECOND, control: CONTROL,
    }
    packets_in_the_old_way {
        attempt: &["socket", "inet", "packet", "0"], refused: REFUSED, off: SECOND, control: CONTROL,
    }
}

#[test]
fn rare_families_are_refused() {
    each(case!("families"), |place| {
        for family in ["bluetooth", "can", "tipc", "key", "rds", "x25", "appletalk", "xdp"] {
            for kind in ["raw", "datagram", "stream", "seqpacket"] {
                let answer = place.run().probe(&["socket", family, kind, "0"]);
                assert!(answer.is_refused(&["EAFNOSUPPORT"]), "{family} {kind} was {answer}");
            }
        }
        assert!(place.run().probe(&["socket-pair", "inet"]).is_refused(REFUSED));
    });
}

/// At least one family is there for the asking when the filter is not.
#[test]
fn the_filter_is_what_holds_them() {
    each(case!("off"), |place| {
        let attempts: &[&[&str]] = &[
            &["socket", "netlink", "raw", "9"],
            &["socket", "netlink", "raw", "16"],
            &["socket", "vsock", "stream", "0"],
        ];
        let (answers, _) = place.run().without(&["seccomp"]).attempt(attempts);
        assert!(answers.iter().any(pinfold_conformance::Answer::is_ok), "{answers:?}");
    });
}
