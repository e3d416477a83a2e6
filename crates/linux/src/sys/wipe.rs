//! Overwriting this process's arguments and environment where the kernel put them, so that the copy which the
//! guest inherits shows nothing in `/proc/1/cmdline` and holds nothing in its stack.

/// Zeroes the strings of argv and of the environment, and empties the environment but for `kept`.
///
/// Whoever reads `std::env` afterwards sees no other variables; arguments read before stay as their copies.
pub(crate) fn wipe_arguments_and_environment(kept: &str) {
    let value = std::env::var_os(kept);
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
        /// argv[0], kept by the C library (program_invocation_name(3)).
        static program_invocation_name: *mut libc::c_char;
    }
    // SAFETY: the process is single-threaded: this is the guest, straight after clone. At exec the kernel
    // lays out the strings of argv, then those of the environment, then the file name that AT_EXECFN points
    // to, on one stretch of the stack (execve(2), getauxval(3)); nothing in this program points argv[0]
    // elsewhere.
    unsafe {
        let first = program_invocation_name.cast::<u8>();
        let end = libc::getauxval(libc::AT_EXECFN) as usize;
        if !environ.is_null() {
            *environ = std::ptr::null_mut();
        }
        let length = end.saturating_sub(first as usize);
        // execve bounds both to 6 MiB (execve(2)): a longer stretch was not laid out by the kernel.
        if !first.is_null() && length <= 6 << 20 {
            std::ptr::write_bytes(first, 0, length);
        }
    }
    if let Some(value) = value {
        // SAFETY: single-threaded, as above.
        unsafe { std::env::set_var(kept, value) };
    }
}
