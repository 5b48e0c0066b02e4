//! Sort support of type `encrypted_key`, for index builds: abbreviated keys.
//!
//! The sort keeps beside each row, in memory only, a word by which most comparisons are decided: the value itself if it is
//! passed by value, else what the type's own sort support makes of it. Only what that cannot decide is decrypted. What is
//! written to temporary files is the rows: ciphertext.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use super::column::Column;
use super::{compare, inner};
use crate::pg::{sys, Datum};
use crate::{pg_callback, pg_function};

/// What hangs on the sort's own SortSupport.
struct Sort {
    column: *mut Column,
    /// the type's own sort support
    own: sys::SortSupportData,
}

unsafe fn sort_of<'a>(support: sys::SortSupport) -> &'a mut Sort {
    // SAFETY: set below, in the sort's memory.
    unsafe { &mut *(*support).ssup_extra.cast::<Sort>() }
}

pg_callback! {
    /// Compares two stored keys.
    fn compare_full(a: Datum, b: Datum, support: sys::SortSupport) -> c_int {
        // SAFETY: called by a build's sort, while its index is current.
        unsafe { compare::compare(a, b, (*support).ssup_collation) }
    }

    /// Compares two words that the type's own sort support has made.
    fn compare_abbreviated(a: Datum, b: Datum, support: sys::SortSupport) -> c_int {
        // SAFETY: set only if the type's own has a comparator.
        unsafe {
            let own = &mut sort_of(support).own;
            own.comparator.unwrap_unchecked()(a, b, own)
        }
    }

    /// Compares two values that are passed by value, by the type's comparison function.
    fn compare_values(a: Datum, b: Datum, support: sys::SortSupport) -> c_int {
        // SAFETY: values of the column's type.
        unsafe {
            let function = &raw mut (*sort_of(support).column).compare;
            sys::FunctionCall2Coll(function, (*support).ssup_collation, a, b) as c_int
        }
    }

    /// A stored key to the word that stands for it.
    fn abbreviate(stored: Datum, support: sys::SortSupport) -> Datum {
        // SAFETY: a stored key of the column; it was sealed a moment ago, so it need not be decrypted.
        unsafe {
            let sort = sort_of(support);
            let value = (*sort.column).open(1, compare::stored(stored));
            match sort.own.abbrev_converter {
                Some(convert) => convert(value, &mut sort.own),
                None => value,
            }
        }
    }

    fn never_give_up(_count: c_int, _support: sys::SortSupport) -> bool {
        false
    }

    /// Whether abbreviation is not worth it: as the type's own judges.
    fn give_up(count: c_int, support: sys::SortSupport) -> bool {
        // SAFETY: set only if the type's own has one.
        unsafe {
            let own = &mut sort_of(support).own;
            own.abbrev_abort.unwrap_unchecked()(count, own)
        }
    }
}

/// The comparator of words: the type's own as it is if it is one of those for which tuplesort has a faster sort.
fn comparator(own: &sys::SortSupportData) -> Option<unsafe extern "C-unwind" fn(Datum, Datum, sys::SortSupport) -> c_int> {
    let known: [unsafe extern "C-unwind" fn(Datum, Datum, sys::SortSupport) -> c_int; 3] =
        [sys::ssup_datum_unsigned_cmp, sys::ssup_datum_signed_cmp, sys::ssup_datum_int32_cmp];
    let function = own.comparator?;
    let fast = known.iter().any(|&known| core::ptr::fn_addr_eq(known, function));
    Some(if fast { function } else { compare_abbreviated })
}

unsafe fn prepare(support: sys::SortSupport) {
    // SAFETY: the sort's own struct; what is made lives as long as the sort.
    unsafe {
        (*support).comparator = Some(compare_full);
        let index = inner::current();
        let number = (*support).ssup_attno as usize;
        if index.is_null() || !(*support).abbreviate || number == 0 || number > (*index).ncolumns() {
            return;
        }
        let column = (*index).column(number - 1);
        let mut own: sys::SortSupportData = MaybeUninit::zeroed().assume_init();
        own.ssup_cxt = (*support).ssup_cxt;
        own.ssup_collation = (*support).ssup_collation;
        own.ssup_nulls_first = (*support).ssup_nulls_first;
        own.ssup_attno = (*support).ssup_attno;
        // a pass-by-value type is its own abbreviation
        own.abbreviate = !(*column).is_by_value();
        if (*column).sort_support != 0 {
            sys::OidFunctionCall1Coll((*column).sort_support, 0, (&raw mut own) as Datum);
        }
        let abort = own.abbrev_abort;
        let words = match own.abbrev_converter {
            Some(_) => comparator(&own),
            None if (*column).is_by_value() => comparator(&own).or(Some(compare_values)),
            None => None,
        };
        if words.is_none() {
            return;
        }
        let sort: *mut Sort = sys::MemoryContextAlloc((*support).ssup_cxt, size_of::<Sort>()).cast();
        sort.write(Sort { column, own });
        (*support).ssup_extra = sort.cast();
        (*support).comparator = words;
        (*support).abbrev_converter = Some(abbreviate);
        (*support).abbrev_abort = if abort.is_some() { Some(give_up) } else { Some(never_give_up) };
        (*support).abbrev_full_comparator = Some(compare_full);
    }
}

pg_function! {
    /// `vault_tde.encrypted_key_sortsupport(internal) returns void`
    fn vault_tde_encrypted_key_sortsupport[pg_finfo_vault_tde_encrypted_key_sortsupport](call) {
        // SAFETY: called by the sort with its SortSupport.
        unsafe { prepare(call.datum(0) as sys::SortSupport) }
        0
    }
}
