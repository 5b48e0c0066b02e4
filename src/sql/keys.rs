//! Functions about keys.

use crate::keys;
use crate::pg::{sys, Datum};
use crate::pg_function;
use crate::sql::maintenance::refuse_restricted_operation;

pg_function! {
    /// `vault_tde.rotate_key() returns int`
    fn vault_tde_rotate_key[pg_finfo_vault_tde_rotate_key](_call) {
        refuse_restricted_operation("vault_tde.rotate_key()");
        keys::rotate() as Datum
    }

    /// `vault_tde.rewrap_keys() returns int`
    fn vault_tde_rewrap_keys[pg_finfo_vault_tde_rewrap_keys](_call) {
        refuse_restricted_operation("vault_tde.rewrap_keys()");
        keys::rewrap() as Datum
    }

    /// `vault_tde.data_keys_rows()`: the rows of `vault_tde.data_keys`, the query of which it is. So a REFRESH changes nothing.
    fn vault_tde_data_keys_rows[pg_finfo_vault_tde_data_keys_rows](call) {
        // SAFETY: fcinfo of a set-returning function, whose result has the key table's columns.
        unsafe {
            sys::InitMaterializedSRF(call.0, 0);
            let info: *mut sys::ReturnSetInfo = (*call.0).resultinfo.cast();
            keys::copy_rows((*info).setResult);
        }
        0
    }
}
