//! From a data key to the key of one relation: HKDF-SHA256 (RFC 5869).
//!
//! Rows are never encrypted under a data key itself. Each relation has a key of its own, so the
//! 2^32 messages that random IVs allow under one key are counted by relation and generation, and
//! ciphertext that is moved to another relation, or from a table to a TOAST table, does not
//! authenticate.

use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::pkey::Id;
use openssl::pkey_ctx::PkeyCtx;
use zeroize::Zeroizing;

use super::cipher::{Key, KEY_LEN};

/// Label of the keys of tables; the OID is the table's.
pub const LABEL_HEAP: &[u8] = b"pg_vault_tde heap v1";
/// Label of the keys of TOAST tables; the OID is the TOAST table's.
pub const LABEL_TOAST: &[u8] = b"pg_vault_tde toast v1";
/// Label of the keys of indexes; the OID is the index's.
pub const LABEL_INDEX: &[u8] = b"pg_vault_tde index v1";

/// Why a key could not be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfError {
    /// OpenSSL failed: out of memory, no HKDF in its providers, or more output asked for than HKDF
    /// gives (8160 bytes).
    Library,
}

impl From<ErrorStack> for KdfError {
    fn from(_: ErrorStack) -> KdfError {
        // Making the ErrorStack has emptied OpenSSL's queue.
        KdfError::Library
    }
}

/// The key of relation `oid` under the data key `dek`: HKDF-SHA256 without salt, info = `label`,
/// then `oid` big-endian.
///
/// `label` is one of the `LABEL_` constants. Takes microseconds and allocates: keep the
/// [`super::Cipher`] made of it. Errors: [`KdfError::Library`].
pub fn derive(dek: &Key, label: &[u8], oid: u32) -> Result<Zeroizing<Key>, KdfError> {
    let info = [label, &oid.to_be_bytes()].concat();
    let mut key = Zeroizing::new([0; KEY_LEN]);
    hkdf(dek, &[], &info, key.as_mut_slice())?;
    Ok(key)
}

/// HKDF-SHA256 of RFC 5869, extract and expand, into all of `out` (at most 8160 bytes).
///
/// An empty `salt` means none. Errors: [`KdfError::Library`].
pub fn hkdf(ikm: &[u8], salt: &[u8], info: &[u8], out: &mut [u8]) -> Result<(), KdfError> {
    let mut ctx = PkeyCtx::new_id(Id::HKDF)?;
    ctx.derive_init()?;
    ctx.set_hkdf_md(Md::sha256())?;
    ctx.set_hkdf_key(ikm)?;
    ctx.set_hkdf_salt(salt)?;
    ctx.add_hkdf_info(info)?;
    ctx.derive(Some(out))?;
    Ok(())
}
