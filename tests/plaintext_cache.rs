//! The cache of plaintext, without a server. `cargo test --test plaintext_cache`

#[allow(dead_code)]
#[path = "../src/pg/cell.rs"]
mod cell;
#[path = "../src/pg/hidden.rs"]
mod hidden;
mod pg {
    pub use crate::cell::BackendCell;
    pub(crate) use crate::hidden;
    pub type Oid = u32;
    pub mod memory {
        /// # Safety
        /// `len` values at `at`.
        pub unsafe fn slice<'a, T>(at: *const T, len: usize) -> &'a [T] {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(at, len) }
        }
    }
}
#[path = "../src/keys/plaintext_cache.rs"]
mod plaintext_cache;
mod settings {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// in bytes
    pub static PLAINTEXT_CACHE: AtomicUsize = AtomicUsize::new(64 * 1024);

    pub fn plaintext_cache() -> usize {
        PLAINTEXT_CACHE.load(Ordering::Relaxed)
    }
}

use std::sync::atomic::Ordering;

use pg::Oid;
use plaintext_cache::{find, forget, keep};

fn sealed(number: u8, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(7)).collect();
    bytes[len - 1] = number;
    bytes
}

fn found(oid: Oid, sealed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; len];
    // SAFETY: a buffer of that length.
    unsafe { find(oid, sealed, out.as_mut_ptr(), len) }.then_some(out)
}

fn keep_it(oid: Oid, sealed: &[u8], plain: &[u8]) {
    // SAFETY: pointer and length of a slice.
    unsafe { keep(oid, sealed, plain.as_ptr(), plain.len()) }
}

/// One test, since the cache is one of the process.
#[test]
fn finds_what_was_kept_and_nothing_else() {
    assert_eq!(found(1, &sealed(1, 38), 4), None);
    keep_it(1, &sealed(1, 38), b"four");
    assert_eq!(found(1, &sealed(1, 38), 4).as_deref(), Some(&b"four"[..]));
    assert_eq!(found(2, &sealed(1, 38), 4), None, "another relation");
    assert_eq!(found(1, &sealed(2, 38), 4), None, "another tag");
    assert_eq!(found(1, &sealed(1, 38), 3), None, "another length");
    let mut altered = sealed(1, 38);
    altered[0] ^= 1;
    assert_eq!(found(1, &altered, 4), None, "other bytes before the tag");

    // one of each size of place, and one for which there is none
    for len in [8, 16, 60, 100, 170] {
        let plain = vec![len as u8; len];
        keep_it(1, &sealed(3, len + 34), &plain);
        assert_eq!(found(1, &sealed(3, len + 34), len), Some(plain), "{len} bytes");
    }
    keep_it(1, &sealed(4, 420), &[6; 400]);
    assert_eq!(found(1, &sealed(4, 420), 400), None, "no place is so large");

    // A set of two: the third drives out one that was not found again, and one that was when it has lost its lives.
    let there = |oid| found(oid, &sealed(9, 39), 5).is_some();
    keep_it(11, &sealed(9, 39), b"alike");
    keep_it(12, &sealed(9, 39), b"alike");
    assert!(there(11));
    keep_it(13, &sealed(9, 39), b"alike");
    assert_eq!((there(11), there(12), there(13)), (true, false, true));
    keep_it(14, &sealed(9, 39), b"alike");
    assert_eq!((there(11), there(13), there(14)), (true, true, false));
    for _ in 0..100 {
        assert!(there(11));
    }
    for _ in 0..100 {
        keep_it(14, &sealed(9, 39), b"alike");
    }
    assert!(there(14), "no number of hits keeps a place for ever");

    forget();
    assert_eq!(found(14, &sealed(9, 39), 5), None);
    settings::PLAINTEXT_CACHE.store(0, Ordering::Relaxed);
    keep_it(1, &sealed(1, 38), b"four");
    assert_eq!(found(1, &sealed(1, 38), 4), None, "no cache");
}
