//! The plugin that formats the decrypted changes, if it is not our own text format: which one it is, and how it gets
//! here.
//!
//! All callbacks that logical decoding knows are ours, and so `ctx->callbacks` stays as it is. What the inner plugin
//! would have registered is in a table of its own, and the callbacks call it from there. `ctx->output_plugin_private` and
//! `txn->output_plugin_private` are the inner plugin's alone: what we keep is found through `Session`.

use core::ffi::{c_char, c_void, CStr};
use core::mem::{transmute, zeroed};
use core::ptr;

use crate::pg::error::{Report, INSUFFICIENT_PRIVILEGE, INTERNAL_ERROR, INVALID_PARAMETER_VALUE};
use crate::pg::fmgr::str_of;
use crate::pg::memory::slice;
use crate::pg::sys::{self, DefElem, LogicalDecodingContext, OutputPluginCallbacks};
use crate::pg::BackendCell;
use crate::pg_error;

/// The name that a slot asks for us by, unless it finds us in another plugin's place.
const OUR_NAME: &CStr = c"pg_vault_tde";
const PGOUTPUT: &CStr = c"pgoutput";
const TEST_DECODING: &CStr = c"test_decoding";

/// `pg_vault_tde.inner_plugins`
pub static ALLOWED: BackendCell<*mut c_char> = BackendCell::new(ptr::null_mut());
pub const ALLOWED_DEFAULT: &CStr = c"pgoutput, test_decoding";

/// An inner plugin's callbacks and how it was chosen.
#[derive(Clone, Copy)]
pub struct Inner {
    pub callbacks: OutputPluginCallbacks,
    /// The slot names the inner plugin, whose place we have in `dynamic_library_path`: its user may know nothing of us.
    pub in_its_place: bool,
}

impl Inner {
    /// The inner plugin that the slot or the options ask for, loaded and with its own `_PG_output_plugin_init` called;
    /// `None` for our text format. Takes our own options out of `ctx->output_plugin_options`.
    ///
    /// # Safety
    /// `ctx` must be the context that `startup` was called with.
    pub unsafe fn choose(ctx: *mut LogicalDecodingContext) -> Option<Self> {
        // SAFETY: the caller's promise; slot and options are there.
        unsafe {
            let called = base_name(CStr::from_ptr((&raw const (*(*ctx).slot).data.plugin.data).cast()));
            if called == TEST_DECODING.to_bytes() {
                // our text format is test_decoding's, so no other library is needed in its place
                return None;
            }
            let in_its_place = called != OUR_NAME.to_bytes();
            let name = match in_its_place {
                // a NUL-terminated copy, without a directory or a suffix
                true => sys::pnstrdup(called.as_ptr().cast(), called.len()).cast_const(),
                false => asked_for(ctx)?,
            };
            Some(Self { callbacks: load(name), in_its_place })
        }
    }

    /// Whether `ctx->streaming` would be set for this plugin (`StartupDecodingContext()` in logical.c).
    pub fn streams(&self) -> bool {
        let c = &self.callbacks;
        c.stream_start_cb.is_some()
            || c.stream_stop_cb.is_some()
            || c.stream_abort_cb.is_some()
            || c.stream_commit_cb.is_some()
            || c.stream_change_cb.is_some()
            || c.stream_message_cb.is_some()
            || c.stream_truncate_cb.is_some()
    }

    /// Whether `ctx->twophase` would be set for this plugin, likewise.
    pub fn decodes_prepared(&self) -> bool {
        let c = &self.callbacks;
        c.begin_prepare_cb.is_some()
            || c.prepare_cb.is_some()
            || c.commit_prepared_cb.is_some()
            || c.rollback_prepared_cb.is_some()
            || c.stream_prepare_cb.is_some()
            || c.filter_prepare_cb.is_some()
    }
}

/// A callback that core insists on, of a plugin that has it not: as core's own wrappers do.
pub fn required<F>(callback: Option<F>, name: &str) -> F {
    match callback {
        Some(function) => function,
        None => pg_error!(INTERNAL_ERROR, "the inner output plugin does not have the {name} callback"),
    }
}

/// The plugin that the options ask for, if any: by name, or by options that only pgoutput has.
unsafe fn asked_for(ctx: *mut LogicalDecodingContext) -> Option<*const c_char> {
    let mut named: *const c_char = ptr::null();
    let mut pgoutput = false;
    let mut others: *mut sys::List = ptr::null_mut();
    // SAFETY: the options are a List of DefElem, or NIL; the new list is made in the session's context, as startup runs in it.
    unsafe {
        for option in options(ctx) {
            let name = CStr::from_ptr((**option).defname);
            if name != c"plugin" {
                pgoutput |= name == c"proto_version" || name == c"publication_names";
                others = sys::lappend(others, option.cast());
                continue;
            }
            if !named.is_null() {
                pg_error!(INVALID_PARAMETER_VALUE, "option \"plugin\" is given more than once");
            }
            if (**option).arg.is_null() {
                pg_error!(INVALID_PARAMETER_VALUE, "option \"plugin\" needs the name of an output plugin");
            }
            named = sys::defGetString(*option);
        }
        (*ctx).output_plugin_options = others;
    }
    match (named.is_null(), pgoutput) {
        (false, _) => Some(named),
        (true, true) => Some(PGOUTPUT.as_ptr()),
        (true, false) => None,
    }
}

unsafe fn options<'a>(ctx: *mut LogicalDecodingContext) -> &'a [*mut DefElem] {
    // SAFETY: a List of DefElem, or NIL; a ListCell is as large as a pointer.
    unsafe {
        let list = (*ctx).output_plugin_options;
        match list.is_null() {
            true => &[],
            false => slice((*list).elements.cast::<*mut DefElem>(), (*list).length as usize),
        }
    }
}

/// `pgoutput` of `$libdir/pg_vault_tde/pgoutput.so`
fn base_name(plugin: &CStr) -> &[u8] {
    let path = plugin.to_bytes();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.strip_suffix(b".so").unwrap_or(name)
}

/// Loads the plugin and lets it fill a table of callbacks.
unsafe fn load(name: *const c_char) -> OutputPluginCallbacks {
    // SAFETY: `name` is NUL-terminated. The library exports the function with this signature, which the server relies on too.
    unsafe {
        let shown = str_of(name);
        if !is_plain(CStr::from_ptr(name)) || !is_allowed(CStr::from_ptr(name)) {
            Report::new(
                INSUFFICIENT_PRIVILEGE,
                format_args!("output plugin \"{shown}\" may not be used through pg_vault_tde"),
            )
            .hint(format_args!(
                "If it is safe for all REPLICATION users to use this plugin, add it to \"pg_vault_tde.inner_plugins\"."
            ))
            .raise();
        }
        // The real plugin, at its absolute path: a search along dynamic_library_path could find us in its place again.
        let directory = str_of((&raw const sys::pkglib_path).cast());
        let path = crate::pg::error::pg_format(format_args!("{directory}/{shown}"));
        let init = sys::load_external_function(path, c"_PG_output_plugin_init".as_ptr(), true, ptr::null_mut());
        let ours: unsafe extern "C-unwind" fn(*mut OutputPluginCallbacks) = crate::_PG_output_plugin_init;
        if ptr::eq(init.cast_const(), ours as *const c_void) {
            pg_error!(INVALID_PARAMETER_VALUE, "output plugin \"{shown}\" cannot be used through itself");
        }
        let mut table: OutputPluginCallbacks = zeroed();
        transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut OutputPluginCallbacks)>(init)(&mut table);
        required(table.begin_cb, "begin");
        required(table.change_cb, "change");
        required(table.commit_cb, "commit");
        table
    }
}

/// Whether a name is that of a file in `$libdir` itself.
fn is_plain(name: &CStr) -> bool {
    let name = name.to_bytes();
    !name.is_empty() && !name.starts_with(b".") && !name.iter().any(|byte| matches!(byte, b'/' | b'\\'))
}

/// Whether `pg_vault_tde.inner_plugins` lists the plugin.
unsafe fn is_allowed(name: &CStr) -> bool {
    // SAFETY: the parameter's value is NUL-terminated or null; SplitGUCList wants a copy, into which its list points.
    unsafe {
        if ALLOWED.get().is_null() {
            return false;
        }
        let mut names: *mut sys::List = ptr::null_mut();
        if !sys::SplitGUCList(sys::pstrdup(ALLOWED.get()), b',' as c_char, &mut names) {
            Report::new(
                INVALID_PARAMETER_VALUE,
                format_args!("invalid list syntax in parameter \"pg_vault_tde.inner_plugins\""),
            )
            .log(sys::LOG);
            return false;
        }
        let names: &[*const c_char] = match names.is_null() {
            true => &[],
            false => slice((*names).elements.cast(), (*names).length as usize),
        };
        names.iter().any(|&allowed| CStr::from_ptr(allowed) == name)
    }
}
