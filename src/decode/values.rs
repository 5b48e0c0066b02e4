//! Messages that carry out-of-line values. The writer sends each value, as stored, in transactional messages of a
//! prefix of ours before the row that points to it.
//!
//! Collecting the values and giving them to the row's pointers comes with encrypted TOAST; what holds already is that
//! such messages are ours alone: no consumer ever sees one, also one that a user has sent under our prefix.

use core::ffi::{c_char, CStr};

const PREFIX: &CStr = c"pg_vault_tde";

/// Whether a message is ours, and so is not to be passed on.
///
/// # Safety
/// `prefix` must be a message's prefix.
pub unsafe fn is_ours(prefix: *const c_char) -> bool {
    // SAFETY: the caller's promise: a NUL-terminated string.
    unsafe { CStr::from_ptr(prefix) == PREFIX }
}
