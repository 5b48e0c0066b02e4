//! The options of our own formats: test_decoding's, with its meanings and defaults, and some of wal2json's. (The choice of an
//! inner plugin, which has its own options, is made before: `inner.rs`.)

use core::ffi::{c_char, CStr};

use super::format::{Format, Lines};
use super::tables::{Patterns, Tables};
use crate::pg::error::{Report, INVALID_PARAMETER_VALUE};
use crate::pg::fmgr::str_of;
use crate::pg::memory::slice;
use crate::pg::sys::{self, DefElem, LogicalDecodingContext, OutputPluginOptions};
use crate::pg_error;

/// What the callbacks ask for. What core asks for (output type, rewrites, streaming) is stored where it looks.
#[derive(Clone, Copy)]
pub struct Options {
    format: Format,
    pub include_xids: bool,
    pub include_timestamp: bool,
    pub include_lsn: bool,
    /// of the json format
    pub include_types: bool,
    pub skip_empty_xacts: bool,
    pub only_local: bool,
    pub tables: Tables,
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
const INCLUDE_LSN: usize = 7;
const INCLUDE_TYPES: usize = 8;

/// In the order of the constants above. Three of test_decoding's switches stay off when they are given without a value.
const SWITCHES: [Switch; 9] = [
    switch(c"include-xids", true, true),
    switch(c"include-timestamp", false, true),
    switch(c"force-binary", false, false),
    switch(c"skip-empty-xacts", false, true),
    switch(c"only-local", false, true),
    switch(c"include-rewrites", false, false),
    switch(c"stream-changes", false, false),
    switch(c"include-lsn", false, true),
    switch(c"include-types", true, true),
];

const FORMAT: usize = 0;
const ADD_TABLES: usize = 1;
const FILTER_TABLES: usize = 2;

/// Options with other values, in the order of the constants above.
const TEXTS: [&CStr; 3] = [c"format", c"add-tables", c"filter-tables"];

/// Options of plugins that are chosen by other options: whoever gives one of these has forgotten that.
const OF_PGOUTPUT: [&CStr; 5] = [c"binary", c"streaming", c"two_phase", c"origin", c"messages"];
const OF_WAL2JSON: [&CStr; 4] = [c"format-version", c"pretty-print", c"include-pk", c"actions"];

impl Options {
    /// Those of a session whose changes an inner plugin formats: nobody asks for them.
    pub const UNUSED: Self = Self {
        format: Format::Text,
        include_xids: false,
        include_timestamp: false,
        include_lsn: false,
        include_types: false,
        skip_empty_xacts: false,
        only_local: false,
        tables: Tables::ALL,
    };

    /// Who writes the lines.
    #[inline]
    pub fn lines(&self) -> &'static dyn Lines {
        self.format.lines()
    }

    /// Reads `ctx->output_plugin_options`, fills what core wants to know, and returns the rest. Raises an ERROR that
    /// names the option when one is unknown, ill-formed, or given twice.
    ///
    /// # Safety
    /// The arguments must be those of `startup`, in the session's memory context, which that runs in.
    pub unsafe fn read(ctx: *mut LogicalDecodingContext, core: *mut OutputPluginOptions) -> Self {
        let mut switches = SWITCHES.map(|switch| switch.default);
        let mut texts: [*const c_char; TEXTS.len()] = [core::ptr::null(); TEXTS.len()];
        let mut given = [false; SWITCHES.len()];
        // SAFETY: the options are a List of DefElem, or NIL; a ListCell is as large as a pointer.
        unsafe {
            let list = (*ctx).output_plugin_options;
            let options: &[*mut DefElem] =
                if list.is_null() { &[] } else { slice((*list).elements.cast(), (*list).length as usize) };
            for &option in options {
                let name = CStr::from_ptr((*option).defname);
                if let Some(which) = SWITCHES.iter().position(|switch| switch.name == name) {
                    raise_if(given[which], option);
                    given[which] = true;
                    switches[which] = switch_of(option, SWITCHES[which].bare);
                } else if let Some(which) = TEXTS.iter().position(|&text| text == name) {
                    raise_if(!texts[which].is_null(), option);
                    texts[which] = text_of(option);
                } else {
                    unknown(option);
                }
            }
            let options = Self {
                format: format_of(texts[FORMAT]),
                include_xids: switches[INCLUDE_XIDS],
                include_timestamp: switches[INCLUDE_TIMESTAMP],
                include_lsn: switches[INCLUDE_LSN],
                include_types: switches[INCLUDE_TYPES],
                skip_empty_xacts: switches[SKIP_EMPTY_XACTS],
                only_local: switches[ONLY_LOCAL],
                tables: Tables {
                    add: patterns_of("add-tables", texts[ADD_TABLES]),
                    filter: patterns_of("filter-tables", texts[FILTER_TABLES]).unwrap_or(Patterns::NONE),
                },
            };
            if given[INCLUDE_TYPES] && options.format != Format::Json {
                pg_error!(
                    INVALID_PARAMETER_VALUE, "option \"include-types\" is for the json format only";
                    hint: ("Give \"format\" = \"json\", too.")
                );
            }

            (*core).output_type = match switches[FORCE_BINARY] {
                true => sys::OUTPUT_PLUGIN_BINARY_OUTPUT,
                false => sys::OUTPUT_PLUGIN_TEXTUAL_OUTPUT,
            };
            (*core).receive_rewrites = switches[INCLUDE_REWRITES];
            (*ctx).streaming &= switches[STREAM_CHANGES];
            options
        }
    }
}

unsafe fn raise_if(given: bool, option: *mut DefElem) {
    if given {
        // SAFETY: an option's name is NUL-terminated.
        let name = unsafe { str_of((*option).defname) };
        pg_error!(INVALID_PARAMETER_VALUE, "option \"{name}\" is given more than once");
    }
}

/// The value of a switch that is given.
unsafe fn switch_of(option: *mut DefElem, bare: bool) -> bool {
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

/// The value of another option that is given.
unsafe fn text_of(option: *mut DefElem) -> *const c_char {
    // SAFETY: as for `switch_of`.
    unsafe {
        if (*option).arg.is_null() {
            pg_error!(INVALID_PARAMETER_VALUE, "option \"{}\" needs a value", str_of((*option).defname));
        }
        // a copy in the session's memory
        sys::pstrdup(sys::defGetString(option))
    }
}

unsafe fn format_of(value: *const c_char) -> Format {
    if value.is_null() {
        return Format::Text;
    }
    // SAFETY: an option's value is NUL-terminated.
    unsafe {
        Format::named(CStr::from_ptr(value).to_bytes()).unwrap_or_else(|| {
            pg_error!(
                INVALID_PARAMETER_VALUE, "could not parse value \"{}\" for parameter \"format\"", str_of(value);
                hint: ("Formats are \"text\" and \"json\".")
            )
        })
    }
}

unsafe fn patterns_of(option: &str, value: *const c_char) -> Option<Patterns> {
    if value.is_null() {
        return None;
    }
    // SAFETY: the value is NUL-terminated, and lives as long as the session.
    match unsafe { Patterns::read(CStr::from_ptr(value)) } {
        Ok(patterns) => Some(patterns),
        Err(problem) => {
            // SAFETY: a NUL-terminated copy of part of the value.
            let pattern = unsafe { str_of(sys::pnstrdup(problem.pattern.as_ptr().cast(), problem.pattern.len())) };
            pg_error!(
                INVALID_PARAMETER_VALUE, "could not parse pattern \"{pattern}\" for parameter \"{option}\"";
                detail: ("{}", problem.reason)
            )
        }
    }
}

unsafe fn unknown(option: *mut DefElem) -> ! {
    // SAFETY: as for `switch_of`; a name is NUL-terminated.
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
        if OF_WAL2JSON.contains(&name) {
            report.hint(format_args!("For the formats of \"wal2json\" give \"plugin\" = \"wal2json\".")).raise();
        }
        report.raise()
    }
}
