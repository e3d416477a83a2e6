//! The allocator's own memory.

/// Gives the pages back to the kernel that nothing is allocated in (malloc_trim(3)).
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and frees nothing that is in use. That there was nothing to give back is no error.
    unsafe {
        libc::malloc_trim(0);
    }
}
