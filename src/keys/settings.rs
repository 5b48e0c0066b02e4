//! The variables behind the configuration parameters of the keys; `sql/guc.rs` defines the parameters.

use core::ffi::{c_char, c_int, CStr};

use crate::pg::BackendCell;

/// `pg_vault_tde.key_provider`: a number of `provider::Provider`.
pub static KEY_PROVIDER: BackendCell<c_int> = BackendCell::new(0);
/// `pg_vault_tde.key_file`
pub static KEY_FILE: BackendCell<*mut c_char> = BackendCell::new(core::ptr::null_mut());
/// `pg_vault_tde.key_cache_size`
pub static KEY_CACHE_SIZE: BackendCell<c_int> = BackendCell::new(KEY_CACHE_SIZE_DEFAULT);

/// `pg_vault_tde.rows_per_key_warning`
pub static ROWS_PER_KEY_WARNING: BackendCell<c_int> = BackendCell::new(ROWS_PER_KEY_WARNING_DEFAULT);

/// Half of what one key should encrypt at most.
pub const ROWS_PER_KEY_WARNING_DEFAULT: c_int = c_int::MAX;
pub const KEY_CACHE_SIZE_DEFAULT: c_int = 256;
pub const KEY_CACHE_SIZE_MAX: c_int = 65536;

/// The path of the key file; empty if none is set. A copy: the setting's own text goes with the next reload.
pub fn key_file() -> Vec<u8> {
    let text = KEY_FILE.get();
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: guc.c keeps the value, NUL-terminated, until the setting changes.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

pub fn key_cache_size() -> usize {
    usize::try_from(KEY_CACHE_SIZE.get()).unwrap_or(0)
}

pub fn rows_per_key_warning() -> u64 {
    u64::try_from(ROWS_PER_KEY_WARNING.get()).unwrap_or(0)
}
