//! The access method `encrypted_toast`: heapam's callback table for TOAST tables whose chunks are ciphertext. Rows are
//! ordinary heap rows; only what reads a value, and what insists on heapam's own table, is replaced.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use super::fetch;
use crate::pg::error::WRONG_OBJECT_TYPE;
use crate::pg::shadow::Shadow;
use crate::pg::sizes::{TOAST_TUPLE_THRESHOLD, TUPLE_HEADER};
use crate::pg::tuple::maxalign;
use crate::pg::{heapam, majors, sys, BackendCell, Oid};
use crate::{maintenance, pg_callback, pg_error};

static ROUTINE: BackendCell<MaybeUninit<sys::TableAmRoutine>> = BackendCell::new(MaybeUninit::uninit());

/// The callback table: server lifetime, one address. Valid after [`register`].
pub fn routine() -> *const sys::TableAmRoutine {
    ROUTINE.as_ptr().cast()
}

/// Fills the callback table; called once, from `_PG_init`.
pub fn register() {
    // SAFETY: heapam's table is a constant; ours is written once, before any relation uses it.
    unsafe {
        let mut table = ptr::read(sys::GetHeapamTableAmRoutine());
        table.relation_set_new_filelocator = Some(relation_set_new_filelocator);
        table.relation_vacuum = Some(maintenance::limit::relation_vacuum);
        table.index_build_range_scan = Some(index_build_range_scan);
        table.index_validate_scan = Some(index_validate_scan);
        table.relation_fetch_toast_slice = Some(fetch::relation_fetch_toast_slice);
        ROUTINE.as_ptr().cast::<sys::TableAmRoutine>().write(table);
    }
}

/// The OID of `encrypted_toast`, for the `relation_toast_am` of encrypted tables.
pub fn access_method_oid() -> Oid {
    // SAFETY: a syscache look-up in a transaction; raises an ERROR if there is none.
    unsafe { sys::get_table_am_oid(c"encrypted_toast".as_ptr(), false) }
}

/// Whether an encrypted table needs a TOAST table, by the rule of heapam's `relation_needs_toast_table`: rows may be
/// longer than the threshold, here counted as stored.
///
/// # Safety
/// `rel` must be open.
pub unsafe fn needs_toast_table(rel: sys::Relation) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let desc = (*rel).rd_att;
        let (mut length, mut unlimited, mut toastable) = (0usize, false, false);
        for i in 0..(*desc).natts as usize {
            let attribute = majors::attribute(desc, i);
            if (*attribute).attisdropped || (*attribute).attgenerated as u8 == b'v' {
                continue;
            }
            length = match (*attribute).attalign as u8 {
                sys::TYPALIGN_SHORT => length.next_multiple_of(2),
                sys::TYPALIGN_INT => length.next_multiple_of(4),
                sys::TYPALIGN_DOUBLE => length.next_multiple_of(8),
                _ => length,
            };
            if (*attribute).attlen > 0 {
                length += (*attribute).attlen as usize;
                continue;
            }
            match sys::type_maximum_size((*attribute).atttypid, (*attribute).atttypmod) {
                size if size < 0 => unlimited = true,
                size => length += size as usize,
            }
            toastable |= (*attribute).attstorage as u8 != sys::TYPSTORAGE_PLAIN;
        }
        let natts = (*desc).natts as usize;
        let header = maxalign(TUPLE_HEADER + natts.div_ceil(8));
        let stored = header + maxalign(length) + crate::crypto::row::ROW_OVERHEAD;
        toastable && (unlimited || stored > TOAST_TUPLE_THRESHOLD)
    }
}

pg_callback! {
    /// Only TOAST tables may use this access method (and the transient tables of their rewrites, which core makes in
    /// the TOAST schema too): an ordinary table's rows would be in the clear.
    fn relation_set_new_filelocator(
        rel: sys::Relation,
        locator: *const sys::RelFileLocator,
        persistence: core::ffi::c_char,
        freeze_xid: *mut sys::TransactionId,
        minmulti: *mut sys::MultiXactId,
    ) {
        // SAFETY: the contract of the callback.
        unsafe {
            let class = (*rel).rd_rel;
            let in_toast_schema =
                sys::IsToastNamespace((*class).relnamespace) || sys::isTempToastNamespace((*class).relnamespace);
            if (*class).relkind as u8 != sys::RELKIND_TOASTVALUE && !in_toast_schema {
                pg_error!(
                    WRONG_OBJECT_TYPE, "access method \"encrypted_toast\" cannot be used for an ordinary table";
                    detail: ("It is for the TOAST tables of encrypted tables only.");
                    hint: ("Use the access method \"encrypted_heap\".")
                );
            }
            heapam().relation_set_new_filelocator.unwrap_unchecked()(rel, locator, persistence, freeze_xid, minmulti);
        }
    }

    fn index_build_range_scan(
        rel: sys::Relation,
        index: sys::Relation,
        info: *mut sys::IndexInfo,
        allow_sync: bool,
        anyvisible: bool,
        progress: bool,
        start_blockno: sys::BlockNumber,
        numblocks: sys::BlockNumber,
        callback: sys::IndexBuildCallback,
        callback_state: *mut c_void,
        scan: sys::TableScanDesc,
    ) -> f64 {
        // SAFETY: the contract of the callback; the index columns are in the clear, only heap_getnext() has to find
        // its own routine in the scan's relation.
        unsafe {
            let shadow = Shadow::for_build(rel, scan);
            heapam().index_build_range_scan.unwrap_unchecked()(
                shadow,
                index,
                info,
                allow_sync,
                anyvisible,
                progress,
                start_blockno,
                numblocks,
                callback,
                callback_state,
                scan,
            )
        }
    }

    fn index_validate_scan(
        rel: sys::Relation,
        index: sys::Relation,
        info: *mut sys::IndexInfo,
        snapshot: sys::Snapshot,
        state: *mut sys::ValidateIndexState,
    ) {
        // SAFETY: as for index_build_range_scan.
        unsafe {
            heapam().index_validate_scan.unwrap_unchecked()(Shadow::for_scan(rel), index, info, snapshot, state);
        }
    }
}
