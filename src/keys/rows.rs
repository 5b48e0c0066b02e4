//! Rows sealed and opened: what runs for every row of an encrypted table.
//!
//! The warm path looks into the ring and the cipher cache and does nothing else: no allocation, no call of PostgreSQL.
//! It does not ask whether the ring is fresh when it opens a row, since a row that authenticates was sealed under just
//! that key; only when none fits the key table is read again. Sealing asks, as a rotation that was rolled back must
//! not be used any more.

use core::mem::MaybeUninit;

use super::cache::Purpose;
use super::{generations, load, Backend, BACKEND};
use crate::crypto::row::{self, RowError};
use crate::crypto::{Cipher, CipherError};
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

/// Decrypts a stored row of the relation `oid` (`pg::rel::key_oid`) to `out`, which has room for the plaintext tuple, and
/// returns the tuple's length. May read the key table and call the key provider, so it may raise an ERROR; where that is
/// not possible, because a buffer lock is held, use [`open_row_held`].
///
/// # Safety
/// In a transaction. `out` must have room for `crypto::row::plain_len(stored.len())` bytes.
#[inline]
pub unsafe fn open_row(oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    match unsafe { open(oid, stored, out) } {
        Ok(len) => Ok(len),
        // SAFETY: the caller's promise.
        Err(miss) => unsafe { open_slowly(miss, oid, stored, out) },
    }
}

/// [`open_row`] without any access to catalogs, tables or providers: a key that this backend does not hold is an
/// `UnknownGeneration`. See [`super::holds`] and [`super::obtain`].
///
/// # Safety
/// As for [`open_row`], but for the transaction.
#[inline]
pub unsafe fn open_row_held(oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    // SAFETY: the caller's promise.
    unsafe { open(oid, stored, out) }.map_err(|miss| error(miss, stored))
}

/// Encrypts the tuple `plain` (the bytes from `t_data` on) of the relation `oid` under the current generation to `out`.
/// `has_external` says that the tuple holds pointers to out-of-line values. Almost free of catalog access after
/// [`super::prepare`]; raises an ERROR where there is no key.
///
/// # Safety
/// In a transaction. `out` must have room for `crypto::row::stored_len(plain.len())` bytes.
#[inline]
pub unsafe fn seal_row(oid: Oid, has_external: bool, plain: &[u8], out: *mut u8) {
    generations::prepare();
    // SAFETY: the caller's promise; nothing in `seal` comes back to the backend's state.
    let sealed = unsafe { seal(&mut *BACKEND.as_ptr(), oid, has_external, plain, out) };
    if let Err(miss) = sealed {
        raise_not_sealed(miss);
    }
}

#[inline]
unsafe fn seal(backend: &mut Backend, oid: Oid, has_external: bool, plain: &[u8], out: *mut u8) -> Result<(), Miss> {
    // SAFETY: a variable that is set once when the process starts.
    let pid = unsafe { sys::MyProcPid };
    // SAFETY: pointer and length of a slice; pg_strong_random raises nothing.
    let fill = |bytes: &mut [u8]| unsafe { sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    let iv =
        backend.ivs.next(pid, fill).map_err(|_| Miss::Broken("could not generate random initialisation vectors"))?;
    let current = backend.ring.current().ok_or(Miss::NoKey)?;
    let (cipher, generation) = cipher(backend, oid, Purpose::Heap, current)?;
    // SAFETY: the caller of `seal_row` promises the room.
    let out = unsafe { output(out, row::stored_len(plain.len())) };
    row::seal(cipher, &iv, generation as u8, has_external, plain, out)
        .map_err(|_| Miss::Broken("OpenSSL could not encrypt a row"))
}

/// Opens a row with what this backend holds.
#[inline]
unsafe fn open(oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, Miss> {
    let byte = row::generation_byte(stored).ok_or(Miss::NotEncrypted)?;
    let len = row::plain_len(stored.len()).ok_or(Miss::NotEncrypted)?;
    // SAFETY: nothing in here comes back to the backend's state; the caller promises the room.
    let (backend, out) = unsafe { (&mut *BACKEND.as_ptr(), output(out, len)) };
    let mut index = backend.ring.newest(byte).ok_or(Miss::NoKey)?;
    loop {
        let (cipher, _) = cipher(backend, oid, Purpose::Heap, index)?;
        match row::open(cipher, stored, out) {
            Ok(()) => return Ok(len),
            Err(RowError::NotEncrypted) => return Err(Miss::NotEncrypted),
            Err(RowError::Cipher(CipherError::Authentication) | RowError::Authentication) => {
                index = backend.ring.older(index).ok_or(Miss::Authentication)?;
            }
            Err(RowError::Cipher(_)) => return Err(Miss::Broken("OpenSSL could not decrypt a row")),
        }
    }
}

/// The cipher of relation `oid` under the ring's key at `index`, and that key's generation.
#[inline]
fn cipher(backend: &mut Backend, oid: Oid, purpose: Purpose, index: usize) -> Result<(&mut Cipher, i32), Miss> {
    let key = backend.ring.key(index).ok_or(Miss::NoKey)?;
    // looked up twice for the borrow checker's sake, the second time in the first way of the set
    if backend.ciphers.find(oid, purpose, key.serial).is_none() {
        let dek = key.dek.as_ref().ok_or(Miss::Wrapped(index))?;
        backend
            .ciphers
            .make(oid, purpose, key.serial, dek)
            .ok_or(Miss::Broken("OpenSSL could not make the key of a relation"))?;
    }
    let cipher = backend.ciphers.find(oid, purpose, key.serial).ok_or(Miss::NoKey)?;
    Ok((cipher, key.generation))
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
unsafe fn open_slowly(mut miss: Miss, oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    let (mut reloaded, mut searched) = (false, false);
    loop {
        // SAFETY: in a transaction, as the caller of `open_row` promises.
        unsafe {
            match (miss, row::generation_byte(stored)) {
                (Miss::Wrapped(index), _) => load::unwrap(index),
                (Miss::NoKey | Miss::Authentication, Some(_)) if !reloaded => {
                    reloaded = true;
                    load::load();
                }
                (Miss::NoKey | Miss::Authentication, Some(byte)) if !searched => {
                    searched = true;
                    if !load::load_uncommitted(byte) {
                        return Err(error(miss, stored));
                    }
                }
                _ => return Err(error(miss, stored)),
            }
            match open(oid, stored, out) {
                Ok(len) => return Ok(len),
                Err(next) => miss = next,
            }
        }
    }
}

/// The miss as the caller sees it. Raises what is not the row's fault.
#[cold]
fn error(miss: Miss, stored: &[u8]) -> OpenError {
    match miss {
        Miss::NotEncrypted => OpenError::NotEncrypted,
        Miss::Authentication => OpenError::Authentication,
        Miss::NoKey | Miss::Wrapped(_) => {
            row::generation_byte(stored).map_or(OpenError::NotEncrypted, OpenError::UnknownGeneration)
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
