//! Keys of encrypted indexes: each is bound to its index, by the key it is under, and to its column.

use crate::crypto::key::{self, KeyError, Place, COMPRESSED, KEY_OVERHEAD};
use crate::crypto::{kdf, Cipher};
use crate::support::*;

const PLACE: Place = Place { index: 16390, column: 3 };

fn seal(cipher: &mut Cipher, place: Place, plain: &[u8]) -> Vec<u8> {
    let mut stored = vec![UNTOUCHED; plain.len() + KEY_OVERHEAD];
    let iv = noise(plain.len() as u64 + 5, 12).try_into().unwrap();
    key::seal(cipher, &iv, 200, place, plain, as_uninit(&mut stored)).unwrap();
    stored
}

fn open(cipher: &mut Cipher, stored: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut plain = vec![UNTOUCHED; key::plain_len(stored.len()).unwrap_or(0)];
    match key::open(cipher, stored, as_uninit(&mut plain)) {
        Ok(()) => Ok(plain),
        Err(error) => {
            assert!(plain.iter().all(|&b| b == 0 || b == UNTOUCHED), "plaintext left behind");
            assert!(error_queue_is_empty());
            Err(error)
        }
    }
}

#[test]
fn keys_of_every_length_round_trip() {
    let mut cipher = cipher(1);
    for len in 0..=2800 {
        let plain = noise(len as u64, len);
        let stored = seal(&mut cipher, PLACE, &plain);
        assert_eq!(stored.len(), len + 34);
        assert_eq!(key::generation_byte(&stored), Some(200));
        assert_eq!(key::place(&stored), Some(PLACE));
        assert_eq!(open(&mut cipher, &stored), Ok(plain), "{len} bytes");
    }
}

#[test]
fn what_is_not_authenticated_is_checked_by_the_caller_or_chooses_the_key() {
    let mut cipher = cipher(1);
    let plain = noise(1, 8);
    let stored = seal(&mut cipher, PLACE, &plain);
    for bit in 0..stored.len() * 8 {
        let flipped = flip(&stored, bit);
        match bit / 8 {
            // the index OID: the caller compares it, and the key is derived from the true one
            0..=3 => assert_ne!(key::place(&flipped), Some(PLACE)),
            // the generation: another key
            5 => assert_ne!(key::generation_byte(&flipped), Some(200)),
            _ => assert_eq!(open(&mut cipher, &flipped), Err(KeyError::Authentication), "bit {bit}"),
        }
    }
}

#[test]
fn a_key_fits_no_other_column_no_other_length_and_no_other_form() {
    let mut cipher = cipher(1);
    let stored = seal(&mut cipher, PLACE, &noise(1, 40));
    for column in [0, 4, PLACE.column | COMPRESSED] {
        let mut moved = stored.clone();
        moved[4] = column;
        assert_eq!(open(&mut cipher, &moved), Err(KeyError::Authentication), "{column}");
    }
    for len in 0..stored.len() {
        assert!(open(&mut cipher, &stored[..len]).is_err(), "{len} bytes");
    }
    assert_eq!(key::place(&stored[..KEY_OVERHEAD - 1]), None);
    let longer = [&stored[..], &[0]].concat();
    assert_eq!(open(&mut cipher, &longer), Err(KeyError::Authentication));
}

#[test]
fn a_key_of_another_index_does_not_open() {
    let of = |label, oid| Cipher::new(&kdf::derive(&[9; 32], label, oid).unwrap()).unwrap();
    let stored = seal(&mut of(kdf::LABEL_INDEX, 16390), PLACE, b"secret");
    assert!(open(&mut of(kdf::LABEL_INDEX, 16390), &stored).is_ok());
    assert_eq!(open(&mut of(kdf::LABEL_INDEX, 16391), &stored), Err(KeyError::Authentication));
    assert_eq!(open(&mut of(kdf::LABEL_HEAP, 16390), &stored), Err(KeyError::Authentication));
}
