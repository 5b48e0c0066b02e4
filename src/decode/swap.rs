//! Plaintext tuples in place of the stored ones, for as long as a change is being sent.
//!
//! The change belongs to the reorder buffer, which accounts for its tuples by their lengths and frees them by their
//! pointers. So the stored tuples are not touched: the change is pointed to tuples of ours, and back before anybody
//! else looks at it, also when an ERROR passes.

use core::ffi::c_void;
use core::ptr;

use super::identity;
use super::session::Session;
use super::txn::{is_dml, Txn};
use crate::heap::{self, row};
use crate::pg::guard;
use crate::pg::memory::cleanse;
use crate::pg::rel::{self, Relation};
use crate::pg::sys::{self, ReorderBufferChange};
use crate::pg::tuple::HeapTuple;

/// The most copies that a change needs: the new row, and with its values; the old row, the key, and with its values.
const MAX_COPIES: usize = 5;

/// What is to be undone. Lives on the stack of [`with_plaintext`], and is only reached through a raw pointer, by both
/// sides of the guard.
struct Swapped {
    change: *mut ReorderBufferChange,
    old: HeapTuple,
    new: HeapTuple,
    /// The plaintext rows before they were given their out-of-line values; null if there is none.
    plain_old: HeapTuple,
    plain_new: HeapTuple,
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
pub unsafe fn with_plaintext(
    session: Session,
    txn: Txn,
    relation: Relation,
    change: *mut ReorderBufferChange,
    send: impl FnOnce(),
) {
    // SAFETY: the caller's promises; `tp` is the member of the union that an INSERT, UPDATE or DELETE uses.
    unsafe {
        if !is_dml(change) || !heap::is_encrypted(relation) {
            return send();
        }
        let tuples = (*change).data.tp;
        let mut swapped = Swapped {
            change,
            old: tuples.oldtuple,
            new: tuples.newtuple,
            plain_old: ptr::null_mut(),
            plain_new: ptr::null_mut(),
            copies: [(ptr::null_mut(), 0); MAX_COPIES],
        };
        let swapped = &raw mut swapped;
        guard::finally(
            move || {
                decrypt(session, txn, relation, swapped);
                send();
                forget_values(session, txn, relation, swapped);
            },
            move || put_back(swapped),
        );
    }
}

/// Points the change to plaintext tuples with their out-of-line values.
unsafe fn decrypt(session: Session, txn: Txn, relation: Relation, swapped: *mut Swapped) {
    // SAFETY: called by `with_plaintext`, whose frame `swapped` is in; the stored tuples stay in place.
    unsafe {
        let values = session.values();
        let copies = &raw mut (*swapped).copies;
        let tuples = &raw mut (*(*swapped).change).data.tp;
        if !(*swapped).new.is_null() {
            let row = open(relation, (*swapped).new, &raw mut (*copies)[0]);
            (*swapped).plain_new = row;
            let unchanged_allowed = (*(*swapped).change).action == sys::REORDER_BUFFER_CHANGE_UPDATE;
            let given = values.give(txn, relation, row, false, unchanged_allowed);
            note(given, row, &raw mut (*copies)[1]);
            (*tuples).newtuple = given;
        }
        if !(*swapped).old.is_null() {
            let row = open(relation, (*swapped).old, &raw mut (*copies)[2]);
            let logged = identity::project(relation, row);
            note(logged, row, &raw mut (*copies)[3]);
            (*swapped).plain_old = logged;
            (*tuples).oldtuple = logged;
            if !logged.is_null() {
                let given = values.give(txn, relation, logged, true, false);
                note(given, logged, &raw mut (*copies)[4]);
                (*tuples).oldtuple = given;
            }
        }
    }
}

/// Notes the memory of `tuple` for cleansing, if it is another one than `than`.
unsafe fn note(tuple: HeapTuple, than: HeapTuple, copy: *mut (*mut c_void, usize)) {
    // SAFETY: a tuple in memory of ours, or null; `copy` is an element of Swapped::copies.
    unsafe {
        if !tuple.is_null() && tuple != than {
            *copy = ((*tuple).t_data.cast(), (*tuple).t_len as usize);
        }
    }
}

/// The change has been sent: its values are not needed any more.
unsafe fn forget_values(session: Session, txn: Txn, relation: Relation, swapped: *mut Swapped) {
    // SAFETY: as for `decrypt`.
    unsafe {
        if !(*swapped).plain_new.is_null() {
            session.values().forget_row(txn, relation, (*swapped).plain_new, false);
        }
        if !(*swapped).plain_old.is_null() {
            session.values().forget_row(txn, relation, (*swapped).plain_old, true);
        }
    }
}

/// Decrypts `stored` into a block of the current memory context, and notes the block in `copy` before there is anything
/// in it to be cleansed.
unsafe fn open(relation: Relation, stored: HeapTuple, copy: *mut (*mut c_void, usize)) -> HeapTuple {
    // SAFETY: the stored tuple is valid; palloc's blocks are MAXALIGNed, and this one is as long as open_into asks for.
    unsafe {
        let len = row::open_size((*stored).t_len);
        let block = sys::palloc(len);
        *copy = (block, len);
        // a tuple of WAL does not say which table it is of, and the errors are to name that
        let mut named = *stored;
        named.t_tableOid = rel::oid(relation);
        let plain = row::open_into(rel::key_oid(relation), &mut named, block.cast());
        (*plain).t_tableOid = (*stored).t_tableOid;
        plain
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
