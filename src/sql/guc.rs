//! The configuration parameters `pg_vault_tde.*`. Only those that have an effect are defined.

use core::ffi::{c_char, c_int};
use core::ptr;

use crate::decode::inner;
use crate::keys::provider::Provider;
use crate::keys::settings;
use crate::pg::{sys, BackendCell};

const fn option(name: *const c_char, value: c_int) -> sys::config_enum_entry {
    sys::config_enum_entry { name, val: value, hidden: false }
}

/// The values of `pg_vault_tde.key_provider`, which guc.c keeps a pointer to.
static KEY_PROVIDERS: BackendCell<[sys::config_enum_entry; 2]> =
    BackendCell::new([option(c"file".as_ptr(), Provider::File as c_int), option(ptr::null(), 0)]);

/// Defines all parameters. Called once, by `_PG_init`.
pub fn define() {
    // SAFETY: names and texts are literals, variables and option lists statics; guc.c keeps pointers to them.
    unsafe {
        sys::DefineCustomEnumVariable(
            c"pg_vault_tde.key_provider".as_ptr(),
            c"Wraps the data keys that are made from now on.".as_ptr(),
            c"Data keys that exist are unwrapped by the provider that has wrapped them.".as_ptr(),
            settings::KEY_PROVIDER.as_ptr(),
            Provider::File as c_int,
            KEY_PROVIDERS.as_ptr().cast(),
            sys::PGC_SIGHUP,
            0,
            None,
            None,
            None,
        );
        sys::DefineCustomStringVariable(
            c"pg_vault_tde.key_file".as_ptr(),
            c"File that holds the key-encryption key of the key provider \"file\".".as_ptr(),
            c"64 hexadecimal digits, mode 0600, owned by the server's user. A relative path is relative to the data directory, which base backups copy, so keep the file elsewhere."
                .as_ptr(),
            settings::KEY_FILE.as_ptr(),
            c"".as_ptr(),
            sys::PGC_SIGHUP,
            sys::GUC_SUPERUSER_ONLY as c_int,
            None,
            None,
            None,
        );
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.key_cache_size".as_ptr(),
            c"Number of unwrapped data keys that the server keeps in shared memory.".as_ptr(),
            c"When it is used up, each session asks the key provider for itself.".as_ptr(),
            settings::KEY_CACHE_SIZE.as_ptr(),
            settings::KEY_CACHE_SIZE_DEFAULT,
            1,
            settings::KEY_CACHE_SIZE_MAX,
            sys::PGC_POSTMASTER,
            0,
            None,
            None,
            None,
        );
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.rows_per_key_warning".as_ptr(),
            c"Number of encrypted rows of a relation from which on VACUUM warns that it needs a new key.".as_ptr(),
            c"One key should not encrypt more than 4294967296 rows of a relation.".as_ptr(),
            settings::ROWS_PER_KEY_WARNING.as_ptr(),
            settings::ROWS_PER_KEY_WARNING_DEFAULT,
            1,
            c_int::MAX,
            sys::PGC_SUSET,
            0,
            None,
            None,
            None,
        );
        sys::DefineCustomStringVariable(
            c"pg_vault_tde.inner_plugins".as_ptr(),
            c"Output plugins that may format the changes that pg_vault_tde has decrypted.".as_ptr(),
            c"Any user with REPLICATION may have a listed plugin loaded.".as_ptr(),
            inner::ALLOWED.as_ptr(),
            inner::ALLOWED_DEFAULT.as_ptr(),
            sys::PGC_SUSET,
            sys::GUC_LIST_INPUT as c_int,
            None,
            None,
            None,
        );
        sys::MarkGUCPrefixReserved(c"pg_vault_tde".as_ptr());
    }
}
