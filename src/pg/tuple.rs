//! Tuples and slots: the few macros and inline functions of htup_details.h, itemptr.h and tuptable.h that Rust needs.

use core::mem::size_of;

use super::{sys, Datum};

pub use sys::{HeapTuple, HeapTupleData, ItemPointerData, TupleTableSlot};

/// `MAXALIGN(len)`
#[inline]
pub const fn maxalign(len: usize) -> usize {
    (len + 7) & !7
}

/// `HEAPTUPLESIZE`: where the tuple's data begins behind a HeapTupleData in one block.
pub const HEAPTUPLESIZE: usize = maxalign(size_of::<HeapTupleData>());

/// The stored bytes of a tuple, header included.
///
/// # Safety
/// `tuple` must point to a valid HeapTupleData whose data stay in place for `'a`.
#[inline]
pub unsafe fn bytes<'a>(tuple: HeapTuple) -> &'a [u8] {
    // SAFETY: the caller's promise: t_data points to t_len bytes.
    unsafe { core::slice::from_raw_parts((*tuple).t_data.cast::<u8>(), (*tuple).t_len as usize) }
}

/// `GETSTRUCT()`: a catalog row's columns of fixed length, as the struct `T` of the catalog.
///
/// # Safety
/// `tuple` must be a row of that catalog; the result lives as long as it does.
#[inline]
pub unsafe fn body<T>(tuple: HeapTuple) -> *mut T {
    // SAFETY: a heap tuple's data begins at t_hoff.
    unsafe { (*tuple).t_data.cast::<u8>().add(usize::from((*(*tuple).t_data).t_hoff)).cast() }
}

/// `ItemPointerGetBlockNumberNoCheck()`
#[inline]
pub fn block_number(tid: &ItemPointerData) -> u32 {
    ((tid.ip_blkid.bi_hi as u32) << 16) | tid.ip_blkid.bi_lo as u32
}

/// `ItemPointerGetOffsetNumberNoCheck()`
#[inline]
pub fn offset_number(tid: &ItemPointerData) -> u16 {
    tid.ip_posid
}

/// `ItemPointerSetInvalid()`
#[inline]
pub fn set_invalid(tid: &mut ItemPointerData) {
    (tid.ip_blkid.bi_hi, tid.ip_blkid.bi_lo, tid.ip_posid) = (u16::MAX, u16::MAX, 0);
}

/// `TTS_EMPTY(slot)`
///
/// # Safety
/// `slot` must be a valid slot.
#[inline]
pub unsafe fn is_empty(slot: *const TupleTableSlot) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*slot).tts_flags & sys::TTS_FLAG_EMPTY as u16 != 0 }
}

/// `ExecClearTuple(slot)`
///
/// # Safety
/// `slot` must be a valid slot.
#[inline]
pub unsafe fn clear(slot: *mut TupleTableSlot) {
    // SAFETY: every slot has a clear callback.
    unsafe { ((*(*slot).tts_ops).clear.unwrap_unchecked())(slot) }
}

/// `heap_deform_tuple()` into arrays of the current memory context: values and nulls, one of each a column of
/// `columns`, those that the tuple is too old to have included. Pass-by-reference values point into the tuple.
///
/// # Safety
/// `tuple` must be a valid tuple of `columns`; the arrays live until the current memory context is reset.
pub unsafe fn deform<'a>(tuple: HeapTuple, columns: sys::TupleDesc) -> (&'a mut [Datum], &'a mut [bool]) {
    // SAFETY: the caller's promise; palloc never returns null, and heap_deform_tuple sets all that the slices cover.
    unsafe {
        let natts = (*columns).natts as usize;
        let values: *mut Datum = sys::palloc(natts * size_of::<Datum>()).cast();
        let nulls: *mut bool = sys::palloc(natts).cast();
        sys::heap_deform_tuple(tuple, columns, values, nulls);
        (core::slice::from_raw_parts_mut(values, natts), core::slice::from_raw_parts_mut(nulls, natts))
    }
}
