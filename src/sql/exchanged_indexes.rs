//! Indexes of constraints that come into being as btrees although they are marked as encrypted ones (`encrypted_indexes.rs`):
//! `ALTER TABLE … ALTER COLUMN … TYPE` makes a constraint anew from its definition, without a command that a hook could
//! look at. The object access hook is called when the index's catalog rows are written, but before anything is in its file:
//! there the rows are made those of an encrypted index.

use core::ptr;

use super::encrypted_indexes::{is_marked, is_ordered_as_by_btree};
use super::index_catalogs::set_method;
use crate::index::method_oid;
use crate::pg::tuple::HeapTuple;
use crate::pg::{majors, rel, sys, Oid, INVALID_OID};

/// Whether the storage options say that the index of a constraint is an encrypted one. `row` is the index's row of pg_class, of
/// descriptor `desc`.
///
/// # Safety
/// A row of that catalog.
pub unsafe fn has_mark(row: HeapTuple, desc: sys::TupleDesc) -> bool {
    // SAFETY: the caller's promise; the array of options is in the row or detoasted by the function that reads it.
    unsafe {
        let mut is_null = false;
        let options = sys::heap_getattr(row, sys::Anum_pg_class_reloptions as i32, desc, &mut is_null);
        !is_null && is_marked(sys::untransformRelOptions(options))
    }
}

/// Makes a marked btree, whose catalog rows this command has just written, an encrypted index; returns whether it has. It has
/// not if the index is not that of a constraint, or if the type of a column has no operator class.
///
/// # Safety
/// Called by the object access hook for a new index, which is locked and open, and whose storage is empty.
pub unsafe fn exchange(index: Oid, table: Oid) -> bool {
    // SAFETY: catalogs are read and written as index_create does; the caller's promise.
    unsafe {
        let ours = method_oid();
        if !majors::UNIQUE_BY_OTHER_METHODS || ours == INVALID_OID {
            return false;
        }
        // so that the rows can be seen, and updated
        sys::CommandCounterIncrement();
        if sys::get_index_constraint(index) == INVALID_OID {
            return false;
        }
        // (no constraint is on an expression)
        let fits = columns_fit(index, table);
        if fits {
            set_method(index, table, ours, ptr::null_mut());
        }
        fits
    }
}

/// Whether the types of all key columns can be indexed by `encrypted_btree`.
unsafe fn columns_fit(index: Oid, table: Oid) -> bool {
    // SAFETY: the index has just been made, by the same command.
    unsafe {
        let open = sys::index_open(index, sys::NoLock as i32);
        let nkeys = (*(*open).rd_index).indnkeyatts as usize;
        let fit = (0..nkeys).all(|i| {
            let number = rel::key_column(open, i);
            number != 0 && is_ordered_as_by_btree(sys::get_atttype(table, number))
        });
        sys::index_close(open, sys::NoLock as i32);
        fit
    }
}
