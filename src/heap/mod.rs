//! `encrypted_heap`, one file a stage of a row's life.

pub mod row;

use crate::pg::sys;

/// Whether the relation's rows are stored by `encrypted_heap`.
///
/// # Safety
/// `rel` must be an open relation.
pub unsafe fn is_encrypted(_rel: sys::Relation) -> bool {
    todo!()
}
