//! `encrypted_btree`: nbtree whose keys are ciphertext. `README.md` beside this file has the idea and its rules.
//!
//! | file            | what it does                                                                            |
//! |-----------------|-----------------------------------------------------------------------------------------|
//! | `routine.rs`    | the callback table: nbtree's own, with those replaced that meet a key                   |
//! | `inner.rs`      | the inner index, which nbtree is given; one for each index that this backend works with |
//! | `column.rs`     | a column of it: values to stored keys and back                                          |
//! | `arena.rs`      | values in the clear beside the rows that a build sorts                                  |
//! | `cache.rs`      | decrypted keys during a build                                                           |
//! | `argument.rs`   | arguments of scan keys: plaintext in memory that passes for a key                       |
//! | `search.rs`     | what an argument's comparisons have shown of a page, so that few keys are decrypted     |
//! | `ordinal.rs`    | types whose values are numbers: words of the same order                                 |
//! | `page_state.rs` | a page in shared buffers as a search sees it, and how it is known again                 |
//! | `page_words.rs` | words of keys on pages that are visited often                                           |
//! | `compare.rs`    | the functions of type `encrypted_key`: comparison, operators, output                    |
//! | `sort.rs`       | its sort support: abbreviated keys                                                      |
//! | `build.rs`      | CREATE INDEX, REINDEX, INSERT                                                           |
//! | `scan.rs`       | index scans; `keys.rs` turns their scan keys                                            |
//! | `pages.rs`      | the keys on a page as it is on disk                                                     |
//! | `upkeep.rs`     | which generations are in use; re-encryption in place                                    |
//! | `verify.rs`     | entries against rows, and rows against entries                                          |
//! | `planner.rs`    | what the planner asks btree indexes only                                                |
//! | `settings.rs`   | the variables of the configuration parameters                                           |
//! | `vacuum.rs`     | VACUUM                                                                                  |

mod arena;
mod argument;
mod build;
mod cache;
mod column;
mod compare;
mod inner;
mod keys;
mod ordinal;
mod page_state;
mod page_words;
mod pages;
mod planner;
pub mod routine;
mod scan;
mod search;
pub mod settings;
mod sort;
pub mod upkeep;
mod vacuum;
pub mod verify;

use core::ffi::CStr;

pub use build::has_rows;
pub use page_words::forget as forget_plaintext;

use crate::pg::error::FEATURE_NOT_SUPPORTED;
use crate::pg::{sys, Oid};
use crate::{pg_callback, pg_error};

pg_callback! {
    /// The planner's question (18 and later).
    fn tree_height(outer: sys::Relation) -> i32 {
        // SAFETY: the contract of the callback.
        unsafe { height(outer) }
    }
}

/// The height of the tree; -1 would say that it is not known.
unsafe fn height(outer: sys::Relation) -> i32 {
    // SAFETY: an open index of ours.
    unsafe {
        let entered = inner::enter(outer);
        let height = sys::_bt_getrootheight(entered.rel());
        entered.leave();
        height
    }
}

/// Whether the relation is an index of `encrypted_btree`.
///
/// # Safety
/// `rel` must be an open relation.
pub unsafe fn is_encrypted(rel: sys::Relation) -> bool {
    // SAFETY: the caller's promise; each index has its own copy of the callback table.
    unsafe {
        let routine = (*rel).rd_indam;
        !routine.is_null() && (*routine).ambuild.is_some_and(|f| core::ptr::fn_addr_eq(f, build::build as Build))
    }
}

/// Raises the ERROR that REPACK (CONCURRENTLY) gets for a table with an encrypted index. It would build a new index and exchange
/// the files of the two, but a key belongs to the index under whose OID it was encrypted.
pub fn refuse_concurrent_repack(table: &str) -> ! {
    pg_error!(
        FEATURE_NOT_SUPPORTED, "REPACK (CONCURRENTLY) is not supported for table \"{table}\", which has encrypted indexes";
        hint: ("Use REPACK without CONCURRENTLY.")
    )
}

/// Whether a table has an index of `encrypted_btree`.
///
/// # Safety
/// In a transaction.
pub unsafe fn is_on(table: Oid) -> bool {
    // SAFETY: the caller's promise; the list is private to the caller.
    unsafe {
        let lock = sys::AccessShareLock as i32;
        let rel = sys::try_relation_open(table, lock);
        if rel.is_null() {
            return false;
        }
        let list = sys::RelationGetIndexList(rel);
        let count = if list.is_null() { 0 } else { (*list).length as usize };
        let found = (0..count).any(|i| sys::get_rel_relam((*(*list).elements.add(i)).oid_value) == method_oid());
        sys::relation_close(rel, lock);
        found
    }
}

type Build =
    unsafe extern "C-unwind" fn(sys::Relation, sys::Relation, *mut sys::IndexInfo) -> *mut sys::IndexBuildResult;

/// The access method's OID; InvalidOid if this database has none.
pub fn method_oid() -> Oid {
    // SAFETY: a syscache look-up in a transaction.
    unsafe { sys::get_index_am_oid(METHOD.as_ptr(), true) }
}

/// The access method's name.
pub const METHOD: &CStr = c"encrypted_btree";

/// What `_PG_init` has to do for this room.
pub fn register() {
    argument::register();
    planner::register();
    // SAFETY: the callback takes the arguments that xact.c passes.
    unsafe { sys::RegisterXactCallback(Some(at_xact_event), core::ptr::null_mut()) }
}

pg_callback! {
    /// Cleanses the plaintext that comparisons have left.
    fn at_xact_event(event: sys::XactEvent, _arg: *mut core::ffi::c_void) {
        let over = [
            sys::XACT_EVENT_COMMIT,
            sys::XACT_EVENT_PARALLEL_COMMIT,
            sys::XACT_EVENT_ABORT,
            sys::XACT_EVENT_PARALLEL_ABORT,
            sys::XACT_EVENT_PREPARE,
        ];
        if over.contains(&event) {
            arena::release_all();
            inner::forget();
        }
    }
}
