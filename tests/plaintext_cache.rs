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
use plaintext_cache::{find, forget, keep, Need};

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
    keep_as(Need::Possible, oid, sealed, plain);
}

fn keep_as(need: Need, oid: Oid, sealed: &[u8], plain: &[u8]) {
    // SAFETY: pointer and length of a slice.
    unsafe { keep(oid, sealed, plain.as_ptr(), plain.len(), need) }
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

    // of each length for which there is a place, every byte counts; and one for which there is none
    for len in 1..=170 {
        let (it, plain): (Vec<u8>, Vec<u8>) = (sealed(3, len + 34), (0..len).map(|i| (i * 5 + len) as u8).collect());
        // places of others are asked for until one of them has no lives left
        (0..5).for_each(|_| keep_as(Need::Sure, 1, &it, &plain));
        assert_eq!(found(1, &it, len), Some(plain), "{len} bytes");
        for i in 0..it.len() {
            let mut altered = it.clone();
            altered[i] ^= 0x80;
            assert_eq!(found(1, &altered, len), None, "{len} bytes, other byte {i}");
        }
    }
    keep_it(1, &sealed(4, 420), &[6; 400]);
    assert_eq!(found(1, &sealed(4, 420), 400), None, "no place is so large");

    forget();
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

    // What is sure to be asked for again waits for who was found lately, as others do, and for nobody else.
    let find_often = |oid| (0..100).all(|_| there(oid));
    let all_there = || [11, 14, 15, 16].map(there);
    assert!(find_often(11) && find_often(14));
    keep_as(Need::Sure, 15, &sealed(9, 39), b"alike");
    assert_eq!(all_there(), [true, true, false, false], "both were found lately");
    assert!((0..3 * 2048).all(|_| there(11)));
    keep_it(16, &sealed(9, 39), b"alike");
    assert_eq!(found(16, &sealed(9, 39), 5), None, "it is not sure");
    keep_as(Need::Sure, 15, &sealed(9, 39), b"alike");
    assert_eq!(all_there(), [true, false, true, false], "one was not found lately");

    forget();
    assert_eq!(found(14, &sealed(9, 39), 5), None);
    settings::PLAINTEXT_CACHE.store(0, Ordering::Relaxed);
    keep_it(1, &sealed(1, 38), b"four");
    assert_eq!(found(1, &sealed(1, 38), 4), None, "no cache");
}
