//! Rows and chunks sealed and opened: what runs for every row of an encrypted table.
//!
//! The warm path looks into the ring and the cipher cache and does nothing else: no allocation, no call of PostgreSQL.
//! It does not ask whether the ring is fresh when it opens a row, since a row that authenticates was sealed under just
//! that key; only when none fits the key table is read again. Sealing asks, as a rotation that was rolled back must
//! not be used any more.

use core::mem::MaybeUninit;

use super::cache::{Place as CachePlace, Purpose};
use super::plaintext_cache::{self, Need};
use super::{generations, load, Backend, BACKEND};
use crate::crypto::chunk::{self, ChunkError};
use crate::crypto::key::{self, KeyError, Place};
use crate::crypto::row::{self, RowError};
use crate::crypto::{Cipher, CipherError, Iv};
use crate::pg::error::INTERNAL_ERROR;
use crate::pg::{sys, Oid};
use crate::pg_error;

/// Why a stored row could not be decrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The bytes do not have the form of a stored row.
    NotEncrypted,
    /// The row names a generation that the key ring does not hold.
    UnknownGeneration(u8),
    /// The row does not authenticate: altered bytes, or another key.
    Authentication,
}

/// What a stored form holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Bytes of plaintext.
    pub len: usize,
    /// The key generation that it was encrypted under.
    pub generation: i32,
}

/// Why a row could not be sealed or opened with what this backend holds.
#[derive(Clone, Copy)]
enum Miss {
    NotEncrypted,
    /// No key of that generation in the ring.
    NoKey,
    /// The key at that index of the ring is not unwrapped yet.
    Wrapped(usize),
    Authentication,
    /// Not the row's fault.
    Broken(&'static str),
}

/// A stored form: how ciphertext of one kind is laid out, and which key it is under.
trait Form: Copy {
    const PURPOSE: Purpose;
    /// The low byte of the generation; None if the bytes are not of this form.
    fn generation_byte(stored: &[u8]) -> Option<u8>;
    /// The length of the plaintext; None as above.
    fn plain_len(stored_len: usize) -> Option<usize>;
    fn stored_len(plain_len: usize) -> usize;
    fn seal(
        self,
        cipher: &mut Cipher,
        iv: &Iv,
        generation: u8,
        plain: &[u8],
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CipherError>;
    fn open(self, cipher: &mut Cipher, stored: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), RowError>;
}

/// A row of a table.
#[derive(Clone, Copy)]
struct Row {
    /// for sealing only: the row points to out-of-line values
    has_external: bool,
}

impl Form for Row {
    const PURPOSE: Purpose = Purpose::Heap;

    #[inline]
    fn generation_byte(stored: &[u8]) -> Option<u8> {
        row::generation_byte(stored)
    }

    #[inline]
    fn plain_len(stored_len: usize) -> Option<usize> {
        row::plain_len(stored_len)
    }

    #[inline]
    fn stored_len(plain_len: usize) -> usize {
        row::stored_len(plain_len)
    }

    #[inline]
    fn seal(
        self,
        cipher: &mut Cipher,
        iv: &Iv,
        generation: u8,
        plain: &[u8],
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CipherError> {
        row::seal(cipher, iv, generation, self.has_external, plain, out)
    }

    #[inline]
    fn open(self, cipher: &mut Cipher, stored: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), RowError> {
        row::open(cipher, stored, out)
    }
}

/// A piece of an out-of-line value: (value id, sequence number).
#[derive(Clone, Copy)]
struct Chunk(u32, u32);

impl Form for Chunk {
    const PURPOSE: Purpose = Purpose::Toast;

    fn generation_byte(stored: &[u8]) -> Option<u8> {
        chunk::generation_byte(stored)
    }

    fn plain_len(stored_len: usize) -> Option<usize> {
        chunk::plain_len(stored_len)
    }

    fn stored_len(plain_len: usize) -> usize {
        plain_len + chunk::CHUNK_OVERHEAD
    }

    fn seal(
        self,
        cipher: &mut Cipher,
        iv: &Iv,
        generation: u8,
        plain: &[u8],
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CipherError> {
        chunk::seal(cipher, iv, generation, (self.0, self.1), plain, out)
    }

    fn open(self, cipher: &mut Cipher, stored: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), RowError> {
        chunk::open(cipher, (self.0, self.1), stored, out).map_err(|problem| match problem {
            ChunkError::NotEncrypted => RowError::NotEncrypted,
            ChunkError::Authentication => RowError::Authentication,
            ChunkError::Cipher(error) => RowError::Cipher(error),
        })
    }
}

/// A value in an index. The place is for sealing only; who opens compares it first.
#[derive(Clone, Copy)]
struct IndexKey(Place);

impl Form for IndexKey {
    const PURPOSE: Purpose = Purpose::Index;

    #[inline]
    fn generation_byte(stored: &[u8]) -> Option<u8> {
        key::generation_byte(stored)
    }

    #[inline]
    fn plain_len(stored_len: usize) -> Option<usize> {
        key::plain_len(stored_len)
    }

    #[inline]
    fn stored_len(plain_len: usize) -> usize {
        plain_len + key::KEY_OVERHEAD
    }

    #[inline]
    fn seal(
        self,
        cipher: &mut Cipher,
        iv: &Iv,
        generation: u8,
        plain: &[u8],
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CipherError> {
        key::seal(cipher, iv, generation, self.0, plain, out)
    }

    #[inline]
    fn open(self, cipher: &mut Cipher, stored: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), RowError> {
        key::open(cipher, stored, out).map_err(|problem| match problem {
            KeyError::NotEncrypted => RowError::NotEncrypted,
            KeyError::Authentication => RowError::Authentication,
            KeyError::Cipher(error) => RowError::Cipher(error),
        })
    }
}

/// Decrypts a stored row of the relation `oid` (`pg::rel::key_oid`) to `out`, which has room for the plaintext tuple, and
/// returns the tuple's length. May read the key table and call the key provider, so it may raise an ERROR.
///
/// # Safety
/// In a transaction. `out` must have room for `crypto::row::plain_len(stored.len())` bytes.
#[inline]
pub unsafe fn open_row(oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open_row_of_generation(oid, stored, out) }.map(|opened| opened.len)
}

/// [`open_row`] for a row that is likely to be read again soon: its plaintext is kept (`plaintext_cache.rs`).
///
/// # Safety
/// As for [`open_row`].
#[inline]
pub unsafe fn open_row_again(oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(len) = find_row(oid, stored, out) {
            return Ok(len);
        }
        let len = open_row(oid, stored, out)?;
        keep_row(Need::Sure, oid, stored, core::slice::from_raw_parts(out, len));
        Ok(len)
    }
}

/// [`open_row`] for a row whose plaintext may have been kept.
///
/// # Safety
/// As for [`open_row`].
#[inline]
pub unsafe fn find_or_open_row(oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    unsafe {
        match find_row(oid, stored, out) {
            Some(len) => Ok(len),
            None => open_row(oid, stored, out),
        }
    }
}

/// Copies a row's plaintext tuple to `out`, if it was kept, and returns its length.
#[inline(always)]
unsafe fn find_row(oid: Oid, stored: &[u8], out: *mut u8) -> Option<usize> {
    let (authenticated, len) = (row::authenticated(stored)?, row::plain_len(stored.len())?);
    // SAFETY: the caller's promise: room for the tuple, whose first bytes are not encrypted.
    unsafe {
        let found = plaintext_cache::find(oid, authenticated, out.add(row::HEADER_CLEAR), len - row::HEADER_CLEAR);
        (found && row::renew_header(stored, core::slice::from_raw_parts_mut(out, len))).then_some(len)
    }
}

/// Keeps the tuple `plain` of the row `stored` of the relation `oid` for a while, as it is likely to be read soon: what
/// [`seal_row`] has made the one of, or [`open_row`] the other.
#[inline]
pub fn keep_row(need: Need, oid: Oid, stored: &[u8], plain: &[u8]) {
    if let (Some(authenticated), Some(sealed)) = (row::authenticated(stored), plain.get(row::HEADER_CLEAR..)) {
        // SAFETY: pointer and length of a slice.
        unsafe { plaintext_cache::keep(oid, authenticated, sealed.as_ptr(), sealed.len(), need) };
    }
}

/// [`open_row`] that also tells the row's key generation, of which the row itself says the low byte only.
///
/// # Safety
/// As for [`open_row`].
#[inline]
pub unsafe fn open_row_of_generation(oid: Oid, stored: &[u8], out: *mut u8) -> Result<Opened, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open_or_reload(Row { has_external: false }, oid, stored, out) }
}

/// Decrypts a stored chunk, piece `seq` of value `value_id`, of the TOAST table `oid` (`toast::key_oid`) to `out`, and
/// returns the piece's length. As for [`open_row`].
///
/// # Safety
/// In a transaction. `out` must have room for `crypto::chunk::plain_len(stored.len())` bytes.
pub unsafe fn open_chunk(oid: Oid, place: (u32, u32), stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open_chunk_of_generation(oid, place, stored, out) }.map(|opened| opened.len)
}

/// [`open_chunk`] that also tells the chunk's key generation.
///
/// # Safety
/// As for [`open_chunk`].
pub unsafe fn open_chunk_of_generation(
    oid: Oid,
    (value_id, seq): (u32, u32),
    stored: &[u8],
    out: *mut u8,
) -> Result<Opened, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open_or_reload(Chunk(value_id, seq), oid, stored, out) }
}

/// Encrypts the tuple `plain` (the bytes from `t_data` on) of the relation `oid` under the current generation to `out`.
/// `has_external` says that the tuple holds pointers to out-of-line values. Almost free of catalog access after
/// [`super::prepare`]; raises an ERROR where there is no key.
///
/// # Safety
/// In a transaction. `out` must have room for `crypto::row::stored_len(plain.len())` bytes.
#[inline]
pub unsafe fn seal_row(oid: Oid, has_external: bool, plain: &[u8], out: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { seal_or_raise(Row { has_external }, oid, plain, out) }
}

/// Encrypts piece `seq` of value `value_id` of the TOAST table `oid` under the current generation to `out`. As for
/// [`seal_row`].
///
/// # Safety
/// In a transaction. `out` must have room for `plain.len() + CHUNK_OVERHEAD` bytes.
pub unsafe fn seal_chunk(oid: Oid, (value_id, seq): (u32, u32), plain: &[u8], out: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { seal_or_raise(Chunk(value_id, seq), oid, plain, out) }
}

/// Decrypts a stored key that says it belongs to `place` (`crypto::key::place`) to `out`, and returns the plaintext's length.
/// As for [`open_row`]. The caller may hold the content lock of an index page: see [`super::prepare_to_open`].
///
/// # Safety
/// In a transaction. `out` must have room for `crypto::key::plain_len(stored.len())` bytes.
#[inline]
pub unsafe fn open_key(place: Place, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open_key_of_generation(place, stored, out) }.map(|opened| opened.len)
}

/// [`open_key`] for a key that is likely to be compared again soon, as [`open_row_again`].
///
/// # Safety
/// As for [`open_key`].
#[inline]
pub unsafe fn open_key_again(place: Place, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    let len = key::plain_len(stored.len()).ok_or(OpenError::NotEncrypted)?;
    // SAFETY: the caller's promise.
    unsafe {
        if !plaintext_cache::find(place.index, stored, out, len) {
            open_key(place, stored, out)?;
            plaintext_cache::keep(place.index, stored, out, len, Need::Possible);
        }
    }
    Ok(len)
}

/// [`open_key`] that also tells the key generation.
///
/// # Safety
/// As for [`open_key`].
#[inline]
pub unsafe fn open_key_of_generation(place: Place, stored: &[u8], out: *mut u8) -> Result<Opened, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open_or_reload(IndexKey(place), place.index, stored, out) }
}

/// Encrypts a value of an index under the current generation to `out`. As for [`seal_row`].
///
/// # Safety
/// In a transaction. `out` must have room for `plain.len() + KEY_OVERHEAD` bytes.
#[inline]
pub unsafe fn seal_key(place: Place, plain: &[u8], out: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { seal_or_raise(IndexKey(place), place.index, plain, out) }
}

#[inline]
unsafe fn seal_or_raise<F: Form>(form: F, oid: Oid, plain: &[u8], out: *mut u8) {
    generations::prepare();
    // SAFETY: the caller's promise; nothing in `seal` comes back to the backend's state.
    let sealed = unsafe { seal(&mut *BACKEND.as_ptr(), form, oid, plain, out) };
    if let Err(miss) = sealed {
        raise_not_sealed(miss);
    }
}

#[inline]
unsafe fn seal<F: Form>(backend: &mut Backend, form: F, oid: Oid, plain: &[u8], out: *mut u8) -> Result<(), Miss> {
    // SAFETY: a variable that is set once when the process starts.
    let pid = unsafe { sys::MyProcPid };
    // SAFETY: pointer and length of a slice; pg_strong_random raises nothing.
    let fill = |bytes: &mut [u8]| unsafe { sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    let iv =
        backend.ivs.next(pid, fill).map_err(|_| Miss::Broken("could not generate random initialisation vectors"))?;
    let current = backend.ring.current().ok_or(Miss::NoKey)?;
    let (place, generation) = place(backend, oid, F::PURPOSE, current)?;
    let cipher = backend.ciphers.at(place).ok_or(Miss::NoKey)?;
    // SAFETY: the caller of the sealing function promises the room.
    let out = unsafe { output(out, F::stored_len(plain.len())) };
    form.seal(cipher, &iv, generation as u8, plain, out)
        .map_err(|_| Miss::Broken("OpenSSL could not encrypt a row"))?;
    backend.ciphers.count_sealed(place);
    Ok(())
}

#[inline]
unsafe fn open_or_reload<F: Form>(form: F, oid: Oid, stored: &[u8], out: *mut u8) -> Result<Opened, OpenError> {
    // SAFETY: the caller's promise.
    match unsafe { open(form, oid, stored, out) } {
        Ok(opened) => Ok(opened),
        // SAFETY: the caller's promise.
        Err(miss) => unsafe { open_slowly(miss, form, oid, stored, out) },
    }
}

/// Opens a row or chunk with what this backend holds.
#[inline]
unsafe fn open<F: Form>(form: F, oid: Oid, stored: &[u8], out: *mut u8) -> Result<Opened, Miss> {
    let byte = F::generation_byte(stored).ok_or(Miss::NotEncrypted)?;
    let len = F::plain_len(stored.len()).ok_or(Miss::NotEncrypted)?;
    // SAFETY: nothing in here comes back to the backend's state; the caller promises the room.
    let (backend, out) = unsafe { (&mut *BACKEND.as_ptr(), output(out, len)) };
    let mut index = backend.ring.newest(byte).ok_or(Miss::NoKey)?;
    loop {
        let (place, generation) = place(backend, oid, F::PURPOSE, index)?;
        let cipher = backend.ciphers.at(place).ok_or(Miss::NoKey)?;
        match form.open(cipher, stored, out) {
            Ok(()) => {
                backend.ciphers.count_opened(place);
                return Ok(Opened { len, generation });
            }
            Err(RowError::NotEncrypted) => return Err(Miss::NotEncrypted),
            Err(RowError::Cipher(CipherError::Authentication) | RowError::Authentication) => {
                index = backend.ring.older(index).ok_or(Miss::Authentication)?;
            }
            Err(RowError::Cipher(_)) => return Err(Miss::Broken("OpenSSL could not decrypt a row")),
        }
    }
}

/// Where the cipher of relation `oid` under the ring's key at `index` is in the cache, and that key's generation.
#[inline]
fn place(backend: &mut Backend, oid: Oid, purpose: Purpose, index: usize) -> Result<(CachePlace, i32), Miss> {
    let key = backend.ring.key(index).ok_or(Miss::NoKey)?;
    let place = match backend.ciphers.find(oid, purpose, key.serial) {
        Some(place) => place,
        None => {
            let dek = key.dek.as_ref().ok_or(Miss::Wrapped(index))?;
            let made = backend.ciphers.make(oid, purpose, key.serial, dek);
            made.ok_or(Miss::Broken("OpenSSL could not make the key of a relation"))?
        }
    };
    Ok((place, key.generation))
}

/// # Safety
/// `len` writable bytes at `out`, for `'a`.
#[inline]
unsafe fn output<'a>(out: *mut u8, len: usize) -> &'a mut [MaybeUninit<u8>] {
    // SAFETY: the caller's promise; MaybeUninit takes bytes of any content.
    unsafe { core::slice::from_raw_parts_mut(out.cast(), len) }
}

/// After a miss: unwraps what is wrapped, reads the key table again, and at last asks for keys that are not committed.
#[cold]
#[inline(never)]
unsafe fn open_slowly<F: Form>(
    mut miss: Miss,
    form: F,
    oid: Oid,
    stored: &[u8],
    out: *mut u8,
) -> Result<Opened, OpenError> {
    let (mut reloaded, mut searched) = (false, false);
    loop {
        // SAFETY: in a transaction, as the caller of `open_row` promises.
        unsafe {
            match (miss, F::generation_byte(stored)) {
                (Miss::Wrapped(index), _) => load::unwrap(index),
                (Miss::NoKey | Miss::Authentication, Some(_)) if !reloaded => {
                    reloaded = true;
                    load::load();
                }
                (Miss::NoKey | Miss::Authentication, Some(byte)) if !searched => {
                    searched = true;
                    if !load::load_uncommitted(byte) {
                        return Err(error::<F>(miss, stored));
                    }
                }
                _ => return Err(error::<F>(miss, stored)),
            }
            match open(form, oid, stored, out) {
                Ok(opened) => return Ok(opened),
                Err(next) => miss = next,
            }
        }
    }
}

/// The miss as the caller sees it. Raises what is not the row's fault.
#[cold]
fn error<F: Form>(miss: Miss, stored: &[u8]) -> OpenError {
    match miss {
        Miss::NotEncrypted => OpenError::NotEncrypted,
        Miss::Authentication => OpenError::Authentication,
        Miss::NoKey | Miss::Wrapped(_) => {
            F::generation_byte(stored).map_or(OpenError::NotEncrypted, OpenError::UnknownGeneration)
        }
        Miss::Broken(what) => pg_error!(INTERNAL_ERROR, "{what}"),
    }
}

#[cold]
#[inline(never)]
fn raise_not_sealed(miss: Miss) -> ! {
    match miss {
        Miss::Broken(what) => pg_error!(INTERNAL_ERROR, "{what}"),
        _ => pg_error!(INTERNAL_ERROR, "no key to encrypt a row with"),
    }
}
