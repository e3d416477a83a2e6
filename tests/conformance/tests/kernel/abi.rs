//! Foreign ABIs (class 43): a filter for one set of numbers must not be passed by another.

use pinfold_conformance::{Off, denials};

#[cfg(target_arch = "x86_64")]
denials! {
    thirty_two_bit_calls {
        attempt: &["int-80"], refused: &["SIGSYS", "ENOSYS"],
        off: Off::Reaches(&["seccomp"]), // a number on a kernel with 32-bit support, SIGSEGV on one without
    }
    x32_calls {
        attempt: &["x32"], refused: &["SIGSYS", "ENOSYS"], alone: &["seccomp"],
        off: Off::Never("few kernels are built with it, and the others answer ENOSYS themselves"),
    }
}
