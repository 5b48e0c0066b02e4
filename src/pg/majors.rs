//! All differences between PostgreSQL's majors that are more than a signature of a callback.

use super::sys;

/// `XLogLogicalInfoActive()`
///
/// # Safety
/// Only in a backend.
#[inline]
pub unsafe fn logical_wal() -> bool {
    // SAFETY: a plain variable, set at server start (19: may change while the server runs, through XLogLogicalInfo).
    unsafe { sys::wal_level >= sys::WAL_LEVEL_LOGICAL as i32 }
}
