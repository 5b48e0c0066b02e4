//! Removing out-of-line values: of rows that were deleted or updated, and of rows that were not stored after all.

use super::message;
use super::old::for_each_external;
use crate::pg::tuple::HeapTuple;
use crate::pg::varlena::Varlena;
use crate::pg::{sys, Datum};

/// Deletes the values that a deleted row pointed to, once heap_delete has answered TM_Ok (`heap_toast_delete`).
///
/// # Safety
/// `rel` must be open, `old` the deleted row's plaintext.
pub unsafe fn delete_values(rel: sys::Relation, old: HeapTuple) {
    // SAFETY: the caller's promise.
    unsafe { for_each_external(rel, old, |_, value| sys::toast_delete_datum(rel, value, false)) }
}

/// Kills the values of a speculative insertion that was lost, and tells decoders.
///
/// # Safety
/// `rel` must be open, `row` the plaintext of a row that this command has inserted.
pub unsafe fn kill_values(rel: sys::Relation, row: HeapTuple) {
    // SAFETY: the caller's promise.
    unsafe { for_each_external(rel, row, |_, value| kill(rel, value)) }
}

/// Kills one value that this command has stored: its chunks vanish at once, as those of a lost speculative insertion.
///
/// # Safety
/// `value` must be a pointer to a value that the current (sub)transaction has stored in rel's TOAST table.
pub unsafe fn kill(rel: sys::Relation, value: Datum) {
    // SAFETY: the caller's promise.
    unsafe {
        let pointer = Varlena::of(value).pointer();
        sys::toast_delete_datum(rel, value, true);
        message::cancel(rel, pointer.va_toastrelid, pointer.va_valueid);
    }
}
