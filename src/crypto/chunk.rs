//! The stored form of a piece of an out-of-line value: what `chunk_data` of a TOAST table holds, and what logical
//! messages carry.
//!
//! `G (1) | IV (12) | ciphertext | tag (16)`; value id and sequence number are authenticated, so that chunks cannot be
//! reordered or moved between values. G is the low byte of the key generation, as in a row's header.

use core::mem::MaybeUninit;

use super::cipher::{Cipher, CipherError, Iv, Tag, IV_LEN, TAG_LEN};

/// Bytes that a chunk is longer than its plaintext.
pub const CHUNK_OVERHEAD: usize = 1 + IV_LEN + TAG_LEN;

/// Where the ciphertext begins.
const TEXT_OFFSET: usize = 1 + IV_LEN;

/// Why a chunk could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// Too short to be a chunk.
    NotEncrypted,
    /// Altered bytes, another place, or another key.
    Authentication,
    /// OpenSSL failed.
    Cipher(CipherError),
}

/// What is authenticated beside the ciphertext.
fn associated_data(value_id: u32, seq: u32) -> [u8; 8] {
    let mut data = [0; 8];
    data[..4].copy_from_slice(&value_id.to_be_bytes());
    data[4..].copy_from_slice(&seq.to_be_bytes());
    data
}

/// Bytes of the plaintext in a stored chunk of `stored_len` bytes; `None` if there is no room for any.
pub const fn plain_len(stored_len: usize) -> Option<usize> {
    stored_len.checked_sub(CHUNK_OVERHEAD)
}

/// Encrypts a piece of a value to `out`, which must be `plain.len() + CHUNK_OVERHEAD` bytes long.
pub fn seal(
    cipher: &mut Cipher,
    iv: &Iv,
    generation: u8,
    (value_id, seq): (u32, u32),
    plain: &[u8],
    out: &mut [MaybeUninit<u8>],
) -> Result<(), CipherError> {
    if out.len() != plain.len() + CHUNK_OVERHEAD {
        return Err(CipherError::BufferLength);
    }
    let (head, rest) = out.split_at_mut(TEXT_OFFSET);
    let (text, tail) = rest.split_at_mut(plain.len());
    let mut tag: Tag = [0; TAG_LEN];
    cipher.encrypt(iv, &associated_data(value_id, seq), plain, text, &mut tag)?;
    head[0].write(generation);
    for (to, from) in head[1..].iter_mut().zip(iv) {
        to.write(*from);
    }
    for (to, from) in tail.iter_mut().zip(&tag) {
        to.write(*from);
    }
    Ok(())
}

/// Decrypts a stored chunk to `out`, which must be `plain_len(stored.len())` bytes long and is zeroed on failure.
pub fn open(
    cipher: &mut Cipher,
    (value_id, seq): (u32, u32),
    stored: &[u8],
    out: &mut [MaybeUninit<u8>],
) -> Result<(), ChunkError> {
    let Some(len) = plain_len(stored.len()) else {
        return Err(ChunkError::NotEncrypted);
    };
    let mut iv: Iv = [0; IV_LEN];
    iv.copy_from_slice(&stored[1..TEXT_OFFSET]);
    let (text, tail) = stored[TEXT_OFFSET..].split_at(len);
    let mut tag: Tag = [0; TAG_LEN];
    tag.copy_from_slice(tail);
    cipher.decrypt(&iv, &associated_data(value_id, seq), text, &tag, out).map_err(|problem| match problem {
        CipherError::Authentication => ChunkError::Authentication,
        other => ChunkError::Cipher(other),
    })
}

/// The low byte of the generation whose key the chunk needs; `None` if the bytes cannot be a chunk.
pub fn generation_byte(stored: &[u8]) -> Option<u8> {
    plain_len(stored.len()).map(|_| stored[0])
}
