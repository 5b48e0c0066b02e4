//! Relations: the macros of rel.h that Rust needs.

use core::ffi::c_char;

use super::fmgr::str_of;
use super::sys;
use super::{Oid, INVALID_OID};

pub use sys::Relation;

/// `RelationGetRelid(rel)`
///
/// # Safety
/// `rel` must be an open relation.
#[inline]
pub unsafe fn oid(rel: Relation) -> Oid {
    // SAFETY: the caller's promise.
    unsafe { (*rel).rd_id }
}

/// The relation's name, for messages; valid while the relation is open.
///
/// # Safety
/// `rel` must be an open relation.
pub unsafe fn name<'a>(rel: Relation) -> &'a str {
    // SAFETY: rd_rel of an open relation is set, and relname is NUL-terminated.
    unsafe { str_of((&raw const (*(*rel).rd_rel).relname.data).cast()) }
}

/// The table's column that key column `i`, from 0, of an index is; 0 for an expression.
///
/// # Safety
/// `index` must be an open index with more than `i` columns.
pub unsafe fn key_column(index: Relation, i: usize) -> i16 {
    // SAFETY: the caller's promise.
    unsafe { *(*(*index).rd_index).indkey.values.as_ptr().add(i) }
}

/// Schema and name of a decoded change's table: for the transient heap of a rewrite, those of the table being rewritten. In
/// the current memory context or valid while the relation is open; the schema is null if it is not found.
///
/// # Safety
/// `rel` must be open, in a transaction.
pub unsafe fn shown_name(rel: Relation) -> (*const c_char, *const c_char) {
    // SAFETY: rd_rel of an open relation is set, and relname is NUL-terminated.
    unsafe {
        let class = (*rel).rd_rel;
        let name = match (*class).relrewrite {
            INVALID_OID => (&raw const (*class).relname.data).cast(),
            rewritten => sys::get_rel_name(rewritten).cast_const(),
        };
        (sys::get_namespace_name((*class).relnamespace), name)
    }
}

/// The OID that the key of a relation's rows is bound to: its own, or that of the relation whose rewrite it is the
/// transient heap of (the storage becomes that relation's when the rewrite ends).
///
/// # Safety
/// `rel` must be an open relation.
#[inline]
pub unsafe fn key_oid(rel: Relation) -> Oid {
    // SAFETY: rd_rel of an open relation is set.
    unsafe {
        match (*(*rel).rd_rel).relrewrite {
            INVALID_OID => (*rel).rd_id,
            original => original,
        }
    }
}

/// `RelationIsLogicallyLogged(rel)` for a user relation that is about to be written to.
///
/// # Safety
/// `rel` must be an open relation, in a transaction.
pub unsafe fn is_logically_logged(rel: Relation) -> bool {
    // SAFETY: reads configuration and the relation's catalog row.
    unsafe { needs_wal(rel) && super::majors::logical_wal() }
}

/// `RelationNeedsWAL(rel)`
///
/// # Safety
/// `rel` must be an open relation.
pub unsafe fn needs_wal(rel: Relation) -> bool {
    // SAFETY: rd_rel of an open relation is set.
    unsafe {
        (*(*rel).rd_rel).relpersistence as u8 == sys::RELPERSISTENCE_PERMANENT
            && (sys::wal_level > sys::WAL_LEVEL_MINIMAL as i32
                || ((*rel).rd_createSubid == 0 && (*rel).rd_firstRelfilelocatorSubid == 0))
    }
}

/// `RELATION_IS_OTHER_TEMP(rel)`
///
/// # Safety
/// `rel` must be an open relation.
pub unsafe fn is_other_temp(rel: Relation) -> bool {
    // SAFETY: rd_rel of an open relation is set.
    unsafe { (*(*rel).rd_rel).relpersistence as u8 == sys::RELPERSISTENCE_TEMP && !(*rel).rd_islocaltemp }
}
