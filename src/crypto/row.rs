//! The stored-row format, version 1: a heap tuple in a disguise that PostgreSQL can read without
//! harm.
//!
//! ```text
//! offset 0        18                22  23   24 = t_hoff
//! | xmin xmax cid ctid | infomask2 infomask hoff | G | IV (12) | ciphertext (N) | GCM tag (16) |
//! ```
//!
//! The ciphertext is the original tuple from offset 18 on: both infomasks, `t_hoff`, null bitmap,
//! data. What is left in the clear is what PostgreSQL itself must read and write, the transaction
//! bits of both infomasks among it. The rest of the stored header says "no attributes, no nulls,
//! nothing external", so that code which looks into such a row sees NULLs, never garbage. G names
//! the key generation; no AAD is needed for it, as another generation is another key.
//!
//! The one bit that is neither real nor constant is HEAP_HASVARWIDTH: it says "this row has
//! out-of-line values", so that a DELETE need not decrypt rows without. It is a hint and not
//! authenticated.
//!
//! A row here is the bytes from `t_data` on, `t_len` of them. Integers are in the byte order of the
//! machine, as everywhere in a PostgreSQL data file. Buffers need no alignment.

use std::mem::MaybeUninit;

use super::cipher::{Cipher, CipherError, Iv, Tag, IV_LEN, TAG_LEN};

/// Bytes that stay in the clear: `offsetof(HeapTupleHeaderData, t_infomask2)`, that is `t_choice`
/// and `t_ctid`.
pub const HEADER_CLEAR: usize = INFOMASK2_OFFSET;
/// `offsetof(HeapTupleHeaderData, t_infomask2)`
pub const INFOMASK2_OFFSET: usize = 18;
/// `offsetof(HeapTupleHeaderData, t_infomask)`
pub const INFOMASK_OFFSET: usize = 20;
/// `offsetof(HeapTupleHeaderData, t_hoff)`
pub const HOFF_OFFSET: usize = 22;
/// `offsetof(HeapTupleHeaderData, t_bits)` (`SizeofHeapTupleHeader`): without null bitmap a pad
/// byte, here G.
pub const GENERATION_OFFSET: usize = 23;
/// Where the payload begins, the `t_hoff` of every stored row: `MAXALIGN(SizeofHeapTupleHeader)`,
/// with no null bitmap and with 8-byte alignment, as on all 64-bit platforms.
pub const DATA_OFFSET: usize = 24;

/// Bytes that a stored row is longer than the same row on heap.
pub const ROW_OVERHEAD: usize = DATA_OFFSET - HEADER_CLEAR + IV_LEN + TAG_LEN;
/// The shortest tuple: a header without null bitmap and no data (`MinHeapTupleSize`).
pub const MIN_PLAIN_LEN: usize = DATA_OFFSET;

/// `HEAP_XACT_MASK`: the bits of `t_infomask` that belong to transactions.
pub const HEAP_XACT_MASK: u16 = 0xFFF0;
/// `HEAP2_XACT_MASK`: the bits of `t_infomask2` that belong to transactions.
pub const HEAP2_XACT_MASK: u16 = 0xE000;
/// `HEAP_NATTS_MASK`: the bits of `t_infomask2` that hold the number of attributes.
pub const HEAP_NATTS_MASK: u16 = 0x07FF;
/// `HEAP_HASNULL` of `t_infomask`: there is a null bitmap.
pub const HEAP_HASNULL: u16 = 0x0001;
/// `HEAP_HASVARWIDTH` of `t_infomask`; in a stored row, "has out-of-line values".
pub const HEAP_HASVARWIDTH: u16 = 0x0002;
/// `HEAP_HASEXTERNAL` of `t_infomask`: there are TOAST pointers; never set in a stored row.
pub const HEAP_HASEXTERNAL: u16 = 0x0004;

/// The bits of a stored `t_infomask2` that the disguise keeps at zero.
const INFOMASK2_ZERO: u16 = !HEAP2_XACT_MASK;
/// The bits of a stored `t_infomask` that the disguise keeps at zero.
const INFOMASK_ZERO: u16 = !(HEAP_XACT_MASK | HEAP_HASVARWIDTH);

/// Both infomasks as they follow each other: the bits of transactions, and those that the disguise keeps at zero.
const XACT_MASKS: u32 = both_masks(HEAP2_XACT_MASK, HEAP_XACT_MASK);
const ZERO_MASKS: u32 = both_masks(INFOMASK2_ZERO, INFOMASK_ZERO);

const _: () = assert!(INFOMASK2_ZERO & HEAP_NATTS_MASK == HEAP_NATTS_MASK);
const _: () = assert!(INFOMASK_ZERO & HEAP_HASNULL != 0 && INFOMASK_ZERO & HEAP_HASEXTERNAL != 0);
const _: () = assert!(ROW_OVERHEAD == 34);

/// Why a stored row could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowError {
    /// Not a stored row: too short, or its header is not the disguise. Nothing was decrypted.
    NotEncrypted,
    /// The row does not belong to this key, or was changed.
    Authentication,
    /// A fault that is not the row's: wrong length of the output buffer, or OpenSSL failed.
    Cipher(CipherError),
}

impl From<CipherError> for RowError {
    fn from(e: CipherError) -> RowError {
        match e {
            CipherError::Authentication => RowError::Authentication,
            e => RowError::Cipher(e),
        }
    }
}

/// Bytes that a tuple of `plain_len` bytes takes when stored.
pub const fn stored_len(plain_len: usize) -> usize {
    plain_len + ROW_OVERHEAD
}

/// Bytes of the tuple in a stored row of `stored_len` bytes; None if that is too short to be one.
pub const fn plain_len(stored_len: usize) -> Option<usize> {
    match stored_len.checked_sub(ROW_OVERHEAD) {
        Some(len) if len >= MIN_PLAIN_LEN => Some(len),
        _ => None,
    }
}

/// The low byte of the key generation under which `stored` was written; None if it is not a stored
/// row.
#[inline]
pub fn generation_byte(stored: &[u8]) -> Option<u8> {
    split(stored).map(|row| row.header[GENERATION_OFFSET])
}

/// Whether `stored` says that it has out-of-line values. False if it is not a stored row.
#[inline]
pub fn has_external(stored: &[u8]) -> bool {
    split(stored).is_some_and(|row| read_u16(row.header, INFOMASK_OFFSET) & HEAP_HASVARWIDTH != 0)
}

/// Encrypts the tuple `plain` into `out`, which takes [`stored_len`]`(plain.len())` bytes.
///
/// `iv` is fresh; `generation` is the low byte of the generation of `cipher`'s key; `has_external`
/// says that the tuple holds pointers to out-of-line values. The transaction bits of the stored
/// header are those of `plain`. On success all of `out` is initialised.
///
/// Errors: [`CipherError::BufferLength`] if `out` has another length or `plain` is shorter than
/// [`MIN_PLAIN_LEN`]; [`CipherError::MessageTooLong`]; [`CipherError::Library`].
#[inline]
pub fn seal(
    cipher: &mut Cipher,
    iv: &Iv,
    generation: u8,
    has_external: bool,
    plain: &[u8],
    out: &mut [MaybeUninit<u8>],
) -> Result<(), CipherError> {
    const WRONG: CipherError = CipherError::BufferLength;
    let (original, _) = plain.split_first_chunk::<DATA_OFFSET>().ok_or(WRONG)?;
    let (header_out, rest) = out.split_first_chunk_mut::<DATA_OFFSET>().ok_or(WRONG)?;
    let (iv_out, rest) = rest.split_first_chunk_mut::<IV_LEN>().ok_or(WRONG)?;
    let (ciphertext_out, tag_out) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(WRONG)?;

    let mut tag: Tag = [0; TAG_LEN];
    cipher.encrypt(iv, &[], &plain[HEADER_CLEAR..], ciphertext_out, &mut tag)?;

    let infomask2 = read_u16(original, INFOMASK2_OFFSET) & HEAP2_XACT_MASK;
    let mut infomask = read_u16(original, INFOMASK_OFFSET) & HEAP_XACT_MASK;
    if has_external {
        infomask |= HEAP_HASVARWIDTH;
    }
    let mut header = *original;
    write_u16(&mut header, INFOMASK2_OFFSET, infomask2);
    write_u16(&mut header, INFOMASK_OFFSET, infomask);
    header[HOFF_OFFSET] = DATA_OFFSET as u8;
    header[GENERATION_OFFSET] = generation;

    put(header_out, &header);
    put(iv_out, iv);
    put(tag_out, &tag);
    Ok(())
}

/// Decrypts the row `stored` into `out`, which takes [`plain_len`]`(stored.len())` bytes.
///
/// The clear part of the header and the transaction bits of both infomasks come from `stored`, the
/// rest is what was sealed. On success all of `out` is initialised; on failure it holds no
/// plaintext.
///
/// Errors: all of [`RowError`].
#[inline]
pub fn open(cipher: &mut Cipher, stored: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), RowError> {
    const WRONG: RowError = RowError::Cipher(CipherError::BufferLength);
    let row = split(stored).ok_or(RowError::NotEncrypted)?;
    let (clear, _) = stored.split_first_chunk().ok_or(RowError::NotEncrypted)?;
    let (clear_out, sealed_out) = out.split_first_chunk_mut::<HEADER_CLEAR>().ok_or(WRONG)?;

    cipher.decrypt(row.iv, &[], row.ciphertext, row.tag, sealed_out)?;

    let (masks_out, _) = sealed_out.split_first_chunk_mut::<4>().ok_or(WRONG)?;
    // SAFETY: decrypt has initialised all of sealed_out; an array of bytes needs no alignment.
    let sealed = unsafe { masks_out.as_ptr().cast::<[u8; 4]>().read() };
    put(clear_out, clear);
    put(masks_out, &merge_masks(u32::from_ne_bytes(sealed), row.header));
    Ok(())
}

/// Both infomasks of a tuple: what was sealed, with the transaction bits of the stored header.
#[inline]
fn merge_masks(sealed: u32, header: &[u8; DATA_OFFSET]) -> [u8; 4] {
    ((sealed & !XACT_MASKS) | (read_masks(header) & XACT_MASKS)).to_ne_bytes()
}

/// Both infomasks of a header.
#[inline]
fn read_masks(header: &[u8; DATA_OFFSET]) -> u32 {
    let [.., a, b, c, d, _, _] = *header;
    u32::from_ne_bytes([a, b, c, d])
}

const fn both_masks(infomask2: u16, infomask: u16) -> u32 {
    let ([a, b], [c, d]) = (infomask2.to_ne_bytes(), infomask.to_ne_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

/// What of `stored` decides what it decrypts to: all behind the header's transaction fields. None if it is not a stored row.
#[inline]
pub fn authenticated(stored: &[u8]) -> Option<&[u8]> {
    split(stored).and_then(|_| stored.get(GENERATION_OFFSET..))
}

/// Makes the tuple of `stored` of `out`, whose bytes from [`HEADER_CLEAR`] on are those that [`open`] has given for the same
/// authenticated bytes: the rest comes from `stored`. False, and nothing done, if one of them is too short.
#[inline]
pub fn renew_header(stored: &[u8], out: &mut [u8]) -> bool {
    let (Some((header, _)), Some(head)) = (stored.split_first_chunk(), out.first_chunk_mut::<DATA_OFFSET>()) else {
        return false;
    };
    let masks = merge_masks(read_masks(head), header);
    head[..HEADER_CLEAR].copy_from_slice(&header[..HEADER_CLEAR]);
    head[HEADER_CLEAR..HOFF_OFFSET].copy_from_slice(&masks);
    true
}

/// The parts of a stored row.
struct StoredRow<'a> {
    header: &'a [u8; DATA_OFFSET],
    iv: &'a Iv,
    ciphertext: &'a [u8],
    tag: &'a Tag,
}

/// Takes a stored row apart; None if it is too short or its header is not the disguise.
#[inline]
fn split(stored: &[u8]) -> Option<StoredRow<'_>> {
    let (header, rest) = stored.split_first_chunk()?;
    let (iv, rest) = rest.split_first_chunk()?;
    let (ciphertext, tag) = rest.split_last_chunk()?;
    let disguised = ciphertext.len() >= MIN_PLAIN_LEN - HEADER_CLEAR
        && read_masks(header) & ZERO_MASKS == 0
        && header[HOFF_OFFSET] == DATA_OFFSET as u8;
    disguised.then_some(StoredRow { header, iv, ciphertext, tag })
}

#[inline]
fn read_u16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn write_u16<const N: usize>(bytes: &mut [u8; N], at: usize, value: u16) {
    [bytes[at], bytes[at + 1]] = value.to_ne_bytes();
}

/// Initialises `out` with `bytes`.
#[inline]
fn put<const N: usize>(out: &mut [MaybeUninit<u8>; N], bytes: &[u8; N]) {
    // SAFETY: `out` has N bytes to write to, and an array of bytes needs no alignment.
    unsafe { out.as_mut_ptr().cast::<[u8; N]>().write(*bytes) }
}
