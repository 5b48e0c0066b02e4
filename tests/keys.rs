//! The parts of the keys room that need no server: the ring, the cipher cache, and how a Transit key's wrapping is stored.
//! `cargo test --test keys`

#![allow(dead_code, unused_imports)]

#[path = "../src/crypto/mod.rs"]
mod crypto;
mod pg {
    pub type Oid = u32;
}
#[path = "../src/keys/vault/blob.rs"]
mod blob;
#[path = "../src/keys/cache.rs"]
mod cache;
#[path = "../src/keys/ring.rs"]
mod ring;
#[path = "../src/keys/tally.rs"]
mod tally;

use blob::{Blob, TransitKey};

use cache::{CipherCache, Purpose};
use ring::{DataKey, Ring};
use zeroize::Zeroizing;

fn key(generation: i32, id: u8) -> DataKey {
    DataKey {
        generation,
        key_id: [id; 16],
        serial: 0,
        provider: "file".to_owned(),
        wrapped: Vec::new(),
        kek_version: None,
        dek: None,
        visible: true,
    }
}

fn generation(ring: &Ring, index: Option<usize>) -> Option<i32> {
    index.and_then(|index| ring.key(index)).map(|key| key.generation)
}

fn serial_of(ring: &Ring, id: u8) -> Option<u32> {
    ring.keys().iter().find(|key| key.key_id == [id; 16]).map(|key| key.serial)
}

#[test]
fn an_empty_ring_has_nothing() {
    let ring = Ring::new();
    assert_eq!(ring.current(), None);
    assert!((0..=255).all(|byte| ring.newest(byte).is_none()));
}

#[test]
fn the_newest_generation_is_current_in_whatever_order_rows_come() {
    let mut ring = Ring::new();
    ring.replace(vec![key(2, 2), key(3, 3), key(1, 1)]);
    assert_eq!(generation(&ring, ring.current()), Some(3));
    assert_eq!(generation(&ring, ring.newest(2)), Some(2));
    assert_eq!(ring.newest(4), None);
}

#[test]
fn generations_of_the_same_low_byte_come_newest_first() {
    let mut ring = Ring::new();
    ring.replace([1, 257, 2, 513].map(|generation| key(generation, generation as u8 ^ (generation >> 8) as u8)).into());
    let first = ring.newest(1);
    assert_eq!(generation(&ring, first), Some(513));
    let second = ring.older(first.unwrap());
    assert_eq!(generation(&ring, second), Some(257));
    let third = ring.older(second.unwrap());
    assert_eq!(generation(&ring, third), Some(1));
    assert_eq!(ring.older(third.unwrap()), None);
}

#[test]
fn what_is_known_of_a_key_id_is_kept() {
    let mut ring = Ring::new();
    ring.replace(vec![key(1, 1)]);
    ring.key_mut(0).unwrap().dek = Some(Box::new(Zeroizing::new([7; 32])));
    let serial = serial_of(&ring, 1);
    ring.replace(vec![key(1, 1), key(2, 2)]);
    assert_eq!(serial_of(&ring, 1), serial);
    assert!(ring.key(0).unwrap().dek.is_some() && ring.key(1).unwrap().dek.is_none());
}

#[test]
fn a_generation_number_that_is_used_again_gets_another_serial() {
    let mut ring = Ring::new();
    ring.replace(vec![key(1, 1), key(2, 20)]);
    let rolled_back = serial_of(&ring, 20).unwrap();
    ring.replace(vec![key(1, 1)]);
    assert!(!ring.has_serial(rolled_back));
    ring.replace(vec![key(1, 1), key(2, 21)]);
    assert_ne!(serial_of(&ring, 21), Some(rolled_back));
    assert!(ring.key(1).unwrap().dek.is_none());
}

#[test]
fn a_key_that_is_not_committed_decrypts_but_is_not_current() {
    let mut ring = Ring::new();
    ring.replace(vec![key(1, 1)]);
    ring.add(DataKey { visible: false, ..key(2, 2) });
    assert_eq!(generation(&ring, ring.current()), Some(1));
    assert_eq!(generation(&ring, ring.newest(2)), Some(2));
    ring.replace(vec![key(1, 1)]);
    assert_eq!(ring.newest(2), None);
}

#[test]
fn an_uncommitted_key_is_tried_after_the_committed_one_of_its_generation() {
    let mut ring = Ring::new();
    ring.replace(vec![key(2, 2)]);
    ring.add(DataKey { visible: false, ..key(2, 3) });
    let newest = ring.newest(2).unwrap();
    assert!(ring.key(newest).unwrap().visible);
    let older = ring.older(newest).unwrap();
    assert!(!ring.key(older).unwrap().visible);
}

const DEK: [u8; 32] = [42; 32];

#[test]
fn ciphers_are_found_under_all_three_parts_of_their_name() {
    let mut cache = CipherCache::new();
    assert!(cache.make(1, Purpose::Heap, 1, &DEK).is_some());
    assert!(cache.find(1, Purpose::Heap, 1).is_some());
    assert!(cache.find(2, Purpose::Heap, 1).is_none());
    assert!(cache.find(1, Purpose::Heap, 2).is_none());
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let mut cache = CipherCache::new();
    cache.make(1, Purpose::Heap, 1, &DEK);
    for oid in 2..5000 {
        cache.make(oid, Purpose::Heap, 1, &DEK);
        assert!(cache.find(1, Purpose::Heap, 1).is_some(), "oid {oid} pushed out what is in use");
    }
    let held = (1..5000).filter(|&oid| cache.find(oid, Purpose::Heap, 1).is_some()).count();
    assert!(held <= 1024, "{held}");
}

#[test]
fn ciphers_of_keys_that_left_the_ring_are_dropped() {
    let mut cache = CipherCache::new();
    for serial in 1..=3 {
        cache.make(9, Purpose::Heap, serial, &DEK);
    }
    cache.retain(|serial| serial != 2);
    let held: Vec<bool> = (1..=3).map(|serial| cache.find(9, Purpose::Heap, serial).is_some()).collect();
    assert_eq!(held, [true, false, true]);
}

#[test]
fn a_transit_wrapping_is_read_as_it_was_stored() {
    let key = TransitKey::new("team/a", "transit/eu", "pg-1.x").unwrap();
    let stored = blob::build(&key, "vault:v12:ab+/cd==");
    let blob = Blob::parse(&stored).unwrap();
    assert_eq!((blob.key.path("decrypt"), blob.ciphertext), ("transit/eu/decrypt/pg-1.x".into(), "vault:v12:ab+/cd=="));
    assert_eq!(blob.key, key);
    assert_eq!(blob::version(blob.ciphertext), Some(12));
    let key = TransitKey::new("", "transit", "pg").unwrap();
    assert_eq!(Blob::parse(&blob::build(&key, "vault:v1:a")).unwrap().key, key);
}

#[test]
fn a_wrapping_that_was_changed_leads_to_no_other_path() {
    for stored in [
        "",
        "1",
        "2\n\ntransit\npg\nvault:v1:a",
        "1\n\ntransit\npg",
        "1\n\ntransit\npg\nvault:v1:a\n",
        "1\n\n\npg\nvault:v1:a",
        "1\n\n..\npg\nvault:v1:a",
        "1\n\ntransit/../sys\npg\nvault:v1:a",
        "1\n\ntransit\n../pg\nvault:v1:a",
        "1\n\ntransit\npg?x\nvault:v1:a",
        "1\na b\ntransit\npg\nvault:v1:a",
        "1\n\ntransit\npg\nvault:v1:a\"}",
        "1\n\ntransit\npg\nvault:vx:a",
        "1\n\ntransit\npg\nvault:v1:",
        "1\n\ntransit\npg\nvault:v99999999999:a",
    ] {
        assert!(Blob::parse(stored.as_bytes()).is_none(), "{stored:?}");
    }
    assert!(Blob::parse(b"1\n\ntransit\npg\nvault:v1:\xff").is_none());
}

/// What the cache has counted: (relation, sealed, opened) in the order of relations, those of one added up.
fn counts(cache: &mut CipherCache) -> Vec<(u32, u64, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    cache.give_counts(|oid, tally| {
        let sum: &mut (u64, u64) = counts.entry(oid).or_default();
        *sum = (sum.0 + tally.sealed.get(), sum.1 + tally.opened.get());
        true
    });
    counts.into_iter().map(|(oid, (sealed, opened))| (oid, sealed, opened)).collect()
}

#[test]
fn the_cache_counts_and_forgets_nothing_that_it_has_counted() {
    let mut cache = CipherCache::new();
    assert!(!cache.has_counts());
    for oid in 1..5000 {
        let place = cache.make(oid, Purpose::Heap, 1 + oid % 2, &DEK).expect("a cipher");
        (0..oid % 3).for_each(|_| cache.count_sealed(place));
        (0..oid % 5).for_each(|_| cache.count_opened(place));
    }
    cache.retain(|serial| serial == 1);
    assert!(cache.has_counts());
    let expected: Vec<_> = (1..5000u32)
        .map(|oid| (oid, u64::from(oid % 3), u64::from(oid % 5)))
        .filter(|&(_, sealed, opened)| sealed + opened > 0)
        .collect();
    let mut refused = 0;
    cache.give_counts(|_, _| {
        refused += 1;
        false
    });
    assert_eq!(refused, expected.len(), "each relation was counted once");
    assert_eq!(counts(&mut cache), expected, "what was refused is given again");
    assert!(!cache.has_counts());
    assert!(counts(&mut cache).is_empty(), "what was taken is not");
}
