//! The keys of a database: the ring of data keys, the map that backends share, and the providers that unwrap them.

use crate::pg::Oid;

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

/// Decrypts a stored row of the relation `oid` (`pg::rel::key_oid`) to `out`, which has room for the plaintext tuple.
/// May read the key table, so it may raise an ERROR.
///
/// # Safety
/// `out` must have room for `crypto::row::plain_len(stored.len())` bytes.
pub unsafe fn open_row(_oid: Oid, _stored: &[u8], _out: *mut u8) -> Result<usize, OpenError> {
    todo!()
}
