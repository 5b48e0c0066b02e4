//! Published vectors, and the formats of version 1 compared with a second, plain construction.

use openssl::symm;

use crate::crypto::kdf::{self, KdfError};
use crate::crypto::kdf::{LABEL_HEAP, LABEL_TOAST};
use crate::crypto::{row, Cipher, CipherError, Iv, Key};
use crate::support::*;

fn hex(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// "The Galois/Counter Mode of Operation" (McGrew, Viega), test cases 13 to 16: AES-256 with IVs of
/// 96 bits.
#[test]
fn gcm_test_cases_13_to_16() {
    const KEY: &str = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
    const IV: &str = "cafebabefacedbaddecaf888";
    const PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
    const CIPHERTEXT: &str = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                              8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad";
    let zeros = "00".repeat(32);
    let cases = [
        // key, IV, AAD, plaintext, ciphertext, tag
        (zeros.as_str(), &zeros[..24], "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
        (
            &zeros,
            &zeros[..24],
            "",
            &zeros[..32],
            "cea7403d4d606b6e074ec5d3baf39d18",
            "d0d1c8a799996bf0265b98b5d48ab919",
        ),
        (KEY, IV, "", PLAIN, CIPHERTEXT, "b094dac5d93471bdec1a502270e3cc6c"),
        (
            KEY,
            IV,
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            &PLAIN[..120],
            &CIPHERTEXT[..120],
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ];
    for (number, (key, iv, aad, plain, ciphertext, tag)) in (13..).zip(cases) {
        let mut cipher = Cipher::new(&hex(key).try_into().unwrap()).unwrap();
        let iv = hex(iv).try_into().unwrap();
        let (aad, plain, ciphertext) = (hex(aad), hex(plain), hex(ciphertext));
        // Twice, since a context that is used again must not remember the last message.
        for _ in 0..2 {
            let mut out = vec![UNTOUCHED; plain.len()];
            let mut out_tag = [UNTOUCHED; 16];
            cipher.encrypt(&iv, &aad, &plain, as_uninit(&mut out), &mut out_tag).unwrap();
            assert_eq!((&out, &out_tag[..]), (&ciphertext, &hex(tag)[..]), "test case {number}");

            let mut back = vec![UNTOUCHED; plain.len()];
            cipher.decrypt(&iv, &aad, &ciphertext, &out_tag, as_uninit(&mut back)).unwrap();
            assert_eq!(back, plain, "test case {number}");

            let wrong_aad = [&aad[..], b"x"].concat();
            let refused = cipher.decrypt(&iv, &wrong_aad, &ciphertext, &out_tag, as_uninit(&mut back));
            assert_eq!(refused, Err(CipherError::Authentication), "test case {number}");
        }
    }
}

/// EVP, OpenSSL's own way to the implementation, gives the same bytes: one context through messages of many lengths, which take
/// different paths in OpenSSL, with failures in between.
#[test]
fn evp_agrees() {
    let key = [6; 32];
    let mut cipher = Cipher::new(&key).unwrap();
    let lengths = (0_usize..=300).chain([511, 512, 768, 1000, 4096, 8160, 70_000, 3_000_000]);
    for (number, len) in lengths.enumerate() {
        let (plain, aad) = (noise(len as u64 + 7, len), noise(number as u64, number % 40));
        let iv: Iv = noise(number as u64 + 99, 12).try_into().unwrap();
        let mut evp_tag = [0; 16];
        let aes = symm::Cipher::aes_256_gcm();
        let evp = symm::encrypt_aead(aes, &key, Some(&iv), &aad, &plain, &mut evp_tag).unwrap();

        let (mut out, mut tag) = (vec![UNTOUCHED; len], [UNTOUCHED; 16]);
        cipher.encrypt(&iv, &aad, &plain, as_uninit(&mut out), &mut tag).unwrap();
        assert!(out == evp && tag == evp_tag, "{len} bytes");
        tag[number % 16] ^= 1;
        let refused = cipher.decrypt(&iv, &aad, &evp, &tag, as_uninit(&mut out));
        assert_eq!(refused, Err(CipherError::Authentication), "{len} bytes");
        assert!(out.iter().all(|&byte| byte == 0), "{len} bytes");
        cipher.decrypt(&iv, &aad, &evp, &evp_tag, as_uninit(&mut out)).unwrap();
        assert!(out == plain, "{len} bytes");
    }
}

/// RFC 5869, appendix A.1 to A.3.
#[test]
fn hkdf_test_cases_1_to_3() {
    let range = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
    let cases = [
        // input key material, salt, info, output
        (
            vec![0x0b; 22],
            range(0x00, 0x0c),
            range(0xf0, 0xf9),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            range(0x00, 0x4f),
            range(0x60, 0xaf),
            range(0xb0, 0xff),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb\
             41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            vec![0x0b; 22],
            vec![],
            vec![],
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ];
    for (number, (ikm, salt, info, okm)) in (1..).zip(cases) {
        let okm = hex(okm);
        let mut out = vec![UNTOUCHED; okm.len()];
        kdf::hkdf(&ikm, &salt, &info, &mut out).unwrap();
        assert_eq!(out, okm, "test case {number}");
    }
}

#[test]
fn hkdf_refuses_too_much_output() {
    assert_eq!(kdf::hkdf(b"k", b"", b"", &mut [0; 255 * 32]), Ok(()));
    assert_eq!(kdf::hkdf(b"k", b"", b"", &mut [0; 255 * 32 + 1]), Err(KdfError::Library));
    assert!(error_queue_is_empty());
}

/// Computed with Python's hmac; a change of these means that no existing row can be read.
#[test]
fn derived_keys_never_change() {
    let dek: Key = std::array::from_fn(|i| i as u8);
    let derive = |label, oid| kdf::derive(&dek, label, oid).unwrap().to_vec();
    assert_eq!(derive(LABEL_HEAP, 16384), hex("fe090a1b5baebb960ebfe083343609936ca450fcb8202f62fe807fa2c828fa8a"));
    assert_eq!(derive(LABEL_TOAST, 16384), hex("3657f532defe5e6da6b3b3e2595a7a80222e793385113efaf92d3af48825dbc7"));
    assert_eq!(
        derive(b"pg_vault_tde index v1", 0x01020304),
        hex("b8c56c97a48923dd57154972ce878be8f13fe65abd4c792f6840d81e51987802")
    );
}

/// The stored row as design.md draws it, put together by hand.
#[test]
fn stored_row_is_laid_out_as_designed() {
    let plain = tuple(77);
    let iv = [5; 12];
    for (has_external, infomask) in [(false, 0x2900), (true, 0x2902)] {
        let mut tag = [0; 16];
        let aes = symm::Cipher::aes_256_gcm();
        let ciphertext = symm::encrypt_aead(aes, &[9; 32], Some(&iv), &[], &plain[18..], &mut tag).unwrap();
        let mut expected = plain[..18].to_vec();
        expected.extend_from_slice(&0x8000u16.to_ne_bytes());
        expected.extend_from_slice(&(infomask as u16).to_ne_bytes());
        expected.extend_from_slice(&[24, 42]);
        expected.extend_from_slice(&iv);
        expected.extend_from_slice(&ciphertext);
        expected.extend_from_slice(&tag);
        assert_eq!(expected.len(), plain.len() + 34);

        let mut stored = vec![UNTOUCHED; expected.len()];
        row::seal(&mut cipher(9), &iv, 42, has_external, &plain, as_uninit(&mut stored)).unwrap();
        assert_eq!(stored, expected);
        assert_eq!(row::generation_byte(&stored), Some(42));
        assert_eq!(row::has_external(&stored), has_external);
    }
}
