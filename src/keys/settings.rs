//! The variables behind the configuration parameters of the keys; `sql/guc.rs` defines the parameters.

use core::ffi::{c_char, c_int, CStr};
use core::time::Duration;

use crate::pg::BackendCell;

/// `pg_vault_tde.key_provider`: a number of `provider::Provider`.
pub static KEY_PROVIDER: BackendCell<c_int> = BackendCell::new(0);
/// `pg_vault_tde.key_file`
pub static KEY_FILE: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_addr`
pub static VAULT_ADDR: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_namespace`
pub static VAULT_NAMESPACE: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_transit_mount`
pub static VAULT_TRANSIT_MOUNT: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_key_name`
pub static VAULT_KEY_NAME: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_token_file`
pub static VAULT_TOKEN_FILE: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_role_id`
pub static VAULT_ROLE_ID: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_secret_id_file`
pub static VAULT_SECRET_ID_FILE: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_ca_cert`
pub static VAULT_CA_CERT: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.vault_timeout`, in milliseconds
pub static VAULT_TIMEOUT: BackendCell<c_int> = BackendCell::new(VAULT_TIMEOUT_DEFAULT);
/// `pg_vault_tde.key_cache_size`
pub static KEY_CACHE_SIZE: BackendCell<c_int> = BackendCell::new(KEY_CACHE_SIZE_DEFAULT);

/// `pg_vault_tde.plaintext_cache`, in kilobytes
pub static PLAINTEXT_CACHE: BackendCell<c_int> = BackendCell::new(PLAINTEXT_CACHE_DEFAULT);

/// `pg_vault_tde.rows_per_key_warning`
pub static ROWS_PER_KEY_WARNING: BackendCell<c_int> = BackendCell::new(ROWS_PER_KEY_WARNING_DEFAULT);

/// Half of what one key should encrypt at most.
pub const ROWS_PER_KEY_WARNING_DEFAULT: c_int = c_int::MAX;
pub const VAULT_TIMEOUT_DEFAULT: c_int = 5_000;
pub const VAULT_TIMEOUT_MIN: c_int = 100;
pub const VAULT_TIMEOUT_MAX: c_int = 600_000;
pub const KEY_CACHE_SIZE_DEFAULT: c_int = 256;
pub const KEY_CACHE_SIZE_MAX: c_int = 65536;
pub const PLAINTEXT_CACHE_DEFAULT: c_int = 4096;
pub const PLAINTEXT_CACHE_MAX: c_int = 1024 * 1024;
/// Less is none: a page for each size of place.
const PLAINTEXT_CACHE_MIN: usize = 64;

/// The path of the key file; empty if none is set.
pub fn key_file() -> Vec<u8> {
    text(&KEY_FILE)
}

/// A copy of a setting's text, which itself goes with the next reload; empty if none is set.
pub fn text(setting: &BackendCell<*mut c_char>) -> Vec<u8> {
    let text = setting.get();
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: guc.c keeps the value, NUL-terminated, until the setting changes.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

/// `pg_vault_tde.vault_timeout`
pub fn vault_timeout() -> Duration {
    Duration::from_millis(u64::try_from(VAULT_TIMEOUT.get()).unwrap_or(0))
}

pub fn key_cache_size() -> usize {
    usize::try_from(KEY_CACHE_SIZE.get()).unwrap_or(0)
}

/// `pg_vault_tde.plaintext_cache` in bytes: a power of two, or 0.
pub fn plaintext_cache() -> usize {
    match usize::try_from(PLAINTEXT_CACHE.get()).unwrap_or(0) {
        0..PLAINTEXT_CACHE_MIN => 0,
        kilobytes => 1024 << kilobytes.ilog2(),
    }
}

pub fn rows_per_key_warning() -> u64 {
    u64::try_from(ROWS_PER_KEY_WARNING.get()).unwrap_or(0)
}
