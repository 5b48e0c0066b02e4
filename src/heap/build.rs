//! Index builds. heapam runs the scan, decides which rows belong into the index and knows their HOT roots; the values
//! are ours to compute, since it would deform stored rows.
//!
//! For that heapam is given an `IndexInfo` that has neither predicate nor expressions and whose attributes are all
//! `ctid`. `FormIndexDatum` then asks the scan's slot for its ctid, and what it gets is the address of `tts_tid` inside
//! that slot (`slot_getsysattr`). So the callback finds the slot, and in it the stored row under its pin; decrypts it;
//! evaluates the real predicate and expressions; and calls the real callback.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use super::slot;
use crate::pg::shadow::Shadow;
use crate::pg::tuple::{HeapTuple, TupleTableSlot};
use crate::pg::{heapam, rel as relation, sys, Datum};
use crate::{pg_callback, pg_error};

/// One index build: what the callbacks below need for each row.
struct Build {
    rel: sys::Relation,
    index: sys::Relation,
    /// the index as it is, with predicate and expressions
    info: *mut sys::IndexInfo,
    estate: *mut sys::EState,
    econtext: *mut sys::ExprContext,
    predicate: *mut sys::ExprState,
    /// a slot of ours, for the decrypted row
    slot: *mut TupleTableSlot,
    callback: sys::IndexBuildCallback,
    callback_state: *mut c_void,
}

impl Build {
    /// Prepares the evaluation of the index's predicate and expressions, as heapam's own builds do.
    unsafe fn begin(rel: sys::Relation, index: sys::Relation, info: *mut sys::IndexInfo) -> Self {
        // SAFETY: `rel` is open; everything is allocated in the current context and its children.
        unsafe {
            let estate = sys::CreateExecutorState();
            let econtext = match (*estate).es_per_tuple_exprcontext {
                context if context.is_null() => sys::MakePerTupleExprContext(estate),
                context => context,
            };
            let slot = slot::new_slot(rel);
            (*econtext).ecxt_scantuple = slot;
            let predicate = sys::ExecPrepareQual((*info).ii_Predicate, estate);
            Self {
                rel,
                index,
                info,
                estate,
                econtext,
                predicate,
                slot,
                callback: None,
                callback_state: ptr::null_mut(),
            }
        }
    }

    /// The row in heapam's slot, decrypted: its index values and NULL flags, or false when the predicate excludes it.
    unsafe fn form(&mut self, heapam_values: *const Datum, values: &mut Values) -> bool {
        // SAFETY: heapam computed the values from the IndexInfo of `ctid_only`; its slot holds the row pinned.
        unsafe {
            let stored = stored_row(*heapam_values);
            sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            slot::store_stored(self.slot, stored, relation::key_oid(self.rel), relation::oid(self.rel));
            if !self.predicate.is_null() && !sys::ExecQual(self.predicate, self.econtext) {
                return false;
            }
            sys::FormIndexDatum(
                self.info,
                self.slot,
                self.estate,
                values.datums.as_mut_ptr(),
                values.nulls.as_mut_ptr(),
            );
            true
        }
    }

    unsafe fn end(self) {
        // SAFETY: what `begin` made; the states hung on the IndexInfo go with the EState.
        unsafe {
            sys::ExecDropSingleTupleTableSlot(self.slot);
            sys::FreeExecutorState(self.estate);
            (*self.info).ii_ExpressionsState = ptr::null_mut();
            (*self.info).ii_PredicateState = ptr::null_mut();
        }
    }
}

/// Arrays for `FormIndexDatum`.
struct Values {
    datums: [Datum; sys::INDEX_MAX_KEYS as usize],
    nulls: [bool; sys::INDEX_MAX_KEYS as usize],
}

impl Values {
    const fn new() -> Self {
        Self { datums: [0; sys::INDEX_MAX_KEYS as usize], nulls: [false; sys::INDEX_MAX_KEYS as usize] }
    }
}

/// The stored row in the slot whose `tts_tid` the datum points to.
unsafe fn stored_row(ctid: Datum) -> HeapTuple {
    // SAFETY: FormIndexDatum has taken the address of a slot's tts_tid (slot_getsysattr); the checks below catch a
    // server in which that would no longer hold, as far as they can.
    unsafe {
        let slot: *mut TupleTableSlot = (ctid as *mut u8).sub(offset_of!(TupleTableSlot, tts_tid)).cast();
        let ops = (*slot).tts_ops;
        let known =
            ptr::eq(ops, &raw const sys::TTSOpsBufferHeapTuple) || ptr::eq(ops, &raw const sys::TTSOpsHeapTuple);
        if (*slot).type_ != sys::T_TupleTableSlot || !known {
            pg_error!(crate::pg::error::INTERNAL_ERROR, "index build did not find heapam's slot");
        }
        // a BufferHeapTupleTableSlot begins with a HeapTupleTableSlot
        (*slot.cast::<sys::HeapTupleTableSlot>()).tuple
    }
}

/// A copy of the index's `IndexInfo` that makes heapam compute nothing but each row's ctid.
unsafe fn ctid_only(info: *const sys::IndexInfo) -> sys::IndexInfo {
    // SAFETY: IndexInfo is a plain struct; the copy's lists are emptied, not freed.
    unsafe {
        let mut copy = ptr::read(info);
        copy.ii_Predicate = ptr::null_mut();
        copy.ii_PredicateState = ptr::null_mut();
        copy.ii_Expressions = ptr::null_mut();
        copy.ii_ExpressionsState = ptr::null_mut();
        copy.ii_IndexAttrNumbers = [sys::SelfItemPointerAttributeNumber as i16; sys::INDEX_MAX_KEYS as usize];
        copy
    }
}

/// What `index_validate_scan` hands through heapam: heapam passes its `IndexInfo` on to aminsert, so that comes first.
#[repr(C)]
struct Validation {
    ctid_info: sys::IndexInfo,
    build: Build,
}

pg_callback! {
    fn build_row(
        index: sys::Relation,
        tid: sys::ItemPointer,
        values: *mut Datum,
        _isnull: *mut bool,
        alive: bool,
        state: *mut c_void,
    ) {
        // SAFETY: `state` is the Build of the running index_build_range_scan.
        unsafe {
            let build = &mut *state.cast::<Build>();
            let mut row = Values::new();
            if build.form(values, &mut row) {
                let callback = build.callback.unwrap_unchecked();
                callback(index, tid, row.datums.as_mut_ptr(), row.nulls.as_mut_ptr(), alive, build.callback_state);
            }
        }
    }

    fn validate_row(
        _index: sys::Relation,
        values: *mut Datum,
        _isnull: *mut bool,
        tid: sys::ItemPointer,
        _rel: sys::Relation,
        check_unique: sys::IndexUniqueCheck,
        index_unchanged: bool,
        info: *mut sys::IndexInfo,
    ) -> bool {
        // SAFETY: `info` is the ctid_info of the Validation of the running index_validate_scan.
        unsafe {
            let build = &mut (*info.cast::<Validation>()).build;
            let mut row = Values::new();
            build.form(values, &mut row)
                && sys::index_insert(
                    build.index,
                    row.datums.as_mut_ptr(),
                    row.nulls.as_mut_ptr(),
                    tid,
                    build.rel,
                    check_unique,
                    index_unchanged,
                    build.info,
                )
        }
    }

    pub fn index_build_range_scan(
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
        // SAFETY: the contract of the callback. heapam's heap_getnext() insists on its own routine in the scan's
        // relation, hence the shadow.
        unsafe {
            let shadow = Shadow::for_build(rel, scan);
            let mut build = Build::begin(rel, index, info);
            build.callback = callback;
            build.callback_state = callback_state;
            let mut ctid_info = ctid_only(info);
            let reltuples = heapam().index_build_range_scan.unwrap_unchecked()(
                shadow,
                index,
                &mut ctid_info,
                allow_sync,
                anyvisible,
                progress,
                start_blockno,
                numblocks,
                Some(build_row),
                (&raw mut build).cast(),
                scan,
            );
            (*info).ii_BrokenHotChain |= ctid_info.ii_BrokenHotChain;
            build.end();
            reltuples
        }
    }

    pub fn index_validate_scan(
        rel: sys::Relation,
        index: sys::Relation,
        info: *mut sys::IndexInfo,
        snapshot: sys::Snapshot,
        state: *mut sys::ValidateIndexState,
    ) {
        // SAFETY: the contract of the callback. heapam inserts what is missing through index_insert(), which calls the
        // aminsert of the index relation that it is given: a copy of the entry whose aminsert is `validate_row`.
        unsafe {
            let mut validation = Validation { ctid_info: ctid_only(info), build: Build::begin(rel, index, info) };
            let mut routine: sys::IndexAmRoutine = ptr::read((*index).rd_indam);
            routine.aminsert = Some(validate_row);
            let mut shadow_index: sys::RelationData = ptr::read(index);
            shadow_index.rd_indam = &mut routine;
            heapam().index_validate_scan.unwrap_unchecked()(
                Shadow::for_scan(rel),
                &mut shadow_index,
                (&raw mut validation).cast(),
                snapshot,
                state,
            );
            validation.build.end();
        }
    }
}
