//! Functions about encrypted indexes.

use core::ffi::{c_char, CStr};
use core::ptr;

use crate::pg::error::{INTERNAL_ERROR, UNDEFINED_OBJECT};
use crate::pg::fmgr::str_of;
use crate::pg::{sys, Datum};
use crate::{pg_error, pg_function};

pg_function! {
    /// `vault_tde.add_operator_class(regtype)`: runs what `vault_tde.operator_class_commands` says. Its rights are the
    /// caller's, so it takes a superuser, as CREATE OPERATOR CLASS does.
    fn vault_tde_add_operator_class[pg_finfo_vault_tde_add_operator_class](call) {
        // SAFETY: in a transaction; what SPI returns is copied before SPI is used again.
        unsafe {
            let (commands, count) = commands(call.datum(0));
            if count == 0 {
                pg_error!(
                    UNDEFINED_OBJECT,
                    "data type {} has no default operator class for access method \"btree\"",
                    str_of(sys::format_type_be(call.datum(0) as u32))
                );
            }
            if sys::SPI_connect() < 0 {
                pg_error!(INTERNAL_ERROR, "SPI_connect failed");
            }
            for i in 0..count {
                if sys::SPI_execute(*commands.add(i), false, 0) < 0 {
                    pg_error!(INTERNAL_ERROR, "could not run \"{}\"", str_of(*commands.add(i)));
                }
            }
            sys::SPI_finish();
        }
        0
    }
}

/// The commands for a type, in memory of the caller's context.
unsafe fn commands(type_oid: Datum) -> (*mut *mut c_char, usize) {
    const QUERY: &CStr = c"SELECT vault_tde.operator_class_commands($1)";
    // SAFETY: one argument of type regtype; the caller's context is not SPI's.
    unsafe {
        let context = crate::pg::memory::current();
        if sys::SPI_connect() < 0 {
            pg_error!(INTERNAL_ERROR, "SPI_connect failed");
        }
        // not read-only, or it would not see what an earlier call in the same statement has made
        let (mut types, mut values) = ([sys::REGTYPEOID], [type_oid]);
        let (types, values) = (types.as_mut_ptr(), values.as_mut_ptr());
        let result = sys::SPI_execute_with_args(QUERY.as_ptr(), 1, types, values, ptr::null(), false, 0);
        if result != sys::SPI_OK_SELECT as i32 {
            pg_error!(INTERNAL_ERROR, "could not look up the operator class to copy");
        }
        let (table, count) = (sys::SPI_tuptable, sys::SPI_processed as usize);
        let copies: *mut *mut c_char = sys::MemoryContextAlloc(context, (count + 1) * size_of::<*mut c_char>()).cast();
        for i in 0..count {
            let text = sys::SPI_getvalue(*(*table).vals.add(i), (*table).tupdesc, 1);
            copies.add(i).write(sys::MemoryContextStrdup(context, text));
        }
        sys::SPI_finish();
        (copies, count)
    }
}
