//! Writing: each callback encrypts the row and lets heapam store it, on a shadow relation (see `shadow.rs`) that makes
//! heapam decide about HOT, lock strength and the replica identity as the plaintext calls for.

use core::mem::{size_of, zeroed};
use core::ptr;

use super::carrier::{Carrier, CARRIER_OPS};
use super::changed::{self, Bitmaps};
use super::old::OldRow;
use super::rewrite::refuse_concurrently;
use super::{recent, row};
use crate::pg::memory::Scratch;
use crate::pg::shadow::{set_log_old_row, set_modified, Shadow};
use crate::pg::tuple::{maxalign, HeapTuple, TupleTableSlot};
use crate::pg::{heapam, majors, rel as relation, sys, BackendCell};
use crate::toast::old::{cancel_old_values, send_old_values};
use crate::toast::remove::{delete_values, kill_values};
use crate::toast::toaster::{self, Toasted};
use crate::{pg_callback, tuple_delete_callback, tuple_update_callback};

/// `SpecTokenOffsetNumber`: what t_ctid's offset is while a speculative insertion is under way.
const SPEC_TOKEN_OFFSET_NUMBER: u16 = 0xfffe;

/// The plaintext tuple of a slot that is about to be stored in a relation.
struct Plain {
    tuple: HeapTuple,
    /// The tuple was made for this call, the slot does not own it.
    should_free: bool,
}

impl Plain {
    /// As heapam's callbacks begin: the slot's tuple, private to it, with the table's OID set in both.
    ///
    /// # Safety
    /// `slot` must hold a row of `rel`'s row type.
    unsafe fn of(slot: *mut TupleTableSlot, rel: sys::Relation) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let mut should_free = true;
            let tuple = sys::ExecFetchSlotHeapTuple(slot, true, &mut should_free);
            (*slot).tts_tableOid = relation::oid(rel);
            (*tuple).t_tableOid = (*slot).tts_tableOid;
            Self { tuple, should_free }
        }
    }

    /// The row as it can be stored, in place of `old` (null for an insertion).
    unsafe fn toast(&self, rel: sys::Relation, old: HeapTuple, options: majors::Options) -> Toasted {
        // SAFETY: a valid tuple of rel's row type.
        unsafe {
            if toaster::is_needed(self.tuple, old) {
                toaster::toast(rel, self.tuple, old, options)
            } else {
                Toasted::unchanged(rel, self.tuple)
            }
        }
    }

    /// Takes over what heapam has written into the stored row, tells the slot where it is, and frees what is ours.
    unsafe fn finish(self, slot: *mut TupleTableSlot, stored: HeapTuple) {
        // SAFETY: both tuples are valid; the plaintext one is private to the slot or to this call.
        unsafe {
            row::take_header(self.tuple, stored);
            (*slot).tts_tid = (*stored).t_self;
            if self.should_free {
                sys::pfree(self.tuple.cast());
            }
        }
    }
}

/// heap_insert() of a slot's row, encrypted; `speculative` is the token of a speculative insertion.
unsafe fn insert(
    rel: sys::Relation,
    slot: *mut TupleTableSlot,
    cid: sys::CommandId,
    options: majors::Options,
    bistate: sys::BulkInsertState,
    speculative: Option<u32>,
) {
    // SAFETY: the contract of tuple_insert; the shadow lives on this frame for the one call.
    unsafe {
        let plain = Plain::of(slot, rel);
        let toasted = plain.toast(rel, ptr::null_mut(), options);
        let stored = row::seal(rel, toasted.tuple);
        let mut options = options;
        if let Some(token) = speculative {
            // HeapTupleHeaderSetSpeculativeToken()
            let ctid = &mut (*(*stored).t_data).t_ctid;
            ctid.ip_blkid.bi_hi = (token >> 16) as u16;
            ctid.ip_blkid.bi_lo = token as u16;
            ctid.ip_posid = SPEC_TOKEN_OFFSET_NUMBER;
            options |= sys::HEAP_INSERT_SPECULATIVE as majors::Options;
        }
        let mut space = Shadow::new();
        let shadow = space.on_stack(rel);
        sys::heap_insert(shadow, stored, cid, options, bistate);
        plain.finish(slot, stored);
        toaster::reset();
    }
}

pg_callback! {
    pub fn tuple_insert(
        rel: sys::Relation,
        slot: *mut TupleTableSlot,
        cid: sys::CommandId,
        options: majors::Options,
        bistate: *mut sys::BulkInsertStateData,
    ) {
        // SAFETY: the contract of the callback.
        unsafe { insert(rel, slot, cid, options, bistate, None) }
    }

    pub fn tuple_insert_speculative(
        rel: sys::Relation,
        slot: *mut TupleTableSlot,
        cid: sys::CommandId,
        options: majors::Options,
        bistate: *mut sys::BulkInsertStateData,
        token: u32,
    ) {
        // SAFETY: the contract of the callback.
        unsafe { insert(rel, slot, cid, options, bistate, Some(token)) }
    }

    pub fn multi_insert(
        rel: sys::Relation,
        slots: *mut *mut TupleTableSlot,
        nslots: i32,
        cid: sys::CommandId,
        options: majors::Options,
        bistate: *mut sys::BulkInsertStateData,
    ) {
        // SAFETY: the contract of the callback: `slots` has nslots slots of rel's row type.
        unsafe { insert_batch(rel, slots, nslots as usize, cid, options, bistate) }
    }

    /// A lost speculative insertion takes its out-of-line values with it.
    pub fn tuple_complete_speculative(
        rel: sys::Relation,
        slot: *mut TupleTableSlot,
        token: u32,
        succeeded: bool,
    ) {
        // SAFETY: the contract of the callback: the slot's row was inserted speculatively by this command.
        unsafe {
            if !succeeded {
                let row = OldRow::fetch(rel, &raw mut (*slot).tts_tid, false);
                if row.has_external() {
                    kill_values(rel, row.tuple);
                }
                row.forget();
            }
            heapam().tuple_complete_speculative.unwrap_unchecked()(rel, slot, token, succeeded);
        }
    }
}

#[allow(clippy::too_many_arguments)]
unsafe fn update(
    rel: sys::Relation,
    otid: sys::ItemPointer,
    slot: *mut TupleTableSlot,
    cid: sys::CommandId,
    crosscheck: sys::Snapshot,
    wait: bool,
    failure: *mut sys::TM_FailureData,
    lockmode: *mut sys::LockTupleMode,
    update_indexes: *mut sys::TU_UpdateIndexes,
) -> sys::TM_Result {
    // SAFETY: the contract of tuple_update; the shadow lives on this frame for the one call.
    unsafe {
        let plain = Plain::of(slot, rel);
        let bitmaps = Bitmaps::of(rel);
        let old = OldRow::fetch(rel, otid, !bitmaps.is_empty());
        let changed = changed::by_update(rel, &old, plain.tuple, &bitmaps);
        let sends_old_values = changed.log_old_row && old.has_external();
        if sends_old_values {
            send_old_values(rel, old.tuple, bitmaps.identity());
        }
        let toasted = plain.toast(rel, old.tuple, 0);
        let stored = row::seal(rel, toasted.tuple);
        let mut space = Shadow::new();
        let shadow = space.on_stack(rel);
        set_modified(shadow, changed.modified);
        set_log_old_row(shadow, changed.log_old_row);
        let result =
            majors::heap_update(shadow, otid, stored, cid, crosscheck, wait, failure, lockmode, update_indexes);
        if result == sys::TM_Ok {
            if recent::is_one_of_few(cid) {
                let need = recent::need_of_update(relation::oid(rel), &*otid);
                row::keep(need, rel, stored, toasted.tuple);
            }
            toasted.done();
        } else {
            *update_indexes = sys::TU_None;
            toasted.undo();
            if sends_old_values {
                cancel_old_values(rel, old.tuple, bitmaps.identity());
            }
        }
        plain.finish(slot, stored);
        old.forget();
        bitmaps.free();
        toaster::reset();
        result
    }
}

unsafe fn delete(
    rel: sys::Relation,
    tid: sys::ItemPointer,
    cid: sys::CommandId,
    crosscheck: sys::Snapshot,
    wait: bool,
    failure: *mut sys::TM_FailureData,
    changing_partition: bool,
) -> sys::TM_Result {
    // SAFETY: the contract of tuple_delete; the shadow lives on this frame for the one call.
    unsafe {
        let bitmaps = Bitmaps::of_identity(rel);
        let old = OldRow::fetch(rel, tid, false);
        let sends_old_values = bitmaps.log_deletes() && old.has_external();
        if sends_old_values {
            send_old_values(rel, old.tuple, bitmaps.identity());
        }
        let mut space = Shadow::new();
        let shadow = space.on_stack(rel);
        set_log_old_row(shadow, bitmaps.log_deletes());
        let result = majors::heap_delete(shadow, tid, cid, crosscheck, wait, failure, changing_partition);
        if result == sys::TM_Ok {
            if old.has_external() {
                delete_values(rel, old.tuple);
            }
        } else if sends_old_values {
            cancel_old_values(rel, old.tuple, bitmaps.identity());
        }
        old.forget();
        bitmaps.free();
        result
    }
}

tuple_update_callback!(tuple_update, update, refuse_concurrently);
tuple_delete_callback!(tuple_delete, delete, refuse_concurrently);

/// A row of a batch: the slot's own, and what the toaster has made of it.
struct Row {
    plain: Plain,
    to_store: HeapTuple,
}

/// Where the batches of [`insert_batch`] are built.
static BATCH: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// heap_multi_insert() of the slots' rows: they are encrypted into one block, and carrier slots hand them to heapam.
///
/// The block is laid out as: pointers to the carriers, the carriers, the rows.
unsafe fn insert_batch(
    rel: sys::Relation,
    slots: *mut *mut TupleTableSlot,
    nslots: usize,
    cid: sys::CommandId,
    options: majors::Options,
    bistate: sys::BulkInsertState,
) {
    // SAFETY: the block is reserved for the sizes added up here, in the order in which they are used.
    unsafe {
        let rows: *mut Row = sys::palloc(nslots * size_of::<Row>()).cast();
        let mut rows_size = 0;
        for i in 0..nslots {
            let plain = Plain::of(*slots.add(i), rel);
            let toasted = plain.toast(rel, ptr::null_mut(), options);
            rows_size += row::seal_size((*toasted.tuple).t_len);
            rows.add(i).write(Row { plain, to_store: toasted.tuple });
        }
        let carriers_at = maxalign(nslots * size_of::<*mut Carrier>());
        let rows_at = carriers_at + nslots * maxalign(size_of::<Carrier>());
        let block = (*BATCH.as_ptr()).reserve(sys::TopMemoryContext, rows_at + rows_size);
        let pointers: *mut *mut TupleTableSlot = block.cast();
        let carriers: *mut Carrier = block.add(carriers_at).cast();
        let mut at = block.add(rows_at);
        let key_oid = relation::key_oid(rel);
        for i in 0..nslots {
            let row = (*rows.add(i)).to_store;
            let stored = row::seal_into(key_oid, row, at);
            at = at.add(row::seal_size((*row).t_len));
            let carrier = carriers.add(i);
            carrier.write(Carrier { slot: zeroed(), tuple: stored });
            Carrier::init(carrier, &raw const CARRIER_OPS);
            pointers.add(i).write(carrier.cast());
        }

        let mut space = Shadow::new();
        let shadow = space.on_stack(rel);
        sys::heap_multi_insert(shadow, pointers, nslots as i32, cid, options, bistate);

        for i in 0..nslots {
            ptr::read(rows.add(i)).plain.finish(*slots.add(i), (*carriers.add(i)).tuple);
        }
        sys::pfree(rows.cast());
        toaster::reset();
    }
}
