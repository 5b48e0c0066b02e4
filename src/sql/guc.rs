//! The configuration parameters `pg_vault_tde.*`. Only those that have an effect are defined.

use core::ffi::{c_char, c_int, c_void, CStr};
use core::ptr;

use crate::decode::inner;
use crate::index::settings::{self, Plaintext};
use crate::keys::provider::Provider;
use crate::keys::settings as keys;
use crate::pg::{sys, BackendCell};
use crate::{pg_callback, stats};

const fn option(name: *const c_char, value: c_int) -> sys::config_enum_entry {
    sys::config_enum_entry { name, val: value, hidden: false }
}

/// The values of `pg_vault_tde.key_provider`, which guc.c keeps a pointer to.
static KEY_PROVIDERS: BackendCell<[sys::config_enum_entry; 3]> = BackendCell::new([
    option(c"file".as_ptr(), Provider::File as c_int),
    option(c"vault".as_ptr(), Provider::Vault as c_int),
    option(ptr::null(), 0),
]);

/// A parameter of the key provider "vault" that is a text: the configuration file sets it, and a reload is enough.
struct VaultSetting {
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    variable: &'static BackendCell<*mut c_char>,
    default: &'static CStr,
    /// Shown to superusers only.
    private: bool,
}

static VAULT_SETTINGS: [VaultSetting; 8] = [
    VaultSetting {
        name: c"pg_vault_tde.vault_addr",
        short: c"Address of the HashiCorp Vault or OpenBao server that wraps data keys.",
        long: c"As https://vault.example:8200. Plain http is for a proxy or agent on this machine.",
        variable: &keys::VAULT_ADDR,
        default: c"",
        private: false,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_namespace",
        short: c"Namespace of the Transit engine on that server.",
        long: c"",
        variable: &keys::VAULT_NAMESPACE,
        default: c"",
        private: false,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_transit_mount",
        short: c"Path at which the Transit engine is mounted.",
        long: c"",
        variable: &keys::VAULT_TRANSIT_MOUNT,
        default: c"transit",
        private: false,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_key_name",
        short: c"Name of the Transit key that wraps the data keys made from now on.",
        long: c"Data keys that exist are unwrapped by the key that has wrapped them, until vault_tde.rewrap_keys() is run.",
        variable: &keys::VAULT_KEY_NAME,
        default: c"",
        private: false,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_token_file",
        short: c"File that holds the token to use.",
        long: c"Mode 0600, owned by the server's user; read for each request, so an agent may renew it.",
        variable: &keys::VAULT_TOKEN_FILE,
        default: c"",
        private: true,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_role_id",
        short: c"Role id with which to log in by AppRole, instead of a token file.",
        long: c"",
        variable: &keys::VAULT_ROLE_ID,
        default: c"",
        private: true,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_secret_id_file",
        short: c"File that holds the secret id with which to log in by AppRole.",
        long: c"Mode 0600, owned by the server's user; read for each login.",
        variable: &keys::VAULT_SECRET_ID_FILE,
        default: c"",
        private: true,
    },
    VaultSetting {
        name: c"pg_vault_tde.vault_ca_cert",
        short: c"File with the certificates (PEM) that the server's certificate must be signed by.",
        long: c"If it is not set, those that the system trusts.",
        variable: &keys::VAULT_CA_CERT,
        default: c"",
        private: true,
    },
];

unsafe fn define_vault_settings() {
    // SAFETY: as for `define`.
    unsafe {
        for setting in &VAULT_SETTINGS {
            sys::DefineCustomStringVariable(
                setting.name.as_ptr(),
                setting.short.as_ptr(),
                if setting.long.is_empty() { ptr::null() } else { setting.long.as_ptr() },
                setting.variable.as_ptr(),
                setting.default.as_ptr(),
                sys::PGC_SIGHUP,
                if setting.private { sys::GUC_SUPERUSER_ONLY as c_int } else { 0 },
                None,
                None,
                None,
            );
        }
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.vault_timeout".as_ptr(),
            c"How long the key server may take to wrap or unwrap a data key, tries and retries together.".as_ptr(),
            ptr::null(),
            keys::VAULT_TIMEOUT.as_ptr(),
            keys::VAULT_TIMEOUT_DEFAULT,
            keys::VAULT_TIMEOUT_MIN,
            keys::VAULT_TIMEOUT_MAX,
            sys::PGC_SIGHUP,
            sys::GUC_UNIT_MS as c_int,
            None,
            None,
            None,
        );
    }
}

/// The values of `pg_vault_tde.plaintext_indexes`.
static PLAINTEXT_INDEXES: BackendCell<[sys::config_enum_entry; 4]> = BackendCell::new([
    option(c"notice".as_ptr(), Plaintext::Notice as c_int),
    option(c"allow".as_ptr(), Plaintext::Allow as c_int),
    option(c"error".as_ptr(), Plaintext::Error as c_int),
    option(ptr::null(), 0),
]);

pg_callback! {
    /// What was kept is given up; the next entry finds the new size.
    fn assign_plaintext_cache(_new: c_int, _extra: *mut c_void) {
        forget_plaintext();
    }
}

/// Gives up all plaintext that this backend has kept for later.
pub fn forget_plaintext() {
    crate::keys::forget_plaintext();
    crate::index::forget_plaintext();
}

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
            c"64 hexadecimal digits, mode 0600, owned by the server's user; older keys may follow on further lines. A relative path is relative to the data directory, which base backups copy, so keep the file elsewhere."
                .as_ptr(),
            keys::KEY_FILE.as_ptr(),
            c"".as_ptr(),
            sys::PGC_SIGHUP,
            sys::GUC_SUPERUSER_ONLY as c_int,
            None,
            None,
            None,
        );
        define_vault_settings();
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.key_cache_size".as_ptr(),
            c"Number of unwrapped data keys that the server keeps in shared memory.".as_ptr(),
            c"When there are more, key providers are asked more often.".as_ptr(),
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
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.plaintext_cache".as_ptr(),
            c"Memory of a session for decrypted rows of small tables and decrypted keys of indexes that it may need again.".as_ptr(),
            c"Rounded down to a power of two; 0 keeps none.".as_ptr(),
            keys::PLAINTEXT_CACHE.as_ptr(),
            keys::PLAINTEXT_CACHE_DEFAULT,
            0,
            keys::PLAINTEXT_CACHE_MAX,
            sys::PGC_SUSET,
            sys::GUC_UNIT_KB as c_int,
            None,
            Some(assign_plaintext_cache),
            None,
        );
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.rows_per_key_warning".as_ptr(),
            c"Number of encrypted rows of a relation from which on VACUUM warns that it needs a new key.".as_ptr(),
            c"One key should not encrypt more than 4294967296 rows of a relation.".as_ptr(),
            keys::ROWS_PER_KEY_WARNING.as_ptr(),
            keys::ROWS_PER_KEY_WARNING_DEFAULT,
            1,
            c_int::MAX,
            sys::PGC_SUSET,
            0,
            None,
            None,
            None,
        );
        sys::DefineCustomIntVariable(
            c"pg_vault_tde.stat_relations_max".as_ptr(),
            c"Number of relations whose encrypted and decrypted rows the server counts.".as_ptr(),
            c"When there are more, counters that were not used lately make room for others.".as_ptr(),
            stats::MAX_RELATIONS.as_ptr(),
            stats::MAX_DEFAULT,
            stats::MAX_MIN,
            stats::MAX_MAX,
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
