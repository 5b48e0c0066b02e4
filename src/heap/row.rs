//! Rows between their two forms: the stored one and the plaintext tuple.

use crate::crypto::row as format;
use crate::keys::{self, Need, OpenError};
use crate::pg::error::{pg_format, DATA_CORRUPTED};
use crate::pg::fmgr::str_of;
use crate::pg::memory::Scratch;
use crate::pg::tuple::{self, maxalign, HeapTuple, HeapTupleData, HEAPTUPLESIZE};
use crate::pg::{rel, sys, BackendCell, Oid};
use crate::{pg_error, stats};

/// Bytes of a block that [`open_into`] needs for a stored tuple of `t_len` bytes.
#[inline]
pub const fn open_size(t_len: u32) -> usize {
    HEAPTUPLESIZE + t_len as usize
}

/// Bytes of a block that [`seal_into`] needs for a plaintext tuple of `t_len` bytes, rounded up so that blocks can
/// follow each other.
#[inline]
pub const fn seal_size(t_len: u32) -> usize {
    HEAPTUPLESIZE + maxalign(format::stored_len(t_len as usize))
}

/// Decrypts `stored` into the block at `block` and returns the plaintext tuple, whose HeapTupleData is at the block's
/// start. Transaction bits, `t_self` and `t_tableOid` are those of `stored`. `key_oid` as `pg::rel::key_oid` says.
/// Raises ERRCODE_DATA_CORRUPTED, naming relation and ctid, when the row does not authenticate; may raise the errors of
/// the key provider.
///
/// # Safety
/// `stored` must be a valid tuple that stays in place, `block` MAXALIGNed and `open_size(t_len)` bytes long.
#[inline]
pub unsafe fn open_into(key_oid: Oid, stored: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises.
    unsafe { open_by(keys::open_row, key_oid, stored, block) }
}

/// [`open_into`] for a row that is likely to be read again soon.
///
/// # Safety
/// As for [`open_into`].
#[inline]
pub unsafe fn open_again_into(key_oid: Oid, stored: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises.
    unsafe { open_by(keys::open_row_again, key_oid, stored, block) }
}

/// [`open_into`] for a row whose plaintext may have been kept.
///
/// # Safety
/// As for [`open_into`].
#[inline]
pub unsafe fn find_or_open_into(key_oid: Oid, stored: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises.
    unsafe { open_by(keys::find_or_open_row, key_oid, stored, block) }
}

/// `keys::open_row` or one that does the same.
type Open = unsafe fn(Oid, &[u8], *mut u8) -> Result<usize, OpenError>;

#[inline(always)]
unsafe fn open_by(open: Open, key_oid: Oid, stored: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises; the data part of the block is big enough for any plaintext of this stored length.
    unsafe {
        let plain: HeapTuple = block.cast();
        let data = block.add(HEAPTUPLESIZE);
        match open(key_oid, tuple::bytes(stored), data) {
            Ok(len) => {
                *plain = *stored;
                (*plain).t_data = data.cast();
                (*plain).t_len = len as u32;
                plain
            }
            Err(problem) => raise_unreadable(problem, key_oid, stored),
        }
    }
}

/// What [`open_into`] would do, where the plaintext of the same stored row is at hand: `opened`, a result of
/// [`open_into`]. What is in the clear, and may have changed meanwhile, is that of `stored`.
///
/// # Safety
/// As for [`open_into`]; the rows must be the same, `opened` not in `block`.
#[inline]
pub unsafe fn copy_opened(opened: HeapTuple, stored: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises.
    unsafe {
        let plain: HeapTuple = block.cast();
        let data = block.add(HEAPTUPLESIZE);
        core::ptr::copy_nonoverlapping((*opened).t_data.cast::<u8>(), data, (*opened).t_len as usize);
        *plain = *stored;
        (*plain).t_data = data.cast();
        (*plain).t_len = (*opened).t_len;
        take_header(plain, stored);
        plain
    }
}

/// Encrypts `plain` for the relation of `key_oid` into the block at `block` and returns the stored tuple, whose
/// HeapTupleData is at the block's start. May raise the errors of the key provider.
///
/// # Safety
/// `plain` must be a valid tuple, `block` MAXALIGNed and `seal_size(t_len)` bytes long.
pub unsafe fn seal_into(key_oid: Oid, plain: HeapTuple, block: *mut u8) -> HeapTuple {
    // SAFETY: the caller's promises.
    unsafe {
        let stored: HeapTuple = block.cast();
        let data = block.add(HEAPTUPLESIZE);
        let has_external = (*(*plain).t_data).t_infomask & sys::HEAP_HASEXTERNAL as u16 != 0;
        keys::seal_row(key_oid, has_external, tuple::bytes(plain), data);
        *stored = HeapTupleData {
            t_len: format::stored_len((*plain).t_len as usize) as u32,
            t_self: (*plain).t_self,
            t_tableOid: (*plain).t_tableOid,
            t_data: data.cast(),
        };
        stored
    }
}

/// Where single rows are encrypted to: one block of the backend, as no two rows are on their way at a time.
static SEALED: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// Encrypts `plain` for `rel` into the backend's block for that; the result is valid until the next call.
///
/// # Safety
/// `rel` must be an open relation, `plain` a valid tuple.
pub unsafe fn seal(rel: sys::Relation, plain: HeapTuple) -> HeapTuple {
    // SAFETY: the block is reserved for the size needed, and nothing that runs before the next call uses it.
    unsafe {
        let block = (*SEALED.as_ptr()).reserve(sys::TopMemoryContext, seal_size((*plain).t_len));
        seal_into(rel::key_oid(rel), plain, block)
    }
}

/// Keeps `plain` for who reads its stored form `stored` ([`open_again_into`], [`find_or_open_into`]).
///
/// # Safety
/// As for [`seal`], which has made the one of the other.
pub unsafe fn keep(need: Need, rel: sys::Relation, stored: HeapTuple, plain: HeapTuple) {
    // SAFETY: the caller's promise.
    unsafe { keys::keep_row(need, rel::key_oid(rel), tuple::bytes(stored), tuple::bytes(plain)) }
}

/// Copies to the plaintext tuple what heapam has written into the header of its stored form: transaction ids and bits,
/// command id and place.
///
/// # Safety
/// Both must be valid tuples, `plain` a writable one.
pub unsafe fn take_header(plain: HeapTuple, stored: HeapTuple) {
    // SAFETY: a header is 23 bytes at least; HEADER_CLEAR and the two infomasks are within.
    unsafe {
        (*plain).t_self = (*stored).t_self;
        let (to, from) = ((*plain).t_data, (*stored).t_data);
        core::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), format::HEADER_CLEAR);
        let take = |to: u16, from: u16, mask: u16| (to & !mask) | (from & mask);
        (*to).t_infomask = take((*to).t_infomask, (*from).t_infomask, format::HEAP_XACT_MASK);
        (*to).t_infomask2 = take((*to).t_infomask2, (*from).t_infomask2, format::HEAP2_XACT_MASK);
    }
}

/// Says which row cannot be read and why, and never what is in it. A row of WAL has no ctid.
#[cold]
#[inline(never)]
unsafe fn raise_unreadable(problem: OpenError, key_oid: Oid, stored: HeapTuple) -> ! {
    stats::note_failure(key_oid);
    // SAFETY: a valid tuple; get_rel_name gives null for a relation that is gone, str_of takes that as "".
    let (table, tid) = unsafe { (str_of(sys::get_rel_name((*stored).t_tableOid)), (*stored).t_self) };
    // SAFETY: pg_format gives a NUL-terminated string.
    let place = unsafe {
        str_of(match tuple::offset_number(&tid) {
            0 => pg_format(format_args!("")),
            offset => pg_format(format_args!(" ({},{})", tuple::block_number(&tid), offset)),
        })
    };
    match problem {
        OpenError::NotEncrypted => pg_error!(
            DATA_CORRUPTED, "row{place} of table \"{table}\" does not have the form of an encrypted row";
            hint: ("The page was written by something else than encrypted_heap, or it is damaged.")
        ),
        OpenError::UnknownGeneration(byte) => pg_error!(
            DATA_CORRUPTED, "row{place} of table \"{table}\" was encrypted with a key that this database does not have";
            detail: ("The row names the key generation whose number ends in {byte} (modulo 256).");
            hint: ("The view vault_tde.keys shows the generations that there are. Restore the database from a backup.")
        ),
        OpenError::Authentication => pg_error!(
            DATA_CORRUPTED, "could not decrypt row{place} of table \"{table}\"";
            detail: ("The row does not authenticate: its bytes were changed, or it was encrypted with another key.");
            hint: ("Restore the row's page from a backup.")
        ),
    }
}
