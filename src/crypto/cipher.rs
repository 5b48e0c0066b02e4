//! AES-256-GCM under one key, fast enough to be called for every row.
//!
//! In OpenSSL 3 fetching an algorithm, making a context and expanding a key each cost more than
//! encrypting a row. [`Cipher::new`] pays for them once; after that a message costs a new IV, the
//! data and the tag. OpenSSL ties a context to a direction, hence two of them.

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

/// [`TAG_LEN`] as OpenSSL counts.
const TAG: c_int = TAG_LEN as c_int;

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
    /// Expands `key` for both directions. Takes about a microsecond: keep the result.
    ///
    /// Errors: [`CipherError::Library`].
    pub fn new(key: &Key) -> Result<Cipher, CipherError> {
        Ok(Cipher {
            encryptor: Context::new(key, Direction::Encrypt)?,
            decryptor: Context::new(key, Direction::Decrypt)?,
        })
    }

    /// Encrypts `plain` into `out`, which must be as long, and writes the tag over `aad` and
    /// ciphertext to `tag`.
    ///
    /// On success all of `out` is initialised. Errors: [`CipherError::BufferLength`],
    /// [`CipherError::MessageTooLong`], [`CipherError::Library`].
    #[inline]
    pub fn encrypt(
        &mut self,
        iv: &Iv,
        aad: &[u8],
        plain: &[u8],
        out: &mut [MaybeUninit<u8>],
        tag: &mut Tag,
    ) -> Result<(), CipherError> {
        let ctx = &mut self.encryptor;
        let result = ctx
            .start(iv)
            .and_then(|()| ctx.authenticate(aad))
            .and_then(|()| ctx.transform(plain, out))
            .and_then(|()| ctx.finish())
            .and_then(|()| ctx.get_tag(tag));
        if result.is_err() {
            clear_error_queue();
        }
        result
    }

    /// Decrypts `ciphertext` into `out`, which must be as long, and checks `tag` over `aad` and
    /// ciphertext.
    ///
    /// On success all of `out` is initialised. On failure all of it is zeroed, so that no
    /// unauthenticated plaintext is left. Errors: [`CipherError::Authentication`],
    /// [`CipherError::BufferLength`], [`CipherError::MessageTooLong`], [`CipherError::Library`].
    #[inline]
    pub fn decrypt(
        &mut self,
        iv: &Iv,
        aad: &[u8],
        ciphertext: &[u8],
        tag: &Tag,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CipherError> {
        let ctx = &mut self.decryptor;
        let result = ctx
            .start(iv)
            .and_then(|()| ctx.set_tag(tag))
            .and_then(|()| ctx.authenticate(aad))
            .and_then(|()| ctx.transform(ciphertext, out))
            // All that can fail here is the comparison of the tags.
            .and_then(|()| ctx.finish().map_err(|_| CipherError::Authentication));
        if result.is_err() {
            out.zeroize();
            clear_error_queue();
        }
        result
    }
}

/// What a context is for, as OpenSSL numbers it.
enum Direction {
    Encrypt = 1,
    Decrypt = 0,
}

/// OpenSSL's "as it was set" for the direction of a context.
const SAME_DIRECTION: c_int = -1;

/// An OpenSSL cipher context, owned, with the key set. A message is: start, perhaps set_tag,
/// authenticate, transform, finish, perhaps get_tag. It may be given up anywhere; start begins
/// anew.
struct Context(NonNull<ffi::EVP_CIPHER_CTX>);

impl Context {
    fn new(key: &Key, direction: Direction) -> Result<Context, CipherError> {
        // SAFETY: no arguments; the result is checked for null and owned from here on.
        let ctx = NonNull::new(unsafe { ffi::EVP_CIPHER_CTX_new() }).map(Context);
        let keyed = ctx.ok_or(CipherError::Library).and_then(|ctx| {
            // SAFETY: the context is live, the key has its 32 bytes, null means none and later.
            check(unsafe {
                ffi::EVP_CipherInit_ex(
                    ctx.as_ptr(),
                    ffi::EVP_aes_256_gcm(),
                    ptr::null_mut(),
                    key.as_ptr(),
                    ptr::null(),
                    direction as c_int,
                )
            })?;
            Ok(ctx)
        });
        if keyed.is_err() {
            clear_error_queue();
        }
        keyed
    }

    #[inline]
    fn as_ptr(&self) -> *mut ffi::EVP_CIPHER_CTX {
        self.0.as_ptr()
    }

    /// Begins a message.
    #[inline]
    fn start(&mut self, iv: &Iv) -> Result<(), CipherError> {
        // SAFETY: the context is live, 12 is GCM's own IV length, null keeps algorithm and key.
        check(unsafe {
            ffi::EVP_CipherInit_ex(
                self.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                iv.as_ptr(),
                SAME_DIRECTION,
            )
        })
    }

    /// Takes in the additional authenticated data.
    #[inline]
    fn authenticate(&mut self, aad: &[u8]) -> Result<(), CipherError> {
        if aad.is_empty() {
            return Ok(());
        }
        // SAFETY: null for the output says that the input is AAD; nothing but a count is written.
        unsafe { self.update(aad, ptr::null_mut()) }
    }

    /// Encrypts or decrypts `input` into `out`.
    #[inline]
    fn transform(&mut self, input: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), CipherError> {
        if input.len() != out.len() {
            return Err(CipherError::BufferLength);
        }
        if input.is_empty() {
            return Ok(());
        }
        // SAFETY: `out` is writable and as long as the input, and GCM writes as much as it reads.
        unsafe { self.update(input, out.as_mut_ptr().cast()) }
    }

    /// `EVP_CipherUpdate` with all of `input`.
    ///
    /// # Safety
    /// `out` is null, or has room for as many bytes as `input` has.
    #[inline]
    unsafe fn update(&mut self, input: &[u8], out: *mut c_uchar) -> Result<(), CipherError> {
        let len = c_int::try_from(input.len()).map_err(|_| CipherError::MessageTooLong)?;
        let mut n = 0;
        // SAFETY: the context is live, `len` is the input's length, `out` is as the caller says.
        check(unsafe { ffi::EVP_CipherUpdate(self.as_ptr(), out, &mut n, input.as_ptr(), len) })?;
        check((n == len) as c_int)
    }

    /// Ends the message: computes the tag, or compares it with the one that was set.
    #[inline]
    fn finish(&mut self) -> Result<(), CipherError> {
        let mut nothing = [0; TAG_LEN];
        let mut n = 0;
        // SAFETY: the context is live; GCM has nothing left to write, and a block would fit.
        check(unsafe { EVP_CipherFinal_ex(self.as_ptr(), nothing.as_mut_ptr(), &mut n) })
    }

    /// The tag of the message that was encrypted; after finish.
    #[inline]
    fn get_tag(&mut self, tag: &mut Tag) -> Result<(), CipherError> {
        let to = tag.as_mut_ptr();
        // SAFETY: the context is live and writes the 16 bytes that `tag` has.
        check(unsafe { ffi::EVP_CIPHER_CTX_ctrl(self.as_ptr(), ffi::EVP_CTRL_GCM_GET_TAG, TAG, to.cast()) })
    }

    /// Sets the tag that finish is to find; after start.
    #[inline]
    fn set_tag(&mut self, tag: &Tag) -> Result<(), CipherError> {
        let from = tag.as_ptr().cast_mut();
        // SAFETY: the context is live and copies the 16 bytes; it never writes to them.
        check(unsafe { ffi::EVP_CIPHER_CTX_ctrl(self.as_ptr(), ffi::EVP_CTRL_GCM_SET_TAG, TAG, from.cast()) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is owned and freed once; OpenSSL cleanses the expanded key in it.
        unsafe { ffi::EVP_CIPHER_CTX_free(self.as_ptr()) }
    }
}

/// The answer of an OpenSSL function that returns 1 for success.
#[inline]
fn check(answer: c_int) -> Result<(), CipherError> {
    match answer {
        1 => Ok(()),
        _ => Err(CipherError::Library),
    }
}

/// Empties OpenSSL's error queue of this thread.
#[cold]
fn clear_error_queue() {
    // SAFETY: no arguments; the queue belongs to the thread.
    unsafe { ffi::ERR_clear_error() }
}

extern "C" {
    // Missing in openssl-sys.
    fn EVP_CipherFinal_ex(ctx: *mut ffi::EVP_CIPHER_CTX, out: *mut c_uchar, len: *mut c_int) -> c_int;
}
