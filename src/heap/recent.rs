//! What was read and updated last. Above all the slots of ours that heapam has filled last, for who meets a row again that one
//! of them still holds.
//!
//! What makes it safe is the pin. A slot is in here only while its raw slot pins a page: whoever lets go of the pin takes
//! the slot out, and nobody may free a slot that has a pin (core would complain of a leaked one), but for the end of a
//! failed (sub)transaction, which empties the list. While a page is pinned, no row on it is moved or overwritten (pruning
//! and `vault_tde.reencrypt` want to be alone on it), so the same address is the same row; only transaction bits in its
//! header change.

use core::ptr;

use super::slot::{self, Expected};
use crate::keys::Need;
use crate::pg::tuple::{block_number, offset_number, HeapTuple, TupleTableSlot};
use crate::pg::{sys, BackendCell, Oid};

/// How many rows that a command updates are likely to be read soon: what changes many rows reads none of them in a moment.
const FEW: u32 = 8;

/// The command that has updated rows last, and how many.
static UPDATED: BackendCell<(sys::CommandId, u32)> = BackendCell::new((0, 0));

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
    UPDATED.set((0, 0));
}

/// Counts a row that command `cid` of this transaction has updated, and returns whether it is one of few.
#[inline]
pub fn is_one_of_few(cid: sys::CommandId) -> bool {
    let (last, count) = UPDATED.get();
    let count = if last == cid { count.saturating_add(1) } else { 1 };
    UPDATED.set((cid, count));
    count <= FEW
}

/// A slot that holds the row at `tid` of the table `oid`, pinned; null if there is none.
#[inline]
pub fn holding(oid: Oid, tid: &sys::ItemPointerData) -> *mut TupleTableSlot {
    RECENT.get().into_iter().find(|slot| holds(*slot, oid, tid)).unwrap_or(ptr::null_mut())
}

/// Whether the new version of the row at `tid` of the table `oid` is sure to be read soon: whether a scan that will be
/// repeated has found the old one.
pub fn need_of_update(oid: Oid, tid: &sys::ItemPointerData) -> Need {
    // SAFETY: as in `holds`.
    let is_read_again = |slot| holds(slot, oid, tid) && unsafe { slot::expected(slot) } == Expected::Again;
    if RECENT.get().into_iter().any(is_read_again) {
        Need::Sure
    } else {
        Need::Possible
    }
}

#[inline]
fn holds(slot: *mut TupleTableSlot, oid: Oid, tid: &sys::ItemPointerData) -> bool {
    if slot.is_null() {
        return false;
    }
    // SAFETY: a slot of the list is valid, see above; a stored row is there while the page is pinned.
    unsafe {
        let stored = slot::stored(slot);
        !stored.is_null()
            && (*stored).t_tableOid == oid
            && block_number(&(*stored).t_self) == block_number(tid)
            && offset_number(&(*stored).t_self) == offset_number(tid)
    }
}

/// The plaintext of the stored row `wanted`, on a page that the caller has pinned, if another slot than `but` has
/// decrypted it; null otherwise. Valid until that slot is touched.
#[inline]
pub fn plaintext(wanted: HeapTuple, but: *mut TupleTableSlot) -> HeapTuple {
    for slot in RECENT.get() {
        // SAFETY: as in `holds`.
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
