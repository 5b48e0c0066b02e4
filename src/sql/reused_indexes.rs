//! Encrypted indexes that PostgreSQL makes anew with the file of the old one, since a change of a column's type (a longer `varchar`)
//! changes no value. But keys are bound to the OID of their index: what is in the file is of another index to the new one. So such an
//! index is built when the command is done.

use core::ptr;

use crate::pg::{sys, BackendCell, Oid};
use crate::pg_callback;

/// Indexes of this transaction that wait to be built; in its memory context.
static WAITING: BackendCell<*mut sys::List> = BackendCell::new(ptr::null_mut());

/// Called once, from `_PG_init`.
pub fn register() {
    // SAFETY: the callback takes the arguments that xact.c passes.
    unsafe { sys::RegisterXactCallback(Some(at_xact_event), ptr::null_mut()) }
}

pg_callback! {
    fn at_xact_event(_event: sys::XactEvent, _arg: *mut core::ffi::c_void) {
        WAITING.set(ptr::null_mut());
    }
}

/// Notes a new index of `encrypted_btree` that has the file of another one.
///
/// # Safety
/// In a transaction.
pub unsafe fn note(index: Oid) {
    // SAFETY: a list in the transaction's memory.
    unsafe {
        let list = crate::pg::memory::within(sys::TopTransactionContext, || sys::lappend_oid(WAITING.get(), index));
        WAITING.set(list);
    }
}

/// Builds the indexes that wait, if they are still there (a failed subtransaction may have taken them along).
///
/// # Safety
/// Called when a command has been carried out, in its transaction.
pub unsafe fn build() {
    let waiting = WAITING.get();
    if waiting.is_null() {
        return;
    }
    WAITING.set(ptr::null_mut());
    // SAFETY: a list of OIDs in the transaction's memory.
    unsafe {
        sys::CommandCounterIncrement();
        for i in 0..(*waiting).length as usize {
            let index = (*(*waiting).elements.add(i)).oid_value;
            if sys::get_rel_relkind(index) as u8 == sys::RELKIND_INDEX {
                let params: sys::ReindexParams = core::mem::zeroed();
                sys::reindex_index(ptr::null(), index, false, sys::get_rel_persistence(index), &params);
            }
        }
    }
}
