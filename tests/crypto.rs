//! Tests of `src/crypto` without a server: the module is included by path and linked into this test
//! alone.
//!
//! One test: `cargo test --test crypto row::every_length_round_trips`.

// Not all of the module's public items are used here.
#[allow(dead_code)]
#[path = "../src/crypto/mod.rs"]
mod crypto;

#[path = "crypto/chunk.rs"]
mod chunk;
#[path = "crypto/failures.rs"]
mod failures;
#[path = "crypto/iv.rs"]
mod iv;
#[path = "crypto/key.rs"]
mod key;
#[path = "crypto/row.rs"]
mod row;
#[path = "crypto/support.rs"]
mod support;
#[path = "crypto/vectors.rs"]
mod vectors;
#[path = "crypto/wrap.rs"]
mod wrap;
