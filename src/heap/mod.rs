//! `encrypted_heap`, one file a stage of a row's life. See `docs/architecture.md` for the idea: heapam keeps doing MVCC,
//! WAL, HOT and vacuum; what is here stands between it and the rows' contents.

mod build;
mod carrier;
mod changed;
mod modify;
mod old;
mod recent;
mod rewrite;
mod routine;
pub mod row;
mod scan;
mod slot;

pub use rewrite::refuse_concurrent_repack;
pub use routine::routine;

use crate::pg::sys;
use crate::pg_callback;

/// Whether the relation's rows are stored by `encrypted_heap`.
///
/// # Safety
/// `rel` must be an open relation.
pub unsafe fn is_encrypted(rel: sys::Relation) -> bool {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::eq((*rel).rd_tableam, routine()) }
}

/// What `_PG_init` has to do for this room.
pub fn register() {
    routine::register();
    // SAFETY: called once per backend's postmaster; the callbacks stay registered for the server's lifetime.
    unsafe {
        sys::RegisterXactCallback(Some(at_xact_event), core::ptr::null_mut());
        sys::RegisterSubXactCallback(Some(at_subxact_event), core::ptr::null_mut());
    }
}

/// After an ERROR: cleanses and frees what rows on their way have left behind.
fn forget_rows() {
    old::forget();
    rewrite::forget();
    crate::toast::toaster::reset();
    crate::maintenance::forget();
}

pg_callback! {
    fn at_xact_event(event: sys::XactEvent, _arg: *mut core::ffi::c_void) {
        recent::forget_all();
        if event == sys::XACT_EVENT_ABORT || event == sys::XACT_EVENT_PARALLEL_ABORT {
            forget_rows();
        }
    }

    fn at_subxact_event(
        event: sys::SubXactEvent,
        _subid: sys::SubTransactionId,
        _parent: sys::SubTransactionId,
        _arg: *mut core::ffi::c_void,
    ) {
        if event == sys::SUBXACT_EVENT_ABORT_SUB {
            recent::forget_all();
            forget_rows();
        }
    }
}
