//! The slots of ours that heapam has filled last, for who meets a row again that one of them still holds.
//!
//! What makes it safe is the pin. A slot is in here only while its raw slot pins a page: whoever lets go of the pin takes
//! the slot out, and nobody may free a slot that has a pin (core would complain of a leaked one), but for the end of a
//! failed (sub)transaction, which empties the list. While a page is pinned, no row on it is moved or overwritten (pruning
//! and `vault_tde.reencrypt` want to be alone on it), so the same address is the same row; only transaction bits in its
//! header change.

use core::ptr;

use super::slot;
use crate::pg::tuple::{block_number, offset_number, HeapTuple, TupleTableSlot};
use crate::pg::{sys, BackendCell, Oid};

/// The scan's slot and the executor's slot for the old row, as a rule.
static RECENT: BackendCell<[*mut TupleTableSlot; 2]> = BackendCell::new([ptr::null_mut(); 2]);

/// The raw slot of `slot` has just been filled.
#[inline]
pub fn note(slot: *mut TupleTableSlot) {
    let [first, _] = RECENT.get();
    if first != slot {
        RECENT.set([slot, first]);
    }
}

/// The raw slot of `slot` lets go of its pin.
#[inline]
pub fn forget(slot: *mut TupleTableSlot) {
    let [first, second] = RECENT.get();
    if first == slot {
        RECENT.set([second, ptr::null_mut()]);
    } else if second == slot {
        RECENT.set([first, ptr::null_mut()]);
    }
}

/// For the end of a (sub)transaction.
pub fn forget_all() {
    RECENT.set([ptr::null_mut(); 2]);
}

/// A slot that holds the row at `tid` of the table `oid`, pinned; null if there is none.
#[inline]
pub fn holding(oid: Oid, tid: &sys::ItemPointerData) -> *mut TupleTableSlot {
    for slot in RECENT.get() {
        // SAFETY: a slot of the list is valid, see above; a stored row is there while the page is pinned.
        unsafe {
            if slot.is_null() {
                continue;
            }
            let stored = slot::stored(slot);
            if !stored.is_null()
                && (*stored).t_tableOid == oid
                && block_number(&(*stored).t_self) == block_number(tid)
                && offset_number(&(*stored).t_self) == offset_number(tid)
            {
                return slot;
            }
        }
    }
    ptr::null_mut()
}

/// The plaintext of the stored row `wanted`, on a page that the caller has pinned, if another slot than `but` has
/// decrypted it; null otherwise. Valid until that slot is touched.
#[inline]
pub fn plaintext(wanted: HeapTuple, but: *mut TupleTableSlot) -> HeapTuple {
    for slot in RECENT.get() {
        // SAFETY: as in `holding`.
        unsafe {
            if slot.is_null() || slot == but {
                continue;
            }
            let stored = slot::stored(slot);
            if !stored.is_null()
                && (*stored).t_data == (*wanted).t_data
                && (*stored).t_len == (*wanted).t_len
                && (*stored).t_tableOid == (*wanted).t_tableOid
            {
                return slot::opened(slot);
            }
        }
    }
    ptr::null_mut()
}
