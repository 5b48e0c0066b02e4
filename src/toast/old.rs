//! Old values for the replica identity: core logs them inside the flattened old row; here their chunks go out as
//! messages, as they are stored, before the UPDATE or DELETE.

use core::ptr;

use super::message::{self, Kind, Sender};
use super::pieces;
use super::store::{for_each_chunk, Chunks};
use crate::pg::tuple::HeapTuple;
use crate::pg::varlena::{self, Varlena};
use crate::pg::{majors, sys, Datum};

/// Calls `body` with each value of the plaintext tuple that is stored out of line.
///
/// # Safety
/// `tuple` must be a plaintext tuple of rel's row type. `body` must own nothing that needs dropping.
pub unsafe fn for_each_external(rel: sys::Relation, tuple: HeapTuple, mut body: impl FnMut(i32, Datum)) {
    // SAFETY: the caller's promise.
    unsafe {
        let desc = (*rel).rd_att;
        for attnum in 1..=(*desc).natts {
            if (*majors::attribute(desc, attnum as usize - 1)).attlen != -1 {
                continue;
            }
            let mut isnull = false;
            let value = sys::heap_getattr(tuple, attnum, desc, &mut isnull);
            if !isnull && Varlena::of(value).is_on_disk() {
                body(attnum, value);
            }
        }
    }
}

/// Calls `body` with the out-of-line values of an old row that decoders are given: all of them, or those of the
/// attributes in `identity` (offset by FirstLowInvalidHeapAttributeNumber) if that is not null.
unsafe fn for_each_logged(rel: sys::Relation, old: HeapTuple, identity: *mut sys::Bitmapset, body: impl Fn(Datum)) {
    // SAFETY: `rel` is open and `old` a plaintext tuple of its row type, as the callers promise.
    unsafe {
        for_each_external(rel, old, |attnum, value| {
            let member = attnum - sys::FirstLowInvalidHeapAttributeNumber;
            if identity.is_null() || sys::bms_is_member(member, identity) {
                body(value);
            }
        });
    }
}

/// Sends the out-of-line values of an old row that decoders will be given; `identity` as `Bitmaps::identity` says.
///
/// # Safety
/// `rel` must be open, `old` a plaintext tuple of its row type whose values are still in the TOAST table.
pub unsafe fn send_old_values(rel: sys::Relation, old: HeapTuple, identity: *mut sys::Bitmapset) {
    // SAFETY: the caller's promise.
    unsafe { for_each_logged(rel, old, identity, |value| send(rel, value)) }
}

/// Takes back what [`send_old_values`] has sent: the row was not updated or deleted after all.
///
/// # Safety
/// As for [`send_old_values`].
pub unsafe fn cancel_old_values(rel: sys::Relation, old: HeapTuple, identity: *mut sys::Bitmapset) {
    // SAFETY: the caller's promise.
    unsafe {
        for_each_logged(rel, old, identity, |value| {
            let pointer = Varlena::of(value).pointer();
            message::cancel(rel, pointer.va_toastrelid, pointer.va_valueid);
        });
    }
}

unsafe fn send(rel: sys::Relation, value: Datum) {
    // SAFETY: an on-disk pointer into rel's TOAST table.
    unsafe {
        let pointer = Varlena::of(value).pointer();
        let size = varlena::external_size(&pointer);
        let total = pieces(size);
        if total == 0 {
            return;
        }
        let chunks = Chunks::open(pointer.va_toastrelid, sys::AccessShareLock);
        let mut sender = Sender::new(rel, Kind::Old, pointer.va_toastrelid, pointer.va_valueid, size, 0);
        for_each_chunk(&chunks, pointer.va_valueid, (0, total - 1, total), |seq, chunk| sender.add(seq, chunk));
        ptr::read(&sender).finish();
        chunks.close_indexes(false);
        sys::table_close(chunks.table, sys::AccessShareLock as i32);
    }
}
