//! Scan keys: the executor's, on the user's types, become ones on `encrypted_key` for nbtree.

use core::ffi::c_void;
use core::ptr;

use super::argument;
use super::column::Column;
use super::inner::Index;
use super::ordinal::Ordinal;
use super::search::Search;
use crate::pg::memory::{self, slice};
use crate::pg::{sys, Datum, Oid};
use crate::pg_callback;

/// Turns `keys` into keys of the inner index, in the current memory context, which must live until the next rescan. The
/// arguments' values stay where they are.
///
/// Strategies, collations and NULL tests stay; operators become those of `encrypted_key`; values become arguments.
///
/// # Safety
/// `keys` must be keys of that index. May raise an ERROR.
pub unsafe fn convert(index: *mut Index, keys: *const sys::ScanKeyData, nkeys: usize) -> *mut sys::ScanKeyData {
    // SAFETY: the caller's promise.
    unsafe {
        let converted: *mut sys::ScanKeyData = sys::palloc(nkeys * size_of::<sys::ScanKeyData>()).cast();
        for (i, key) in slice(keys, nkeys).iter().enumerate() {
            let to = converted.add(i);
            ptr::write(to, ptr::read(key));
            if has(key, sys::SK_ROW_HEADER) {
                (*to).sk_argument = convert_row(index, key.sk_argument as *const sys::ScanKeyData) as Datum;
            } else if !has(key, sys::SK_ISNULL) {
                convert_key(index, key, to, (*index).operator(key.sk_strategy));
            }
        }
        converted
    }
}

fn has(key: &sys::ScanKeyData, flag: u32) -> bool {
    key.sk_flags & flag as i32 != 0
}

/// The members of a row comparison: up to the one that is marked as the last.
unsafe fn convert_row(index: *mut Index, members: *const sys::ScanKeyData) -> *mut sys::ScanKeyData {
    // SAFETY: members lie one behind the other, the last one is marked.
    unsafe {
        let mut count = 1;
        while !has(&*members.add(count - 1), sys::SK_ROW_END) {
            count += 1;
        }
        let converted: *mut sys::ScanKeyData = sys::palloc(count * size_of::<sys::ScanKeyData>()).cast();
        for (i, key) in slice(members, count).iter().enumerate() {
            let to = converted.add(i);
            ptr::write(to, ptr::read(key));
            if !has(key, sys::SK_ISNULL) {
                convert_key(index, key, to, (*index).comparison());
            }
        }
        converted
    }
}

/// One key with an argument that is not NULL.
unsafe fn convert_key(
    index: *mut Index,
    key: &sys::ScanKeyData,
    to: *mut sys::ScanKeyData,
    function: *mut sys::FmgrInfo,
) {
    // SAFETY: a key of one of the index's key columns.
    unsafe {
        let column = (*index).column(key.sk_attno as usize - 1);
        let type_oid = match key.sk_subtype {
            0 => (*column).input_type,
            subtype => subtype,
        };
        let value = if has(key, sys::SK_SEARCHARRAY) {
            convert_array(index, key, type_oid)
        } else {
            argument::make(key.sk_argument, type_oid, column, search_for(index, column, key.sk_argument, type_oid))
        };
        let key_type = (*index).key_type;
        sys::ScanKeyEntryInitializeWithInfo(
            to,
            key.sk_flags,
            key.sk_attno,
            key.sk_strategy,
            key_type,
            key.sk_collation,
            function,
            value,
        );
    }
}

/// A search, and what is called when its memory goes.
struct Watched {
    search: Search,
    watch: sys::MemoryContextCallback,
}

pg_callback! {
    /// The scan's arguments are about to be freed.
    fn arguments_dropped(search: *mut c_void) {
        // SAFETY: set by `search_for`; whoever frees the memory does not use the search any more.
        unsafe { Search::cleanse(search.cast()) };
    }
}

/// What is needed to search for a value in the index's first column, whose order is that of the pages; null if its type has no
/// words. (The elements of an array are each searched for once, without.) It is cleansed when the
/// current memory context is reset or deleted, after an ERROR, too.
unsafe fn search_for(index: *mut Index, column: *mut Column, value: Datum, type_oid: Oid) -> *mut Search {
    // SAFETY: a column of the index, a value of that type.
    unsafe {
        let Some(ordinal) = (*column).ordinal.filter(|_| (*column).is_first() && (*index).changes_lsns()) else {
            return ptr::null_mut();
        };
        let comparison = (*column).cross_comparison((*column).input_type, type_oid);
        let Some(of_value) = Ordinal::of_argument((*comparison).fn_oid) else { return ptr::null_mut() };
        let watched: *mut Watched = sys::palloc0(size_of::<Watched>()).cast();
        let search = &raw mut (*watched).search;
        search.write(Search::new(ordinal, of_value.word(value), (*column).descending));
        (*watched).watch.func = Some(arguments_dropped);
        (*watched).watch.arg = search.cast();
        sys::MemoryContextRegisterResetCallback(memory::current(), &raw mut (*watched).watch);
        search
    }
}

/// `= ANY (array)`: an array of arguments. NULL elements match nothing.
unsafe fn convert_array(index: *mut Index, key: &sys::ScanKeyData, type_oid: Oid) -> Datum {
    // SAFETY: the argument of such a key is an array.
    unsafe {
        let array = sys::pg_detoast_datum(key.sk_argument as *mut sys::varlena).cast::<sys::ArrayType>();
        let element_type = (*array).elemtype;
        let (mut len, mut by_value, mut align) = (0, false, 0);
        sys::get_typlenbyvalalign(element_type, &mut len, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (ptr::null_mut(), ptr::null_mut(), 0);
        sys::deconstruct_array(
            array,
            element_type,
            i32::from(len),
            by_value,
            align,
            &mut values,
            &mut nulls,
            &mut count,
        );
        let column = (*index).column(key.sk_attno as usize - 1);
        let mut kept = 0;
        for i in 0..count as usize {
            if !*nulls.add(i) {
                *values.add(kept) = argument::make(*values.add(i), type_oid, column, ptr::null_mut());
                kept += 1;
            }
        }
        let (align, key_type) = (sys::TYPALIGN_INT as i8, (*index).key_type);
        sys::construct_array(values, kept as i32, key_type, -1, false, align) as Datum
    }
}
