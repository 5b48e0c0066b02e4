//! The options of the text format: test_decoding's, with its meanings and defaults. All of them are switches. (The choice
//! of an inner plugin, which has its own options, is made before: `inner.rs`.)

use core::ffi::CStr;

use crate::pg::error::{Report, INVALID_PARAMETER_VALUE};
use crate::pg::fmgr::str_of;
use crate::pg::sys::{self, DefElem, LogicalDecodingContext, OutputPluginOptions};
use crate::pg_error;

/// What the callbacks ask for. What core asks for (output type, rewrites, streaming) is stored where it looks.
#[derive(Clone, Copy)]
pub struct Options {
    pub include_xids: bool,
    pub include_timestamp: bool,
    pub skip_empty_xacts: bool,
    pub only_local: bool,
}

struct Switch {
    name: &'static CStr,
    /// Without the option.
    default: bool,
    /// With the option, but no value.
    bare: bool,
}

const fn switch(name: &'static CStr, default: bool, bare: bool) -> Switch {
    Switch { name, default, bare }
}

const INCLUDE_XIDS: usize = 0;
const INCLUDE_TIMESTAMP: usize = 1;
const FORCE_BINARY: usize = 2;
const SKIP_EMPTY_XACTS: usize = 3;
const ONLY_LOCAL: usize = 4;
const INCLUDE_REWRITES: usize = 5;
const STREAM_CHANGES: usize = 6;

/// In the order of the constants above. Three of test_decoding's switches stay off when they are given without a value.
const SWITCHES: [Switch; 7] = [
    switch(c"include-xids", true, true),
    switch(c"include-timestamp", false, true),
    switch(c"force-binary", false, false),
    switch(c"skip-empty-xacts", false, true),
    switch(c"only-local", false, true),
    switch(c"include-rewrites", false, false),
    switch(c"stream-changes", false, false),
];

/// Options of pgoutput, which is chosen by two others: whoever gives one of these has forgotten those.
const OF_PGOUTPUT: [&CStr; 5] = [c"binary", c"streaming", c"two_phase", c"origin", c"messages"];

impl Options {
    /// Those of a session whose changes an inner plugin formats: nobody asks for them.
    pub const UNUSED: Self =
        Self { include_xids: false, include_timestamp: false, skip_empty_xacts: false, only_local: false };

    /// Reads `ctx->output_plugin_options`, fills what core wants to know, and returns the rest. Raises an ERROR that
    /// names the option when one is unknown, ill-formed, or given twice.
    ///
    /// # Safety
    /// The arguments must be those of `startup`.
    pub unsafe fn read(ctx: *mut LogicalDecodingContext, core: *mut OutputPluginOptions) -> Self {
        let mut values = SWITCHES.map(|switch| switch.default);
        let mut given = [false; SWITCHES.len()];
        // SAFETY: the options are a List of DefElem, or NIL; `core` is writable.
        unsafe {
            let list = (*ctx).output_plugin_options;
            let length = if list.is_null() { 0 } else { (*list).length as usize };
            for i in 0..length {
                let option: *mut DefElem = (*(*list).elements.add(i)).ptr_value.cast();
                let name = CStr::from_ptr((*option).defname);
                let Some(which) = SWITCHES.iter().position(|switch| switch.name == name) else {
                    unknown(option);
                };
                if given[which] {
                    pg_error!(
                        INVALID_PARAMETER_VALUE,
                        "option \"{}\" is given more than once",
                        str_of((*option).defname)
                    );
                }
                given[which] = true;
                values[which] = value_of(option, SWITCHES[which].bare);
            }

            (*core).output_type = match values[FORCE_BINARY] {
                true => sys::OUTPUT_PLUGIN_BINARY_OUTPUT,
                false => sys::OUTPUT_PLUGIN_TEXTUAL_OUTPUT,
            };
            (*core).receive_rewrites = values[INCLUDE_REWRITES];
            (*ctx).streaming &= values[STREAM_CHANGES];
        }
        Self {
            include_xids: values[INCLUDE_XIDS],
            include_timestamp: values[INCLUDE_TIMESTAMP],
            skip_empty_xacts: values[SKIP_EMPTY_XACTS],
            only_local: values[ONLY_LOCAL],
        }
    }
}

/// The value of a switch that is given.
unsafe fn value_of(option: *mut DefElem, bare: bool) -> bool {
    // SAFETY: an option's argument is absent or a value node, which defGetString shows as a string.
    unsafe {
        if (*option).arg.is_null() {
            return bare;
        }
        let text = sys::defGetString(option);
        let mut value = false;
        if !sys::parse_bool(text, &mut value) {
            pg_error!(
                INVALID_PARAMETER_VALUE,
                "could not parse value \"{}\" for parameter \"{}\"",
                str_of(text),
                str_of((*option).defname)
            );
        }
        value
    }
}

unsafe fn unknown(option: *mut DefElem) -> ! {
    // SAFETY: as for `value_of`; a name is NUL-terminated.
    unsafe {
        let name = CStr::from_ptr((*option).defname);
        let shown = str_of((*option).defname);
        let text = match (*option).arg.is_null() {
            true => c"(null)".as_ptr(),
            false => sys::defGetString(option).cast_const(),
        };
        let report =
            Report::new(INVALID_PARAMETER_VALUE, format_args!("option \"{shown}\" = \"{}\" is unknown", str_of(text)));
        if OF_PGOUTPUT.contains(&name) {
            report
                .hint(format_args!(
                    "For the protocol of \"pgoutput\" give \"proto_version\" and \"publication_names\"."
                ))
                .raise();
        }
        report.raise()
    }
}
