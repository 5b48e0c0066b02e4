//! Changes of rows, and TRUNCATE.

use core::ffi::{c_char, CStr};

use crate::decode::out::Out;
use crate::pg::rel::{self, Relation};
use crate::pg::sys::{self, ReorderBufferChange, TupleDesc};
use crate::pg::tuple::{self, HeapTuple};
use crate::pg::varlena::Varlena;
use crate::pg::{majors, Datum, Oid, INVALID_OID};

/// # Safety
/// `change` must hold plaintext tuples of `relation`.
pub unsafe fn change(out: Out, relation: Relation, change: *const ReorderBufferChange) {
    // SAFETY: the caller's promise; rd_att of an open relation is set, and `tp` is the member in use.
    unsafe {
        let columns = (*relation).rd_att;
        let tuples = &raw const (*change).data.tp;
        out.str("table ");
        changed_table(out, relation);
        out.str(":");
        match (*change).action {
            sys::REORDER_BUFFER_CHANGE_INSERT => {
                out.str(" INSERT:");
                row(out, columns, (*tuples).newtuple, false);
            }
            sys::REORDER_BUFFER_CHANGE_UPDATE => {
                out.str(" UPDATE:");
                if !(*tuples).oldtuple.is_null() {
                    out.str(" old-key:");
                    row(out, columns, (*tuples).oldtuple, true);
                    out.str(" new-tuple:");
                }
                row(out, columns, (*tuples).newtuple, false);
            }
            sys::REORDER_BUFFER_CHANGE_DELETE => {
                out.str(" DELETE:");
                row(out, columns, (*tuples).oldtuple, true);
            }
            _ => {}
        }
    }
}

/// # Safety
/// The arguments must be those of `truncate`, the relations perhaps fewer.
pub unsafe fn truncate(out: Out, relations: &[Relation], change: *const ReorderBufferChange) {
    // SAFETY: the caller's promise; rd_rel of an open relation is set, and `truncate` is the member in use.
    unsafe {
        out.str("table ");
        for (i, &relation) in relations.iter().enumerate() {
            if i > 0 {
                out.str(", ");
            }
            let class = (*relation).rd_rel;
            qualified(out, (*class).relnamespace, (&raw const (*class).relname.data).cast());
        }
        out.str(": TRUNCATE:");

        let flags = (*change).data.truncate;
        if flags.restart_seqs {
            out.str(" restart_seqs");
        }
        if flags.cascade {
            out.str(" cascade");
        }
        if !flags.restart_seqs && !flags.cascade {
            out.str(" (no-flags)");
        }
    }
}

/// The name of a changed row's table, quoted where that is called for.
unsafe fn changed_table(out: Out, relation: Relation) {
    // SAFETY: called with the open relation of a change.
    unsafe {
        let (schema, table) = rel::shown_name(relation);
        out.cstr(sys::quote_qualified_identifier(schema, table));
    }
}

/// A schema and a name, quoted where that is called for.
unsafe fn qualified(out: Out, namespace: Oid, name: *const c_char) {
    // SAFETY: called with a relation's name; a schema that is not found is left away.
    unsafe { out.cstr(sys::quote_qualified_identifier(sys::get_namespace_name(namespace), name)) }
}

/// The columns of a tuple, or that there is none: WAL holds no tuple for it, for an old one since there is no identity.
unsafe fn row(out: Out, columns: TupleDesc, tuple: HeapTuple, skip_nulls: bool) {
    if tuple.is_null() {
        return out.str(" (no-tuple-data)");
    }
    // SAFETY: called with a tuple of the relation that `columns` describes.
    unsafe {
        let (values, nulls) = tuple::deform(tuple, columns);
        for (i, (&value, &null)) in values.iter().zip(nulls.iter()).enumerate() {
            let attribute = majors::attribute(columns, i);
            // of a dropped column not everything that it takes to show it is there any more
            if (*attribute).attisdropped || (null && skip_nulls) {
                continue;
            }
            out.str(" ");
            out.cstr(sys::quote_identifier((&raw const (*attribute).attname.data).cast()));
            out.str("[");
            out.cstr(sys::format_type_be((*attribute).atttypid));
            out.str("]:");
            match null {
                true => out.str("null"),
                false => column(out, (*attribute).atttypid, value),
            }
        }
    }
}

/// A value that is not NULL.
unsafe fn column(out: Out, typid: Oid, value: Datum) {
    // SAFETY: `value` is a value of type `typid`; a variable-length one is a pointer into the tuple.
    unsafe {
        let (mut output, mut varlena) = (INVALID_OID, false);
        sys::getTypeOutputInfo(typid, &mut output, &mut varlena);
        if !varlena {
            return literal(out, typid, sys::OidOutputFunctionCall(output, value));
        }
        if Varlena::of(value).is_on_disk() {
            // never fetched from the table, which may hold another value by now, or none
            return out.str("unchanged-toast-datum");
        }
        let plain = sys::pg_detoast_datum(value as *mut sys::varlena) as Datum;
        literal(out, typid, sys::OidOutputFunctionCall(output, plain));
    }
}

/// What a type's output function made of a value: bare for numbers and booleans, else quoted as if
/// standard_conforming_strings were on.
unsafe fn literal(out: Out, typid: Oid, text: *const c_char) {
    // SAFETY: output functions return NUL-terminated strings.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    match typid {
        sys::INT2OID
        | sys::INT4OID
        | sys::INT8OID
        | sys::OIDOID
        | sys::FLOAT4OID
        | sys::FLOAT8OID
        | sys::NUMERICOID => out.bytes(text),
        sys::BITOID | sys::VARBITOID => {
            out.str("B'");
            out.bytes(text);
            out.str("'");
        }
        sys::BOOLOID => out.str(if text == b"t" { "true" } else { "false" }),
        _ => {
            out.str("'");
            // every part but the last ends with a quote, which is doubled; in no server encoding is that byte part of
            // another character
            for part in text.split_inclusive(|&byte| byte == b'\'') {
                out.bytes(part);
                if part.ends_with(b"'") {
                    out.str("'");
                }
            }
            out.str("'");
        }
    }
}
