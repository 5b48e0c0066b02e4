//! AES-256-GCM under one key, fast enough to be called for every row.
//!
//! In OpenSSL 3 fetching an algorithm, making a context and expanding a key each cost more than encrypting a row.
//! [`Cipher::new`] pays for them once; after that a message costs a new IV, the data and the tag. OpenSSL ties a
//! context to a direction, hence two of them.

use std::ffi::{c_int, c_uchar};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use openssl_sys as ffi;
use zeroize::Zeroize;

/// Bytes in an AES-256 key.
pub const KEY_LEN: usize = 32;
/// Bytes in an IV: 96 bits, the length that GCM uses as it is.
pub const IV_LEN: usize = 12;
/// Bytes in an authentication tag, which is never truncated.
pub const TAG_LEN: usize = 16;

/// An AES-256 key.
pub type Key = [u8; KEY_LEN];
/// An initialisation vector. It must never be used twice under one key.
pub type Iv = [u8; IV_LEN];
/// An authentication tag.
pub type Tag = [u8; TAG_LEN];

/// Why a message could not be encrypted or decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherError {
    /// The tag does not match: another key, or changed IV, AAD, ciphertext or tag.
    Authentication,
    /// The output buffer is not of the length that the message calls for.
    BufferLength,
    /// The message is longer than OpenSSL can take in one call (2^31 - 1 bytes).
    MessageTooLong,
    /// OpenSSL failed, which means out of memory or no AES-256-GCM in its providers.
    Library,
}

/// AES-256-GCM under one key. Holds the expanded key, which is cleansed on drop.
pub struct Cipher {
    encryptor: Context,
    decryptor: Context,
}

impl Cipher {
    /// Expands `key` for both directions. Takes microseconds: keep the result.
    ///
    /// Errors: [`CipherError::Library`].
    pub fn new(key: &Key) -> Result<Cipher, CipherError> {
        let encryptor = Context::new(key, ffi::EVP_EncryptInit_ex)?;
        let decryptor = Context::new(key, ffi::EVP_DecryptInit_ex)?;
        Ok(Cipher {
            encryptor,
            decryptor,
        })
    }

    /// Encrypts `plain` into `out`, which must be as long, and writes the tag over `aad` and ciphertext to `tag`.
    ///
    /// On success all of `out` is initialised. Errors: [`CipherError::BufferLength`], [`CipherError::MessageTooLong`],
    /// [`CipherError::Library`].
    #[inline]
    pub fn encrypt(
        &mut self,
        iv: &Iv,
        aad: &[u8],
        plain: &[u8],
        out: &mut [MaybeUninit<u8>],
        tag: &mut Tag,
    ) -> Result<(), CipherError> {
        if plain.len() != out.len() {
            return Err(CipherError::BufferLength);
        }
        let (aad_len, len) = (message_len(aad)?, message_len(plain)?);
        let ctx = self.encryptor.as_ptr();
        let out = out.as_mut_ptr().cast::<c_uchar>();
        let mut n: c_int = 0;
        // SAFETY: `ctx` is live and keyed; pointers and lengths are those of slices, `out` being as long as `plain`;
        // null pointers are passed only where OpenSSL takes them as "as before" or, for AAD, "no output".
        let done = unsafe {
            ffi::EVP_EncryptInit_ex(ctx, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr())
                == 1
                && (aad_len == 0
                    || ffi::EVP_EncryptUpdate(ctx, ptr::null_mut(), &mut n, aad.as_ptr(), aad_len)
                        == 1)
                && (len == 0
                    || (ffi::EVP_EncryptUpdate(ctx, out, &mut n, plain.as_ptr(), len) == 1
                        && n == len))
                && ffi::EVP_EncryptFinal_ex(ctx, out, &mut n) == 1
                && ffi::EVP_CIPHER_CTX_ctrl(
                    ctx,
                    ffi::EVP_CTRL_GCM_GET_TAG,
                    TAG_LEN as c_int,
                    tag.as_mut_ptr().cast(),
                ) == 1
        };
        if !done {
            clear_error_queue();
            return Err(CipherError::Library);
        }
        Ok(())
    }

    /// Decrypts `ciphertext` into `out`, which must be as long, and checks `tag` over `aad` and ciphertext.
    ///
    /// On success all of `out` is initialised. On failure it is cleansed, so that no unauthenticated plaintext is left
    /// in it. Errors: [`CipherError::Authentication`], [`CipherError::BufferLength`],
    /// [`CipherError::MessageTooLong`], [`CipherError::Library`].
    #[inline]
    pub fn decrypt(
        &mut self,
        iv: &Iv,
        aad: &[u8],
        ciphertext: &[u8],
        tag: &Tag,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CipherError> {
        if ciphertext.len() != out.len() {
            return Err(CipherError::BufferLength);
        }
        let (aad_len, len) = (message_len(aad)?, message_len(ciphertext)?);
        let ctx = self.decryptor.as_ptr();
        let to = out.as_mut_ptr().cast::<c_uchar>();
        let mut n: c_int = 0;
        // SAFETY: as in `encrypt`; OpenSSL copies the tag and does not write through the pointer to it.
        let decrypted = unsafe {
            ffi::EVP_DecryptInit_ex(ctx, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr())
                == 1
                && ffi::EVP_CIPHER_CTX_ctrl(
                    ctx,
                    ffi::EVP_CTRL_GCM_SET_TAG,
                    TAG_LEN as c_int,
                    tag.as_ptr().cast_mut().cast(),
                ) == 1
                && (aad_len == 0
                    || ffi::EVP_DecryptUpdate(ctx, ptr::null_mut(), &mut n, aad.as_ptr(), aad_len)
                        == 1)
                && (len == 0
                    || (ffi::EVP_DecryptUpdate(ctx, to, &mut n, ciphertext.as_ptr(), len) == 1
                        && n == len))
        };
        // SAFETY: `ctx` is live; GCM holds no data back, so nothing is written to `to` here.
        if decrypted && unsafe { ffi::EVP_DecryptFinal_ex(ctx, to, &mut n) } == 1 {
            return Ok(());
        }
        out.zeroize();
        clear_error_queue();
        Err(if decrypted {
            CipherError::Authentication
        } else {
            CipherError::Library
        })
    }
}

/// `EVP_EncryptInit_ex` or `EVP_DecryptInit_ex`.
type InitFn = unsafe extern "C" fn(
    *mut ffi::EVP_CIPHER_CTX,
    *const ffi::EVP_CIPHER,
    *mut ffi::ENGINE,
    *const c_uchar,
    *const c_uchar,
) -> c_int;

/// An OpenSSL cipher context that is keyed for one direction and owned.
struct Context(NonNull<ffi::EVP_CIPHER_CTX>);

impl Context {
    fn new(key: &Key, init: InitFn) -> Result<Context, CipherError> {
        // SAFETY: no arguments; the result is checked for null and owned from here on.
        let ctx = NonNull::new(unsafe { ffi::EVP_CIPHER_CTX_new() }).map(Context);
        let keyed = ctx.filter(|ctx| {
            // SAFETY: the context is live, the key has the 32 bytes that AES-256 reads, the IV comes with each message.
            unsafe {
                init(
                    ctx.as_ptr(),
                    ffi::EVP_aes_256_gcm(),
                    ptr::null_mut(),
                    key.as_ptr(),
                    ptr::null(),
                ) == 1
            }
        });
        keyed.ok_or_else(|| {
            clear_error_queue();
            CipherError::Library
        })
    }

    #[inline]
    fn as_ptr(&self) -> *mut ffi::EVP_CIPHER_CTX {
        self.0.as_ptr()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is owned and freed once; OpenSSL cleanses the expanded key in it.
        unsafe { ffi::EVP_CIPHER_CTX_free(self.as_ptr()) }
    }
}

/// The length of `message` as OpenSSL counts it.
#[inline]
fn message_len(message: &[u8]) -> Result<c_int, CipherError> {
    c_int::try_from(message.len()).map_err(|_| CipherError::MessageTooLong)
}

/// Empties OpenSSL's error queue of this thread.
#[cold]
fn clear_error_queue() {
    // SAFETY: no arguments; the queue belongs to the thread.
    unsafe { ffi::ERR_clear_error() }
}
