//! Rows between their two forms: the stored one and the plaintext tuple.

use crate::keys::{self, OpenError};
use crate::pg::error::DATA_CORRUPTED;
use crate::pg::tuple::{self, HeapTuple, HEAPTUPLESIZE};
use crate::pg::{sys, Oid};
use crate::pg_error;

/// Bytes of a block that [`open_into`] needs for a stored tuple of `t_len` bytes.
#[inline]
pub const fn open_size(t_len: u32) -> usize {
    HEAPTUPLESIZE + t_len as usize
}

/// Decrypts `stored` into the block at `block` and returns the plaintext tuple, whose HeapTupleData is at the block's
/// start. Transaction bits, `t_self` and `t_tableOid` are those of `stored`. `key_oid` as `pg::rel::key_oid` says.
/// Raises ERRCODE_DATA_CORRUPTED, naming relation and ctid, when the row does not authenticate; may raise the errors of
/// the key provider.
///
/// # Safety
/// `stored` must be a valid tuple that stays in place, `block` MAXALIGNed and `open_size(t_len)` bytes long.
pub unsafe fn open_into(key_oid: Oid, stored: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises; the data part of the block is big enough for any plaintext of this stored length.
    unsafe {
        let plain: HeapTuple = block.cast();
        let data = block.add(HEAPTUPLESIZE);
        match keys::open_row(key_oid, tuple::bytes(stored), data) {
            Ok(len) => {
                *plain = *stored;
                (*plain).t_data = data.cast();
                (*plain).t_len = len as u32;
                plain
            }
            Err(problem) => raise(problem, key_oid, stored),
        }
    }
}

/// Says which row cannot be read, and never what is in it.
#[cold]
#[inline(never)]
unsafe fn raise(problem: OpenError, key_oid: Oid, stored: HeapTuple) -> ! {
    let _ = (problem, key_oid, stored);
    pg_error!(DATA_CORRUPTED, "todo")
}
