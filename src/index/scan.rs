//! Index scans: nbtree's own, with the scan's relation exchanged for the inner index while nbtree runs.
//!
//! The scan's `opaque` is ours, and has nbtree's in it. If nbtree raises an ERROR, the scan keeps what was exchanged; nobody
//! looks at it any more, and both the inner index and nbtree's state stay in place as long as the scan.

use core::ptr;

use super::inner::{self, nbtree, Index};
use super::keys;
use crate::pg::memory::{self, cleanse, MemoryContext};
use crate::pg::{sys, Datum};
use crate::{estimate_parallel_scan_callback, pg_callback};

/// `INDEX_SIZE_MASK`
const SIZE_MASK: u16 = 0x1FFF;

struct Scan {
    nbtree: *mut core::ffi::c_void,
    /// holds the arguments of the scan keys, and the searches for them; emptied by a rescan
    arguments: MemoryContext,
    /// holds the row that an index-only scan has returned; null until there is one
    rows: MemoryContext,
    row: sys::IndexTuple,
}

impl Scan {
    /// Cleanses the row that was returned last.
    unsafe fn forget_row(&mut self) {
        // SAFETY: the row is in the context, and as long as it says.
        unsafe {
            if !self.row.is_null() {
                cleanse(self.row.cast(), usize::from((*self.row).t_info & SIZE_MASK));
                self.row = ptr::null_mut();
                sys::MemoryContextReset(self.rows);
            }
        }
    }
}

/// Runs `body` as nbtree sees the scan.
#[inline]
unsafe fn as_nbtree<R>(scan: sys::IndexScanDesc, body: impl FnOnce(*mut Index, *mut Scan) -> R) -> R {
    // SAFETY: the scan of an index of ours, begun by `begin`.
    unsafe {
        let state: *mut Scan = (*scan).opaque.cast();
        let outer = (*scan).indexRelation;
        let entered = inner::enter(outer);
        (*scan).indexRelation = entered.rel();
        (*scan).opaque = (*state).nbtree;
        let result = body(entered.index, state);
        (*scan).indexRelation = outer;
        (*scan).opaque = state.cast();
        entered.leave();
        result
    }
}

/// The row of an index-only scan, in the clear.
unsafe fn decrypt_row(scan: sys::IndexScanDesc, index: *mut Index, state: *mut Scan) {
    // SAFETY: nbtree has set xs_itup to a row of the inner index; the new one lives until the next call.
    unsafe {
        if (*state).rows.is_null() {
            (*state).rows = memory::new_context(sys::GetMemoryChunkContext(state.cast()), c"pg_vault_tde index row");
        }
        let mut values: [Datum; sys::INDEX_MAX_KEYS as usize] = [0; sys::INDEX_MAX_KEYS as usize];
        let mut nulls = [false; sys::INDEX_MAX_KEYS as usize];
        sys::index_deform_tuple((*scan).xs_itup, (*index).stored_desc(), values.as_mut_ptr(), nulls.as_mut_ptr());
        for i in 0..(*index).ncolumns() {
            if !nulls[i] {
                let column = (*index).column(i);
                let stored = super::compare::stored(values[i]);
                values[i] = if (*column).busy {
                    memory::within((*state).rows, || (*column).open_copy(stored))
                } else {
                    (*column).open(0, stored)
                };
            }
        }
        let desc = (*index).plain_desc();
        (*state).row = sys::index_form_tuple_context(desc, values.as_ptr(), nulls.as_ptr(), (*state).rows);
        (*(*state).row).t_tid = (*(*scan).xs_itup).t_tid;
        (*scan).xs_itup = (*state).row;
        (*scan).xs_itupdesc = desc;
    }
}

pg_callback! {
    pub fn begin(outer: sys::Relation, nkeys: i32, norderbys: i32) -> sys::IndexScanDesc {
        // SAFETY: the contract of the callback; nbtree only notes the relation.
        unsafe {
            let scan = nbtree().ambeginscan.unwrap_unchecked()(outer, nkeys, norderbys);
            let state: *mut Scan = sys::palloc(size_of::<Scan>()).cast();
            state.write(Scan {
                nbtree: (*scan).opaque,
                arguments: memory::new_context(memory::current(), c"pg_vault_tde scan keys"),
                rows: ptr::null_mut(),
                row: ptr::null_mut(),
            });
            (*scan).opaque = state.cast();
            scan
        }
    }

    pub fn rescan(
        scan: sys::IndexScanDesc,
        scan_keys: sys::ScanKey,
        nkeys: i32,
        orderbys: sys::ScanKey,
        norderbys: i32,
    ) {
        // SAFETY: the contract of the callback.
        unsafe {
            as_nbtree(scan, |index, state| {
                (*state).forget_row();
                let mut converted = ptr::null_mut();
                if !scan_keys.is_null() && nkeys > 0 {
                    sys::MemoryContextReset((*state).arguments);
                    converted = memory::within((*state).arguments, || keys::convert(index, scan_keys, nkeys as usize));
                }
                nbtree().amrescan.unwrap_unchecked()(scan, converted, nkeys, orderbys, norderbys);
            });
        }
    }

    pub fn get_tuple(scan: sys::IndexScanDesc, direction: sys::ScanDirection) -> bool {
        // SAFETY: the contract of the callback.
        unsafe {
            as_nbtree(scan, |index, state| {
                let found = nbtree().amgettuple.unwrap_unchecked()(scan, direction);
                if (*scan).xs_want_itup {
                    (*state).forget_row();
                    if found {
                        decrypt_row(scan, index, state);
                    }
                }
                found
            })
        }
    }

    pub fn get_bitmap(scan: sys::IndexScanDesc, bitmap: *mut sys::TIDBitmap) -> i64 {
        // SAFETY: the contract of the callback.
        unsafe { as_nbtree(scan, |_, _| nbtree().amgetbitmap.unwrap_unchecked()(scan, bitmap)) }
    }

    pub fn end(scan: sys::IndexScanDesc) {
        // SAFETY: the contract of the callback; nbtree frees its state, the rest is ours.
        unsafe {
            as_nbtree(scan, |_, state| {
                (*state).forget_row();
                nbtree().amendscan.unwrap_unchecked()(scan);
                sys::MemoryContextDelete((*state).arguments);
                if !(*state).rows.is_null() {
                    sys::MemoryContextDelete((*state).rows);
                }
            });
            sys::pfree((*scan).opaque);
        }
    }

    pub fn mark(scan: sys::IndexScanDesc) {
        // SAFETY: the contract of the callback.
        unsafe { as_nbtree(scan, |_, _| nbtree().ammarkpos.unwrap_unchecked()(scan)) }
    }

    pub fn restore(scan: sys::IndexScanDesc) {
        // SAFETY: the contract of the callback.
        unsafe { as_nbtree(scan, |_, _| nbtree().amrestrpos.unwrap_unchecked()(scan)) }
    }

    pub fn parallel_rescan(scan: sys::IndexScanDesc) {
        // SAFETY: the contract of the callback.
        unsafe { as_nbtree(scan, |_, _| nbtree().amparallelrescan.unwrap_unchecked()(scan)) }
    }
}

estimate_parallel_scan_callback!(estimate_parallel, nbtree, inner::enter);
