//! Upkeep of encrypted relations: re-encryption under the current key, verification, and which key generations are still
//! in use.
//!
//! | file           | what it does                                                                    |
//! |----------------|---------------------------------------------------------------------------------|
//! | `stored.rs`    | what a relation's tuples hold (rows, or chunks of values), and how it is opened |
//! | `relations.rs` | which relations of the database are encrypted                                   |
//! | `reencrypt.rs` | `CALL vault_tde.reencrypt()`: batches, transactions, waiting for writers        |
//! | `reseal.rs`    | one page of it                                                                  |
//! | `verify.rs`    | `vault_tde.verify()`                                                            |
//! | `census.rs`    | which generations a relation's tuples are of                                    |
//! | `retire.rs`    | `vault_tde.retire_key()`                                                        |
//! | `progress.rs`  | what running re-encryptions have done, in shared memory                         |
//!
//! # Why rows are re-encrypted in place
//!
//! An encrypted row is as long under one key as under another, and nothing but its ciphertext depends on the key. So a row is
//! not updated, which would move it, change its xmin, fail concurrent updates under REPEATABLE READ, bloat table and indexes
//! and be decoded as a change; its bytes on the page are exchanged. Whoever reads a page has it pinned and relies on the
//! tuples staying as they are. So this needs what vacuum needs to move tuples about: a cleanup lock, which nobody
//! gets while another backend has a pin; on a standby, replay takes the same lock. A page that is in use is left for later,
//! without waiting for it.
//!
//! Only a *committed* generation may be used, since these changes cannot be rolled back; so `reencrypt()` begins with a
//! commit and does nothing in a transaction that has done something else.

pub mod census;
pub mod progress;
pub mod reencrypt;
pub mod relations;
mod reseal;
pub mod retire;
mod stored;
pub mod verify;

use crate::pg::sys;

/// After an ERROR: cleanses what a row or chunk on its way has left behind, and ends what progress shows. Called when a
/// transaction aborts.
pub fn forget() {
    stored::forget();
    progress::end();
}

/// What an open relation's tuples hold; None if it is not encrypted.
///
/// # Safety
/// `rel` must be an open relation, and stay open while the result is used.
pub unsafe fn stored_target(rel: sys::Relation) -> Option<stored::Target> {
    // SAFETY: the caller's promise.
    unsafe { stored::Target::of(rel) }
}
