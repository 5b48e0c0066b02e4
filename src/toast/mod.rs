//! Out-of-line values: the toaster, which works on plaintext rows and stores ciphertext; the access method of the
//! encrypted TOAST tables, which reads it; and the messages that carry the same ciphertext to decoders.
//!
//! A TOAST table keeps core's shape. `chunk_id` and `chunk_seq` stay in the clear, so core's index, deletion and vacuum
//! work on it; `chunk_data` holds one piece of a value, encrypted on its own (`crypto/chunk.rs`), so that a slice
//! decrypts only what it touches.

pub mod fetch;
pub mod message;
pub mod old;
pub mod remove;
pub mod routine;
pub mod store;
pub mod toaster;

use crate::crypto::chunk::CHUNK_OVERHEAD;
use crate::pg::sizes::TOAST_MAX_CHUNK_SIZE;
use crate::pg::{sys, Oid, INVALID_OID};

/// Bytes of a value in each of its chunks but the last.
pub const PIECE_SIZE: usize = TOAST_MAX_CHUNK_SIZE - CHUNK_OVERHEAD;

/// The number of pieces of a value of `size` stored bytes.
pub const fn pieces(size: u32) -> u32 {
    size.div_ceil(PIECE_SIZE as u32)
}

/// Plaintext bytes in piece `seq` of a value of `size` bytes.
pub const fn piece_len(size: u32, seq: u32) -> usize {
    let before = seq as usize * PIECE_SIZE;
    let rest = size as usize - before;
    if rest < PIECE_SIZE {
        rest
    } else {
        PIECE_SIZE
    }
}

/// The OID that the keys of a TOAST table's chunks are bound to: the one that the pointers carry, which during a rewrite
/// is that of the table whose storage it will become.
///
/// # Safety
/// `rel` must be an open relation with a TOAST table.
pub unsafe fn key_oid(rel: sys::Relation) -> Oid {
    // SAFETY: the caller's promise.
    unsafe {
        match (*rel).rd_toastoid {
            INVALID_OID => (*(*rel).rd_rel).reltoastrelid,
            permanent => permanent,
        }
    }
}
