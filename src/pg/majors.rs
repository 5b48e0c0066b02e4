//! All differences between PostgreSQL's majors that are more than a signature of a callback; those are in `callbacks.rs`.

use super::sys;

mod callbacks;

/// The options of heap_insert() and of the callbacks that come to it; 19 has made them unsigned.
#[cfg(any(pg17, pg18))]
pub type Options = i32;
#[cfg(not(any(pg17, pg18)))]
pub type Options = u32;

/// What the table AM callback `relation_vacuum` is told; 19 has made it constant.
#[cfg(any(pg17, pg18))]
pub type VacuumParams = *mut sys::VacuumParams;
#[cfg(not(any(pg17, pg18)))]
pub type VacuumParams = *const sys::VacuumParams;

/// The callback table of an index access method, as relations have it; 19 has made it constant.
#[cfg(any(pg17, pg18))]
pub type IndexRoutine = *mut sys::IndexAmRoutine;
#[cfg(not(any(pg17, pg18)))]
pub type IndexRoutine = *const sys::IndexAmRoutine;

/// The number of a replication origin, and that of none; renamed in 19.
#[cfg(any(pg17, pg18))]
pub use sys::{InvalidRepOriginId as NO_ORIGIN, RepOriginId as OriginId};
#[cfg(not(any(pg17, pg18)))]
pub use sys::{InvalidReplOriginId as NO_ORIGIN, ReplOriginId as OriginId};

/// What VACUUM FULL and its like report; renamed in 19, as REPACK.
#[cfg(any(pg17, pg18))]
pub use sys::{
    PROGRESS_CLUSTER_HEAP_BLKS_SCANNED as PROGRESS_BLOCKS_SCANNED,
    PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED as PROGRESS_TUPLES_SCANNED,
    PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN as PROGRESS_TUPLES_WRITTEN, PROGRESS_CLUSTER_INDEX_RELID as PROGRESS_INDEX,
    PROGRESS_CLUSTER_PHASE as PROGRESS_PHASE, PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP as PROGRESS_PHASE_INDEX_SCAN,
    PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP as PROGRESS_PHASE_TABLE_SCAN,
    PROGRESS_CLUSTER_TOTAL_HEAP_BLKS as PROGRESS_TOTAL_BLOCKS,
};
#[cfg(not(any(pg17, pg18)))]
pub use sys::{
    PROGRESS_REPACK_HEAP_BLKS_SCANNED as PROGRESS_BLOCKS_SCANNED,
    PROGRESS_REPACK_HEAP_TUPLES_INSERTED as PROGRESS_TUPLES_WRITTEN,
    PROGRESS_REPACK_HEAP_TUPLES_SCANNED as PROGRESS_TUPLES_SCANNED, PROGRESS_REPACK_INDEX_RELID as PROGRESS_INDEX,
    PROGRESS_REPACK_PHASE as PROGRESS_PHASE, PROGRESS_REPACK_PHASE_INDEX_SCAN_HEAP as PROGRESS_PHASE_INDEX_SCAN,
    PROGRESS_REPACK_PHASE_SEQ_SCAN_HEAP as PROGRESS_PHASE_TABLE_SCAN,
    PROGRESS_REPACK_TOTAL_HEAP_BLKS as PROGRESS_TOTAL_BLOCKS,
};

/// `XLogLogicalInfoActive()` for somebody who is about to write: the answer is the one that heapam will find, too. Since 19 it
/// changes while the server runs, with the first and the last logical slot, but not for a transaction that has its id. So the
/// transaction gets it now, as heapam gives it one before all else.
///
/// # Safety
/// In a transaction. Raises an ERROR where heapam would: in a parallel worker, or during recovery.
#[inline]
pub unsafe fn logical_wal() -> bool {
    // SAFETY: plain variables, the first one set at server start.
    #[cfg(any(pg17, pg18))]
    unsafe {
        sys::wal_level >= sys::WAL_LEVEL_LOGICAL as i32
    }
    // SAFETY: as above, and the caller's promise.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        sys::wal_level >= sys::WAL_LEVEL_LOGICAL as i32 || {
            sys::GetCurrentTransactionId();
            sys::XLogLogicalInfo
        }
    }
}

/// Whether there can be logical slots at the server's `wal_level`. Since 19 it need not be "logical".
///
/// # Safety
/// Only in a backend.
pub unsafe fn wal_level_suffices() -> bool {
    let least = if cfg!(any(pg17, pg18)) { sys::WAL_LEVEL_LOGICAL } else { sys::WAL_LEVEL_REPLICA };
    // SAFETY: a plain variable, set at server start.
    unsafe { sys::wal_level >= least as i32 }
}

/// `LockBuffer()`; 19 has made the mode, a `BUFFER_LOCK_…`, unsigned.
///
/// # Safety
/// `buffer` must be pinned.
#[inline]
pub unsafe fn lock_buffer(buffer: sys::Buffer, mode: u32) {
    // SAFETY: the caller's promise.
    unsafe { sys::LockBuffer(buffer, mode as _) }
}

/// When a transaction was committed, in the callbacks of its commit, or prepared, in those of its preparation.
///
/// # Safety
/// `txn` must be a live transaction of a reorder buffer.
pub unsafe fn transaction_time(txn: *const sys::ReorderBufferTXN) -> sys::TimestampTz {
    // SAFETY: the caller's promise; all members of the union are of one type.
    #[cfg(any(pg17, pg18))]
    unsafe {
        (*txn).xact_time.commit_time
    }
    // SAFETY: as above; the union has lost its name.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        (*txn).__bindgen_anon_1.commit_time
    }
}

/// heap_update() as before 19, which has added options that nothing here uses.
///
/// # Safety
/// As for heap_update().
#[allow(clippy::too_many_arguments)]
pub unsafe fn heap_update(
    rel: sys::Relation,
    otid: sys::ItemPointer,
    tuple: sys::HeapTuple,
    cid: sys::CommandId,
    crosscheck: sys::Snapshot,
    wait: bool,
    failure: *mut sys::TM_FailureData,
    lockmode: *mut sys::LockTupleMode,
    update_indexes: *mut sys::TU_UpdateIndexes,
) -> sys::TM_Result {
    // SAFETY: the caller's promise.
    #[cfg(any(pg17, pg18))]
    unsafe {
        sys::heap_update(rel, otid, tuple, cid, crosscheck, wait, failure, lockmode, update_indexes)
    }
    // SAFETY: the caller's promise.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        sys::heap_update(rel, otid, tuple, cid, 0, crosscheck, wait, failure, lockmode, update_indexes)
    }
}

/// heap_delete() as before 19, where `changing_partition` has become one of several options.
///
/// # Safety
/// As for heap_delete().
pub unsafe fn heap_delete(
    rel: sys::Relation,
    tid: sys::ItemPointer,
    cid: sys::CommandId,
    crosscheck: sys::Snapshot,
    wait: bool,
    failure: *mut sys::TM_FailureData,
    changing_partition: bool,
) -> sys::TM_Result {
    // SAFETY: the caller's promise.
    #[cfg(any(pg17, pg18))]
    unsafe {
        sys::heap_delete(rel, tid, cid, crosscheck, wait, failure, changing_partition)
    }
    // SAFETY: the caller's promise.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        let options = if changing_partition { sys::TABLE_DELETE_CHANGING_PARTITION } else { 0 };
        sys::heap_delete(rel, tid, cid, options, crosscheck, wait, failure)
    }
}

/// The fixed part of a Bitmapset of `nwords` words.
pub const fn bitmapset(nwords: i32) -> sys::Bitmapset {
    sys::Bitmapset { type_: sys::T_Bitmapset, nwords, words: sys::__IncompleteArrayField::new() }
}

/// `TupleDescAttr(desc, i)`
///
/// # Safety
/// `i` must be below the descriptor's natts.
#[inline]
pub unsafe fn attribute(desc: sys::TupleDesc, i: usize) -> sys::Form_pg_attribute {
    // SAFETY: the caller's promise.
    #[cfg(pg17)]
    unsafe {
        (*desc).attrs.as_mut_ptr().add(i)
    }
    // SAFETY: the caller's promise.
    #[cfg(not(pg17))]
    unsafe {
        sys::TupleDescAttr(desc, i as core::ffi::c_int)
    }
}

/// The snapshot for reading out-of-line values; 17 wants space for it, since 18 it is a static one.
///
/// # Safety
/// In a transaction with an active or registered snapshot, else the server raises an ERROR.
pub unsafe fn toast_snapshot(space: &mut core::mem::MaybeUninit<sys::SnapshotData>) -> sys::Snapshot {
    // SAFETY: the caller's promise.
    #[cfg(pg17)]
    unsafe {
        sys::init_toast_snapshot(space.as_mut_ptr());
        space.as_mut_ptr()
    }
    // SAFETY: the caller's promise.
    #[cfg(not(pg17))]
    unsafe {
        let _ = space;
        sys::get_toast_snapshot()
    }
}

/// `index_beginscan()` without keys; 18 added the instrumentation, 19 flags.
///
/// # Safety
/// Both relations must be open.
pub unsafe fn index_beginscan(rel: sys::Relation, index: sys::Relation, snapshot: sys::Snapshot) -> sys::IndexScanDesc {
    // SAFETY: the caller's promise.
    #[cfg(pg17)]
    unsafe {
        sys::index_beginscan(rel, index, snapshot, 0, 0)
    }
    // SAFETY: the caller's promise.
    #[cfg(pg18)]
    unsafe {
        sys::index_beginscan(rel, index, snapshot, core::ptr::null_mut(), 0, 0)
    }
    // SAFETY: the caller's promise.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        sys::index_beginscan(rel, index, snapshot, core::ptr::null_mut(), 0, 0, sys::SO_NONE)
    }
}

/// `table_beginscan()` without keys; 19 added flags.
///
/// # Safety
/// The relation must be open.
pub unsafe fn table_beginscan(rel: sys::Relation, snapshot: sys::Snapshot) -> sys::TableScanDesc {
    // SAFETY: the caller's promise.
    #[cfg(any(pg17, pg18))]
    unsafe {
        sys::table_beginscan(rel, snapshot, 0, core::ptr::null_mut())
    }
    // SAFETY: the caller's promise.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        sys::table_beginscan(rel, snapshot, 0, core::ptr::null_mut(), sys::SO_NONE)
    }
}

/// To be called when all attributes of a new descriptor are set: 19 computes something from them.
///
/// # Safety
/// `desc` must be a descriptor made by `CreateTemplateTupleDesc`.
pub unsafe fn descriptor_done(desc: sys::TupleDesc) {
    #[cfg(any(pg17, pg18))]
    let _ = desc;
    // SAFETY: the caller's promise.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        sys::TupleDescFinalize(desc);
    }
}

/// To be called when an attribute of a descriptor was changed in place: since 18 there is a compact copy of it.
///
/// # Safety
/// `i` must be below the descriptor's natts.
pub unsafe fn attribute_changed(desc: sys::TupleDesc, i: usize) {
    #[cfg(pg17)]
    let _ = (desc, i);
    // SAFETY: the caller's promise.
    #[cfg(not(pg17))]
    unsafe {
        sys::populate_compact_attribute(desc, i as core::ffi::c_int);
    }
}

/// A callback table for the handler of an index access method to return. Until 18 its caller frees it, so it must be palloc'd; since
/// 19 relations point to it, so it must stay.
pub fn index_routine(make: impl FnOnce() -> sys::IndexAmRoutine) -> IndexRoutine {
    #[cfg(any(pg17, pg18))]
    // SAFETY: palloc gives room for it, or raises.
    unsafe {
        let routine: *mut sys::IndexAmRoutine = sys::palloc(size_of::<sys::IndexAmRoutine>()).cast();
        routine.write(make());
        routine
    }
    #[cfg(not(any(pg17, pg18)))]
    {
        static ROUTINE: super::BackendCell<IndexRoutine> = super::BackendCell::new(core::ptr::null());
        if ROUTINE.get().is_null() {
            ROUTINE.set(Box::leak(Box::new(make())));
        }
        ROUTINE.get()
    }
}

/// The planner's hook that sees a table's indexes: of get_relation_info() until 18, of build_simple_rel() since.
pub mod planner_hook {
    use super::sys;

    #[cfg(not(any(pg17, pg18)))]
    pub use sys::build_simple_rel_hook_type as Hook;
    #[cfg(any(pg17, pg18))]
    pub use sys::get_relation_info_hook_type as Hook;

    /// Sets the hook; returns what it was.
    ///
    /// # Safety
    /// Only in `_PG_init`.
    pub unsafe fn chain(hook: Hook) -> Hook {
        // SAFETY: the caller's promise.
        #[cfg(any(pg17, pg18))]
        unsafe {
            let before = sys::get_relation_info_hook;
            sys::get_relation_info_hook = hook;
            before
        }
        // SAFETY: the caller's promise.
        #[cfg(not(any(pg17, pg18)))]
        unsafe {
            let before = sys::build_simple_rel_hook;
            sys::build_simple_rel_hook = hook;
            before
        }
    }
}

type TreeHeight = unsafe extern "C-unwind" fn(sys::Relation) -> i32;

/// Sets `amgettreeheight`, which 18 has added.
pub fn set_tree_height(routine: &mut sys::IndexAmRoutine, function: TreeHeight) {
    #[cfg(pg17)]
    let _ = (routine, function);
    #[cfg(not(pg17))]
    {
        routine.amgettreeheight = Some(function);
    }
}

/// Whether the executor takes row comparisons for any index that keeps an order. 17 insists on btree.
pub const EXECUTOR_TAKES_ROW_COMPARISONS: bool = cfg!(not(pg17));

/// Whether foreign keys, ON CONFLICT, replica identities and partitioned tables take a unique index of any access method
/// that orders. 17 insists on btree.
pub const UNIQUE_BY_OTHER_METHODS: bool = cfg!(not(pg17));

/// Whether a constraint is a temporal one, whose index is a GiST index (18 and later).
///
/// # Safety
/// `constraint` must point to a node of that type.
pub unsafe fn without_overlaps(constraint: *const sys::Constraint) -> bool {
    #[cfg(pg17)]
    {
        let _ = constraint;
        false
    }
    // SAFETY: the caller's promise.
    #[cfg(not(pg17))]
    unsafe {
        (*constraint).without_overlaps
    }
}

/// The table that a utility command is to rewrite while others write to it, by REPACK (CONCURRENTLY) of 19; null for any other
/// command.
///
/// # Safety
/// `node` must be a parsed utility command. Raises an ERROR as that command does for a bad value of its options.
pub unsafe fn repacked_concurrently(node: *mut sys::Node) -> *mut sys::RangeVar {
    #[cfg(any(pg17, pg18))]
    {
        let _ = node;
        core::ptr::null_mut()
    }
    // SAFETY: the caller's promise; the options are a list of DefElem.
    #[cfg(not(any(pg17, pg18)))]
    unsafe {
        if (*node).type_ != sys::T_RepackStmt {
            return core::ptr::null_mut();
        }
        let statement: *mut sys::RepackStmt = node.cast();
        let mut concurrently = false;
        let options = (*statement).params;
        let count = if options.is_null() { 0 } else { (*options).length as usize };
        for i in 0..count {
            let option: *mut sys::DefElem = (*(*options).elements.add(i)).ptr_value.cast();
            if core::ffi::CStr::from_ptr((*option).defname) == c"concurrently" {
                concurrently = sys::defGetBoolean(option);
            }
        }
        match (*statement).relation {
            table if concurrently && !table.is_null() => (*table).relation,
            _ => core::ptr::null_mut(),
        }
    }
}

/// Logs a full image of a heap page as the record of a pruning that prunes nothing (`log_heap_prune_and_freeze`); sets the
/// page's LSN. Replay takes a cleanup lock.
///
/// # Safety
/// In a critical section, with the buffer locked and marked dirty.
pub unsafe fn log_page_image(buffer: sys::Buffer) {
    #[cfg(any(pg17, pg18))]
    let record = sys::xl_heap_prune { reason: 0, flags: sys::XLHP_CLEANUP_LOCK as _ };
    #[cfg(not(any(pg17, pg18)))]
    let record = sys::xl_heap_prune { flags: sys::XLHP_CLEANUP_LOCK as _ };
    // SAFETY: the caller's promise; XLogInsert copies the record.
    unsafe {
        sys::XLogBeginInsert();
        sys::XLogRegisterData((&raw const record).cast_mut().cast(), size_of_val(&record) as u32);
        sys::XLogRegisterBuffer(0, buffer, (sys::REGBUF_STANDARD | sys::REGBUF_FORCE_IMAGE) as u8);
        let lsn = sys::XLogInsert(sys::RM_HEAP2_ID as u8, sys::XLOG_HEAP2_PRUNE_VACUUM_SCAN as u8);
        sys::PageSetLSN(sys::BufferGetPage(buffer), lsn);
    }
}
