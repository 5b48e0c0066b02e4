//! The variables of the configuration parameters.

use core::ffi::c_int;

use crate::pg::BackendCell;

/// What to do when an index on an encrypted table keeps its keys in the clear.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Plaintext {
    Notice,
    Allow,
    Error,
}

/// `pg_vault_tde.encrypt_indexes`
pub static ENCRYPT: BackendCell<bool> = BackendCell::new(ENCRYPT_DEFAULT);
pub const ENCRYPT_DEFAULT: bool = true;

/// `pg_vault_tde.plaintext_indexes`
pub static PLAINTEXT: BackendCell<c_int> = BackendCell::new(Plaintext::Notice as c_int);

pub fn plaintext() -> Plaintext {
    match PLAINTEXT.get() {
        value if value == Plaintext::Allow as c_int => Plaintext::Allow,
        value if value == Plaintext::Error as c_int => Plaintext::Error,
        _ => Plaintext::Notice,
    }
}
