//! The callback table of `encrypted_heap`: heapam's own, with those replaced that touch what is in a row.

use core::mem::{offset_of, MaybeUninit};
use core::ptr;

use super::{build, modify, rewrite, scan, slot};
use crate::crypto::row::ROW_OVERHEAD;
use crate::pg::sizes::TUPLE_HEADER;
use crate::pg::tuple::maxalign;
use crate::pg::{heapam, sys, BackendCell, Oid};
use crate::{keys, maintenance, pg_callback, toast};

static ROUTINE: BackendCell<MaybeUninit<sys::TableAmRoutine>> = BackendCell::new(MaybeUninit::uninit());

/// The callback table of `encrypted_heap`: server lifetime, one address. Valid after [`register`].
pub fn routine() -> *const sys::TableAmRoutine {
    ROUTINE.as_ptr().cast()
}

/// Fills the callback table, in the order of tableam.h; called once, from `_PG_init`.
pub fn register() {
    slot::register();
    // SAFETY: heapam's table is a constant; ours is written once, before any relation uses it.
    unsafe {
        let mut table = ptr::read(sys::GetHeapamTableAmRoutine());

        table.slot_callbacks = Some(slot_callbacks);

        table.scan_getnextslot = Some(scan::scan_getnextslot);
        table.scan_getnextslot_tidrange = Some(scan::scan_getnextslot_tidrange);
        table.index_fetch_tuple = Some(scan::index_fetch_tuple);

        table.tuple_fetch_row_version = Some(scan::tuple_fetch_row_version);
        table.tuple_satisfies_snapshot = Some(scan::tuple_satisfies_snapshot);

        table.tuple_insert = Some(modify::tuple_insert);
        table.tuple_insert_speculative = Some(modify::tuple_insert_speculative);
        table.tuple_complete_speculative = Some(modify::tuple_complete_speculative);
        table.multi_insert = Some(modify::multi_insert);
        table.tuple_delete = Some(modify::tuple_delete);
        table.tuple_update = Some(modify::tuple_update);
        table.tuple_lock = Some(scan::tuple_lock);

        table.relation_set_new_filelocator = Some(relation_set_new_filelocator);
        table.relation_vacuum = Some(maintenance::limit::relation_vacuum);
        table.relation_copy_for_cluster = Some(rewrite::relation_copy_for_cluster);
        table.scan_analyze_next_tuple = Some(scan::scan_analyze_next_tuple);
        table.index_build_range_scan = Some(build::index_build_range_scan);
        table.index_validate_scan = Some(build::index_validate_scan);

        table.relation_needs_toast_table = Some(relation_needs_toast_table);
        table.relation_toast_am = Some(relation_toast_am);
        table.relation_estimate_size = Some(relation_estimate_size);

        table.scan_bitmap_next_tuple = Some(scan::scan_bitmap_next_tuple);
        table.scan_sample_next_tuple = Some(scan::scan_sample_next_tuple);

        ROUTINE.as_ptr().cast::<sys::TableAmRoutine>().write(table);
    }
}

pg_callback! {
    fn slot_callbacks(_rel: sys::Relation) -> *const sys::TupleTableSlotOps {
        slot::ops()
    }

    /// New storage, and with a database's first encrypted table its first key.
    fn relation_set_new_filelocator(
        rel: sys::Relation,
        locator: *const sys::RelFileLocator,
        persistence: core::ffi::c_char,
        freeze_xid: *mut sys::TransactionId,
        minmulti: *mut sys::MultiXactId,
    ) {
        keys::ensure_first_generation();
        // SAFETY: the contract of the callback.
        unsafe {
            heapam().relation_set_new_filelocator.unwrap_unchecked()(rel, locator, persistence, freeze_xid, minmulti);
        }
    }

    fn relation_needs_toast_table(rel: sys::Relation) -> bool {
        // SAFETY: the contract of the callback.
        unsafe { toast::routine::needs_toast_table(rel) }
    }

    fn relation_toast_am(_rel: sys::Relation) -> Oid {
        toast::routine::access_method_oid()
    }

    /// As heapam's, for rows that are longer by the encryption's overhead.
    fn relation_estimate_size(
        rel: sys::Relation,
        attr_widths: *mut i32,
        pages: *mut sys::BlockNumber,
        tuples: *mut f64,
        allvisfrac: *mut f64,
    ) {
        let overhead = maxalign(TUPLE_HEADER) + size_of::<sys::ItemIdData>();
        let usable = sys::BLCKSZ as usize - offset_of!(sys::PageHeaderData, pd_linp);
        // SAFETY: the contract of the callback.
        unsafe {
            sys::table_block_relation_estimate_size(rel, attr_widths, pages, tuples, allvisfrac, overhead + ROW_OVERHEAD, usable);
        }
    }
}
