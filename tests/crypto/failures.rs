//! What was changed is refused, and a refusal leaves nothing behind.

use crate::crypto::row::RowError;
use crate::crypto::row::{generation_byte, DATA_OFFSET, GENERATION_OFFSET, HEADER_CLEAR};
use crate::crypto::{Cipher, CipherError};
use crate::support::*;

/// Opens `stored`, which must not authenticate, and checks that no plaintext is left in the output.
fn assert_refused(cipher: &mut Cipher, stored: &[u8], what: &str) {
    let (error, out) = open(cipher, stored).expect_err(what);
    assert_eq!(error, RowError::Authentication, "{what}");
    assert!(out[..HEADER_CLEAR].iter().all(|&b| b == UNTOUCHED), "{what}");
    assert!(out[HEADER_CLEAR..].iter().all(|&b| b == 0), "{what}");
    assert!(error_queue_is_empty(), "{what}");
}

#[test]
fn every_flipped_bit_is_refused_and_the_cipher_goes_on() {
    let mut cipher = cipher(1);
    let plain = tuple(20);
    let stored = seal(&mut cipher, 7, &plain);
    assert!((70..110).contains(&stored.len()));
    for bit in DATA_OFFSET * 8..stored.len() * 8 {
        assert_refused(&mut cipher, &flip(&stored, bit), &format!("bit {bit}"));
        assert_eq!(open(&mut cipher, &stored).as_ref(), Ok(&plain), "after bit {bit}");
        assert_eq!(seal(&mut cipher, 7, &plain), stored, "after bit {bit}");
    }
}

/// The generation byte is not authenticated by itself: it says which key to take.
#[test]
fn every_flipped_bit_of_the_generation_is_refused() {
    const GENERATION: u8 = 2;
    // Bits 0, 1 and 2 lead to another key, the rest to none.
    let mut ring: Vec<(u8, Cipher)> = (0..=6).map(|g| (g, cipher(g + 1))).collect();
    let mut open_with_ring = |stored: &[u8]| {
        let generation = generation_byte(stored).expect("not a stored row");
        let key = ring.iter_mut().find(|(g, _)| *g == generation);
        key.map(|(_, cipher)| open(cipher, stored).map_err(|(error, _)| error))
    };
    let plain = tuple(20);
    let stored = seal(&mut cipher(GENERATION + 1), GENERATION, &plain);
    assert_eq!(open_with_ring(&stored), Some(Ok(plain)));
    for bit in 0..8 {
        let expected = (bit < 3).then_some(Err(RowError::Authentication));
        let changed = flip(&stored, GENERATION_OFFSET * 8 + bit);
        assert_eq!(open_with_ring(&changed), expected, "bit {bit}");
    }
}

#[test]
fn a_row_that_is_cut_or_grows_is_refused() {
    let mut cipher = cipher(1);
    let stored = seal(&mut cipher, 7, &tuple(20));
    for len in 0..58 {
        let (error, _) = open(&mut cipher, &stored[..len]).unwrap_err();
        assert_eq!(error, RowError::NotEncrypted, "{len} bytes");
        assert_eq!(generation_byte(&stored[..len]), None, "{len} bytes");
    }
    for len in 58..stored.len() {
        assert_refused(&mut cipher, &stored[..len], &format!("{len} bytes"));
    }
    assert_refused(&mut cipher, &[&stored[..], &[0]].concat(), "a byte more");
}

#[test]
fn a_row_of_another_key_is_refused() {
    let stored = seal(&mut cipher(1), 7, &tuple(20));
    assert_refused(&mut cipher(2), &stored, "another key");
}

/// Ciphertext, tag, IV and AAD that each are genuine do not authenticate in another combination.
#[test]
fn tag_of_another_message_is_refused() {
    let mut cipher = cipher(1);
    let mut encrypt = |iv: u8, aad: &[u8], plain: &[u8]| {
        let mut out = vec![UNTOUCHED; plain.len()];
        let mut tag = [0; 16];
        cipher.encrypt(&[iv; 12], aad, plain, as_uninit(&mut out), &mut tag).unwrap();
        (out, tag)
    };
    let (one, tag_of_one) = encrypt(1, b"chunk 0", b"some value");
    let (two, tag_of_two) = encrypt(2, b"chunk 1", b"else value");
    let mut decrypt = |iv: u8, aad: &[u8], ciphertext: &[u8], tag| {
        let mut out = vec![UNTOUCHED; ciphertext.len()];
        let result = cipher.decrypt(&[iv; 12], aad, ciphertext, tag, as_uninit(&mut out));
        result.map(|()| out)
    };
    const REFUSED: Result<Vec<u8>, CipherError> = Err(CipherError::Authentication);
    assert_eq!(decrypt(1, b"chunk 0", &one, &tag_of_one), Ok(b"some value".to_vec()));
    assert_eq!(decrypt(2, b"chunk 0", &one, &tag_of_one), REFUSED);
    assert_eq!(decrypt(1, b"chunk 1", &one, &tag_of_one), REFUSED);
    assert_eq!(decrypt(1, b"", &one, &tag_of_one), REFUSED);
    assert_eq!(decrypt(1, b"chunk 0", &two, &tag_of_one), REFUSED);
    assert_eq!(decrypt(1, b"chunk 0", &one, &tag_of_two), REFUSED);
    assert_eq!(decrypt(2, b"chunk 1", &two, &tag_of_two), Ok(b"else value".to_vec()));
}

/// An empty message, too, is refused with a wrong tag.
#[test]
fn an_empty_message_has_a_tag() {
    let mut cipher = cipher(1);
    let mut tag = [0; 16];
    cipher.encrypt(&[1; 12], b"aad", &[], &mut [], &mut tag).unwrap();
    assert_eq!(cipher.decrypt(&[1; 12], b"aad", &[], &tag, &mut []), Ok(()));
    tag[0] ^= 1;
    let refused = cipher.decrypt(&[1; 12], b"aad", &[], &tag, &mut []);
    assert_eq!(refused, Err(CipherError::Authentication));
}

/// PostgreSQL's SSL code would take an old entry for an error of its own.
#[test]
fn a_refusal_empties_the_error_queue() {
    let mut cipher = cipher(1);
    let stored = seal(&mut cipher, 7, &tuple(20));
    put_on_error_queue();
    assert_refused(&mut cipher, &flip(&stored, 30 * 8), "flipped bit");
}
