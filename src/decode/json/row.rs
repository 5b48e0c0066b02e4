//! Changed rows.

use core::ffi::CStr;

use super::write::{string, Object};
use super::{at, name, settings, start};
use crate::decode::options::Options;
use crate::decode::out::Out;
use crate::decode::txn::Txn;
use crate::pg::rel::Relation;
use crate::pg::sys::{self, ReorderBufferChange, TupleDesc};
use crate::pg::tuple::{self, HeapTuple};
use crate::pg::varlena::Varlena;
use crate::pg::{majors, Datum, Oid, INVALID_OID};

/// A tuple, taken apart.
#[derive(Clone, Copy)]
struct Row<'a> {
    columns: TupleDesc,
    values: &'a [Datum],
    nulls: &'a [bool],
}

/// The line of a change in transaction `txn`, made by its part.
///
/// # Safety
/// `change` must hold plaintext tuples of `relation`.
pub unsafe fn change(
    out: Out,
    options: &Options,
    (txn, part): (Txn, Txn),
    relation: Relation,
    change: *const ReorderBufferChange,
) {
    // SAFETY: the caller's promise; rd_att and rd_rel of an open relation are set, and `tp` is the member in use.
    unsafe {
        let action = match (*change).action {
            sys::REORDER_BUFFER_CHANGE_INSERT => "insert",
            sys::REORDER_BUFFER_CHANGE_UPDATE => "update",
            sys::REORDER_BUFFER_CHANGE_DELETE => "delete",
            _ => return,
        };
        settings::fixed(|| {
            let mut line = start(out, options, action, Some(txn), part);
            at(&mut line, options, (*change).lsn);
            name(&mut line, relation);
            let tuples = &raw const (*change).data.tp;
            let columns = (*relation).rd_att;
            if options.include_types {
                line.name("types");
                types(out, columns);
            }
            if action != "insert" {
                // under FULL NULLs are part of the identity, otherwise they are what is not part of it
                let full = (*(*relation).rd_rel).relreplident as u8 == sys::REPLICA_IDENTITY_FULL;
                line.name("old");
                object(out, row(columns, (*tuples).oldtuple), full);
            }
            if action != "delete" {
                let new = row(columns, (*tuples).newtuple);
                line.name("new");
                object(out, new, true);
                if let Some(new) = new.filter(|new| new.has_unchanged()) {
                    line.name("unchanged");
                    names_of_unchanged(out, &new);
                }
            }
            line.end();
        });
    }
}

/// `None` if WAL holds no tuple.
unsafe fn row<'a>(columns: TupleDesc, tuple: HeapTuple) -> Option<Row<'a>> {
    if tuple.is_null() {
        return None;
    }
    // SAFETY: called with a tuple of the relation that `columns` describes.
    let (values, nulls) = unsafe { tuple::deform(tuple, columns) };
    Some(Row { columns, values, nulls })
}

impl Row<'_> {
    /// Whether a value is out of line and not in WAL.
    unsafe fn is_unchanged(&self, i: usize) -> bool {
        // SAFETY: a value of a variable-length type is a pointer.
        unsafe {
            let attribute = majors::attribute(self.columns, i);
            is_shown(attribute)
                && !self.nulls[i]
                && (*attribute).attlen == -1
                && Varlena::of(self.values[i]).is_on_disk()
        }
    }

    unsafe fn has_unchanged(&self) -> bool {
        // SAFETY: as above.
        (0..self.values.len()).any(|i| unsafe { self.is_unchanged(i) })
    }
}

/// Not of a dropped column, nor of one that is computed when it is read.
unsafe fn is_shown(attribute: sys::Form_pg_attribute) -> bool {
    // SAFETY: a column of an open relation.
    unsafe { !(*attribute).attisdropped && (*attribute).attgenerated as u8 != b'v' }
}

unsafe fn column_name<'a>(attribute: sys::Form_pg_attribute) -> &'a [u8] {
    // SAFETY: a column of an open relation; its name is NUL-terminated.
    unsafe { CStr::from_ptr((&raw const (*attribute).attname.data).cast()) }.to_bytes()
}

/// The types of all columns, by name.
unsafe fn types(out: Out, columns: TupleDesc) {
    // SAFETY: the columns of an open relation.
    unsafe {
        let mut object = Object::start(out);
        for i in 0..(*columns).natts as usize {
            let attribute = majors::attribute(columns, i);
            if is_shown(attribute) {
                object.foreign_name(column_name(attribute));
                object.string(CStr::from_ptr(sys::format_type_be((*attribute).atttypid)).to_bytes());
            }
        }
        object.end();
    }
}

/// A row, `null` if there is none.
unsafe fn object(out: Out, row: Option<Row<'_>>, with_nulls: bool) {
    let Some(row) = row else { return out.str("null") };
    // SAFETY: a row of plaintext.
    unsafe {
        let mut object = Object::start(out);
        for i in 0..row.values.len() {
            let attribute = majors::attribute(row.columns, i);
            if !is_shown(attribute) || row.nulls[i] && !with_nulls || row.is_unchanged(i) {
                continue;
            }
            object.foreign_name(column_name(attribute));
            match row.nulls[i] {
                true => object.null(),
                false => value(out, (*attribute).atttypid, row.values[i]),
            }
        }
        object.end();
    }
}

unsafe fn names_of_unchanged(out: Out, row: &Row<'_>) {
    out.str("[");
    let mut first = true;
    for i in 0..row.values.len() {
        // SAFETY: as in `object`.
        unsafe {
            if row.is_unchanged(i) {
                if !first {
                    out.str(",");
                }
                first = false;
                string(out, column_name(majors::attribute(row.columns, i)));
            }
        }
    }
    out.str("]");
}

/// A value that is not NULL: numbers as PostgreSQL prints them, booleans, and everything else as a string. So are numbers that
/// JSON has no form for.
unsafe fn value(out: Out, typid: Oid, value: Datum) {
    // SAFETY: `value` is a value of type `typid`; output functions return NUL-terminated strings.
    unsafe {
        let (mut output, mut varlena) = (INVALID_OID, false);
        sys::getTypeOutputInfo(typid, &mut output, &mut varlena);
        let plain = if varlena { sys::pg_detoast_datum(value as *mut sys::varlena) as Datum } else { value };
        let text = CStr::from_ptr(sys::OidOutputFunctionCall(output, plain)).to_bytes();
        let base = if typid >= sys::FirstNormalObjectId { sys::getBaseType(typid) } else { typid };
        match base {
            sys::INT2OID
            | sys::INT4OID
            | sys::INT8OID
            | sys::OIDOID
            | sys::FLOAT4OID
            | sys::FLOAT8OID
            | sys::NUMERICOID
                if is_finite(text) =>
            {
                out.bytes(text);
            }
            sys::BOOLOID => out.str(if text == b"t" { "true" } else { "false" }),
            _ => string(out, text),
        }
    }
}

/// Not `NaN`, `Infinity` or `-Infinity`.
fn is_finite(number: &[u8]) -> bool {
    number.last().is_some_and(u8::is_ascii_digit)
}
