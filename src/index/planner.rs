//! What the planner knows of an index only if it is a btree: a hook tells it of ours.

use super::method_oid;
use crate::pg::majors::{self, planner_hook};
use crate::pg::{sys, BackendCell, Oid, INVALID_OID};
use crate::planner_hook;

static NEXT: BackendCell<planner_hook::Hook> = BackendCell::new(None);

/// Chains the hook; called once, from `_PG_init`.
pub fn register() {
    // SAFETY: _PG_init runs in the postmaster, before anything is planned.
    unsafe { NEXT.set(planner_hook::chain(Some(on_relation))) }
}

planner_hook!(on_relation, NEXT.get(), look);

/// Looks for indexes of ours.
unsafe fn look(rel: *mut sys::RelOptInfo) {
    // SAFETY: the list is one of IndexOptInfo.
    unsafe {
        let list = (*rel).indexlist;
        let count = if list.is_null() { 0 } else { (*list).length as usize };
        for i in 0..count {
            let index: *mut sys::IndexOptInfo = (*(*list).elements.add(i)).ptr_value.cast();
            // a partitioned index has no cost function, and no storage
            let is_btree = (*index).relam == sys::BTREE_AM_OID;
            if !is_btree && (*index).amcostestimate.is_some() && is_ours((*index).relam) {
                tell(index);
            }
        }
    }
}

unsafe fn tell(index: *mut sys::IndexOptInfo) {
    // SAFETY: an index of ours, which the planner has locked.
    unsafe {
        if majors::EXECUTOR_TAKES_ROW_COMPARISONS {
            // row comparisons are offered to nothing else
            (*index).relam = sys::BTREE_AM_OID;
        } else {
            let rel = sys::index_open((*index).indexoid, sys::NoLock as i32);
            (*index).tree_height = super::height(rel);
            sys::index_close(rel, sys::NoLock as i32);
        }
    }
}

fn is_ours(method: Oid) -> bool {
    method != INVALID_OID && method == method_oid()
}
