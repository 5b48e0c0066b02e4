//! Reading: every callback that hands out rows lets heapam fill the raw slot, and publishes it (see `slot.rs`).
//!
//! Nothing here decrypts but scans with scan keys.

use super::slot::{expect, publish, publish_locked, raw_of, stored, Expected};
use crate::pg::rel::key_oid;
use crate::pg::tuple::{clear, is_empty, TupleTableSlot};
use crate::pg::{heapam, sys, Oid};
use crate::{pg_callback, scan_analyze_next_tuple_callback, scan_bitmap_next_tuple_callback};

/// The key OID of the relation that a scan reads.
#[inline]
unsafe fn scan_key_oid(scan: sys::TableScanDesc) -> Oid {
    // SAFETY: a scan's relation is open for as long as the scan.
    unsafe { key_oid((*scan).rs_rd) }
}

/// Publishes the raw slot of a scan that found a row, or clears the slot at the scan's end.
#[inline]
unsafe fn publish_found(scan: sys::TableScanDesc, slot: *mut TupleTableSlot, found: bool) -> bool {
    // SAFETY: called by scan callbacks with the slot whose raw slot heapam was given.
    unsafe {
        if found {
            publish(slot, scan_key_oid(scan));
        } else {
            clear(slot);
        }
    }
    found
}

/// Pages of a table that counts as small: the planner reads such a table from one end to the other for a row that an index
/// would find in a large one, so its rows are decrypted again and again.
const SMALL: sys::BlockNumber = 32;
/// What a small table may have grown to by rows that are dead: it is read by the plans that were made before.
const SWOLLEN: sys::BlockNumber = 512;
/// Rows that a small table has at most, if it was analyzed.
const FEW_ROWS: f32 = 4000.0;

/// Whether a sequential scan reads a small table.
#[inline]
unsafe fn is_small(scan: sys::TableScanDesc) -> bool {
    // SAFETY: a scan of heapam is a HeapScanDesc.
    unsafe {
        let pages = (*scan.cast::<sys::HeapScanDescData>()).rs_nblocks;
        // (-1 is a table of which nobody knows)
        pages <= SMALL || pages <= SWOLLEN && (0.0..=FEW_ROWS).contains(&(*(*(*scan).rs_rd).rd_rel).reltuples)
    }
}

/// heapam returns from `scan_analyze_next_tuple` with the buffer's content lock held, and looks at the page anew when it is called
/// again. ANALYZE copies the rows of its sample at once, and only those are decrypted, with the lock given up meanwhile.
unsafe fn publish_analyzed(scan: sys::TableScanDesc, slot: *mut TupleTableSlot, found: bool) -> bool {
    // SAFETY: as for publish_found.
    unsafe {
        if found {
            publish_locked(slot, scan_key_oid(scan));
        } else {
            clear(slot);
        }
    }
    found
}

/// Whether the row satisfies the scan's keys; heapam would test them on the stored row (`HeapKeyTest`).
unsafe fn satisfies_keys(slot: *mut TupleTableSlot, keys: *const sys::ScanKeyData, nkeys: i32) -> bool {
    for i in 0..nkeys as usize {
        // SAFETY: rs_key has rs_nkeys entries; the slot holds a row.
        unsafe {
            let key = &*keys.add(i);
            if key.sk_flags & sys::SK_ISNULL as i32 != 0 {
                return false;
            }
            let mut isnull = false;
            let value = sys::slot_getattr(slot, key.sk_attno.into(), &mut isnull);
            if isnull {
                return false;
            }
            let function = (&raw const key.sk_func).cast_mut();
            if sys::FunctionCall2Coll(function, key.sk_collation, value, key.sk_argument) == 0 {
                return false;
            }
        }
    }
    true
}

/// A sequential scan with scan keys (no plan of the executor has them): heapam scans without, the keys are tested on the
/// plaintext.
#[cold]
unsafe fn getnextslot_with_keys(
    scan: sys::TableScanDesc,
    direction: sys::ScanDirection,
    slot: *mut TupleTableSlot,
) -> bool {
    // SAFETY: as for scan_getnextslot. rs_nkeys is put back before anything can look at it; an ERROR ends the scan.
    unsafe {
        loop {
            let nkeys = core::mem::replace(&mut (*scan).rs_nkeys, 0);
            let found = heapam().scan_getnextslot.unwrap_unchecked()(scan, direction, raw_of(slot));
            (*scan).rs_nkeys = nkeys;
            if !publish_found(scan, slot, found) {
                return false;
            }
            if satisfies_keys(slot, (*scan).rs_key, nkeys) {
                return true;
            }
        }
    }
}

pg_callback! {
    pub fn scan_getnextslot(scan: sys::TableScanDesc, direction: sys::ScanDirection, slot: *mut TupleTableSlot) -> bool {
        // SAFETY: the contract of the callback; heapam fills the raw slot.
        unsafe {
            if (*scan).rs_nkeys != 0 {
                return getnextslot_with_keys(scan, direction, slot);
            }
            let found = heapam().scan_getnextslot.unwrap_unchecked()(scan, direction, raw_of(slot));
            publish_found(scan, slot, found);
            if found && is_small(scan) {
                expect(slot, Expected::Again);
            }
            found
        }
    }

    pub fn scan_getnextslot_tidrange(
        scan: sys::TableScanDesc,
        direction: sys::ScanDirection,
        slot: *mut TupleTableSlot,
    ) -> bool {
        // SAFETY: the contract of the callback; heapam fills the raw slot.
        unsafe {
            let found = heapam().scan_getnextslot_tidrange.unwrap_unchecked()(scan, direction, raw_of(slot));
            publish_found(scan, slot, found)
        }
    }

    pub fn scan_sample_next_tuple(
        scan: sys::TableScanDesc,
        state: *mut sys::SampleScanState,
        slot: *mut TupleTableSlot,
    ) -> bool {
        // SAFETY: the contract of the callback; heapam fills the raw slot.
        unsafe {
            let found = heapam().scan_sample_next_tuple.unwrap_unchecked()(scan, state, raw_of(slot));
            publish_found(scan, slot, found)
        }
    }

    pub fn index_fetch_tuple(
        fetch: *mut sys::IndexFetchTableData,
        tid: sys::ItemPointer,
        snapshot: sys::Snapshot,
        slot: *mut TupleTableSlot,
        call_again: *mut bool,
        all_dead: *mut bool,
    ) -> bool {
        // SAFETY: the contract of the callback; heapam fills the raw slot, or leaves it alone when it finds nothing.
        unsafe {
            let found = heapam().index_fetch_tuple.unwrap_unchecked()(
                fetch,
                tid,
                snapshot,
                raw_of(slot),
                call_again,
                all_dead,
            );
            if found {
                publish(slot, key_oid((*fetch).rel));
                expect(slot, Expected::Written);
            }
            found
        }
    }

    pub fn tuple_fetch_row_version(
        rel: sys::Relation,
        tid: sys::ItemPointer,
        snapshot: sys::Snapshot,
        slot: *mut TupleTableSlot,
    ) -> bool {
        // SAFETY: the contract of the callback; heapam fills the raw slot, or leaves it alone when it finds nothing.
        unsafe {
            let found = heapam().tuple_fetch_row_version.unwrap_unchecked()(rel, tid, snapshot, raw_of(slot));
            if found {
                publish(slot, key_oid(rel));
            }
            found
        }
    }

    /// Visibility is a matter of the header. A materialized slot has let go of the page, so the row is fetched again.
    pub fn tuple_satisfies_snapshot(rel: sys::Relation, slot: *mut TupleTableSlot, snapshot: sys::Snapshot) -> bool {
        // SAFETY: the contract of the callback: the slot holds a row of `rel`.
        unsafe {
            let raw = raw_of(slot);
            let satisfies = heapam().tuple_satisfies_snapshot.unwrap_unchecked();
            if !stored(slot).is_null() {
                return satisfies(rel, raw, snapshot);
            }
            let mut tid = (*slot).tts_tid;
            let fetch = heapam().tuple_fetch_row_version.unwrap_unchecked();
            if !fetch(rel, &mut tid, &raw mut sys::SnapshotAnyData, raw) {
                return false;
            }
            let satisfied = satisfies(rel, raw, snapshot);
            clear(raw);
            satisfied
        }
    }

    /// heapam may leave the slot empty when the row is gone, and may move `tid` along the chain of updates.
    pub fn tuple_lock(
        rel: sys::Relation,
        tid: sys::ItemPointer,
        snapshot: sys::Snapshot,
        slot: *mut TupleTableSlot,
        cid: sys::CommandId,
        mode: sys::LockTupleMode,
        wait_policy: sys::LockWaitPolicy,
        flags: u8,
        failure: *mut sys::TM_FailureData,
    ) -> sys::TM_Result {
        // SAFETY: the contract of the callback. The raw slot is emptied first, so that what is in it afterwards is what
        // heapam has put there; `tid` is not the outer slot's own.
        unsafe {
            let raw = raw_of(slot);
            clear(raw);
            let lock = heapam().tuple_lock.unwrap_unchecked();
            let result = lock(rel, tid, snapshot, raw, cid, mode, wait_policy, flags, failure);
            if is_empty(raw) {
                clear(slot);
            } else {
                publish(slot, key_oid(rel));
            }
            result
        }
    }
}

scan_analyze_next_tuple_callback!(scan_analyze_next_tuple, heapam, raw_of, publish_analyzed);
scan_bitmap_next_tuple_callback!(scan_bitmap_next_tuple, heapam, raw_of, publish_found);
