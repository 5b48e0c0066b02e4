//! Builds and insertions: values are encrypted, then nbtree has them.
//!
//! nbtree asks the table access method, whichever it is, to scan the table, and takes each row's values in a callback of
//! its own. In between stands a shadow of the table whose routine differs in that one function: it passes the call on to
//! the real one, with a callback that encrypts. There is no parallel build: workers would open the index themselves and
//! take it for a plain btree.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use super::inner::{self, nbtree, Index};
use crate::pg::error::{FEATURE_NOT_SUPPORTED, INTERNAL_ERROR};
use crate::pg::fmgr::str_of;
use crate::pg::{rel as relation, sys, Datum, Oid, INVALID_OID};
use crate::{keys, pg_callback, pg_error};

type Values = [Datum; sys::INDEX_MAX_KEYS as usize];

/// The table as nbtree sees it during a build. The entry comes first, so that a pointer to it is one to this.
#[repr(C)]
struct Table {
    entry: sys::RelationData,
    routine: sys::TableAmRoutine,
    real: sys::Relation,
    outer: sys::Relation,
}

/// What each row of the scan needs.
struct Build {
    index: *mut Index,
    inner: sys::Relation,
    callback: sys::IndexBuildCallback,
    state: *mut c_void,
}

/// Encrypts a row's values.
unsafe fn seal(index: *mut Index, values: *const Datum, nulls: *const bool, sealed: &mut Values) {
    // SAFETY: as many values and flags as the index has columns.
    unsafe {
        for (i, to) in sealed.iter_mut().enumerate().take((*index).ncolumns()) {
            if !*nulls.add(i) {
                *to = (*(*index).column(i)).seal(*values.add(i));
            }
        }
    }
}

/// Raises an ERROR if an expression's value is a row, or has rows in it. ALTER TYPE finds out by the types of columns, those of
/// indexes among them, where a composite type is in use, and here all columns are of one type.
unsafe fn refuse_rows(outer: sys::Relation, expressions: *mut sys::List) {
    // SAFETY: the caller's promise.
    unsafe {
        let count = if expressions.is_null() { 0 } else { (*expressions).length as usize };
        for i in 0..count {
            let type_oid = sys::exprType((*(*expressions).elements.add(i)).ptr_value.cast());
            if has_rows(type_oid) {
                let (name, type_name) = (relation::name(outer), str_of(sys::format_type_be(type_oid)));
                pg_error!(
                    FEATURE_NOT_SUPPORTED, "encrypted index \"{name}\" cannot be on an expression of type {type_name}";
                    hint: ("Index the columns of the row, or use access method \"btree\" with \"pg_vault_tde.encrypt_indexes\" off.")
                );
            }
        }
    }
}

/// Whether values of the type are rows, or arrays or ranges of such.
///
/// # Safety
/// In a transaction.
pub unsafe fn has_rows(type_oid: Oid) -> bool {
    // SAFETY: syscache look-ups.
    unsafe {
        let base = sys::getBaseType(type_oid);
        let inside = [sys::get_element_type(base), sys::get_range_subtype(base), sys::get_multirange_range(base)];
        base == sys::RECORDOID
            || sys::get_typtype(base) as u8 == sys::TYPTYPE_COMPOSITE
            || inside.into_iter().any(|inside| inside != INVALID_OID && has_rows(inside))
    }
}

/// More rows than mostly fit a page.
const ROWS_PER_PAGE: usize = 64;

/// Memory for keys of the first column: enough for one of each tape that is merged, and little enough to stay in the
/// processor's cache. While rows are in memory a word beside each decides (see [`super::sort`]).
const MERGED: usize = 64 * 1024;

/// Begins, or ends, to keep decrypted keys for the sort, those of columns behind the first in a quarter of the memory that the
/// sort may take.
unsafe fn cache(index: *mut Index, begin: bool, table: sys::Relation) {
    // SAFETY: an open table; the columns of an index.
    unsafe {
        let keys = sys::RelationGetNumberOfBlocksInFork(table, sys::MAIN_FORKNUM) as usize * ROWS_PER_PAGE;
        let bytes = sys::maintenance_work_mem as usize * 1024 / 4 / (*index).nkeys();
        for i in 0..(*index).nkeys() {
            if begin {
                (*(*index).column(i)).begin_cache(keys, if i == 0 { MERGED } else { bytes });
            } else {
                (*(*index).column(i)).end_cache();
            }
        }
    }
}

pg_callback! {
    fn build_row(
        _index: sys::Relation,
        tid: sys::ItemPointer,
        values: *mut Datum,
        nulls: *mut bool,
        alive: bool,
        state: *mut c_void,
    ) {
        // SAFETY: `state` is the Build of the running scan.
        unsafe {
            let build = &*state.cast::<Build>();
            // an index expression may have used other indexes
            inner::set_current(build.index);
            let mut sealed: Values = [0; sys::INDEX_MAX_KEYS as usize];
            seal(build.index, values, nulls, &mut sealed);
            build.callback.unwrap_unchecked()(build.inner, tid, sealed.as_mut_ptr(), nulls, alive, build.state);
        }
    }

    fn build_range_scan(
        table: sys::Relation,
        index: sys::Relation,
        info: *mut sys::IndexInfo,
        allow_sync: bool,
        anyvisible: bool,
        progress: bool,
        start_blockno: sys::BlockNumber,
        numblocks: sys::BlockNumber,
        callback: sys::IndexBuildCallback,
        callback_state: *mut c_void,
        scan: sys::TableScanDesc,
    ) -> f64 {
        // SAFETY: nbtree calls it with the Table that `build` has given it, and with the inner index, which is current.
        unsafe {
            let table: *const Table = table.cast();
            let mut build = Build { index: inner::current(), inner: index, callback, state: callback_state };
            if !scan.is_null() {
                pg_error!(INTERNAL_ERROR, "parallel build of an encrypted index");
            }
            let real = (*table).real;
            let tuples = (*(*real).rd_tableam).index_build_range_scan.unwrap_unchecked()(
                real,
                (*table).outer,
                info,
                allow_sync,
                anyvisible,
                progress,
                start_blockno,
                numblocks,
                Some(build_row),
                (&raw mut build).cast(),
                scan,
            );
            inner::set_current(build.index);
            tuples
        }
    }

    pub fn build(table: sys::Relation, outer: sys::Relation, info: *mut sys::IndexInfo) -> *mut sys::IndexBuildResult {
        // SAFETY: an open table, and an expression tree of the index.
        unsafe {
            // Only REPACK (CONCURRENTLY) builds indexes before it puts the new files in the place of the old ones.
            if (*(*table).rd_rel).relrewrite != INVALID_OID {
                let original = sys::get_rel_name((*(*table).rd_rel).relrewrite);
                super::refuse_concurrent_repack(str_of(original));
            }
            refuse_rows(outer, (*info).ii_Expressions);
        }
        keys::ensure_first_generation();
        // SAFETY: the contract of the callback. nbtree takes no reference on the table, so a shadow in this frame will do.
        unsafe {
            let entered = inner::enter(outer);
            let mut space: MaybeUninit<Table> = MaybeUninit::uninit();
            let shadow = space.write(Table {
                entry: ptr::read(table),
                routine: ptr::read((*table).rd_tableam),
                real: table,
                outer,
            });
            shadow.routine.index_build_range_scan = Some(build_range_scan);
            shadow.entry.rd_tableam = &shadow.routine;
            cache(entered.index, true, table);
            let result = nbtree().ambuild.unwrap_unchecked()((&raw mut *shadow).cast(), entered.rel(), info);
            cache(entered.index, false, table);
            entered.leave();
            result
        }
    }

    /// The initial fork of an unlogged index.
    pub fn build_empty(outer: sys::Relation) {
        // SAFETY: the contract of the callback.
        unsafe {
            let entered = inner::enter(outer);
            nbtree().ambuildempty.unwrap_unchecked()(entered.rel());
            entered.leave();
        }
    }

    pub fn insert(
        outer: sys::Relation,
        values: *mut Datum,
        nulls: *mut bool,
        tid: sys::ItemPointer,
        table: sys::Relation,
        check_unique: sys::IndexUniqueCheck,
        index_unchanged: bool,
        info: *mut sys::IndexInfo,
    ) -> bool {
        // SAFETY: the contract of the callback.
        unsafe {
            let entered = inner::enter(outer);
            let mut sealed: Values = [0; sys::INDEX_MAX_KEYS as usize];
            seal(entered.index, values, nulls, &mut sealed);
            let insert = nbtree().aminsert.unwrap_unchecked();
            let unique =
                insert(entered.rel(), sealed.as_mut_ptr(), nulls, tid, table, check_unique, index_unchanged, info);
            entered.leave();
            unique
        }
    }
}
