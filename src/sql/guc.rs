//! The configuration parameters `pg_vault_tde.*`. Only those that have an effect are defined.

use core::ffi::{c_char, c_int};
use core::ptr;

use crate::decode::inner;
use crate::index::settings::{self, Plaintext};
use crate::keys::provider::Provider;
use crate::keys::settings as keys;
use crate::pg::{sys, BackendCell};

const fn option(name: *const c_char, value: c_int) -> sys::config_enum_entry {
    sys::config_enum_entry { name, val: value, hidden: false }
}

/// The values of `pg_vault_tde.key_provider`, which guc.c keeps a pointer to.
static KEY_PROVIDERS: BackendCell<[sys::config_enum_entry; 2]> =
    BackendCell::new([option(c"file".as_ptr(), Provider::File as c_int), option(ptr::null(), 0)]);

/// The values of `pg_vault_tde.plaintext_indexes`.
static PLAINTEXT_INDEXES: BackendCell<[sys::config_enum_entry; 4]> = BackendCell::new([
    option(c"notice".as_ptr(), Plaintext::Notice as c_int),
    option(c"allow".as_ptr(), Plaintext::Allow as c_int),
    option(c"error".as_ptr(), Plaintext::Error as c_int),
    option(ptr::null(), 0),
]);

/// Defines all parameters. Called once, by `_PG_init`.
pub fn define() {
    // SAFETY: names and texts are literals, variables and option lists statics; guc.c keeps pointers to them.
    unsafe {
        sys::DefineCustomEnumVariable(
            c"pg_vault_tde.key_provider".as_ptr(),
            c"Wraps the data keys that are made from now on.".as_ptr(),
            c"Data keys that exist are unwrapped by the provider that has wrapped them.".as_ptr(),
            keys::KEY_PROVIDER.as_ptr(),
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
            keys::KEY_FILE.as_ptr(),
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
            keys::KEY_CACHE_SIZE.as_ptr(),
            keys::KEY_CACHE_SIZE_DEFAULT,
            1,
            keys::KEY_CACHE_SIZE_MAX,
            sys::PGC_POSTMASTER,
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
        sys::DefineCustomBoolVariable(
            c"pg_vault_tde.encrypt_indexes".as_ptr(),
            c"Makes the indexes of encrypted tables encrypted ones where they would be btree indexes.".as_ptr(),
            c"Those of constraints, too, but on PostgreSQL 17 no unique index.".as_ptr(),
            settings::ENCRYPT.as_ptr(),
            settings::ENCRYPT_DEFAULT,
            sys::PGC_USERSET,
            0,
            None,
            None,
            None,
        );
        sys::DefineCustomEnumVariable(
            c"pg_vault_tde.plaintext_indexes".as_ptr(),
            c"What to do when an index of an encrypted table keeps its keys in the clear.".as_ptr(),
            ptr::null(),
            settings::PLAINTEXT.as_ptr(),
            Plaintext::Notice as c_int,
            PLAINTEXT_INDEXES.as_ptr().cast(),
            sys::PGC_SUSET,
            0,
            None,
            None,
            None,
        );
        sys::MarkGUCPrefixReserved(c"pg_vault_tde".as_ptr());
    }
}
