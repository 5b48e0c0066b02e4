//! The callback table of `encrypted_heap`: heapam's own, with those replaced that touch what is in a row.

use core::mem::{offset_of, MaybeUninit};
use core::ptr;

use super::{build, modify, scan, slot};
use crate::crypto::row::ROW_OVERHEAD;
use crate::pg::error::FEATURE_NOT_SUPPORTED;
use crate::pg::tuple::maxalign;
use crate::pg::{sys, BackendCell};
use crate::{keys, pg_callback, pg_error};

static ROUTINE: BackendCell<MaybeUninit<sys::TableAmRoutine>> = BackendCell::new(MaybeUninit::uninit());

/// heapam's callback table.
#[inline]
pub fn heapam() -> &'static sys::TableAmRoutine {
    // SAFETY: a constant of the server.
    unsafe { &*sys::GetHeapamTableAmRoutine() }
}

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
        table.multi_insert = Some(modify::multi_insert);
        table.tuple_delete = Some(modify::tuple_delete);
        table.tuple_update = Some(modify::tuple_update);
        table.tuple_lock = Some(scan::tuple_lock);

        table.relation_set_new_filelocator = Some(relation_set_new_filelocator);
        table.relation_copy_for_cluster = Some(relation_copy_for_cluster);
        table.scan_analyze_next_tuple = Some(scan::scan_analyze_next_tuple);
        table.index_build_range_scan = Some(build::index_build_range_scan);
        table.index_validate_scan = Some(build::index_validate_scan);

        table.relation_needs_toast_table = Some(relation_needs_toast_table);
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

    fn relation_copy_for_cluster(
        _old: sys::Relation,
        _new: sys::Relation,
        _index: sys::Relation,
        _use_sort: bool,
        _oldest_xmin: sys::TransactionId,
        _xid_cutoff: *mut sys::TransactionId,
        _multi_cutoff: *mut sys::MultiXactId,
        _num_tuples: *mut f64,
        _tups_vacuumed: *mut f64,
        _tups_recently_dead: *mut f64,
    ) {
        pg_error!(
            FEATURE_NOT_SUPPORTED, "VACUUM FULL and CLUSTER are not yet supported for tables that use encrypted_heap";
            hint: ("Use VACUUM, or rewrite the table with ALTER TABLE … SET ACCESS METHOD.")
        )
    }

    fn relation_needs_toast_table(_rel: sys::Relation) -> bool {
        false
    }

    /// As heapam's, for rows that are longer by the encryption's overhead.
    fn relation_estimate_size(
        rel: sys::Relation,
        attr_widths: *mut i32,
        pages: *mut sys::BlockNumber,
        tuples: *mut f64,
        allvisfrac: *mut f64,
    ) {
        let overhead = maxalign(offset_of!(sys::HeapTupleHeaderData, t_bits)) + size_of::<sys::ItemIdData>();
        let usable = sys::BLCKSZ as usize - offset_of!(sys::PageHeaderData, pd_linp);
        // SAFETY: the contract of the callback.
        unsafe {
            sys::table_block_relation_estimate_size(rel, attr_widths, pages, tuples, allvisfrac, overhead + ROW_OVERHEAD, usable);
        }
    }
}
