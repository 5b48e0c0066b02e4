//! Writing: each callback encrypts the row and lets heapam store it, on a shadow relation (see `shadow.rs`) that makes
//! heapam decide about HOT, lock strength and the replica identity as the plaintext calls for.

use core::mem::{size_of, zeroed};
use core::ptr;

use super::carrier::{Carrier, CARRIER_OPS};
use super::changed;
use super::row;
use super::shadow::{set_log_old_row, set_modified, Shadow};
use crate::pg::memory::Scratch;
use crate::pg::tuple::{maxalign, HeapTuple, TupleTableSlot};
use crate::pg::{rel as relation, sys, BackendCell};
use crate::pg_callback;

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

    /// The tuple to encrypt: with values that lie out of line elsewhere brought in.
    unsafe fn self_contained(&mut self, rel: sys::Relation) -> HeapTuple {
        // SAFETY: a valid tuple of rel's row type.
        unsafe {
            if (*(*self.tuple).t_data).t_infomask & sys::HEAP_HASEXTERNAL as u16 == 0 {
                return self.tuple;
            }
            let flat = sys::toast_flatten_tuple(self.tuple, (*rel).rd_att);
            (*flat).t_tableOid = (*self.tuple).t_tableOid;
            flat
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
    options: i32,
    bistate: sys::BulkInsertState,
    speculative: Option<u32>,
) {
    // SAFETY: the contract of tuple_insert; the shadow lives on this frame for the one call.
    unsafe {
        let mut plain = Plain::of(slot, rel);
        let stored = row::seal(rel, plain.self_contained(rel));
        let mut options = options;
        if let Some(token) = speculative {
            // HeapTupleHeaderSetSpeculativeToken()
            let ctid = &mut (*(*stored).t_data).t_ctid;
            ctid.ip_blkid.bi_hi = (token >> 16) as u16;
            ctid.ip_blkid.bi_lo = token as u16;
            ctid.ip_posid = SPEC_TOKEN_OFFSET_NUMBER;
            options |= sys::HEAP_INSERT_SPECULATIVE as i32;
        }
        let mut space = Shadow::new();
        let shadow = space.on_stack(rel);
        sys::heap_insert(shadow, stored, cid, options, bistate);
        plain.finish(slot, stored);
    }
}

pg_callback! {
    pub fn tuple_insert(
        rel: sys::Relation,
        slot: *mut TupleTableSlot,
        cid: sys::CommandId,
        options: i32,
        bistate: *mut sys::BulkInsertStateData,
    ) {
        // SAFETY: the contract of the callback.
        unsafe { insert(rel, slot, cid, options, bistate, None) }
    }

    pub fn tuple_insert_speculative(
        rel: sys::Relation,
        slot: *mut TupleTableSlot,
        cid: sys::CommandId,
        options: i32,
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
        options: i32,
        bistate: *mut sys::BulkInsertStateData,
    ) {
        // SAFETY: the contract of the callback: `slots` has nslots slots of rel's row type.
        unsafe { insert_batch(rel, slots, nslots as usize, cid, options, bistate) }
    }

    pub fn tuple_update(
        rel: sys::Relation,
        otid: sys::ItemPointer,
        slot: *mut TupleTableSlot,
        cid: sys::CommandId,
        _snapshot: sys::Snapshot,
        crosscheck: sys::Snapshot,
        wait: bool,
        failure: *mut sys::TM_FailureData,
        lockmode: *mut sys::LockTupleMode,
        update_indexes: *mut sys::TU_UpdateIndexes,
    ) -> sys::TM_Result {
        // SAFETY: the contract of the callback; the shadow lives on this frame for the one call.
        unsafe {
            let mut plain = Plain::of(slot, rel);
            let new = plain.self_contained(rel);
            let changed = changed::by_update(rel, otid, new);
            let stored = row::seal(rel, new);
            let mut space = Shadow::new();
            let shadow = space.on_stack(rel);
            set_modified(shadow, changed.modified);
            set_log_old_row(shadow, changed.log_old_row);
            let result =
                sys::heap_update(shadow, otid, stored, cid, crosscheck, wait, failure, lockmode, update_indexes);
            if result != sys::TM_Ok {
                *update_indexes = sys::TU_None;
            }
            plain.finish(slot, stored);
            result
        }
    }

    pub fn tuple_delete(
        rel: sys::Relation,
        tid: sys::ItemPointer,
        cid: sys::CommandId,
        _snapshot: sys::Snapshot,
        crosscheck: sys::Snapshot,
        wait: bool,
        failure: *mut sys::TM_FailureData,
        changing_partition: bool,
    ) -> sys::TM_Result {
        // SAFETY: the contract of the callback; the shadow lives on this frame for the one call.
        unsafe {
            let log_old_row = changed::delete_logs_old_row(rel);
            let mut space = Shadow::new();
            let shadow = space.on_stack(rel);
            set_log_old_row(shadow, log_old_row);
            sys::heap_delete(shadow, tid, cid, crosscheck, wait, failure, changing_partition)
        }
    }
}

/// Where the batches of [`insert_batch`] are built.
static BATCH: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// heap_multi_insert() of the slots' rows: they are encrypted into one block, and carrier slots hand them to heapam.
///
/// The block is laid out as: pointers to the plaintext tuples, pointers to the carriers, the carriers, the rows.
unsafe fn insert_batch(
    rel: sys::Relation,
    slots: *mut *mut TupleTableSlot,
    nslots: usize,
    cid: sys::CommandId,
    options: i32,
    bistate: sys::BulkInsertState,
) {
    // SAFETY: the block is reserved for the sizes added up here, in the order in which they are used.
    unsafe {
        let plains: *mut Plain = sys::palloc(nslots * size_of::<Plain>()).cast();
        let mut rows_size = 0;
        for i in 0..nslots {
            let mut plain = Plain::of(*slots.add(i), rel);
            let contained = plain.self_contained(rel);
            if contained != plain.tuple {
                // the slot keeps its own tuple; what is stored is the flattened copy
                plain = Plain { tuple: contained, should_free: true };
            }
            rows_size += row::seal_size((*plain.tuple).t_len);
            plains.add(i).write(plain);
        }
        let carriers_at = maxalign(nslots * size_of::<*mut Carrier>());
        let rows_at = carriers_at + nslots * maxalign(size_of::<Carrier>());
        let block = (*BATCH.as_ptr()).reserve(sys::TopMemoryContext, rows_at + rows_size);
        let pointers: *mut *mut TupleTableSlot = block.cast();
        let carriers: *mut Carrier = block.add(carriers_at).cast();
        let mut at = block.add(rows_at);
        let key_oid = relation::key_oid(rel);
        for i in 0..nslots {
            let plain = (*plains.add(i)).tuple;
            let stored = row::seal_into(key_oid, plain, at);
            at = at.add(row::seal_size((*plain).t_len));
            let carrier = carriers.add(i);
            carrier.write(Carrier { slot: zeroed(), tuple: stored });
            Carrier::init(carrier, &raw const CARRIER_OPS);
            pointers.add(i).write(carrier.cast());
        }

        let mut space = Shadow::new();
        let shadow = space.on_stack(rel);
        sys::heap_multi_insert(shadow, pointers, nslots as i32, cid, options, bistate);

        for i in 0..nslots {
            ptr::read(plains.add(i)).finish(*slots.add(i), (*carriers.add(i)).tuple);
        }
        sys::pfree(plains.cast());
    }
}
