//! Functions about relations.

use core::ffi::CStr;

use crate::pg::{sys, tuple, Datum, Oid, INVALID_OID};
use crate::pg_function;

pg_function! {
    /// `vault_tde.is_encrypted(regclass) returns bool`: whether the relation's own rows are stored encrypted; NULL for a
    /// relation that stores none (a view, a partitioned table) and for one that does not exist.
    fn vault_tde_is_encrypted[pg_finfo_vault_tde_is_encrypted](call) {
        // SAFETY: a syscache look-up in a transaction; the tuple is read before it is released.
        let encrypted = unsafe {
            let tuple = sys::SearchSysCache1(sys::RELOID as _, call.datum(0));
            if tuple.is_null() {
                return call.null();
            }
            let class: *const sys::FormData_pg_class = tuple::body(tuple);
            let (kind, method) = ((*class).relkind as u8, (*class).relam);
            sys::ReleaseSysCache(tuple);
            has_storage(kind).then(|| is_encrypted_method(method))
        };
        match encrypted {
            Some(encrypted) => Datum::from(encrypted),
            None => call.null(),
        }
    }
}

/// `RELKIND_HAS_STORAGE`
fn has_storage(kind: u8) -> bool {
    matches!(
        kind,
        sys::RELKIND_RELATION
            | sys::RELKIND_INDEX
            | sys::RELKIND_SEQUENCE
            | sys::RELKIND_TOASTVALUE
            | sys::RELKIND_MATVIEW
    )
}

/// Whether `method` is one of our access methods.
unsafe fn is_encrypted_method(method: Oid) -> bool {
    // SAFETY: syscache look-ups in a transaction.
    let is = |name: &CStr| unsafe { method == sys::get_table_am_oid(name.as_ptr(), true) };
    method != INVALID_OID && (is(c"encrypted_heap") || is(c"encrypted_toast") || method == crate::index::method_oid())
}
