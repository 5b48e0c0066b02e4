//! The pool of IVs.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::crypto::iv::IvError;
use crate::crypto::iv::BATCH;
use crate::crypto::{Iv, IvPool};

/// Random bytes as the server's `pg_strong_random` gives them.
fn strong_random(bytes: &mut [u8]) -> bool {
    openssl::rand::rand_bytes(bytes).is_ok()
}

/// A source that counts: the n-th IV that it gives, from 0 on, spells n.
struct Counter {
    calls: usize,
    given: u64,
}

impl Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        assert_eq!(bytes.len(), 3072);
        self.calls += 1;
        for iv in bytes.chunks_exact_mut(12) {
            iv.fill(0);
            iv[..8].copy_from_slice(&self.given.to_le_bytes());
            self.given += 1;
        }
        true
    }
}

fn number(iv: Iv) -> u64 {
    u64::from_le_bytes(iv[..8].try_into().unwrap())
}

#[test]
fn ten_thousand_ivs_without_a_repeat() {
    // In the server, too, it is a static.
    static POOL: Mutex<IvPool> = Mutex::new(IvPool::new());
    let mut pool = POOL.lock().unwrap();
    let mut seen = HashSet::new();
    for _ in 0..10_000 {
        assert!(seen.insert(pool.next(1, strong_random).unwrap()));
    }
    assert!(!seen.contains(&[0; 12]));
}

#[test]
fn a_batch_is_handed_out_in_full_and_once() {
    let mut source = Counter { calls: 0, given: 0 };
    let mut pool = IvPool::new();
    for n in 0..10 * BATCH as u64 {
        assert_eq!(number(pool.next(1, |b| source.fill(b)).unwrap()), n);
        assert_eq!(source.calls, 1 + n as usize / BATCH);
    }
}

#[test]
fn another_process_discards_the_batch() {
    let mut source = Counter { calls: 0, given: 0 };
    let mut parent = IvPool::new();
    let batch = BATCH as u64;
    assert_eq!(number(parent.next(1, |b| source.fill(b)).unwrap()), 0);

    // SAFETY: a pool is plain values, nothing that a copy could share; this is what fork does.
    let mut child = unsafe { std::ptr::read(&raw const parent) };
    assert_eq!(number(child.next(2, |b| source.fill(b)).unwrap()), batch);
    assert_eq!(number(child.next(2, |b| source.fill(b)).unwrap()), batch + 1);
    assert_eq!(source.calls, 2);

    // The parent goes on with its own; a child of process id 0, the value of an unused pool, draws
    // too.
    assert_eq!(number(parent.next(1, |b| source.fill(b)).unwrap()), 1);
    assert_eq!(number(parent.next(0, |b| source.fill(b)).unwrap()), 2 * batch);
    assert_eq!(number(IvPool::new().next(0, |b| source.fill(b)).unwrap()), 3 * batch);
}

/// The buffer that the source is given shows what the pool keeps of the last batch.
#[test]
fn used_ivs_are_overwritten() {
    let mut pool = IvPool::new();
    let source = |batch: &mut [u8]| {
        assert!(batch.iter().all(|&b| b == 0));
        batch.fill(0xAB);
        true
    };
    for _ in 0..2 * BATCH {
        assert_eq!(pool.next(1, source), Ok([0xAB; 12]));
    }
}

#[test]
fn a_failing_source_is_an_error() {
    let mut source = Counter { calls: 0, given: 0 };
    let mut pool = IvPool::new();
    assert_eq!(pool.next(1, |_| false), Err(IvError::RandomSource));
    // Nor does it fall back to a batch half written, or to one of another process.
    let half = |b: &mut [u8]| {
        b[..1000].fill(1);
        false
    };
    assert_eq!(pool.next(1, half), Err(IvError::RandomSource));
    assert_eq!(number(pool.next(1, |b| source.fill(b)).unwrap()), 0);
    assert_eq!(pool.next(2, |_| false), Err(IvError::RandomSource));
    assert_eq!(pool.next(1, |_| false), Err(IvError::RandomSource));
    assert_eq!(number(pool.next(1, |b| source.fill(b)).unwrap()), BATCH as u64);
}
