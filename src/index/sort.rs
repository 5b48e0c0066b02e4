//! Sort support of type `encrypted_key`, for index builds: abbreviated keys.
//!
//! The sort keeps beside each row, in memory only, a word by which most comparisons are decided: the value itself if it is
//! passed by value, else what the type's own sort support makes of it, else the address of a copy in the clear. Only what
//! that cannot decide is decrypted. What is written to temporary files is the rows: ciphertext.

use core::ffi::{c_int, c_void, CStr};
use core::mem::MaybeUninit;
use core::ptr;

use super::arena::Arena;
use super::column::Column;
use super::{compare, inner};
use crate::pg::memory::MemoryContext;
use crate::pg::{sys, varlena, Datum};
use crate::{pg_callback, pg_function};

/// What hangs on the sort's own SortSupport.
struct Sort {
    column: *mut Column,
    /// the type's own sort support
    own: sys::SortSupportData,
    /// words are equal only if the values are
    exact: bool,
    values: Arena,
    /// where the sort has its rows, if words are addresses
    rows: MemoryContext,
    /// to be told when those are gone; not yet asked for if false
    watched: bool,
    watch: sys::MemoryContextCallback,
}

unsafe fn sort_of<'a>(support: sys::SortSupport) -> &'a mut Sort {
    // SAFETY: set below, in the sort's memory.
    unsafe { &mut *(*support).ssup_extra.cast::<Sort>() }
}

pg_callback! {
    /// Compares two stored keys.
    fn compare_full(a: Datum, b: Datum, support: sys::SortSupport) -> c_int {
        // SAFETY: called by a build's sort, while its index is current.
        unsafe {
            let sort: *const Sort = (*support).ssup_extra.cast();
            if !sort.is_null() && (*sort).exact && (*support).abbrev_converter.is_some() {
                return 0; // the words were equal
            }
            compare::compare(a, b, (*support).ssup_collation)
        }
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

    /// A stored key to the address of its value.
    fn keep_value(stored: Datum, support: sys::SortSupport) -> Datum {
        // SAFETY: as for `abbreviate`; the copy stays until the sort drops the row.
        unsafe {
            let sort = sort_of(support);
            if !sort.watched {
                sort.watched = true;
                sys::MemoryContextRegisterResetCallback(sort.rows, &mut sort.watch);
            }
            let value = (*sort.column).open(1, compare::stored(stored));
            let len = match (*sort.column).fixed_len() {
                Some(len) => len,
                None => varlena::size_any(value as *const u8),
            };
            sort.values.copy(value as *const u8, len) as Datum
        }
    }

    /// The sort has dropped its rows. (A callback is forgotten once it was called.)
    fn rows_dropped(arg: *mut c_void) {
        // SAFETY: set by `prepare`; the sort's own memory is freed after that of its rows.
        unsafe {
            let sort = &mut *arg.cast::<Sort>();
            sort.watched = false;
            sort.values.release();
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
fn comparator(
    own: &sys::SortSupportData,
) -> Option<unsafe extern "C-unwind" fn(Datum, Datum, sys::SortSupport) -> c_int> {
    let known: [unsafe extern "C-unwind" fn(Datum, Datum, sys::SortSupport) -> c_int; 3] =
        [sys::ssup_datum_unsigned_cmp, sys::ssup_datum_signed_cmp, sys::ssup_datum_int32_cmp];
    let function = own.comparator?;
    let fast = known.iter().any(|&known| core::ptr::fn_addr_eq(known, function));
    Some(if fast { function } else { compare_abbreviated })
}

/// The memory context of the rows of the sort whose main context is `sort`, by the name that tuplesort gives it; null if
/// there is none.
unsafe fn rows_of(sort: MemoryContext) -> MemoryContext {
    // SAFETY: contexts are linked to their children; names are NUL-terminated.
    unsafe {
        let mut child = (*sort).firstchild;
        while !child.is_null() {
            let name = (*child).name;
            if !name.is_null() && CStr::from_ptr(name) == c"Caller tuples" {
                return child;
            }
            let below = rows_of(child);
            if !below.is_null() {
                return below;
            }
            child = (*child).nextchild;
        }
        ptr::null_mut()
    }
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
        let (abort, is_abbreviated) = (own.abbrev_abort, own.abbrev_converter.is_some());
        let rows = rows_of((*support).ssup_cxt);
        let keeps_values = !is_abbreviated && !(*column).is_by_value();
        let words = comparator(&own).or(if is_abbreviated { None } else { Some(compare_values) });
        if words.is_none() || (keeps_values && rows.is_null()) {
            return;
        }
        let sort: *mut Sort = sys::MemoryContextAlloc((*support).ssup_cxt, size_of::<Sort>()).cast();
        let watch = sys::MemoryContextCallback { func: Some(rows_dropped), arg: sort.cast(), next: ptr::null_mut() };
        sort.write(Sort { column, own, exact: !is_abbreviated, values: Arena::new(), rows, watched: false, watch });
        (*support).ssup_extra = sort.cast();
        (*support).comparator = words;
        (*support).abbrev_converter = Some(if keeps_values { keep_value } else { abbreviate });
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
