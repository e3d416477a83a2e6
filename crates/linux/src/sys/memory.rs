//! Memory that this process has and does not need.

/// How much below the present frame is left alone: more than the calls made from here need.
const LEFT: usize = 4096;
/// How deep the stack may have been.
const DEEP: usize = 512 * 1024;

/// Gives pages back to the kernel: those of the heap that nothing is allocated in (malloc_trim(3)), and those of the
/// stack that calls have used and left.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and frees nothing that is in use. That there was nothing to give back is no error.
    unsafe {
        libc::malloc_trim(0);
    }
    let page = rustix::param::page_size();
    let here = (&raw const page).addr();
    let end = (here - LEFT) & !(page - 1);
    let below = std::ptr::without_provenance_mut::<libc::c_void>(end - DEEP);
    // SAFETY: the range lies wholly below this frame, in the part of the main thread's stack that no living frame uses,
    // or is not mapped, which is an error without effect (madvise(2)); reading it again yields zeroes, and nothing does.
    unsafe {
        libc::madvise(below, DEEP, libc::MADV_DONTNEED);
    }
}
