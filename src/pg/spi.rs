//! Queries of the server's own views.

use core::ffi::{c_char, CStr};
use core::ptr;

use super::error::INTERNAL_ERROR;
use super::sys;
use crate::pg_error;

/// The first column of the first row of a query that only reads, as text in the current memory context; null if there is
/// no row, or if the value is NULL. Raises the query's ERROR.
///
/// # Safety
/// In a transaction. The query must qualify all names, as it runs under the session's search_path.
pub unsafe fn first_value(query: &CStr) -> *mut c_char {
    // SAFETY: the caller's promise; SPI_getvalue gives null or a string in SPI's memory, which is copied.
    unsafe {
        let context = sys::CurrentMemoryContext;
        sys::SPI_connect();
        if sys::SPI_execute(query.as_ptr(), true, 1) != sys::SPI_OK_SELECT as i32 {
            pg_error!(INTERNAL_ERROR, "could not query the server's views");
        }
        let mut value = ptr::null_mut();
        if sys::SPI_processed > 0 {
            let table = sys::SPI_tuptable;
            let text = sys::SPI_getvalue(*(*table).vals, (*table).tupdesc, 1);
            if !text.is_null() {
                value = sys::MemoryContextStrdup(context, text);
            }
        }
        sys::SPI_finish();
        value
    }
}
