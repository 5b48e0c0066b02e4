//! AES-256-GCM as OpenSSL's provider implements it, called without the layers of EVP in between.
//!
//! For a message of 80 bytes EVP spends a quarter of the instructions on finding out what it found out for
//! the message before. Its own way to an implementation is public (OSSL_PROVIDER(3), provider-cipher(7)): the provider
//! that EVP chooses is asked for its table of functions, once a process, and these are called directly. So
//! it is the implementation that the configuration of OpenSSL asks for, FIPS or not.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void, CStr};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use openssl_sys::{EVP_CIPHER_fetch, EVP_CIPHER_free, EVP_CIPHER};

/// OpenSSL's first name of AES-256-GCM.
const NAME: &CStr = c"AES-256-GCM";

/// `EVP_CIPHER_is_a`'s separator of names in [`OsslAlgorithm::names`].
const SEPARATOR: u8 = b':';

/// The functions of the implementation, with the provider's own context. Found once, valid for the life of the process.
pub struct Algorithm {
    provider_context: *mut c_void,
    new: NewContext,
    free: FreeContext,
    pub encrypt_init: Init,
    pub decrypt_init: Init,
    pub update: Update,
    pub finish: Final,
    pub get_params: GetParams,
}

// SAFETY: never changed once made; a provider's functions and its context serve all threads (provider(7)).
unsafe impl Send for Algorithm {}
// SAFETY: as above.
unsafe impl Sync for Algorithm {}

type NewContext = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type FreeContext = unsafe extern "C" fn(*mut c_void);
/// context, key, its length, IV, its length, parameters
pub type Init = unsafe extern "C" fn(*mut c_void, *const c_uchar, usize, *const c_uchar, usize, *const Param) -> c_int;
/// context, output, bytes written, room in the output, input, its length
pub type Update = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut usize, usize, *const c_uchar, usize) -> c_int;
/// context, output, bytes written, room in the output
pub type Final = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut usize, usize) -> c_int;
pub type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;

/// What makes a function pointer of the void function in a provider's table.
type AnyFunction = unsafe extern "C" fn();

impl Algorithm {
    /// The implementation that OpenSSL chooses; None if no provider has AES-256-GCM.
    #[inline]
    pub fn get() -> Option<&'static Algorithm> {
        static FOUND: OnceLock<Algorithm> = OnceLock::new();
        match FOUND.get() {
            Some(algorithm) => Some(algorithm),
            // what fails now, out of memory perhaps, is tried again, and not handed down by the postmaster
            None => find().map(|algorithm| FOUND.get_or_init(|| algorithm)),
        }
    }

    /// A context of the provider, without a key; None if it cannot be had.
    pub fn new_context(&self) -> Option<NonNull<c_void>> {
        // SAFETY: the provider's own function with its own context.
        NonNull::new(unsafe { (self.new)(self.provider_context) })
    }

    /// Frees a context and cleanses the key in it.
    ///
    /// # Safety
    /// `context` is from [`Algorithm::new_context`] and is not used again.
    pub unsafe fn free_context(&self, context: NonNull<c_void>) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(context.as_ptr()) }
    }
}

#[cold]
fn find() -> Option<Algorithm> {
    // SAFETY: null is the default library context and no properties; what comes back is checked. A cipher that was found is never
    // freed, so that its provider stays loaded.
    unsafe {
        let cipher = NonNull::new(EVP_CIPHER_fetch(ptr::null_mut(), NAME.as_ptr(), ptr::null()))?.as_ptr();
        let provider = EVP_CIPHER_get0_provider(cipher);
        let mut transient = 0;
        let algorithms = OSSL_PROVIDER_query_operation(provider, OSSL_OP_CIPHER, &mut transient);
        let found = find_in(algorithms).and_then(|functions| {
            let wanted = [
                OSSL_FUNC_CIPHER_NEWCTX,
                OSSL_FUNC_CIPHER_FREECTX,
                OSSL_FUNC_CIPHER_ENCRYPT_INIT,
                OSSL_FUNC_CIPHER_DECRYPT_INIT,
                OSSL_FUNC_CIPHER_UPDATE,
                OSSL_FUNC_CIPHER_FINAL,
                OSSL_FUNC_CIPHER_GET_CTX_PARAMS,
            ];
            let [new, free, encrypt_init, decrypt_init, update, finish, get_params] =
                wanted.map(|id| function(functions, id));
            // each is of the type that provider-cipher(7) gives for its number
            Some(Algorithm {
                provider_context: OSSL_PROVIDER_get0_provider_ctx(provider),
                new: std::mem::transmute::<AnyFunction, NewContext>(new?),
                free: std::mem::transmute::<AnyFunction, FreeContext>(free?),
                encrypt_init: std::mem::transmute::<AnyFunction, Init>(encrypt_init?),
                decrypt_init: std::mem::transmute::<AnyFunction, Init>(decrypt_init?),
                update: std::mem::transmute::<AnyFunction, Update>(update?),
                finish: std::mem::transmute::<AnyFunction, Final>(finish?),
                get_params: std::mem::transmute::<AnyFunction, GetParams>(get_params?),
            })
        });
        OSSL_PROVIDER_unquery_operation(provider, OSSL_OP_CIPHER, algorithms);
        if found.is_none() {
            EVP_CIPHER_free(cipher);
        }
        found
    }
}

/// The functions of AES-256-GCM among a provider's algorithms.
///
/// # Safety
/// `algorithms` is null or a provider's table, which an entry without names ends.
unsafe fn find_in(algorithms: *const OsslAlgorithm) -> Option<*const OsslDispatch> {
    let mut entry = algorithms;
    // SAFETY: entries up to the end, by the caller's promise; names are C strings.
    while let Some(algorithm) = unsafe { entry.as_ref() }.filter(|algorithm| !algorithm.names.is_null()) {
        // SAFETY: as above.
        let names = unsafe { CStr::from_ptr(algorithm.names) }.to_bytes();
        if names.split(|&byte| byte == SEPARATOR).any(|name| name.eq_ignore_ascii_case(NAME.to_bytes())) {
            return Some(algorithm.implementation);
        }
        // SAFETY: this was not the end.
        entry = unsafe { entry.add(1) };
    }
    None
}

/// The function of number `id` in an implementation's table.
///
/// # Safety
/// `functions` is null or such a table, which number 0 ends.
unsafe fn function(functions: *const OsslDispatch, id: c_int) -> Option<AnyFunction> {
    let mut entry = functions;
    // SAFETY: entries up to the end, by the caller's promise.
    while let Some(dispatch) = unsafe { entry.as_ref() }.filter(|dispatch| dispatch.function_id != 0) {
        if dispatch.function_id == id {
            return dispatch.function;
        }
        // SAFETY: this was not the end.
        entry = unsafe { entry.add(1) };
    }
    None
}

/// OSSL_PARAM
#[repr(C)]
pub struct Param {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

impl Param {
    /// The parameters that set or get a tag: OSSL_CIPHER_PARAM_AEAD_TAG, and the end.
    #[inline]
    pub fn tag(at: *mut c_uchar, len: usize) -> [Param; 2] {
        const OSSL_PARAM_OCTET_STRING: c_uint = 5;
        const OSSL_PARAM_UNMODIFIED: usize = usize::MAX;
        let tag = Param {
            key: c"tag".as_ptr(),
            data_type: OSSL_PARAM_OCTET_STRING,
            data: at.cast(),
            data_size: len,
            return_size: OSSL_PARAM_UNMODIFIED,
        };
        let end = Param { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 };
        [tag, end]
    }
}

/// OSSL_DISPATCH
#[repr(C)]
struct OsslDispatch {
    function_id: c_int,
    function: Option<AnyFunction>,
}

/// OSSL_ALGORITHM
#[repr(C)]
struct OsslAlgorithm {
    names: *const c_char,
    properties: *const c_char,
    implementation: *const OsslDispatch,
    description: *const c_char,
}

/// OSSL_PROVIDER
#[repr(C)]
struct OsslProvider {
    opaque: [u8; 0],
}

// core_dispatch.h: part of OpenSSL's binary interface
const OSSL_OP_CIPHER: c_int = 2;
const OSSL_FUNC_CIPHER_NEWCTX: c_int = 1;
const OSSL_FUNC_CIPHER_ENCRYPT_INIT: c_int = 2;
const OSSL_FUNC_CIPHER_DECRYPT_INIT: c_int = 3;
const OSSL_FUNC_CIPHER_UPDATE: c_int = 4;
const OSSL_FUNC_CIPHER_FINAL: c_int = 5;
const OSSL_FUNC_CIPHER_FREECTX: c_int = 7;
const OSSL_FUNC_CIPHER_GET_CTX_PARAMS: c_int = 10;

extern "C" {
    // Missing in openssl-sys.
    fn EVP_CIPHER_get0_provider(cipher: *const EVP_CIPHER) -> *const OsslProvider;
    fn OSSL_PROVIDER_get0_provider_ctx(provider: *const OsslProvider) -> *mut c_void;
    fn OSSL_PROVIDER_query_operation(
        provider: *const OsslProvider,
        operation: c_int,
        no_cache: *mut c_int,
    ) -> *const OsslAlgorithm;
    fn OSSL_PROVIDER_unquery_operation(
        provider: *const OsslProvider,
        operation: c_int,
        algorithms: *const OsslAlgorithm,
    );
}
