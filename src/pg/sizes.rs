//! Sizes that the server's headers compute with macros, which bindgen cannot see. `tests/layout.rs` checks them.

use core::mem::{offset_of, size_of};

use super::sys;

/// `MAXALIGN(len)`
const fn maxalign(len: usize) -> usize {
    (len + 7) & !7
}

/// `MaximumBytesPerTuple(tuples_per_page)`
const fn maximum_bytes_per_tuple(tuples_per_page: usize) -> usize {
    let header = offset_of!(sys::PageHeaderData, pd_linp);
    let fixed = maxalign(header + tuples_per_page * size_of::<sys::ItemIdData>());
    ((sys::BLCKSZ as usize - fixed) / tuples_per_page) & !7
}

/// `SizeofHeapTupleHeader`
pub const TUPLE_HEADER: usize = offset_of!(sys::HeapTupleHeaderData, t_bits);

/// `TOAST_TUPLE_THRESHOLD`, which is also the default of `TOAST_TUPLE_TARGET`
pub const TOAST_TUPLE_THRESHOLD: usize = maximum_bytes_per_tuple(4);

/// `TOAST_TUPLE_TARGET_MAIN`
pub const TOAST_TUPLE_TARGET_MAIN: usize = maximum_bytes_per_tuple(1);

/// `TOAST_MAX_CHUNK_SIZE`: bytes of `chunk_data`
pub const TOAST_MAX_CHUNK_SIZE: usize =
    maximum_bytes_per_tuple(4) - maxalign(TUPLE_HEADER) - size_of::<sys::Oid>() - size_of::<i32>() - size_of::<i32>();
