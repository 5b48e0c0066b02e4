//! Wrapped data keys.

use openssl::symm;

use crate::crypto::wrap::UnwrapError;
use crate::crypto::wrap::{unwrap, wrap, WRAPPED_LEN};
use crate::support::*;

const KEK: [u8; 32] = [1; 32];
const ID: [u8; 16] = [2; 16];
const DEK: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
const IV: [u8; 12] = [4; 12];

#[test]
fn wrapped_key_is_laid_out_as_designed() {
    let mut tag = [0; 16];
    let aes = symm::Cipher::aes_256_gcm();
    let ciphertext = symm::encrypt_aead(aes, &KEK, Some(&IV), &ID, &DEK, &mut tag).unwrap();
    let expected = [&[1], &IV[..], &ciphertext, &tag].concat();
    assert_eq!(expected.len(), 61);
    assert_eq!(wrap(&KEK, &ID, &DEK, &IV).unwrap()[..], expected);
}

#[test]
fn round_trip() {
    let wrapped = wrap(&KEK, &ID, &DEK, &IV).unwrap();
    assert_eq!(*unwrap(&KEK, &ID, &wrapped).unwrap(), DEK);
    assert!(!wrapped.windows(4).any(|w| DEK.windows(4).any(|d| d == w)));
}

#[test]
fn every_flipped_bit_is_refused() {
    let wrapped = wrap(&KEK, &ID, &DEK, &IV).unwrap();
    for bit in 0..WRAPPED_LEN * 8 {
        let expected = match bit {
            0..8 => UnwrapError::BadFormat,
            _ => UnwrapError::Authentication,
        };
        assert_eq!(unwrap(&KEK, &ID, &flip(&wrapped, bit)), Err(expected), "bit {bit}");
        assert!(error_queue_is_empty());
    }
}

#[test]
fn another_kek_or_key_id_is_refused() {
    let wrapped = wrap(&KEK, &ID, &DEK, &IV).unwrap();
    for bit in 0..ID.len() * 8 {
        let id = flip(&ID, bit).try_into().unwrap();
        assert_eq!(unwrap(&KEK, &id, &wrapped), Err(UnwrapError::Authentication));
    }
    for bit in 0..KEK.len() * 8 {
        let kek = flip(&KEK, bit).try_into().unwrap();
        assert_eq!(unwrap(&kek, &ID, &wrapped), Err(UnwrapError::Authentication));
    }
}

#[test]
fn a_wrong_length_is_bad_format() {
    let wrapped = [&wrap(&KEK, &ID, &DEK, &IV).unwrap()[..], &[0; 20]].concat();
    for len in (0..wrapped.len()).filter(|&len| len != WRAPPED_LEN) {
        assert_eq!(unwrap(&KEK, &ID, &wrapped[..len]), Err(UnwrapError::BadFormat), "{len} bytes");
    }
}
