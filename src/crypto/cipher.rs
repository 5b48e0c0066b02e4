//! AES-256-GCM under one key, fast enough to be called for every row.
//!
//! In OpenSSL 3 fetching an algorithm, making a context and expanding a key each cost more than
//! encrypting a row. [`Cipher::new`] pays for them once; after that a message costs a new IV, the
//! data and the tag, in calls of the provider's own functions ([`super::algorithm`]). OpenSSL ties a context to a
//! direction, hence two of them.

use std::ffi::{c_int, c_uchar, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use zeroize::Zeroize;

use super::algorithm::{Algorithm, Init, Param};

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
    /// Expands `key` for both directions. Takes about a microsecond: keep the result.
    ///
    /// Errors: [`CipherError::Library`].
    pub fn new(key: &Key) -> Result<Cipher, CipherError> {
        let made = Algorithm::get().ok_or(CipherError::Library).and_then(|algorithm| {
            Ok(Cipher {
                encryptor: Context::new(algorithm, algorithm.encrypt_init, key)?,
                decryptor: Context::new(algorithm, algorithm.decrypt_init, key)?,
            })
        });
        if made.is_err() {
            clear_error_queue();
        }
        made
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
            .start(iv, None)
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
            .start(iv, Some(tag))
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

/// A provider's cipher context, owned, with the key set for one direction. A message is: start, perhaps authenticate and
/// transform, finish, perhaps get_tag. It may be given up anywhere; start begins anew.
struct Context {
    algorithm: &'static Algorithm,
    init: Init,
    context: NonNull<c_void>,
}

impl Context {
    /// `init` says the direction and is of `algorithm`.
    fn new(algorithm: &'static Algorithm, init: Init, key: &Key) -> Result<Context, CipherError> {
        let context = algorithm.new_context().ok_or(CipherError::Library)?;
        let context = Context { algorithm, init, context };
        // SAFETY: the context is live, the key has its 32 bytes, null means none and later.
        check(unsafe { init(context.as_ptr(), key.as_ptr(), KEY_LEN, ptr::null(), 0, ptr::null()) })?;
        Ok(context)
    }

    #[inline]
    fn as_ptr(&self) -> *mut c_void {
        self.context.as_ptr()
    }

    /// Begins a message, with the tag that finish is to find if it is one to decrypt.
    #[inline]
    fn start(&mut self, iv: &Iv, tag: Option<&Tag>) -> Result<(), CipherError> {
        let parameters = tag.map(|tag| Param::tag(tag.as_ptr().cast_mut(), TAG_LEN));
        let parameters = parameters.as_ref().map_or(ptr::null(), |p| p.as_ptr());
        // SAFETY: the context is live, null keeps the key, the tag has its 16 bytes and is only read.
        check(unsafe { (self.init)(self.as_ptr(), ptr::null(), 0, iv.as_ptr(), IV_LEN, parameters) })
    }

    /// Takes in the additional authenticated data.
    #[inline]
    fn authenticate(&mut self, aad: &[u8]) -> Result<(), CipherError> {
        // SAFETY: null for the output says that the input is AAD; nothing but a count is written.
        unsafe { self.update(aad, ptr::null_mut()) }
    }

    /// Encrypts or decrypts `input` into `out`.
    #[inline]
    fn transform(&mut self, input: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), CipherError> {
        if input.len() != out.len() {
            return Err(CipherError::BufferLength);
        }
        // SAFETY: `out` is writable and as long as the input, and GCM writes as much as it reads.
        unsafe { self.update(input, out.as_mut_ptr().cast()) }
    }

    /// Passes all of `input`, if there is some, to the provider.
    ///
    /// # Safety
    /// `out` is null, or has room for as many bytes as `input` has.
    #[inline]
    unsafe fn update(&mut self, input: &[u8], out: *mut c_uchar) -> Result<(), CipherError> {
        let len = input.len();
        if len == 0 {
            return Ok(());
        }
        // EVP's limit for one call, which implementations rely on
        if c_int::try_from(len).is_err() {
            return Err(CipherError::MessageTooLong);
        }
        let mut n = 0;
        // SAFETY: the context is live, `len` is the input's length, `out` is as the caller says.
        check(unsafe { (self.algorithm.update)(self.as_ptr(), out, &mut n, len, input.as_ptr(), len) })?;
        check((n == len) as c_int)
    }

    /// Ends the message: computes the tag, or compares it with the one that was set.
    #[inline]
    fn finish(&mut self) -> Result<(), CipherError> {
        let mut nothing = [0; TAG_LEN];
        let mut n = 0;
        // SAFETY: the context is live; GCM has nothing left to write, and a block would fit.
        check(unsafe { (self.algorithm.finish)(self.as_ptr(), nothing.as_mut_ptr(), &mut n, nothing.len()) })
    }

    /// The tag of the message that was encrypted; after finish.
    #[inline]
    fn get_tag(&mut self, tag: &mut Tag) -> Result<(), CipherError> {
        let mut parameters = Param::tag(tag.as_mut_ptr(), TAG_LEN);
        // SAFETY: the context is live and writes the 16 bytes that `tag` has.
        check(unsafe { (self.algorithm.get_params)(self.as_ptr(), parameters.as_mut_ptr()) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is owned and freed once.
        unsafe { self.algorithm.free_context(self.context) }
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
    unsafe { openssl_sys::ERR_clear_error() }
}
