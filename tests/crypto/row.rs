//! The stored row: round trips, and what is taken from where.

use crate::crypto::row::{self, RowError};
use crate::crypto::row::{
    generation_byte, has_external, plain_len, stored_len, DATA_OFFSET, GENERATION_OFFSET, HEAP2_XACT_MASK,
    HEAP_HASVARWIDTH, HEAP_XACT_MASK, INFOMASK2_OFFSET, INFOMASK_OFFSET,
};
use crate::crypto::CipherError;
use crate::support::*;

#[test]
fn every_length_round_trips() {
    let mut cipher = cipher(1);
    for data_len in 0..=9000 {
        let plain = tuple(data_len);
        let stored = seal(&mut cipher, 7, &plain);
        assert_eq!(open(&mut cipher, &stored), Ok(plain), "{data_len} bytes of data");
    }
}

#[test]
fn lengths() {
    assert_eq!(row::ROW_OVERHEAD, 34);
    assert_eq!(stored_len(24), 58);
    for stored in 0..58 {
        assert_eq!(plain_len(stored), None);
    }
    for plain in 24..9000 {
        assert_eq!(plain_len(stored_len(plain)), Some(plain));
    }
}

/// No eight bytes of the plaintext that is to be hidden are found in the stored row.
#[test]
fn nothing_sealed_is_readable() {
    let plain = tuple(300);
    let stored = seal(&mut cipher(1), 7, &plain);
    for piece in plain[18..].windows(8) {
        assert!(!stored.windows(8).any(|w| w == piece));
    }
}

/// Each bit of the header in turn: either it is real, and comes out as it was stored while every
/// other bit is the one sealed, or it is the disguise, and its change is refused. (The generation
/// byte is in `failures`.)
#[test]
fn transaction_bits_of_the_stored_header_win() {
    let mut cipher = cipher(1);
    let plain = tuple(50);
    let stored = seal(&mut cipher, 7, &plain);
    let mut refused = 0;
    for bit in 0..GENERATION_OFFSET * 8 {
        let changed = flip(&stored, bit);
        let mask_changed = |at| get_u16(&changed, at) ^ get_u16(&stored, at);
        let infomask2 = mask_changed(INFOMASK2_OFFSET);
        let infomask = mask_changed(INFOMASK_OFFSET);
        let is_real = bit < INFOMASK2_OFFSET * 8 || infomask2 & HEAP2_XACT_MASK != 0 || infomask & HEAP_XACT_MASK != 0;
        if is_real {
            assert_eq!(open(&mut cipher, &changed), Ok(flip(&plain, bit)), "bit {bit}");
        } else if infomask == HEAP_HASVARWIDTH {
            assert_eq!(open(&mut cipher, &changed), Ok(plain.clone()));
            assert!(has_external(&changed) && !has_external(&stored));
        } else {
            refused += 1;
            let (error, out) = open(&mut cipher, &changed).unwrap_err();
            assert_eq!(error, RowError::NotEncrypted, "bit {bit}");
            assert!(out.iter().all(|&b| b == UNTOUCHED));
            assert_eq!(generation_byte(&changed), None);
            assert!(!has_external(&changed));
        }
    }
    // 11 of the number of attributes, 2 unused; HASNULL, HASEXTERNAL, HASOID_OLD; 8 of hoff.
    assert_eq!(refused, 11 + 2 + 3 + 8);
}

/// What a row has been through since it was sealed does not touch what is inside.
#[test]
fn all_transaction_bits_at_once() {
    let mut cipher = cipher(1);
    let plain = tuple(50);
    let mut stored = seal(&mut cipher, 7, &plain);
    stored[..18].fill(0x5C);
    set_u16(&mut stored, INFOMASK2_OFFSET, 0x6000);
    set_u16(&mut stored, INFOMASK_OFFSET, 0xD6F0);

    let mut expected = plain.clone();
    expected[..18].fill(0x5C);
    set_u16(&mut expected, INFOMASK2_OFFSET, 0x6000 | 3);
    set_u16(&mut expected, INFOMASK_OFFSET, 0xD6F0 | 0x0007);
    assert_eq!(open(&mut cipher, &stored), Ok(expected));
}

/// Ordinary heap rows must never pass for stored ones, even if their header comes close.
#[test]
fn a_heap_row_is_not_encrypted() {
    let mut cipher = cipher(1);
    let plain = tuple(100);
    assert_eq!(open(&mut cipher, &plain).unwrap_err().0, RowError::NotEncrypted);
    assert_eq!(generation_byte(&plain), None);
    // No attributes at all, as in a table without columns.
    let mut empty = vec![0; 24];
    empty[row::HOFF_OFFSET] = DATA_OFFSET as u8;
    assert_eq!(open(&mut cipher, &empty).unwrap_err().0, RowError::NotEncrypted);
}

#[test]
fn buffers_of_a_wrong_length_are_refused() {
    let mut cipher = cipher(1);
    let plain = tuple(10);
    let stored = seal(&mut cipher, 7, &plain);
    for len in (0..200).filter(|&len| len != stored.len()) {
        let mut out = vec![UNTOUCHED; len];
        let result = row::seal(&mut cipher, &[0; 12], 7, false, &plain, as_uninit(&mut out));
        assert_eq!(result, Err(CipherError::BufferLength), "seal into {len}");
    }
    for len in (0..200).filter(|&len| len != plain.len()) {
        let mut out = vec![UNTOUCHED; len];
        let result = row::open(&mut cipher, &stored, as_uninit(&mut out));
        let expected = RowError::Cipher(CipherError::BufferLength);
        assert_eq!(result, Err(expected), "open into {len}");
    }
    for len in 0..24 {
        let mut out = vec![UNTOUCHED; stored_len(len)];
        let result = row::seal(&mut cipher, &[0; 12], 7, false, &plain[..len], as_uninit(&mut out));
        assert_eq!(result, Err(CipherError::BufferLength), "seal of {len}");
    }
}
