//! Reading out-of-line values: `relation_fetch_toast_slice` of `encrypted_toast`, the counterpart of
//! `heap_fetch_toast_slice`. A slice decrypts only the chunks that it touches.

use super::store::{for_each_chunk, Chunks};
use super::{piece_len, pieces, PIECE_SIZE};
use crate::crypto::chunk::CHUNK_OVERHEAD;
use crate::keys::{self, OpenError};
use crate::pg::error::DATA_CORRUPTED;
use crate::pg::{memory, rel as relation, sys, varlena, Oid};
use crate::{pg_callback, pg_error, stats};

pg_callback! {
    pub fn relation_fetch_toast_slice(
        toastrel: sys::Relation,
        value_id: Oid,
        size: i32,
        offset: i32,
        length: i32,
        result: *mut sys::varlena,
    ) {
        // SAFETY: the contract of the callback: `result` has room for `length` bytes behind its header.
        unsafe {
            let (size, offset, length) = (size as u32, offset as usize, length as usize);
            let first = (offset / PIECE_SIZE) as u32;
            let last = ((offset + length - 1) / PIECE_SIZE) as u32;
            let chunks = Chunks::of(toastrel, sys::AccessShareLock);
            let to = result.cast::<u8>().add(varlena::HEADER);
            for_each_chunk(&chunks, value_id, (first, last, pieces(size)), |seq, stored| {
                let len = piece_len(size, seq);
                if stored.len() != len + CHUNK_OVERHEAD {
                    raise_sequence(toastrel, value_id, seq);
                }
                // the part of the piece that the slice wants
                let begin = seq as usize * PIECE_SIZE;
                let from = offset.saturating_sub(begin);
                let until = (offset + length - begin).min(len);
                if from == 0 && until == len {
                    open(toastrel, value_id, seq, stored, to.add(begin - offset));
                } else {
                    let mut piece = [0u8; PIECE_SIZE];
                    open(toastrel, value_id, seq, stored, piece.as_mut_ptr());
                    let target = to.add((begin + from) - offset);
                    core::ptr::copy_nonoverlapping(piece.as_ptr().add(from), target, until - from);
                    memory::cleanse(piece.as_mut_ptr().cast(), len);
                }
            });
            chunks.close_indexes(false);
        }
    }
}

/// Decrypts a chunk to `out`, or raises an ERROR that names the value.
unsafe fn open(toastrel: sys::Relation, value_id: Oid, seq: u32, stored: &[u8], out: *mut u8) {
    // SAFETY: `out` has room for the piece; the OID in the pointers is that of the table that they lead to.
    unsafe {
        if let Err(problem) = keys::open_chunk(relation::oid(toastrel), (value_id, seq), stored, out) {
            raise_unreadable(problem, toastrel, value_id, seq);
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn raise_unreadable(problem: OpenError, toastrel: sys::Relation, value_id: Oid, seq: u32) -> ! {
    // SAFETY: the relation is open.
    let table = unsafe {
        stats::note_failure(relation::oid(toastrel));
        relation::name(toastrel)
    };
    match problem {
        OpenError::UnknownGeneration(byte) => pg_error!(
            DATA_CORRUPTED,
            "chunk {seq} of toast value {value_id} in \"{table}\" was encrypted with a key that this database does not have";
            detail: ("The chunk names the key generation whose number ends in {byte} (modulo 256).");
            hint: ("The view vault_tde.keys shows the generations that there are. Restore the database from a backup.")
        ),
        OpenError::NotEncrypted | OpenError::Authentication => pg_error!(
            DATA_CORRUPTED, "could not decrypt chunk {seq} of toast value {value_id} in \"{table}\"";
            detail: ("The chunk does not authenticate: its bytes were changed, it belongs elsewhere, or it was encrypted with another key.");
            hint: ("Restore the chunk's page from a backup.")
        ),
    }
}

/// A chunk is missing, doubled, too long or too short.
///
/// # Safety
/// `toastrel` must be open.
#[cold]
#[inline(never)]
pub unsafe fn raise_sequence(toastrel: sys::Relation, value_id: Oid, seq: u32) -> ! {
    // SAFETY: the relation is open.
    let table = unsafe { relation::name(toastrel) };
    pg_error!(
        DATA_CORRUPTED, "missing or unexpected chunk {seq} of toast value {value_id} in \"{table}\"";
        hint: ("Restore the table from a backup.")
    )
}
