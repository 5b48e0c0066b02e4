//! What several of the tests need: sample tuples, buffers, OpenSSL's error queue.

use std::mem::MaybeUninit;

use openssl::error::ErrorStack;
use openssl::rsa::Rsa;

use crate::crypto::row::{self, RowError};
use crate::crypto::Cipher;

/// What output buffers hold before a test.
pub const UNTOUCHED: u8 = 0xAA;

/// A buffer of bytes as one that may be uninitialised.
pub fn as_uninit(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: same address, length and lifetime; nothing here writes uninitialised bytes.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

/// Bytes that look random and depend on `seed` alone.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// A tuple of 24 header bytes and `data_len` bytes of data: 3 attributes, null bitmap, variable
/// width, external values, and some transaction bits in both infomasks.
pub fn tuple(data_len: usize) -> Vec<u8> {
    let mut tuple = noise(data_len as u64 + 1, 24 + data_len);
    set_u16(&mut tuple, row::INFOMASK2_OFFSET, 0x8000 | 3);
    set_u16(&mut tuple, row::INFOMASK_OFFSET, 0x2900 | 0x0007);
    tuple[row::HOFF_OFFSET] = 24;
    tuple
}

pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

pub fn set_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

pub fn cipher(key: u8) -> Cipher {
    Cipher::new(&[key; 32]).unwrap()
}

/// `plain` sealed without out-of-line values.
pub fn seal(cipher: &mut Cipher, generation: u8, plain: &[u8]) -> Vec<u8> {
    let mut stored = vec![UNTOUCHED; row::stored_len(plain.len())];
    let iv = noise(plain.len() as u64 + 99, 12).try_into().unwrap();
    row::seal(cipher, &iv, generation, false, plain, as_uninit(&mut stored)).unwrap();
    stored
}

/// The tuple in `stored`, or the error and what the output buffer then holds.
pub fn open(cipher: &mut Cipher, stored: &[u8]) -> Result<Vec<u8>, (RowError, Vec<u8>)> {
    let len = row::plain_len(stored.len()).unwrap_or(0);
    let mut plain = vec![UNTOUCHED; len];
    match row::open(cipher, stored, as_uninit(&mut plain)) {
        Ok(()) => Ok(plain),
        Err(e) => Err((e, plain)),
    }
}

pub fn flip(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    flipped
}

/// Whether OpenSSL's error queue of this thread is empty; it is so afterwards.
pub fn error_queue_is_empty() -> bool {
    ErrorStack::get().errors().is_empty()
}

/// Leaves an error on OpenSSL's queue, as careless code elsewhere might.
pub fn put_on_error_queue() {
    let error = Rsa::private_key_from_pem(b"not a key").unwrap_err();
    assert!(!error.errors().is_empty());
    error.put();
}
