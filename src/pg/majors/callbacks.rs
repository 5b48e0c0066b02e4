//! Callbacks whose signature differs between majors: macros that define them as each major wants them.

/// Defines the table AM callback `tuple_update` as `$name`: `$update`, without the snapshot, which heapam does not use. If
/// 19 gives options, `$refuse(rel)`, which raises an ERROR: only REPACK (CONCURRENTLY) has some.
#[macro_export]
macro_rules! tuple_update_callback {
    ($name:ident, $update:path, $refuse:path) => {
        #[cfg(any(pg17, pg18))]
        const _: unsafe fn($crate::pg::sys::Relation) -> ! = $refuse;
        #[cfg(any(pg17, pg18))]
        $crate::pg_callback! {
            pub fn $name(
                rel: $crate::pg::sys::Relation,
                otid: $crate::pg::sys::ItemPointer,
                slot: *mut $crate::pg::sys::TupleTableSlot,
                cid: $crate::pg::sys::CommandId,
                _snapshot: $crate::pg::sys::Snapshot,
                crosscheck: $crate::pg::sys::Snapshot,
                wait: bool,
                failure: *mut $crate::pg::sys::TM_FailureData,
                lockmode: *mut $crate::pg::sys::LockTupleMode,
                update_indexes: *mut $crate::pg::sys::TU_UpdateIndexes,
            ) -> $crate::pg::sys::TM_Result {
                // SAFETY: the contract of the callback.
                unsafe { $update(rel, otid, slot, cid, crosscheck, wait, failure, lockmode, update_indexes) }
            }
        }
        #[cfg(not(any(pg17, pg18)))]
        $crate::pg_callback! {
            pub fn $name(
                rel: $crate::pg::sys::Relation,
                otid: $crate::pg::sys::ItemPointer,
                slot: *mut $crate::pg::sys::TupleTableSlot,
                cid: $crate::pg::sys::CommandId,
                options: u32,
                _snapshot: $crate::pg::sys::Snapshot,
                crosscheck: $crate::pg::sys::Snapshot,
                wait: bool,
                failure: *mut $crate::pg::sys::TM_FailureData,
                lockmode: *mut $crate::pg::sys::LockTupleMode,
                update_indexes: *mut $crate::pg::sys::TU_UpdateIndexes,
            ) -> $crate::pg::sys::TM_Result {
                // SAFETY: the contract of the callback.
                unsafe {
                    if options != 0 {
                        $refuse(rel);
                    }
                    $update(rel, otid, slot, cid, crosscheck, wait, failure, lockmode, update_indexes)
                }
            }
        }
    };
}

/// Defines the table AM callback `tuple_delete` as `$name`: `$delete`, without the snapshot, which heapam does not use. If
/// 19 gives other options than the one that was an argument before, `$refuse(rel)`, as for `tuple_update`.
#[macro_export]
macro_rules! tuple_delete_callback {
    ($name:ident, $delete:path, $refuse:path) => {
        #[cfg(any(pg17, pg18))]
        const _: unsafe fn($crate::pg::sys::Relation) -> ! = $refuse;
        #[cfg(any(pg17, pg18))]
        $crate::pg_callback! {
            pub fn $name(
                rel: $crate::pg::sys::Relation,
                tid: $crate::pg::sys::ItemPointer,
                cid: $crate::pg::sys::CommandId,
                _snapshot: $crate::pg::sys::Snapshot,
                crosscheck: $crate::pg::sys::Snapshot,
                wait: bool,
                failure: *mut $crate::pg::sys::TM_FailureData,
                changing_partition: bool,
            ) -> $crate::pg::sys::TM_Result {
                // SAFETY: the contract of the callback.
                unsafe { $delete(rel, tid, cid, crosscheck, wait, failure, changing_partition) }
            }
        }
        #[cfg(not(any(pg17, pg18)))]
        $crate::pg_callback! {
            pub fn $name(
                rel: $crate::pg::sys::Relation,
                tid: $crate::pg::sys::ItemPointer,
                cid: $crate::pg::sys::CommandId,
                options: u32,
                _snapshot: $crate::pg::sys::Snapshot,
                crosscheck: $crate::pg::sys::Snapshot,
                wait: bool,
                failure: *mut $crate::pg::sys::TM_FailureData,
            ) -> $crate::pg::sys::TM_Result {
                let changing_partition = options & $crate::pg::sys::TABLE_DELETE_CHANGING_PARTITION != 0;
                // SAFETY: the contract of the callback.
                unsafe {
                    if options & !$crate::pg::sys::TABLE_DELETE_CHANGING_PARTITION != 0 {
                        $refuse(rel);
                    }
                    $delete(rel, tid, cid, crosscheck, wait, failure, changing_partition)
                }
            }
        }
    };
}

/// Defines the table AM callback `relation_copy_for_cluster` as `$name`: `$copy`. If 19 gives a snapshot, `$refuse(old)`, which
/// raises an ERROR: that is REPACK (CONCURRENTLY).
#[macro_export]
macro_rules! relation_copy_for_cluster_callback {
    ($name:ident, $copy:path, $refuse:path) => {
        #[cfg(any(pg17, pg18))]
        const _: unsafe fn($crate::pg::sys::Relation) -> ! = $refuse;
        #[cfg(any(pg17, pg18))]
        $crate::pg_callback! {
            pub fn $name(
                old: $crate::pg::sys::Relation,
                new: $crate::pg::sys::Relation,
                index: $crate::pg::sys::Relation,
                _use_sort: bool,
                oldest_xmin: $crate::pg::sys::TransactionId,
                xid_cutoff: *mut $crate::pg::sys::TransactionId,
                multi_cutoff: *mut $crate::pg::sys::MultiXactId,
                num_tuples: *mut f64,
                tups_vacuumed: *mut f64,
                tups_recently_dead: *mut f64,
            ) {
                // SAFETY: the contract of the callback.
                unsafe {
                    let cutoffs = (*xid_cutoff, *multi_cutoff);
                    $copy(old, new, index, oldest_xmin, cutoffs, [num_tuples, tups_vacuumed, tups_recently_dead]);
                }
            }
        }
        #[cfg(not(any(pg17, pg18)))]
        $crate::pg_callback! {
            pub fn $name(
                old: $crate::pg::sys::Relation,
                new: $crate::pg::sys::Relation,
                index: $crate::pg::sys::Relation,
                _use_sort: bool,
                oldest_xmin: $crate::pg::sys::TransactionId,
                snapshot: $crate::pg::sys::Snapshot,
                xid_cutoff: *mut $crate::pg::sys::TransactionId,
                multi_cutoff: *mut $crate::pg::sys::MultiXactId,
                num_tuples: *mut f64,
                tups_vacuumed: *mut f64,
                tups_recently_dead: *mut f64,
            ) {
                // SAFETY: the contract of the callback.
                unsafe {
                    if !snapshot.is_null() {
                        $refuse(old);
                    }
                    let cutoffs = (*xid_cutoff, *multi_cutoff);
                    $copy(old, new, index, oldest_xmin, cutoffs, [num_tuples, tups_vacuumed, tups_recently_dead]);
                }
            }
        }
    };
}

/// Defines the table AM callback `scan_analyze_next_tuple` as `$name`: heapam's own, filling `$raw_of(slot)`, then
/// `$publish(scan, slot, found)`. 19 has dropped the horizon.
#[macro_export]
macro_rules! scan_analyze_next_tuple_callback {
    ($name:ident, $heapam:path, $raw_of:path, $publish:path) => {
        #[cfg(any(pg17, pg18))]
        $crate::pg_callback! {
            pub fn $name(
                scan: $crate::pg::sys::TableScanDesc,
                oldest_xmin: $crate::pg::sys::TransactionId,
                liverows: *mut f64,
                deadrows: *mut f64,
                slot: *mut $crate::pg::sys::TupleTableSlot,
            ) -> bool {
                // SAFETY: the contract of the callback; heapam fills the raw slot.
                unsafe {
                    let next = $heapam().scan_analyze_next_tuple.unwrap_unchecked();
                    let found = next(scan, oldest_xmin, liverows, deadrows, $raw_of(slot));
                    $publish(scan, slot, found)
                }
            }
        }
        #[cfg(not(any(pg17, pg18)))]
        $crate::pg_callback! {
            pub fn $name(
                scan: $crate::pg::sys::TableScanDesc,
                liverows: *mut f64,
                deadrows: *mut f64,
                slot: *mut $crate::pg::sys::TupleTableSlot,
            ) -> bool {
                // SAFETY: the contract of the callback; heapam fills the raw slot.
                unsafe {
                    let next = $heapam().scan_analyze_next_tuple.unwrap_unchecked();
                    let found = next(scan, liverows, deadrows, $raw_of(slot));
                    $publish(scan, slot, found)
                }
            }
        }
    };
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

/// Defines that hook as `$name`: what was set before, `$next`, then `$look(rel)`.
#[macro_export]
macro_rules! planner_hook {
    ($name:ident, $next:expr, $look:path) => {
        #[cfg(any(pg17, pg18))]
        $crate::pg_callback! {
            fn $name(
                root: *mut $crate::pg::sys::PlannerInfo,
                table: $crate::pg::Oid,
                inherited: bool,
                rel: *mut $crate::pg::sys::RelOptInfo,
            ) {
                let next = $next;
                // SAFETY: the arguments of the hook.
                unsafe {
                    if let Some(next) = next {
                        next(root, table, inherited, rel);
                    }
                    $look(rel);
                }
            }
        }
        #[cfg(not(any(pg17, pg18)))]
        $crate::pg_callback! {
            fn $name(
                root: *mut $crate::pg::sys::PlannerInfo,
                rel: *mut $crate::pg::sys::RelOptInfo,
                rte: *mut $crate::pg::sys::RangeTblEntry,
            ) {
                let next = $next;
                // SAFETY: the arguments of the hook.
                unsafe {
                    if let Some(next) = next {
                        next(root, rel, rte);
                    }
                    $look(rel);
                }
            }
        }
    };
}
