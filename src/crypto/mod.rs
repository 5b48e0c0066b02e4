//! Everything that touches key material or ciphertext, and nothing else.
//!
//! This room knows bytes: no relation, no slot, not one PostgreSQL symbol. So it can be linked and
//! tested without a server (`tests/crypto.rs` includes it by path), and what it promises can be
//! checked against published vectors.
//!
//! | file        | what it does                                            | when it runs      |
//! | ----------- | ------------------------------------------------------- | ----------------- |
//! | `algorithm.rs` | the provider's functions for AES-256-GCM        | once a process    |
//! | `cipher.rs` | AES-256-GCM of one key, OpenSSL contexts set up once    | every row         |
//! | `iv.rs`     | random IVs, drawn in batches, never reused after fork   | every row written |
//! | `row.rs`    | the stored-row format: a heap tuple in its disguise     | every row         |
//! | `chunk.rs` | the stored form of a piece of an out-of-line value      | every chunk       |
//! | `key.rs`    | the stored form of a value in an encrypted index         | every index entry |
//! | `kdf.rs`    | HKDF-SHA256: from data key and OID to a relation's key  | once a relation   |
//! | `wrap.rs`   | a data key wrapped under the key of the `file` provider | once a data key   |
//!
//! Rules that callers may rely on. What runs for every row allocates nothing, does not panic, and
//! keeps nothing that needs dropping in its frame: it returns an error that is plain data, and the
//! caller may turn that into a PostgreSQL ERROR, which is a `longjmp`. No function leaves an entry
//! on OpenSSL's error queue, since PostgreSQL's own SSL code looks at that queue. After any error a
//! [`Cipher`] is usable again.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod algorithm;
pub mod chunk;
pub mod cipher;
pub mod iv;
pub mod kdf;
pub mod key;
pub mod row;
pub mod wrap;

pub use cipher::{Cipher, CipherError, Iv, Key};
pub use iv::IvPool;
