//! The line being written.

use core::ffi::{c_char, CStr};
use core::fmt::{self, Write};

use crate::pg::sys::{self, StringInfo, TimestampTz, XLogRecPtr};

/// `ctx->out`, which grows in `ctx->context` and is reused for every line. Every function may raise an ERROR (a line of
/// more than 1 GB).
#[derive(Clone, Copy)]
pub struct Out(StringInfo);

impl Out {
    /// # Safety
    /// `buffer` must be a StringInfo that stays valid as long as the value is used.
    pub unsafe fn to(buffer: StringInfo) -> Self {
        Self(buffer)
    }

    #[inline]
    pub fn bytes(self, bytes: &[u8]) {
        // SAFETY: a live StringInfo; pointer and length are those of a slice.
        unsafe { sys::appendBinaryStringInfo(self.0, bytes.as_ptr().cast(), bytes.len() as i32) }
    }

    #[inline]
    pub fn str(self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn fmt(mut self, text: fmt::Arguments<'_>) {
        // neither integers nor string literals fail to format
        let _ = self.write_fmt(text);
    }

    /// A string of PostgreSQL, in the database's encoding.
    ///
    /// # Safety
    /// `text` must be NUL-terminated.
    #[inline]
    pub unsafe fn cstr(self, text: *const c_char) {
        // SAFETY: the caller's promise.
        self.bytes(unsafe { CStr::from_ptr(text) }.to_bytes());
    }

    /// `len` bytes, whatever is in them.
    ///
    /// # Safety
    /// `data` must point to `len` bytes.
    pub unsafe fn data(self, data: *const c_char, len: usize) {
        // SAFETY: the caller's promise; a message is shorter than 1 GB.
        unsafe { sys::appendBinaryStringInfo(self.0, data.cast(), len as i32) }
    }

    /// A string as a quoted literal.
    ///
    /// # Safety
    /// `text` must be NUL-terminated.
    pub unsafe fn quoted(self, text: *const c_char) {
        // SAFETY: the caller's promise; the quoted copy is in the callback's context.
        unsafe { self.cstr(sys::quote_literal_cstr(text)) }
    }

    /// ` (at …)`
    pub fn time(self, time: TimestampTz) {
        self.str(" (at ");
        // SAFETY: the text is in a static buffer, copied before anybody else uses that.
        unsafe { self.cstr(sys::timestamptz_to_str(time)) };
        self.str(")");
    }

    /// A position in WAL as the type `pg_lsn` shows it.
    pub fn lsn(self, lsn: XLogRecPtr) {
        // SAFETY: a function of one argument that is passed by value; it returns a NUL-terminated string.
        unsafe {
            let text = sys::DirectFunctionCall1Coll(Some(sys::pg_lsn_out), 0, lsn as crate::pg::Datum);
            self.cstr(text as *const c_char);
        }
    }
}

impl fmt::Write for Out {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.str(part);
        Ok(())
    }
}
