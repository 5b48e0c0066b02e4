//! The old row of an UPDATE or DELETE, read and decrypted only when something depends on it.

use core::ptr;

use super::{recent, row, slot};
use crate::crypto::row as format;
use crate::pg::memory::{self, Scratch};
use crate::pg::tuple::{self, HeapTuple, HeapTupleData};
use crate::pg::{rel as relation, sys, BackendCell};

/// Where old rows are decrypted to that no slot holds. There is one at a time, and it holds plaintext only until [`OldRow::forget`].
static OLD: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// Cleanses what an ERROR has left behind; called when a (sub)transaction aborts.
pub fn forget() {
    // SAFETY: nothing uses the block at that time.
    unsafe { (*OLD.as_ptr()).release() }
}

/// An old row.
pub struct OldRow {
    /// The plaintext; null when it was not needed, or when the row is gone (heap_update and heap_delete say so then).
    pub tuple: HeapTuple,
    /// The row was looked for and not found.
    pub gone: bool,
    /// Bytes of the block of ours that hold plaintext; 0 if the plaintext is a slot's.
    size: usize,
}

impl OldRow {
    /// The row at `tid`. It is decrypted if `compare` says that its values are wanted, or if it has out-of-line ones;
    /// it is not even read when neither can be.
    ///
    /// # Safety
    /// `rel` must be open and encrypted. The result is valid until the next one is fetched, and no slot may be touched.
    pub unsafe fn fetch(rel: sys::Relation, tid: sys::ItemPointer, compare: bool) -> Self {
        let mut old = Self { tuple: ptr::null_mut(), gone: false, size: 0 };
        // SAFETY: the caller's promise; the stored row is pinned while it is decrypted, not afterwards.
        unsafe {
            if !compare && (*(*rel).rd_rel).reltoastrelid == 0 {
                return old;
            }
            // the executor has, nearly always, just had it in a slot, and decrypted
            let slot = recent::holding(relation::oid(rel), &*tid);
            if !slot.is_null() {
                if !compare && !format::has_external(tuple::bytes(slot::stored(slot))) {
                    return old;
                }
                slot::force(slot);
                old.tuple = slot::opened(slot);
                if !old.tuple.is_null() {
                    return old;
                }
            }
            let mut stored = HeapTupleData { t_len: 0, t_self: *tid, t_tableOid: 0, t_data: ptr::null_mut() };
            let mut buffer = 0;
            if !sys::heap_fetch(rel, &raw mut sys::SnapshotAnyData, &mut stored, &mut buffer, false) {
                old.gone = true;
                return old;
            }
            if compare || format::has_external(tuple::bytes(&mut stored)) {
                old.size = row::open_size(stored.t_len);
                let block = (*OLD.as_ptr()).reserve(sys::TopMemoryContext, old.size);
                old.tuple = row::open_into(relation::key_oid(rel), &mut stored, block);
            }
            sys::ReleaseBuffer(buffer);
        }
        old
    }

    /// Whether the row was decrypted and has out-of-line values.
    pub fn has_external(&self) -> bool {
        // SAFETY: a plaintext tuple of ours if not null.
        !self.tuple.is_null() && unsafe { crate::toast::toaster::has_external(self.tuple) }
    }

    /// Cleanses the plaintext.
    pub fn forget(self) {
        if self.size != 0 {
            // SAFETY: the block is `size` bytes long.
            unsafe { memory::cleanse(self.tuple.cast(), self.size) }
        }
    }
}
