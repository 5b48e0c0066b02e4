//! The shadow relation: a copy of an open relation's entry, changed so that heapam does with a stored row what the
//! plaintext calls for.
//!
//! Three facts make it safe. heapam looks at `relkind` only to decide whether to toast. It looks at a table's
//! attributes only through the index attribute bitmaps, of which the entry holds the cached copies, and for the replica
//! identity. And it reaches storage, statistics and options through pointers that the copy shares, which stay valid for
//! as long as the real relation is open and locked. What is opened lazily on an entry (the smgr handle, the statistics)
//! must be opened on the real one before the copy is made, or the real one would not know of it.
//!
//! Nothing that takes a reference on a relation may see a shadow of [`Shadow::on_stack`]: a resource owner would
//! remember its address. Scans that heapam runs to their end inside (index builds) use [`Shadow::for_scan`].

use core::mem::MaybeUninit;
use core::ptr;

use super::{majors, sys};

/// Space for a shadow. It points into itself, so it must not move once made.
pub struct Shadow {
    entry: MaybeUninit<sys::RelationData>,
    class: MaybeUninit<sys::FormData_pg_class>,
}

/// The whole-row attribute as the only member of an attribute bitmap: heapam takes it as "modified" without looking
/// at the tuple. heapam copies the bitmaps of an entry and never frees them.
fn whole_row(yes: bool) -> *mut sys::Bitmapset {
    #[repr(C)]
    struct OneWord {
        set: sys::Bitmapset,
        words: [sys::bitmapword; 1],
    }
    struct Shared(OneWord);
    // SAFETY: read only.
    unsafe impl Sync for Shared {}
    const BIT: u32 = (-sys::FirstLowInvalidHeapAttributeNumber) as u32;
    static WHOLE_ROW: Shared = Shared(OneWord { set: majors::bitmapset(1), words: [1 << BIT] });
    if yes {
        (&raw const WHOLE_ROW.0).cast_mut().cast()
    } else {
        ptr::null_mut()
    }
}

/// What an UPDATE changes, found by comparing the decrypted rows: which of the index attribute bitmaps overlap the
/// modified attributes.
#[derive(Clone, Copy, Default)]
pub struct Modified {
    /// `INDEX_ATTR_BITMAP_HOT_BLOCKING`
    pub hot_blocking: bool,
    /// `INDEX_ATTR_BITMAP_SUMMARIZED`
    pub summarized: bool,
    /// `INDEX_ATTR_BITMAP_KEY`
    pub key: bool,
}

impl Shadow {
    pub const fn new() -> Self {
        Self { entry: MaybeUninit::uninit(), class: MaybeUninit::uninit() }
    }

    /// Makes `self` the shadow of `rel` for one call of heap_insert, heap_multi_insert, heap_update or heap_delete, and
    /// returns it as a relation: heapam's own routine, and a relkind that is never toasted.
    ///
    /// # Safety
    /// `rel` must be an open relation; the result is valid while `self` stays in place and `rel` is open.
    pub unsafe fn on_stack(&mut self, rel: sys::Relation) -> sys::Relation {
        // SAFETY: the caller's promise.
        unsafe {
            let shadow = self.copy(rel);
            (*(*shadow).rd_rel).relkind = sys::RELKIND_TOASTVALUE as i8;
            shadow
        }
    }

    /// A shadow of an ordinary heap by which heap_update and heap_delete write WAL that logical decoding passes over
    /// (`RelationIsLogicallyLogged` holds for no foreign table).
    ///
    /// # Safety
    /// As for [`Shadow::on_stack`].
    pub unsafe fn never_decoded(&mut self, rel: sys::Relation) -> sys::Relation {
        // SAFETY: the caller's promise.
        unsafe {
            let shadow = self.copy(rel);
            (*(*shadow).rd_rel).relkind = sys::RELKIND_FOREIGN_TABLE as i8;
            shadow
        }
    }

    /// A shadow for a scan that heapam runs to its end. A resource owner may remember it until the transaction ends, so
    /// it is allocated in TopTransactionContext. Only the routine differs from the real relation.
    ///
    /// # Safety
    /// `rel` must be an open relation that stays open during the scan.
    pub unsafe fn for_scan(rel: sys::Relation) -> sys::Relation {
        // SAFETY: the block is big enough and lives until the end of the transaction.
        unsafe {
            let block = sys::MemoryContextAllocZero(sys::TopTransactionContext, size_of::<Self>());
            (*block.cast::<Self>()).copy(rel)
        }
    }

    /// [`Shadow::for_scan`] for an index build: heapam ends a parallel scan itself, so the shadow takes over the
    /// reference that `scan` (null for a serial build) holds on the real relation.
    ///
    /// # Safety
    /// As for [`Shadow::for_scan`]; `scan` must be a scan of `rel`, or null.
    pub unsafe fn for_build(rel: sys::Relation, scan: sys::TableScanDesc) -> sys::Relation {
        // SAFETY: the caller's promise.
        unsafe {
            let shadow = Self::for_scan(rel);
            if !scan.is_null() {
                sys::RelationIncrementReferenceCount(shadow);
                let begun_on = core::mem::replace(&mut (*scan).rs_rd, shadow);
                sys::RelationDecrementReferenceCount(begun_on);
            }
            shadow
        }
    }

    unsafe fn copy(&mut self, rel: sys::Relation) -> sys::Relation {
        // SAFETY: `rel` is open, so both the entry and its rd_rel can be read.
        unsafe {
            sys::RelationGetSmgr(rel);
            if (*rel).pgstat_info.is_null() && (*rel).pgstat_enabled {
                sys::pgstat_assoc_relation(rel);
            }
            let entry = self.entry.write(ptr::read(rel));
            entry.rd_rel = self.class.write(ptr::read((*rel).rd_rel));
            entry.rd_tableam = sys::GetHeapamTableAmRoutine();
            entry
        }
    }
}

/// Gives a shadow the answer to "which attributes did this UPDATE modify?".
///
/// # Safety
/// `shadow` must be made by [`Shadow::on_stack`].
pub unsafe fn set_modified(shadow: sys::Relation, modified: Modified) {
    // SAFETY: the entry is a private copy; heapam copies the bitmaps that it is given.
    unsafe {
        (*shadow).rd_attrsvalid = true;
        (*shadow).rd_hotblockingattr = whole_row(modified.hot_blocking);
        (*shadow).rd_summarizedattr = whole_row(modified.summarized);
        (*shadow).rd_keyattr = whole_row(modified.key);
        (*shadow).rd_pkattr = ptr::null_mut();
        (*shadow).rd_idattr = ptr::null_mut();
    }
}

/// Makes heapam log the old row as stored, or not at all: never a key taken out of it.
///
/// # Safety
/// `shadow` must be made by [`Shadow::on_stack`].
pub unsafe fn set_log_old_row(shadow: sys::Relation, log: bool) {
    // SAFETY: rd_rel of a shadow is a private copy.
    unsafe {
        (*(*shadow).rd_rel).relreplident =
            if log { sys::REPLICA_IDENTITY_FULL } else { sys::REPLICA_IDENTITY_NOTHING } as i8;
    }
}
