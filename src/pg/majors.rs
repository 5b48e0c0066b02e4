//! All differences between PostgreSQL's majors that are more than a signature of a callback.

use super::sys;

/// `XLogLogicalInfoActive()`
///
/// # Safety
/// Only in a backend.
#[inline]
pub unsafe fn logical_wal() -> bool {
    // SAFETY: a plain variable, set at server start (19: may change while the server runs, through XLogLogicalInfo).
    unsafe { sys::wal_level >= sys::WAL_LEVEL_LOGICAL as i32 }
}

/// Defines the slot callback `copy_minimal_tuple` as `$name`: `$force(slot)`, then heapam's own through `$heap_op!`. 18
/// added an argument.
#[macro_export]
macro_rules! copy_minimal_tuple_callback {
    ($name:ident, $force:path, $heap_op:ident) => {
        #[cfg(pg17)]
        $crate::pg_callback! {
            fn $name(slot: *mut $crate::pg::sys::TupleTableSlot) -> $crate::pg::sys::MinimalTuple {
                // SAFETY: called with a slot of ours, which holds a tuple once forced.
                unsafe {
                    $force(slot);
                    $heap_op!(copy_minimal_tuple(slot))
                }
            }
        }
        #[cfg(not(pg17))]
        $crate::pg_callback! {
            fn $name(slot: *mut $crate::pg::sys::TupleTableSlot, extra: $crate::pg::sys::Size)
                -> $crate::pg::sys::MinimalTuple {
                // SAFETY: called with a slot of ours, which holds a tuple once forced.
                unsafe {
                    $force(slot);
                    $heap_op!(copy_minimal_tuple(slot, extra))
                }
            }
        }
    };
}

/// Defines the table AM callback `scan_bitmap_next_tuple` as `$name`: heapam's own, filling `$raw_of(slot)`, then
/// `$publish(scan, slot, found)`. In 17 the page comes from `scan_bitmap_next_block` (heapam's own), since 18 the
/// callback finds it itself.
#[macro_export]
macro_rules! scan_bitmap_next_tuple_callback {
    ($name:ident, $heapam:path, $raw_of:path, $publish:path) => {
        #[cfg(pg17)]
        $crate::pg_callback! {
            pub fn $name(
                scan: $crate::pg::sys::TableScanDesc,
                page: *mut $crate::pg::sys::TBMIterateResult,
                slot: *mut $crate::pg::sys::TupleTableSlot,
            ) -> bool {
                // SAFETY: the contract of the callback; heapam fills the raw slot.
                unsafe {
                    let found = $heapam().scan_bitmap_next_tuple.unwrap_unchecked()(scan, page, $raw_of(slot));
                    $publish(scan, slot, found)
                }
            }
        }
        #[cfg(not(pg17))]
        $crate::pg_callback! {
            pub fn $name(
                scan: $crate::pg::sys::TableScanDesc,
                slot: *mut $crate::pg::sys::TupleTableSlot,
                recheck: *mut bool,
                lossy_pages: *mut u64,
                exact_pages: *mut u64,
            ) -> bool {
                // SAFETY: the contract of the callback; heapam fills the raw slot.
                unsafe {
                    let found = $heapam().scan_bitmap_next_tuple.unwrap_unchecked()(
                        scan,
                        $raw_of(slot),
                        recheck,
                        lossy_pages,
                        exact_pages,
                    );
                    $publish(scan, slot, found)
                }
            }
        }
    };
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

/// `index_beginscan()` without keys; 18 added the instrumentation.
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
    #[cfg(not(pg17))]
    unsafe {
        sys::index_beginscan(rel, index, snapshot, core::ptr::null_mut(), 0, 0)
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

/// Defines the index AM callback `amestimateparallelscan` as `$name`: nbtree's own; 18 added the index, for which the inner
/// one is entered.
#[macro_export]
macro_rules! estimate_parallel_scan_callback {
    ($name:ident, $nbtree:path, $enter:path) => {
        #[cfg(pg17)]
        $crate::pg_callback! {
            pub fn $name(nkeys: i32, norderbys: i32) -> $crate::pg::sys::Size {
                // SAFETY: the contract of the callback.
                unsafe { $nbtree().amestimateparallelscan.unwrap_unchecked()(nkeys, norderbys) }
            }
        }
        #[cfg(not(pg17))]
        $crate::pg_callback! {
            pub fn $name(outer: $crate::pg::sys::Relation, nkeys: i32, norderbys: i32) -> $crate::pg::sys::Size {
                // SAFETY: the contract of the callback.
                unsafe {
                    let entered = $enter(outer);
                    let size = $nbtree().amestimateparallelscan.unwrap_unchecked()(entered.rel(), nkeys, norderbys);
                    entered.leave();
                    size
                }
            }
        }
    };
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
