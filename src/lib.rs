//! pg_vault_tde: encrypted tables on unpatched PostgreSQL, and the output plugin that decodes them.
//! This file holds the library's doors and nothing else.

mod crypto;
mod heap;
mod keys;
mod pg;
mod toast;

use pg::sys;

/// The module's magic block (`PG_MODULE_MAGIC`).
#[no_mangle]
#[allow(non_snake_case)]
pub extern "C-unwind" fn Pg_magic_func() -> *const sys::Pg_magic_struct {
    // SAFETY: the shim gives the address of a constant.
    unsafe { sys::pgv_magic() }
}

pg_callback! {
    /// Called once when the library is loaded.
    #[no_mangle]
    pub fn _PG_init() {
        heap::register();
        toast::routine::register();
    }
}

pg_function! {
    /// `vault_tde.encrypted_toast_handler(internal) returns table_am_handler`
    fn encrypted_toast_handler[pg_finfo_encrypted_toast_handler](_call) {
        toast::routine::routine() as pg::Datum
    }

    /// `vault_tde.encrypted_heap_handler(internal) returns table_am_handler`
    fn encrypted_heap_handler[pg_finfo_encrypted_heap_handler](_call) {
        heap::routine() as pg::Datum
    }
}
