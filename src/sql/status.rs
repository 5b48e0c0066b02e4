//! `vault_tde.status()`: is everything set up? Never shows a secret.

use core::ffi::CStr;
use core::fmt;

use crate::keys::provider::Provider;
use crate::keys::{self, shared, Survey};
use crate::maintenance::{limit, relations};
use crate::pg::error::{pg_format, Report, INVALID_PARAMETER_VALUE};
use crate::pg::fmgr::{put_row, str_of, text_datum, Call};
use crate::pg::{sys, Datum, Oid, INVALID_OID};
use crate::pg_function;

/// The name by which a replication slot asks for us.
const PLUGIN: &str = "pg_vault_tde";
const PLUGIN_LIST: &CStr = c"output_plugin_libraries";

pg_function! {
    /// `vault_tde.status() returns table (item text, value text, ok bool)`
    fn vault_tde_status[pg_finfo_vault_tde_status](call) {
        // SAFETY: fcinfo of a set-returning function.
        unsafe { sys::InitMaterializedSRF(call.0, 0) };
        // _PG_init refuses any other way
        line(call, "library", format_args!("preloaded"), true);
        keys(call);
        let (used, capacity) = shared::usage();
        line(call, "keys in shared memory", format_args!("{used} of {capacity}"), true);
        rows_encrypted(call);
        openssl(call);
        decoding(call);
        0
    }

    /// Called by the extension's script: says what logical decoding still needs. (A NOTICE would not be shown then.)
    fn vault_tde_check_output_plugin_libraries[pg_finfo_vault_tde_check_output_plugin_libraries](_call) {
        if let Some((list, false)) = plugin_list() {
            let comma = if list.is_empty() { "" } else { ", " };
            Report::new(
                INVALID_PARAMETER_VALUE,
                format_args!("\"output_plugin_libraries\" does not list \"pg_vault_tde\""),
            )
            .detail(format_args!("Logical decoding of encrypted tables will be refused by the server."))
            .hint(format_args!(
                "Run ALTER SYSTEM SET output_plugin_libraries = {list}{comma}pg_vault_tde; then SELECT pg_reload_conf()."
            ))
            .log(sys::WARNING);
        }
        0
    }
}

/// One row of the result.
fn line(call: Call, item: &str, value: fmt::Arguments<'_>, ok: bool) {
    // SAFETY: pg_format returns a NUL-terminated string; the result has these three columns.
    unsafe {
        let value = sys::cstring_to_text(pg_format(value)) as Datum;
        put_row(call.0, &mut [text_datum(item), value, Datum::from(ok)], &mut [false; 3]);
    }
}

/// The lines about the provider and the keys.
fn keys(call: Call) {
    let provider = Provider::configured();
    line(call, "key provider", format_args!("{}", provider.name()), true);
    let mut lines = [Line::EMPTY; 16];
    // SAFETY: in a transaction.
    let count = unsafe { key_lines(&mut lines) };
    for Line { item, value, ok } in &lines[..count] {
        // SAFETY: pg_format has made it.
        line(call, item, format_args!("{}", unsafe { str_of(*value) }), *ok);
    }
}

/// A line whose text is in PostgreSQL's memory.
#[derive(Clone, Copy)]
struct Line {
    item: &'static str,
    value: *const core::ffi::c_char,
    ok: bool,
}

impl Line {
    const EMPTY: Line = Line { item: "", value: core::ptr::null(), ok: true };
}

/// Fills `lines`, as many as are needed, and returns their number. A frame that is gone before the lines are shown.
///
/// # Safety
/// In a transaction.
#[inline(never)]
unsafe fn key_lines(lines: &mut [Line]) -> usize {
    // SAFETY: the caller's promise.
    let Survey { extension, current, keys, wrapped, outdated, findings } = unsafe { keys::survey() };
    let mut count = 0;
    let mut add = |item, value: fmt::Arguments<'_>, ok| {
        if let Some(line) = lines.get_mut(count) {
            *line = Line { item, value: pg_format(value), ok };
            count += 1;
        }
    };
    for finding in &findings {
        add(finding.item, format_args!("{}", finding.value), finding.ok);
    }
    match current {
        Some(generation) => add("current generation", format_args!("{generation}"), true),
        None => add("current generation", format_args!("none yet; the first encrypted table makes it"), true),
    }
    match wrapped {
        0 => add("data keys", format_args!("{keys}"), extension),
        bad => add("data keys", format_args!("{keys}, of which {bad} cannot be unwrapped"), false),
    }
    if outdated > 0 {
        // in one statement: what format_args! makes may not outlive it before Rust 1.89
        add(
            "data keys under an older key",
            format_args!("{outdated} to be wrapped anew by vault_tde.rewrap_keys()"),
            false,
        );
    }
    count
}

/// The relation that most rows were encrypted for, and all that are near what one key should encrypt.
fn rows_encrypted(call: Call) {
    let mut most = (INVALID_OID, 0);
    // SAFETY: in a transaction.
    for &oid in unsafe { relations::all() } {
        let rows = limit::rows_encrypted(oid);
        if limit::is_near_limit(rows) {
            let name = qualified_name(oid);
            line(call, "rows encrypted, near the limit", format_args!("{rows} of {name}"), false);
        } else if rows > most.1 {
            most = (oid, rows);
        }
    }
    if most.0 != INVALID_OID {
        let (name, rows) = (qualified_name(most.0), most.1);
        line(call, "rows encrypted, at most", format_args!("about {rows} of {name}"), true);
    }
}

/// The relation's name as `regclass` prints it.
fn qualified_name(oid: Oid) -> &'static str {
    // SAFETY: a string in the current memory context, which lives as long as the call.
    unsafe {
        let name = sys::OidOutputFunctionCall(sys::F_REGCLASSOUT, oid as Datum);
        str_of(name)
    }
}

fn openssl(call: Call) {
    line(call, "OpenSSL", format_args!("{}", openssl::version::version()), true);
    match aes_instructions() {
        Some(true) => line(call, "AES acceleration", format_args!("yes"), true),
        Some(false) => line(call, "AES acceleration", format_args!("no"), false),
        None => line(call, "AES acceleration", format_args!("unknown on this processor"), true),
    }
}

/// Whether the processor has the instructions that make AES-GCM fast.
fn aes_instructions() -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    return Some(std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq"));
    #[cfg(target_arch = "aarch64")]
    return Some(std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull"));
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

fn decoding(call: Call) {
    // SAFETY: in a backend; the value is NUL-terminated.
    let suffices = unsafe { crate::pg::majors::wal_level_suffices() };
    let wal_level = setting(c"wal_level").unwrap_or("unknown");
    line(call, "wal_level", format_args!("{wal_level}"), suffices);
    match plugin_list() {
        None => line(call, "output_plugin_libraries", format_args!("not needed by this server version"), true),
        Some((list, ok)) => line(call, "output_plugin_libraries", format_args!("{list}"), ok),
    }
}

/// The value of `output_plugin_libraries`, and whether it lets our output plugin be used. None where the server is too
/// old to have it.
fn plugin_list() -> Option<(&'static str, bool)> {
    let list = setting(PLUGIN_LIST)?;
    let listed = list.split(',').any(|name| name.trim().trim_matches('"') == PLUGIN);
    Some((list, listed))
}

/// The value of a configuration parameter, until it changes; None if there is none of that name.
fn setting(name: &CStr) -> Option<&'static str> {
    // SAFETY: GetConfigOption returns null or a NUL-terminated string.
    unsafe {
        let value = sys::GetConfigOption(name.as_ptr(), true, false);
        (!value.is_null()).then(|| str_of(value))
    }
}
