//! Functions about keys.

use crate::keys;
use crate::pg::error::INTERNAL_ERROR;
use crate::pg::{sys, Datum};
use crate::{pg_error, pg_function};

pg_function! {
    /// `vault_tde.rotate_key() returns int`
    fn vault_tde_rotate_key[pg_finfo_vault_tde_rotate_key](_call) {
        keys::rotate() as Datum
    }

    /// Trigger of `vault_tde.data_keys`: sessions drop their rings also when a superuser changes the table by hand.
    fn vault_tde_data_keys_changed[pg_finfo_vault_tde_data_keys_changed](call) {
        // SAFETY: the context is checked to be that of a trigger before it is read as one.
        unsafe {
            let context = (*call.0).context;
            if context.is_null() || (*context).type_ != sys::T_TriggerData {
                pg_error!(INTERNAL_ERROR, "not called by the trigger manager");
            }
            sys::CacheInvalidateRelcache((*context.cast::<sys::TriggerData>()).tg_relation);
        }
        0
    }
}
