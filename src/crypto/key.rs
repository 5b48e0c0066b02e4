//! The stored form of one column's value in an encrypted index: what the datum of type `vault_tde.encrypted_key` holds
//! behind its length.
//!
//! ```text
//! | index OID (4) | column (1) | G (1) | IV (12) | ciphertext (N) | tag (16) |
//! ```
//!
//! The index OID is part of what the key is derived from, the column is authenticated, so a key of another index or another
//! column does not open. Neither is secret; they are there so that a comparison can tell a key that belongs here from
//! anything else. G is the low byte of the key generation, as in a row's header. The column's highest bit says that
//! the plaintext is a compressed value.

use core::mem::MaybeUninit;

use super::cipher::{Cipher, CipherError, Iv, Tag, IV_LEN, TAG_LEN};

/// Bytes that a key is longer than its plaintext.
pub const KEY_OVERHEAD: usize = TEXT_OFFSET + TAG_LEN;

/// Where the column is.
pub const COLUMN_OFFSET: usize = 4;
const GENERATION_OFFSET: usize = COLUMN_OFFSET + 1;
const IV_OFFSET: usize = GENERATION_OFFSET + 1;
const TEXT_OFFSET: usize = IV_OFFSET + IV_LEN;

/// The bit of `column` that says "compressed".
pub const COMPRESSED: u8 = 0x80;

/// Why a key could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// Too short to be a key.
    NotEncrypted,
    /// Altered bytes, another index or column, or another data key.
    Authentication,
    /// OpenSSL failed.
    Cipher(CipherError),
}

/// Where a key belongs: its index and its column with the compression bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub index: u32,
    pub column: u8,
}

/// Bytes of the plaintext in a stored key of `stored_len` bytes; `None` if it is too short to be one.
#[inline]
pub const fn plain_len(stored_len: usize) -> Option<usize> {
    stored_len.checked_sub(KEY_OVERHEAD)
}

/// What a stored key says about its place; `None` if the bytes are too short to be one.
#[inline]
pub fn place(stored: &[u8]) -> Option<Place> {
    let (index, _) = stored.split_first_chunk::<COLUMN_OFFSET>()?;
    plain_len(stored.len()).map(|_| Place { index: u32::from_ne_bytes(*index), column: stored[COLUMN_OFFSET] })
}

/// The low byte of the generation whose key is needed; `None` if the bytes are too short to be one.
#[inline]
pub fn generation_byte(stored: &[u8]) -> Option<u8> {
    plain_len(stored.len()).map(|_| stored[GENERATION_OFFSET])
}

/// Encrypts a value to `out`, which must be `plain.len() + KEY_OVERHEAD` bytes long and is then initialised.
///
/// Errors: [`CipherError`].
#[inline]
pub fn seal(
    cipher: &mut Cipher,
    iv: &Iv,
    generation: u8,
    place: Place,
    plain: &[u8],
    out: &mut [MaybeUninit<u8>],
) -> Result<(), CipherError> {
    const WRONG: CipherError = CipherError::BufferLength;
    let (head, rest) = out.split_first_chunk_mut::<TEXT_OFFSET>().ok_or(WRONG)?;
    let (text, tail) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(WRONG)?;
    let mut tag: Tag = [0; TAG_LEN];
    cipher.encrypt(iv, &[place.column], plain, text, &mut tag)?;
    let mut bytes = [0; TEXT_OFFSET];
    bytes[..COLUMN_OFFSET].copy_from_slice(&place.index.to_ne_bytes());
    bytes[COLUMN_OFFSET] = place.column;
    bytes[GENERATION_OFFSET] = generation;
    bytes[IV_OFFSET..].copy_from_slice(iv);
    *head = bytes.map(MaybeUninit::new);
    *tail = tag.map(MaybeUninit::new);
    Ok(())
}

/// Decrypts a stored key to `out`, which must be `plain_len(stored.len())` bytes long and is zeroed on failure. The caller
/// compares [`place`] with where it has found the key.
///
/// Errors: all of [`KeyError`].
#[inline]
pub fn open(cipher: &mut Cipher, stored: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), KeyError> {
    let (head, rest) = stored.split_first_chunk::<TEXT_OFFSET>().ok_or(KeyError::NotEncrypted)?;
    let (text, tag) = rest.split_last_chunk::<TAG_LEN>().ok_or(KeyError::NotEncrypted)?;
    let (_, iv) = head.split_last_chunk::<IV_LEN>().ok_or(KeyError::NotEncrypted)?;
    cipher.decrypt(iv, &[head[COLUMN_OFFSET]], text, tag, out).map_err(|problem| match problem {
        CipherError::Authentication => KeyError::Authentication,
        other => KeyError::Cipher(other),
    })
}
