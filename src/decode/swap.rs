//! Plaintext tuples in place of the stored ones, for as long as a change is being sent.
//!
//! The change belongs to the reorder buffer, which accounts for its tuples by their lengths and frees them by their
//! pointers. So the stored tuples are not touched: the change is pointed to tuples of ours, and back before anybody
//! else looks at it, also when an ERROR passes.

use core::ffi::c_void;
use core::ptr;

use super::identity;
use super::txn::is_dml;
use crate::heap::{self, row};
use crate::pg::memory::cleanse;
use crate::pg::rel::{self, Relation};
use crate::pg::sys::{self, ReorderBufferChange};
use crate::pg::tuple::HeapTuple;
use crate::pg::{guard, Oid};

/// The most copies that a change needs: new row, old row, key.
const MAX_COPIES: usize = 3;

/// What is to be undone. Lives on the stack of [`with_plaintext`], and is only reached through a raw pointer, by both
/// sides of the guard.
struct Swapped {
    change: *mut ReorderBufferChange,
    old: HeapTuple,
    new: HeapTuple,
    /// Memory that plaintext has been written to, as far as it is set.
    copies: [(*mut c_void, usize); MAX_COPIES],
}

/// Calls `send` with `change` holding plaintext tuples: at once when the relation is not encrypted, else with the
/// tuples decrypted into the current memory context, and the old one cut down to the replica identity. When this
/// returns, or an ERROR leaves it, the change is as it was and the plaintext is gone.
///
/// Raises the errors of decryption, which are longjmps: `send` may hold nothing that needs dropping.
///
/// # Safety
/// `relation` and `change` must be those of the running `change` or `stream_change`. `send` must not keep a pointer to
/// a tuple of the change.
pub unsafe fn with_plaintext(relation: Relation, change: *mut ReorderBufferChange, send: impl FnOnce()) {
    // SAFETY: the caller's promises; `tp` is the member of the union that an INSERT, UPDATE or DELETE uses.
    unsafe {
        if !is_dml(change) || !heap::is_encrypted(relation) {
            return send();
        }
        let tuples = (*change).data.tp;
        let mut swapped =
            Swapped { change, old: tuples.oldtuple, new: tuples.newtuple, copies: [(ptr::null_mut(), 0); MAX_COPIES] };
        let swapped = &raw mut swapped;
        guard::finally(
            move || {
                decrypt(relation, swapped);
                send();
            },
            move || put_back(swapped),
        );
    }
}

/// Points the change to plaintext tuples.
unsafe fn decrypt(relation: Relation, swapped: *mut Swapped) {
    // SAFETY: called by `with_plaintext`, whose frame `swapped` is in; the stored tuples stay in place.
    unsafe {
        let key_oid = rel::key_oid(relation);
        let tuples = &raw mut (*(*swapped).change).data.tp;
        if !(*swapped).new.is_null() {
            // the values of out-of-line columns will be given to the row here
            (*tuples).newtuple = open(key_oid, (*swapped).new, &raw mut (*swapped).copies[0]);
        }
        if !(*swapped).old.is_null() {
            let row = open(key_oid, (*swapped).old, &raw mut (*swapped).copies[1]);
            let logged = identity::project(relation, row);
            if !logged.is_null() && logged != row {
                (*swapped).copies[2] = ((*logged).t_data.cast(), (*logged).t_len as usize);
            }
            (*tuples).oldtuple = logged;
        }
    }
}

/// Decrypts `stored` into a block of the current memory context, and notes the block in `copy` before there is anything
/// in it to be cleansed.
unsafe fn open(key_oid: Oid, stored: HeapTuple, copy: *mut (*mut c_void, usize)) -> HeapTuple {
    // SAFETY: the stored tuple is valid; palloc's blocks are MAXALIGNed, and this one is as long as open_into asks for.
    unsafe {
        let len = row::open_size((*stored).t_len);
        let block = sys::palloc(len);
        *copy = (block, len);
        row::open_into(key_oid, stored, block.cast())
    }
}

/// Points the change back to its own tuples, and cleanses the copies. Raises nothing.
unsafe fn put_back(swapped: *mut Swapped) {
    // SAFETY: called by the guard in `with_plaintext`, whose frame `swapped` is in. The copies are in a memory context
    // that nothing resets before the callback is over.
    unsafe {
        let tuples = &raw mut (*(*swapped).change).data.tp;
        (*tuples).oldtuple = (*swapped).old;
        (*tuples).newtuple = (*swapped).new;
        for (at, len) in (*swapped).copies {
            if !at.is_null() {
                cleanse(at, len);
            }
        }
    }
}
