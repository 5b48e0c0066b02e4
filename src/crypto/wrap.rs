//! A data key wrapped under the key-encryption key (KEK) of the `file` provider.
//!
//! ```text
//! | version = 1 (1) | IV (12) | ciphertext (32) | GCM tag (16) |      61 bytes
//! ```
//!
//! The AAD is the 16-byte id of the data key.

use std::mem::MaybeUninit;

use zeroize::Zeroizing;

use super::cipher::{Cipher, CipherError, Iv, Key, Tag, IV_LEN, KEY_LEN, TAG_LEN};

/// Bytes in a wrapped data key.
pub const WRAPPED_LEN: usize = 1 + IV_LEN + KEY_LEN + TAG_LEN;

/// The format that is written, and the only one that is read.
const VERSION: u8 = 1;

/// Identifies a data key: its UUID. A wrapping says nothing about any other key.
pub type KeyId = [u8; 16];

/// Why a data key could not be unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnwrapError {
    /// Not [`WRAPPED_LEN`] bytes of a version that is known.
    BadFormat,
    /// Wrapped under another KEK, for another key id, or changed since.
    Authentication,
    /// OpenSSL failed.
    Library,
}

/// Wraps `dek`, whose id is `key_id`, under `kek`. `iv` is fresh and random.
///
/// Errors: [`CipherError::Library`].
pub fn wrap(kek: &Key, key_id: &KeyId, dek: &Key, iv: &Iv) -> Result<[u8; WRAPPED_LEN], CipherError> {
    let mut ciphertext = [0; KEY_LEN];
    let mut tag = [0; TAG_LEN];
    Cipher::new(kek)?.encrypt(iv, key_id, dek, as_uninit(&mut ciphertext), &mut tag)?;

    let mut wrapped = [0; WRAPPED_LEN];
    wrapped[0] = VERSION;
    wrapped[1..][..IV_LEN].copy_from_slice(iv);
    wrapped[1 + IV_LEN..][..KEY_LEN].copy_from_slice(&ciphertext);
    wrapped[1 + IV_LEN + KEY_LEN..].copy_from_slice(&tag);
    Ok(wrapped)
}

/// The data key in `wrapped`, which [`wrap`] made with the same `kek` and `key_id`.
///
/// Errors: all of [`UnwrapError`].
pub fn unwrap(kek: &Key, key_id: &KeyId, wrapped: &[u8]) -> Result<Zeroizing<Key>, UnwrapError> {
    let (iv, ciphertext, tag) = split(wrapped).ok_or(UnwrapError::BadFormat)?;
    let mut dek = Zeroizing::new([0; KEY_LEN]);
    Cipher::new(kek).and_then(|mut cipher| cipher.decrypt(iv, key_id, ciphertext, tag, as_uninit(&mut dek))).map_err(
        |e| match e {
            CipherError::Authentication => UnwrapError::Authentication,
            _ => UnwrapError::Library,
        },
    )?;
    Ok(dek)
}

/// IV, ciphertext and tag of a wrapped key; None if it is not one.
fn split(wrapped: &[u8]) -> Option<(&Iv, &Key, &Tag)> {
    let rest = wrapped.strip_prefix(&[VERSION])?;
    let (iv, rest) = rest.split_first_chunk()?;
    let (ciphertext, tag) = rest.split_first_chunk()?;
    Some((iv, ciphertext, tag.try_into().ok()?))
}

/// `bytes` as a buffer that [`Cipher`] can write to.
fn as_uninit(bytes: &mut Key) -> &mut [MaybeUninit<u8>] {
    // SAFETY: same address, length and lifetime; Cipher writes only initialised bytes.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>; KEY_LEN]) }
}
