//! Functions that SQL calls.

use core::ffi::{c_char, CStr};

use super::sys;
use super::Datum;

/// The call of a SQL function: `fcinfo`.
#[derive(Clone, Copy)]
pub struct Call(pub sys::FunctionCallInfo);

impl Call {
    /// `PG_ARGISNULL(n)`
    pub fn is_null(self, n: usize) -> bool {
        // SAFETY: fmgr passes as many arguments as the SQL declaration has.
        unsafe { (*(*self.0).args.as_ptr().add(n)).isnull }
    }

    /// `PG_GETARG_DATUM(n)`
    pub fn datum(self, n: usize) -> Datum {
        // SAFETY: as for `is_null`.
        unsafe { (*(*self.0).args.as_ptr().add(n)).value }
    }

    /// `PG_GETARG_INT32(n)`
    pub fn int32(self, n: usize) -> i32 {
        self.datum(n) as i32
    }

    /// `PG_RETURN_NULL()`
    pub fn null(self) -> Datum {
        // SAFETY: fcinfo is live for the whole call.
        unsafe { (*self.0).isnull = true };
        0
    }
}

/// Defines the SQL-callable function `name` and its `pg_finfo_name` (`PG_FUNCTION_INFO_V1`), behind the panic fence. It refuses
/// to run in a server that has not preloaded the library.
#[macro_export]
macro_rules! pg_function {
    ($($(#[$meta:meta])* fn $name:ident[$info:ident]($call:ident) $body:block)+) => {
        $crate::pg_handler! {$(
            $(#[$meta])*
            fn $name[$info]($call) {
                $crate::require_preloaded();
                $body
            }
        )+}
    };
}

/// [`pg_function!`] that runs in any server.
#[macro_export]
macro_rules! pg_handler {
    ($($(#[$meta:meta])* fn $name:ident[$info:ident]($call:ident) $body:block)+) => {$(
        #[no_mangle]
        #[doc(hidden)]
        pub extern "C-unwind" fn $info() -> *const $crate::pg::sys::Pg_finfo_record {
            static RECORD: $crate::pg::sys::Pg_finfo_record = $crate::pg::sys::Pg_finfo_record { api_version: 1 };
            &RECORD
        }
        $(#[$meta])*
        /// # Safety
        /// Called by fmgr with the arguments that its SQL declaration names.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name(fcinfo: $crate::pg::sys::FunctionCallInfo) -> $crate::pg::Datum {
            let $call = $crate::pg::fmgr::Call(fcinfo);
            $crate::pg::error::fence(move || $body)
        }
    )+};
}

/// `CStringGetTextDatum()`: a text in the current memory context.
pub fn text_datum(text: &str) -> Datum {
    // SAFETY: pointer and length of a live str; the function copies.
    unsafe { sys::cstring_to_text_with_len(text.as_ptr().cast(), text.len() as i32) as Datum }
}

/// A NUL-terminated string of PostgreSQL for use in a message; invalid UTF-8 (other server encodings) is shown as "?".
///
/// # Safety
/// `text` must be NUL-terminated and stay valid for `'a`, or null.
pub unsafe fn str_of<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?")
}

/// Calls the tuplestore of a set-returning function in materialize mode, made ready by `InitMaterializedSRF`.
///
/// # Safety
/// `fcinfo` must be that of a set-returning function whose result columns are as many as `values`.
pub unsafe fn put_row(fcinfo: sys::FunctionCallInfo, values: &mut [Datum], nulls: &mut [bool]) {
    // SAFETY: InitMaterializedSRF has set setResult and setDesc.
    unsafe {
        let info: *mut sys::ReturnSetInfo = (*fcinfo).resultinfo.cast();
        sys::tuplestore_putvalues((*info).setResult, (*info).setDesc, values.as_mut_ptr(), nulls.as_mut_ptr());
    }
}
