//! Raising PostgreSQL errors, and the fence that keeps Rust panics from reaching PostgreSQL.
//!
//! An ERROR is a longjmp: it leaves the frames between the raise and the handler without running any destructor. So the
//! texts of a [`Report`] are formatted into PostgreSQL's memory, and `raise` is called from frames that own nothing.

use core::ffi::{c_char, c_int};
use core::fmt::{self, Write};
use core::panic::AssertUnwindSafe;
use core::ptr;
use std::panic::catch_unwind;

use super::sys;

/// A SQLSTATE, packed as `MAKE_SQLSTATE` packs it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SqlState(c_int);

impl SqlState {
    const fn new(code: &[u8; 5]) -> Self {
        let mut packed = 0;
        let mut i = 0;
        while i < 5 {
            packed |= (((code[i] as c_int) - ('0' as c_int)) & 0x3F) << (6 * i);
            i += 1;
        }
        Self(packed)
    }
}

pub const SUCCESSFUL_COMPLETION: SqlState = SqlState::new(b"00000");
pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState::new(b"0A000");
pub const INVALID_PARAMETER_VALUE: SqlState = SqlState::new(b"22023");
pub const NULL_VALUE_NOT_ALLOWED: SqlState = SqlState::new(b"22004");
pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState::new(b"42501");
pub const WRONG_OBJECT_TYPE: SqlState = SqlState::new(b"42809");
pub const UNDEFINED_OBJECT: SqlState = SqlState::new(b"42704");
pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = SqlState::new(b"55000");
pub const OBJECT_IN_USE: SqlState = SqlState::new(b"55006");
pub const INVALID_TRANSACTION_TERMINATION: SqlState = SqlState::new(b"2D000");
pub const CONFIG_FILE_ERROR: SqlState = SqlState::new(b"F0000");
pub const QUERY_CANCELED: SqlState = SqlState::new(b"57014");
pub const SYSTEM_ERROR: SqlState = SqlState::new(b"58000");
pub const INTERNAL_ERROR: SqlState = SqlState::new(b"XX000");
pub const DATA_CORRUPTED: SqlState = SqlState::new(b"XX001");
pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState::new(b"54000");

/// A line in the server's log about something that somebody may want to look up one day.
pub fn log(text: fmt::Arguments<'_>) {
    Report::new(SUCCESSFUL_COMPLETION, text).log(sys::LOG);
}

/// Formats into memory of the current context; the result ends with NUL and belongs to PostgreSQL.
pub fn pg_format(text: fmt::Arguments<'_>) -> *mut c_char {
    struct Sink(sys::StringInfoData);
    impl Write for Sink {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            // SAFETY: the StringInfo was initialised below; it grows as needed or raises an ERROR.
            unsafe { sys::appendBinaryStringInfo(&mut self.0, part.as_ptr().cast(), part.len() as c_int) };
            Ok(())
        }
    }
    // SAFETY: an all-zero StringInfoData is a valid argument of initStringInfo, which fills it.
    let mut sink = unsafe {
        let mut data: sys::StringInfoData = core::mem::zeroed();
        sys::initStringInfo(&mut data);
        Sink(data)
    };
    // a Display that fails leaves a shorter text, which is what an error message wants
    let _ = sink.write_fmt(text);
    sink.0.data
}

/// What ereport() takes: built with texts in PostgreSQL's memory, so that nothing is left to drop when it raises.
pub struct Report {
    code: SqlState,
    message: *mut c_char,
    detail: *mut c_char,
    hint: *mut c_char,
    /// characters, from 1; 0 for none
    position: c_int,
}

impl Report {
    /// A message in PostgreSQL's style: lower case, no full stop.
    pub fn new(code: SqlState, message: fmt::Arguments<'_>) -> Self {
        Self { code, message: pg_format(message), detail: ptr::null_mut(), hint: ptr::null_mut(), position: 0 }
    }

    /// `parser_errposition()`: where in the command's text the fault is, as a node's `location` says (bytes, or -1).
    ///
    /// # Safety
    /// `text` must be null or the NUL-terminated text that the node was parsed from.
    pub unsafe fn at(mut self, text: *const c_char, location: c_int) -> Self {
        if location >= 0 && !text.is_null() {
            // SAFETY: the caller's promise; the function stops at the text's end.
            self.position = unsafe { sys::pg_mbstrlen_with_len(text, location) } + 1;
        }
        self
    }

    /// errdetail(): whole sentences.
    pub fn detail(mut self, text: fmt::Arguments<'_>) -> Self {
        self.detail = pg_format(text);
        self
    }

    /// errhint(): whole sentences that name the remedy.
    pub fn hint(mut self, text: fmt::Arguments<'_>) -> Self {
        self.hint = pg_format(text);
        self
    }

    /// Raises the ERROR. The frames above must own nothing that needs dropping.
    pub fn raise(self) -> ! {
        self.emit(sys::ERROR as c_int);
        unreachable!("errfinish(ERROR) does not return")
    }

    /// Sends the report at `level` below ERROR (`WARNING`, `NOTICE`, `LOG`, …).
    pub fn log(self, level: u32) {
        self.emit(level as c_int);
    }

    fn emit(&self, level: c_int) {
        // SAFETY: the texts are NUL-terminated, passed as arguments of "%s", and in memory that outlives errfinish.
        unsafe {
            if !sys::errstart(level, ptr::null()) {
                return;
            }
            sys::errcode(self.code.0);
            sys::errmsg_internal(c"%s".as_ptr(), self.message);
            if !self.detail.is_null() {
                sys::errdetail_internal(c"%s".as_ptr(), self.detail);
            }
            if !self.hint.is_null() {
                sys::errhint(c"%s".as_ptr(), self.hint);
            }
            if self.position != 0 {
                sys::errposition(self.position);
            }
            sys::errfinish(c"pg_vault_tde".as_ptr(), 0, ptr::null());
        }
    }
}

/// `pg_error!(CODE, "message {x}")`, optionally `detail: (…)` and `hint: (…)`: raises an ERROR, never returns.
#[macro_export]
macro_rules! pg_error {
    ($code:expr, $($message:expr),+ $(; detail: ($($detail:expr),+))? $(; hint: ($($hint:expr),+))?) => {
        $crate::pg::error::Report::new($code, format_args!($($message),+))
            $(.detail(format_args!($($detail),+)))?
            $(.hint(format_args!($($hint),+)))?
            .raise()
    };
}

/// The boundary of every function that PostgreSQL calls: a panic inside `body` becomes an ERROR (XX000).
#[inline(always)]
pub fn fence<R>(body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => raise_panic(payload),
    }
}

/// Turns the payload of a panic into an ERROR; the payload is gone before the ERROR leaves this frame.
#[cold]
#[inline(never)]
fn raise_panic(payload: Box<dyn core::any::Any + Send>) -> ! {
    let text = {
        let said = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("unknown panic");
        pg_format(format_args!("pg_vault_tde: internal error: {said}"))
    };
    drop(payload);
    Report { code: INTERNAL_ERROR, message: text, detail: ptr::null_mut(), hint: ptr::null_mut(), position: 0 }.raise()
}

/// Defines a function that PostgreSQL calls: `extern "C-unwind"`, with the body behind the [`fence`]. The check in
/// `dev/check` refuses an `extern "C-unwind" fn` that is not made by one of these macros.
#[macro_export]
macro_rules! pg_callback {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$meta])*
        /// # Safety
        /// Called by PostgreSQL under the contract of the callback it is registered as.
        $vis unsafe extern "C-unwind" fn $name($($arg: $ty),*) $(-> $ret)? {
            $crate::pg::error::fence(move || $body)
        }
    )+};
}
