//! Memory for secrets: pages of its own, which are left out of core dumps where the kernel can, and which it clears before
//! anybody else gets them.

use core::ptr;

/// `len` bytes, zeroed; null if there is no memory.
pub fn map(len: usize) -> *mut u8 {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice, and advice about it. Where the advice is
    // not known, the bytes are in core dumps, as the keys are.
    unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let base = libc::mmap(ptr::null_mut(), len, access, flags, -1, 0);
        if base == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        libc::madvise(base, len, libc::MADV_DONTDUMP);
        base.cast()
    }
}

/// Gives it back.
///
/// # Safety
/// `at` must be from [`map`] with the same length, and nobody may use it any more.
pub unsafe fn unmap(at: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at.cast(), len) };
}
