//! Values shown independently of the session's settings.

use core::ffi::{c_char, CStr};

use crate::pg::sys;

/// A parameter, its value here, and whether it has that value already.
type Setting = (&'static CStr, &'static CStr, bool);

/// Runs `body` with the settings that the text of values depends on at those of the json format: ISO dates, UTC, PostgreSQL's
/// intervals, floats without loss, bytea in hex, names of other schemas qualified. An ERROR in `body` restores them as well: the
/// (sub)transaction that it ends restores all that was set in it (`AtEOXact_GUC()`).
///
/// # Safety
/// A transaction must be open. `body` may hold nothing that needs dropping.
pub unsafe fn fixed(body: impl FnOnce()) {
    // SAFETY: the caller's promise; plain variables of the server, and a time zone's name is NUL-terminated.
    unsafe {
        let utc = CStr::from_ptr(sys::pg_get_timezone_name(sys::session_timezone)) == c"UTC";
        let path = !sys::namespace_search_path.is_null() && CStr::from_ptr(sys::namespace_search_path) == c"pg_catalog";
        let settings: [Setting; 7] = [
            (c"DateStyle", c"ISO", sys::DateStyle == sys::USE_ISO_DATES as i32),
            (c"IntervalStyle", c"postgres", sys::IntervalStyle == sys::INTSTYLE_POSTGRES as i32),
            (c"TimeZone", c"UTC", utc),
            (c"extra_float_digits", c"1", sys::extra_float_digits > 0),
            (c"bytea_output", c"hex", sys::bytea_output == sys::BYTEA_OUTPUT_HEX as i32),
            (c"quote_all_identifiers", c"off", !sys::quote_all_identifiers),
            (c"search_path", c"pg_catalog", path),
        ];
        let level = sys::NewGUCNestLevel();
        for (name, value, is_so) in settings {
            if !is_so {
                set(name.as_ptr(), value.as_ptr());
            }
        }
        body();
        sys::AtEOXact_GUC(true, level);
    }
}

/// `SET LOCAL`, within the nest level.
unsafe fn set(name: *const c_char, value: *const c_char) {
    let (context, source) = (sys::PGC_USERSET, sys::PGC_S_SESSION);
    // SAFETY: NUL-terminated strings; raises an ERROR if the value is refused.
    unsafe { sys::set_config_option(name, value, context, source, sys::GUC_ACTION_SAVE, true, 0, false) };
}
