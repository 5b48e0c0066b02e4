//! Sort support of type `encrypted_key`, for index builds: abbreviated keys.
//!
//! The sort keeps beside each row, in memory only, a word by which all comparisons are decided: the value itself if it is
//! passed by value, else the address of a copy in the clear, before which stands what the type's own sort support abbreviates it
//! to. So nothing is decrypted while rows are in memory. What is written to temporary files is the rows: ciphertext.

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
    /// copies have abbreviations
    abbreviates: bool,
    values: Arena,
    /// where the sort has its rows, if words are addresses
    rows: MemoryContext,
    /// to be told when those are gone; not yet asked for if false
    watched: bool,
    watch: sys::MemoryContextCallback,
}

/// What stands before a copy of a value.
#[repr(C)]
struct Copy {
    /// as the type's own sort support makes it, if the sort abbreviates
    abbreviation: Datum,
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
            if !sort.is_null() && (*support).abbrev_converter.is_some() {
                return 0; // the words were equal
            }
            compare::compare(a, b, (*support).ssup_collation)
        }
    }

    /// Compares two copies.
    fn compare_copies(a: Datum, b: Datum, support: sys::SortSupport) -> c_int {
        // SAFETY: addresses that `keep_value` has given; the comparators that the type's own sort support has set.
        unsafe {
            let sort = sort_of(support);
            let own = &mut sort.own;
            let (a, b): (*const Copy, *const Copy) = (a as _, b as _);
            if sort.abbreviates {
                let by_abbreviation = own.comparator.unwrap_unchecked()((*a).abbreviation, (*b).abbreviation, own);
                if by_abbreviation != 0 {
                    return by_abbreviation;
                }
            }
            let (a, b) = (a.add(1) as Datum, b.add(1) as Datum);
            match own.abbrev_full_comparator.or(own.comparator) {
                Some(comparator) => comparator(a, b, own),
                None => compare_values(a, b, support),
            }
        }
    }

    /// Compares two values by the type's comparison function.
    fn compare_values(a: Datum, b: Datum, support: sys::SortSupport) -> c_int {
        // SAFETY: values of the column's type.
        unsafe {
            let function = &raw mut (*sort_of(support).column).compare;
            sys::FunctionCall2Coll(function, (*support).ssup_collation, a, b) as c_int
        }
    }

    /// A stored key to its value, if that is passed by value.
    fn value(stored: Datum, support: sys::SortSupport) -> Datum {
        // SAFETY: a stored key of the column; it was sealed a moment ago, so it need not be decrypted.
        unsafe { (*sort_of(support).column).open(1, compare::stored(stored)) }
    }

    /// A stored key to the address of its copy.
    fn keep_value(stored: Datum, support: sys::SortSupport) -> Datum {
        // SAFETY: as for `value`; the copy stays until the sort drops the row.
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
            let abbreviation = match sort.own.abbrev_converter {
                Some(abbreviate) if sort.abbreviates => abbreviate(value, &mut sort.own),
                _ => 0,
            };
            let copy: *mut Copy = sort.values.reserve(size_of::<Copy>() + len).cast();
            copy.write(Copy { abbreviation });
            ptr::copy_nonoverlapping(value as *const u8, copy.add(1).cast(), len);
            copy as Datum
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

    /// Called now and then while rows come. Words are worth it in any case; whether abbreviations before copies are, the
    /// type's own judges.
    fn give_up(count: c_int, support: sys::SortSupport) -> bool {
        // SAFETY: set by `prepare`.
        unsafe {
            let sort = sort_of(support);
            if sort.abbreviates && sort.own.abbrev_abort.is_some_and(|useless| useless(count, &mut sort.own)) {
                sort.abbreviates = false;
            }
            false
        }
    }
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
        let rows = rows_of((*support).ssup_cxt);
        let by_value = (*column).is_by_value();
        if !by_value && rows.is_null() {
            return;
        }
        // the type's own as it is may be one of those for which tuplesort has a faster sort
        let comparator = if by_value { own.comparator.unwrap_or(compare_values) } else { compare_copies };
        let abbreviates = own.abbrev_converter.is_some();
        let sort: *mut Sort = sys::MemoryContextAlloc((*support).ssup_cxt, size_of::<Sort>()).cast();
        let watch = sys::MemoryContextCallback { func: Some(rows_dropped), arg: sort.cast(), next: ptr::null_mut() };
        sort.write(Sort { column, own, abbreviates, values: Arena::new(), rows, watched: false, watch });
        (*support).ssup_extra = sort.cast();
        (*support).comparator = Some(comparator);
        (*support).abbrev_converter = Some(if by_value { value } else { keep_value });
        (*support).abbrev_abort = Some(give_up);
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
