//! VACUUM: nbtree's own, on the inner index. It compares keys when it deletes a page.

use core::ffi::c_void;
use core::ptr;

use super::inner::{self, nbtree};
use crate::pg::sys;
use crate::pg_callback;

/// `info` for the inner index.
unsafe fn with_inner(info: *const sys::IndexVacuumInfo, inner: sys::Relation) -> sys::IndexVacuumInfo {
    // SAFETY: a plain struct.
    unsafe {
        let mut copy = ptr::read(info);
        copy.index = inner;
        copy
    }
}

pg_callback! {
    pub fn bulk_delete(
        info: *mut sys::IndexVacuumInfo,
        stats: *mut sys::IndexBulkDeleteResult,
        callback: sys::IndexBulkDeleteCallback,
        callback_state: *mut c_void,
    ) -> *mut sys::IndexBulkDeleteResult {
        // SAFETY: the contract of the callback.
        unsafe {
            let entered = inner::enter((*info).index);
            let mut info = with_inner(info, entered.rel());
            let stats = nbtree().ambulkdelete.unwrap_unchecked()(&mut info, stats, callback, callback_state);
            entered.leave();
            stats
        }
    }

    pub fn cleanup(
        info: *mut sys::IndexVacuumInfo,
        stats: *mut sys::IndexBulkDeleteResult,
    ) -> *mut sys::IndexBulkDeleteResult {
        // SAFETY: the contract of the callback.
        unsafe {
            let entered = inner::enter((*info).index);
            let mut info = with_inner(info, entered.rel());
            let stats = nbtree().amvacuumcleanup.unwrap_unchecked()(&mut info, stats);
            entered.leave();
            stats
        }
    }
}
