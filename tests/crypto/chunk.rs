//! Chunks of out-of-line values: each is bound to its value and its place in it.

use crate::crypto::chunk::{self, ChunkError, CHUNK_OVERHEAD};
use crate::crypto::Cipher;
use crate::support::*;

const PLACE: (u32, u32) = (16390, 7);

fn seal(cipher: &mut Cipher, place: (u32, u32), plain: &[u8]) -> Vec<u8> {
    let mut stored = vec![UNTOUCHED; plain.len() + CHUNK_OVERHEAD];
    let iv = noise(plain.len() as u64 + 5, 12).try_into().unwrap();
    chunk::seal(cipher, &iv, 3, place, plain, as_uninit(&mut stored)).unwrap();
    stored
}

fn open(cipher: &mut Cipher, place: (u32, u32), stored: &[u8]) -> Result<Vec<u8>, ChunkError> {
    let mut plain = vec![UNTOUCHED; chunk::plain_len(stored.len()).unwrap_or(0)];
    match chunk::open(cipher, place, stored, as_uninit(&mut plain)) {
        Ok(()) => Ok(plain),
        Err(error) => {
            assert!(plain.iter().all(|&b| b == 0 || b == UNTOUCHED), "plaintext left behind");
            assert!(error_queue_is_empty());
            Err(error)
        }
    }
}

#[test]
fn chunks_of_every_length_round_trip() {
    let mut cipher = cipher(1);
    for len in 0..=2000 {
        let plain = noise(len as u64, len);
        let stored = seal(&mut cipher, PLACE, &plain);
        assert_eq!(chunk::generation_byte(&stored), Some(3));
        assert_eq!(open(&mut cipher, PLACE, &stored), Ok(plain), "{len} bytes");
    }
}

#[test]
fn every_flipped_bit_behind_the_generation_is_refused() {
    let mut cipher = cipher(1);
    let stored = seal(&mut cipher, PLACE, &noise(1, 40));
    for bit in 8..stored.len() * 8 {
        assert_eq!(open(&mut cipher, PLACE, &flip(&stored, bit)), Err(ChunkError::Authentication), "bit {bit}");
    }
}

#[test]
fn a_chunk_fits_no_other_place_and_no_other_length() {
    let mut cipher = cipher(1);
    let stored = seal(&mut cipher, PLACE, &noise(1, 40));
    for place in [(PLACE.0, PLACE.1 + 1), (PLACE.0 + 1, PLACE.1), (PLACE.1, PLACE.0)] {
        assert_eq!(open(&mut cipher, place, &stored), Err(ChunkError::Authentication), "{place:?}");
    }
    for len in 0..stored.len() {
        assert!(open(&mut cipher, PLACE, &stored[..len]).is_err(), "{len} bytes");
    }
    let longer = [&stored[..], &[0]].concat();
    assert_eq!(open(&mut cipher, PLACE, &longer), Err(ChunkError::Authentication));
}
