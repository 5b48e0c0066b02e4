//! VACUUM FULL, CLUSTER and whatever else copies a table row by row into new storage: `relation_copy_for_cluster`.
//!
//! Rows are decrypted, formed anew without dropped columns and with the values of added ones, toasted, and encrypted
//! under the newest key. heapam's rewrite module only ever sees stored rows. CLUSTER always goes by the index: a sort
//! would write plaintext to temporary files.

use core::ptr;

use super::row;
use super::slot;
use crate::pg::error::FEATURE_NOT_SUPPORTED;
use crate::pg::memory::Scratch;
use crate::pg::shadow::Shadow;
use crate::pg::tuple::{HeapTuple, TupleTableSlot};
use crate::pg::{check_for_interrupts, majors, rel as relation, sys, BackendCell, Datum};
use crate::toast::toaster;
use crate::{pg_error, relation_copy_for_cluster_callback};

/// Where rows are decrypted to.
static OLD: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// Cleanses what an ERROR has left behind; called when a (sub)transaction aborts.
pub fn forget() {
    // SAFETY: nothing uses the block at that time.
    unsafe { (*OLD.as_ptr()).release() }
}

/// How rows are read: by an index, or as they lie.
enum Source {
    Index(sys::IndexScanDesc),
    Table(sys::TableScanDesc),
}

impl Source {
    unsafe fn begin(rel: sys::Relation, index: sys::Relation) -> Self {
        // SAFETY: both relations are open; an all-visible snapshot, as dead rows matter too.
        unsafe {
            let any = &raw mut sys::SnapshotAnyData;
            if index.is_null() {
                progress(majors::PROGRESS_PHASE, majors::PROGRESS_PHASE_TABLE_SCAN.into());
                let begin = (*(*rel).rd_tableam).scan_begin.unwrap_unchecked();
                let flags = sys::SO_TYPE_SEQSCAN | sys::SO_ALLOW_STRAT | sys::SO_ALLOW_SYNC | sys::SO_ALLOW_PAGEMODE;
                let scan = begin(rel, any, 0, ptr::null_mut(), ptr::null_mut(), flags);
                progress(majors::PROGRESS_TOTAL_BLOCKS, heap_scan(scan).rs_nblocks.into());
                Self::Table(scan)
            } else {
                progress(majors::PROGRESS_PHASE, majors::PROGRESS_PHASE_INDEX_SCAN.into());
                progress(majors::PROGRESS_INDEX, relation::oid(index).into());
                let scan = majors::index_beginscan(rel, index, any);
                sys::index_rescan(scan, ptr::null_mut(), 0, ptr::null_mut(), 0);
                Self::Index(scan)
            }
        }
    }

    unsafe fn next(&self, slot: *mut TupleTableSlot) -> bool {
        // SAFETY: a scan that `begin` has made, and a slot of the relation's kind.
        unsafe {
            match *self {
                Self::Index(scan) => {
                    let found = sys::index_getnext_slot(scan, sys::ForwardScanDirection, slot);
                    if found && (*scan).xs_recheck {
                        pg_error!(crate::pg::error::INTERNAL_ERROR, "CLUSTER does not support lossy index conditions");
                    }
                    found
                }
                Self::Table(scan) => {
                    let getnext = (*(*(*scan).rs_rd).rd_tableam).scan_getnextslot.unwrap_unchecked();
                    let found = getnext(scan, sys::ForwardScanDirection, slot);
                    let heap = heap_scan(scan);
                    let scanned = if found && heap.rs_nblocks > 0 {
                        // a synchronized scan begins anywhere
                        (heap.rs_cblock + heap.rs_nblocks - heap.rs_startblock) % heap.rs_nblocks + 1
                    } else {
                        heap.rs_nblocks
                    };
                    progress(majors::PROGRESS_BLOCKS_SCANNED, scanned.into());
                    found
                }
            }
        }
    }

    unsafe fn end(self) {
        // SAFETY: a scan that `begin` has made.
        unsafe {
            match self {
                Self::Index(scan) => sys::index_endscan(scan),
                Self::Table(scan) => {
                    let end = (*(*(*scan).rs_rd).rd_tableam).scan_end.unwrap_unchecked();
                    end(scan);
                }
            }
        }
    }
}

/// A table scan as heapam's own struct.
unsafe fn heap_scan<'a>(scan: sys::TableScanDesc) -> &'a sys::HeapScanDescData {
    // SAFETY: scans of encrypted tables are heapam's.
    unsafe { &*scan.cast() }
}

/// `pgstat_progress_update_param()`
fn progress(param: u32, value: i64) {
    // SAFETY: writes to the backend's own status entry.
    unsafe { sys::pgstat_progress_update_param(param as i32, value) }
}

/// What VACUUM thinks of a row.
#[derive(PartialEq)]
enum Fate {
    Dead,
    RecentlyDead,
    Live,
}

/// Whether a stored row has to be copied. Warns of rows that another transaction is writing, which the caller's lock
/// should make impossible.
unsafe fn fate(rel: sys::Relation, stored: HeapTuple, buffer: sys::Buffer, oldest_xmin: sys::TransactionId) -> Fate {
    // SAFETY: the row is pinned by the raw slot; HeapTupleSatisfiesVacuum wants the content lock.
    unsafe {
        majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
        let verdict = sys::HeapTupleSatisfiesVacuum(stored, oldest_xmin, buffer);
        majors::lock_buffer(buffer, sys::BUFFER_LOCK_UNLOCK);
        let header = (*stored).t_data;
        let foreign = |xid| !sys::TransactionIdIsCurrentTransactionId(xid);
        match verdict {
            sys::HEAPTUPLE_DEAD => Fate::Dead,
            sys::HEAPTUPLE_RECENTLY_DEAD => Fate::RecentlyDead,
            sys::HEAPTUPLE_INSERT_IN_PROGRESS => {
                if foreign((*header).t_choice.t_heap.t_xmin) {
                    warn("insert", rel);
                }
                Fate::Live
            }
            sys::HEAPTUPLE_DELETE_IN_PROGRESS => {
                if foreign(update_xid(header)) {
                    warn("delete", rel);
                }
                Fate::RecentlyDead
            }
            _ => Fate::Live,
        }
    }
}

/// `HeapTupleHeaderGetUpdateXid()`
unsafe fn update_xid(header: sys::HeapTupleHeader) -> sys::TransactionId {
    // SAFETY: a valid header.
    unsafe {
        let mask = (*header).t_infomask as u32;
        if mask & sys::HEAP_XMAX_INVALID == 0
            && mask & sys::HEAP_XMAX_IS_MULTI != 0
            && mask & sys::HEAP_XMAX_LOCK_ONLY == 0
        {
            sys::HeapTupleGetUpdateXid(header)
        } else {
            (*header).t_choice.t_heap.t_xmax
        }
    }
}

unsafe fn warn(what: &str, rel: sys::Relation) {
    // SAFETY: the relation is open.
    let table = unsafe { relation::name(rel) };
    crate::pg::error::Report::new(
        crate::pg::error::INTERNAL_ERROR,
        format_args!("concurrent {what} in progress within table \"{table}\""),
    )
    .log(sys::WARNING);
}

/// Forms rows for the new storage.
struct Reformer {
    old: sys::Relation,
    new: sys::Relation,
    values: *mut Datum,
    isnull: *mut bool,
}

impl Reformer {
    /// The stored row, encrypted anew for the new relation; valid until the next call.
    unsafe fn reform(&self, stored: HeapTuple) -> HeapTuple {
        // SAFETY: the row is pinned; the arrays have natts entries; the toaster's memory lives until its reset.
        unsafe {
            let size = row::open_size((*stored).t_len);
            let block = (*OLD.as_ptr()).reserve(sys::TopMemoryContext, size);
            let plain = row::open_into(relation::key_oid(self.old), stored, block);
            let desc = (*self.new).rd_att;
            sys::heap_deform_tuple(plain, (*self.old).rd_att, self.values, self.isnull);
            for i in 0..(*desc).natts as usize {
                if (*majors::attribute(desc, i)).attisdropped {
                    *self.isnull.add(i) = true;
                }
            }
            let formed = sys::heap_form_tuple(desc, self.values, self.isnull);
            (*formed).t_tableOid = (*plain).t_tableOid;
            let options = (sys::HEAP_INSERT_SKIP_FSM | sys::HEAP_INSERT_NO_LOGICAL) as majors::Options;
            let to_store = if toaster::is_needed(formed, ptr::null_mut()) {
                toaster::toast(self.new, formed, ptr::null_mut(), options).tuple
            } else {
                formed
            };
            let sealed = row::seal(self.new, to_store);
            crate::pg::memory::cleanse((*formed).t_data.cast(), (*formed).t_len as usize);
            crate::pg::memory::cleanse(block.cast(), size);
            sys::heap_freetuple(formed);
            toaster::reset();
            sealed
        }
    }
}

/// The callback's work. The counters are of rows: copied, dead, and recently dead.
unsafe fn copy(
    old: sys::Relation,
    new: sys::Relation,
    index: sys::Relation,
    oldest_xmin: sys::TransactionId,
    cutoffs: (sys::TransactionId, sys::MultiXactId),
    [tuples, vacuumed, recently_dead]: [*mut f64; 3],
) {
    // SAFETY: the contract of the callback: both relations are open and locked, the counters zeroed by the caller.
    unsafe {
        let natts = (*(*new).rd_att).natts.max(1) as usize;
        let values = sys::palloc(natts * size_of::<Datum>()).cast();
        let isnull = sys::palloc(natts * size_of::<bool>()).cast();
        let reformer = Reformer { old, new, values, isnull };

        // the rewrite module would toast what is too long; a shadow's relkind keeps it from that
        let mut space = Shadow::new();
        let shadow = space.on_stack(new);
        let state = sys::begin_heap_rewrite(old, shadow, oldest_xmin, cutoffs.0, cutoffs.1);
        let source = Source::begin(old, index);
        let slot = slot::new_slot(old);
        while source.next(slot) {
            check_for_interrupts();
            let stored = slot::stored(slot);
            match fate(old, stored, slot::buffer(slot), oldest_xmin) {
                Fate::Dead => {
                    *vacuumed += 1.0;
                    // the rewrite module still has to see it
                    if sys::rewrite_heap_dead_tuple(state, stored) {
                        *vacuumed += 1.0;
                        *recently_dead -= 1.0;
                    }
                    continue;
                }
                Fate::RecentlyDead => *recently_dead += 1.0,
                Fate::Live => (),
            }
            *tuples += 1.0;
            sys::rewrite_heap_tuple(state, stored, reformer.reform(stored));
            progress(majors::PROGRESS_TUPLES_SCANNED, *tuples as i64);
            progress(majors::PROGRESS_TUPLES_WRITTEN, *tuples as i64);
        }
        source.end();
        sys::ExecDropSingleTupleTableSlot(slot);
        sys::end_heap_rewrite(state);
        sys::pfree(reformer.values.cast());
        sys::pfree(reformer.isnull.cast());
    }
}

/// Raises the ERROR that REPACK (CONCURRENTLY) gets for an encrypted table: it would keep the rows that others write meanwhile
/// in a file, in the clear.
pub fn refuse_concurrent_repack(table: &str) -> ! {
    pg_error!(
        FEATURE_NOT_SUPPORTED, "REPACK (CONCURRENTLY) is not supported for encrypted table \"{table}\"";
        detail: ("It would write rows in the clear to temporary files.");
        hint: ("Use REPACK without CONCURRENTLY.")
    )
}

/// [`refuse_concurrent_repack`], for callbacks.
///
/// # Safety
/// `rel` must be open.
pub unsafe fn refuse_concurrently(rel: sys::Relation) -> ! {
    // SAFETY: the caller's promise.
    unsafe { refuse_concurrent_repack(relation::name(rel)) }
}

relation_copy_for_cluster_callback!(relation_copy_for_cluster, copy, refuse_concurrently);
