//! pg_vault_tde: encrypted tables on unpatched PostgreSQL, and the output plugin that decodes them.
//! This file holds the library's doors and nothing else.

mod crypto;
mod decode;
mod heap;
mod index;
mod keys;
mod maintenance;
mod pg;
mod sql;
mod stats;
mod toast;

use pg::error::OBJECT_NOT_IN_PREREQUISITE_STATE;
use pg::sys;

/// What the library keeps in shared memory.
static SEGMENTS: [&pg::shmem::Segment; 3] = [&keys::shared::SEGMENT, &maintenance::progress::SEGMENT, &stats::SEGMENT];

/// The server has loaded the library at its start.
static PRELOADED: pg::BackendCell<bool> = pg::BackendCell::new(false);

/// Raises an ERROR unless the library was preloaded. Called first by everything that SQL or logical decoding can call.
#[inline]
pub fn require_preloaded() {
    if !PRELOADED.get() {
        pg_error!(OBJECT_NOT_IN_PREREQUISITE_STATE, "pg_vault_tde must be loaded through \"shared_preload_libraries\"";
            hint: ("Add pg_vault_tde to \"shared_preload_libraries\" in postgresql.conf and restart the server."));
    }
}

pg_callback! {
    /// The magic block by which the server knows that this library was built for it.
    #[no_mangle]
    pub fn Pg_magic_func() -> *const sys::Pg_magic_struct {
        // SAFETY: returns the address of a constant.
        unsafe { sys::pgv_magic() }
    }

    /// Called when the server loads the library. Only at its start can shared memory be had and hooks be set. A later attempt
    /// does nothing, and whatever is called then refuses by [`require_preloaded`], but for the handler of `encrypted_btree`.
    #[no_mangle]
    pub fn _PG_init() {
        // SAFETY: a plain variable of the server.
        if unsafe { !sys::process_shared_preload_libraries_in_progress } {
            return;
        }
        PRELOADED.set(true);
        sql::guc::define();
        sql::utility::register();
        sql::plaintext_indexes::register();
        sql::reused_indexes::register();
        pg::shmem::register(&SEGMENTS);
        keys::register();
        stats::register();
        heap::register();
        index::register();
        toast::routine::register();
        decode::guard::register();
    }
}

pg_function! {
    /// `vault_tde.encrypted_toast_handler(internal) returns table_am_handler`
    fn encrypted_toast_handler[pg_finfo_encrypted_toast_handler](_call) {
        toast::routine::routine() as pg::Datum
    }

    /// `vault_tde.encrypted_heap_handler(internal) returns table_am_handler`
    fn encrypted_heap_handler[pg_finfo_encrypted_heap_handler](_call) {
        decode::guard::check();
        heap::routine() as pg::Datum
    }
}

pg_handler! {
    /// `vault_tde.encrypted_btree_handler(internal) returns index_am_handler`. Since 18 the planner asks for the properties of
    /// every index access method that has an operator, an integer's "<" say, in one of its families. So this must answer
    /// in a server that has not preloaded the library, too, or no query of the database could be planned there.
    fn encrypted_btree_handler[pg_finfo_encrypted_btree_handler](_call) {
        index::routine::routine() as pg::Datum
    }
}

pg_callback! {
    /// The output plugin's door: called once for each decoding session.
    #[no_mangle]
    pub fn _PG_output_plugin_init(table: *mut sys::OutputPluginCallbacks) {
        require_preloaded();
        // SAFETY: logical decoding passes its table of callbacks.
        unsafe { decode::init(table) }
    }
}
