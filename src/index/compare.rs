//! The functions of type `vault_tde.encrypted_key`, which nbtree calls with two stored keys, or with one and an argument.
//!
//! They work inside `encrypted_btree` only, on keys of the index that it is working on. They may run while the content
//! lock of an index page is held, as every btree comparison; `keys::prepare_to_open` says what that means.

use super::column::Column;
use super::{argument, inner};
use crate::pg::error::{FEATURE_NOT_SUPPORTED, OBJECT_NOT_IN_PREREQUISITE_STATE};
use crate::pg::fmgr::Call;
use crate::pg::memory::slice;
use crate::pg::varlena::Varlena;
use crate::pg::{sys, Datum, Oid};
use crate::{pg_error, pg_function};

/// The bytes of a datum of type `encrypted_key`, which is never compressed or out of line.
#[inline]
pub unsafe fn stored<'a>(datum: Datum) -> &'a [u8] {
    // SAFETY: the caller passes a datum of that type, which lives during the comparison.
    unsafe {
        let payload = Varlena::of(datum).payload();
        slice(payload.data, payload.len)
    }
}

#[cold]
#[inline(never)]
fn raise_outside() -> ! {
    pg_error!(
        OBJECT_NOT_IN_PREREQUISITE_STATE,
        "values of type vault_tde.encrypted_key cannot be used outside of their index"
    )
}

/// The column that a stored key says it is of; whether that is true is checked when it is opened.
#[inline]
unsafe fn column_of(key: &[u8]) -> *mut Column {
    let index = inner::current();
    if index.is_null() {
        raise_outside();
    }
    // SAFETY: a live index; 5 bytes are there, or the first column will say that the key is not its own.
    unsafe {
        let number = usize::from(key.get(4).copied().unwrap_or(0) & !crate::crypto::key::COMPRESSED);
        (*index).column(number.wrapping_sub(1).min((*index).ncolumns() - 1))
    }
}

/// -1, 0, or 1 like a btree comparison function, for two datums of which each is a stored key or an argument.
///
/// # Safety
/// In a transaction, between `inner::enter` and `leave`. May raise an ERROR.
#[inline]
pub unsafe fn compare(a: Datum, b: Datum, collation: Oid) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        let stored_b = stored(b);
        let argument_b = argument::of(stored_b);
        if let Some(order) = argument_b.and_then(|argument| search(a, argument)) {
            return order; // mostly without a look at `a`
        }
        let stored_a = stored(a);
        match (argument::of(stored_a), argument_b) {
            (None, None) => {
                let column = column_of(stored_a);
                let function = &raw mut (*column).compare;
                run(column, Side::Key(stored_a), Side::Key(stored_b), function, collation)
            }
            (None, Some(b)) => {
                let column = column_of(stored_a);
                let function = (*column).cross_comparison((*column).input_type, (*b).type_oid);
                run(column, Side::Key(stored_a), Side::Value((*b).value), function, collation)
            }
            (Some(a), None) => {
                let column = column_of(stored_b);
                let function = (*column).cross_comparison((*a).type_oid, (*column).input_type);
                run(column, Side::Value((*a).value), Side::Key(stored_b), function, collation)
            }
            (Some(a), Some(b)) => {
                let column = (*a).column;
                let function = (*column).cross_comparison((*a).type_oid, (*b).type_oid);
                run(column, Side::Value((*a).value), Side::Value((*b).value), function, collation)
            }
        }
    }
}

/// What a search in the first column knows without decrypting, or with decrypting other keys.
#[inline]
unsafe fn search(key: Datum, argument: *const argument::Argument) -> Option<i32> {
    // SAFETY: an argument of a scan of the current index, which nobody else uses.
    unsafe {
        let (search, column) = ((*argument).search, (*argument).column);
        if search.is_null() || (*column).busy {
            return None;
        }
        (*search).compare(column, key)
    }
}

enum Side<'a> {
    Key(&'a [u8]),
    Value(Datum),
}

#[inline]
unsafe fn run(column: *mut Column, a: Side<'_>, b: Side<'_>, function: *mut sys::FmgrInfo, collation: Oid) -> i32 {
    let index = inner::current();
    // SAFETY: columns and their functions are never freed. A comparison that runs SQL may come back here, hence `busy`.
    unsafe {
        if (*column).busy {
            return run_nested(column, a, b, function, collation);
        }
        let (a, b) = match (a, b) {
            (Side::Key(a), Side::Value(b)) => ((*column).open_once(a), b),
            (Side::Value(a), Side::Key(b)) => (a, (*column).open_once(b)),
            (Side::Key(a), Side::Key(b)) => ((*column).open(0, a), (*column).open(1, b)),
            (Side::Value(a), Side::Value(b)) => (a, b),
        };
        (*column).busy = true;
        let result = sys::FunctionCall2Coll(function, collation, a, b);
        (*column).busy = false;
        inner::set_current(index);
        result as i32
    }
}

#[cold]
#[inline(never)]
unsafe fn run_nested(
    column: *mut Column,
    a: Side<'_>,
    b: Side<'_>,
    function: *mut sys::FmgrInfo,
    collation: Oid,
) -> i32 {
    let index = inner::current();
    // SAFETY: as for `run`.
    unsafe {
        let open = |which: Side<'_>| match which {
            Side::Key(stored) => (*column).open_copy(stored),
            Side::Value(value) => value,
        };
        let (a, b) = (open(a), open(b));
        let result = sys::FunctionCall2Coll(function, collation, a, b);
        inner::set_current(index);
        result as i32
    }
}

/// `compare` of the call's two arguments, under its collation.
#[inline]
unsafe fn compare_call(call: Call) -> i32 {
    // SAFETY: two arguments, neither NULL; the functions are strict.
    unsafe { compare(call.datum(0), call.datum(1), (*call.0).fncollation) }
}

/// The value as its type prints it, for error messages about an index's keys.
unsafe fn print(datum: Datum) -> Datum {
    // SAFETY: a datum of type encrypted_key.
    unsafe {
        let key = stored(datum);
        let (value, type_oid) = match argument::of(key) {
            Some(argument) => ((*argument).value, (*argument).type_oid),
            None => {
                let column = column_of(key);
                ((*column).open_copy(key), (*column).input_type)
            }
        };
        let (mut output, mut is_varlena) = (0, false);
        sys::getTypeOutputInfo(type_oid, &mut output, &mut is_varlena);
        sys::OidOutputFunctionCall(output, value) as Datum
    }
}

pg_function! {
    /// `vault_tde.encrypted_key_cmp(encrypted_key, encrypted_key) returns int`
    fn vault_tde_encrypted_key_cmp[pg_finfo_vault_tde_encrypted_key_cmp](call) {
        // SAFETY: called by fmgr with two datums of that type.
        unsafe { compare_call(call) as Datum }
    }

    /// `encrypted_key < encrypted_key`
    fn vault_tde_encrypted_key_lt[pg_finfo_vault_tde_encrypted_key_lt](call) {
        // SAFETY: as above.
        Datum::from(unsafe { compare_call(call) } < 0)
    }

    /// `encrypted_key <= encrypted_key`
    fn vault_tde_encrypted_key_le[pg_finfo_vault_tde_encrypted_key_le](call) {
        // SAFETY: as above.
        Datum::from(unsafe { compare_call(call) } <= 0)
    }

    /// `encrypted_key = encrypted_key`
    fn vault_tde_encrypted_key_eq[pg_finfo_vault_tde_encrypted_key_eq](call) {
        // SAFETY: as above.
        Datum::from(unsafe { compare_call(call) } == 0)
    }

    /// `encrypted_key >= encrypted_key`
    fn vault_tde_encrypted_key_ge[pg_finfo_vault_tde_encrypted_key_ge](call) {
        // SAFETY: as above.
        Datum::from(unsafe { compare_call(call) } >= 0)
    }

    /// `encrypted_key > encrypted_key`
    fn vault_tde_encrypted_key_gt[pg_finfo_vault_tde_encrypted_key_gt](call) {
        // SAFETY: as above.
        Datum::from(unsafe { compare_call(call) } > 0)
    }

    /// The type's input function.
    fn vault_tde_encrypted_key_in[pg_finfo_vault_tde_encrypted_key_in](_call) {
        pg_error!(FEATURE_NOT_SUPPORTED, "cannot accept a value of type vault_tde.encrypted_key";
            detail: ("Values of this type are made by encrypted indexes only."))
    }

    /// The type's output function: the user's value, but only while its index is being worked on, as for the message that
    /// says which key is there already.
    fn vault_tde_encrypted_key_out[pg_finfo_vault_tde_encrypted_key_out](call) {
        // SAFETY: as above.
        unsafe { print(call.datum(0)) }
    }
}
