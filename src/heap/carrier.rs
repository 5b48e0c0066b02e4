//! A slot that carries a stored row to heap_multi_insert(), which takes slots and asks them for their heap tuple.

use core::ffi::c_int;
use core::mem::size_of;

use crate::pg::tuple::{HeapTuple, TupleTableSlot};
use crate::pg::{sys, Datum};
use crate::{pg_callback, pg_error};

/// The slot; it lives in a block of `modify.rs` for one call, owns nothing, and is never deformed.
#[repr(C)]
pub struct Carrier {
    pub slot: TupleTableSlot,
    pub tuple: HeapTuple,
}

impl Carrier {
    /// Makes a zeroed carrier a valid slot.
    ///
    /// # Safety
    /// `carrier` must point to a zeroed one, but for its tuple.
    #[inline]
    pub unsafe fn init(carrier: *mut Self, ops: *const sys::TupleTableSlotOps) {
        // SAFETY: the caller's promise; tts_ops is const to C after allocation only.
        unsafe {
            let slot = &raw mut (*carrier).slot;
            (*slot).type_ = sys::T_TupleTableSlot;
            (&raw mut (*slot).tts_ops).cast_mut().write(ops);
        }
    }
}

/// The callbacks that heap_multi_insert() uses: materialize and get_heap_tuple. The others are never called.
pub static CARRIER_OPS: sys::TupleTableSlotOps = sys::TupleTableSlotOps {
    base_slot_size: size_of::<Carrier>(),
    init: Some(carrier_nothing),
    release: Some(carrier_nothing),
    clear: Some(carrier_nothing),
    getsomeattrs: Some(carrier_getsomeattrs),
    getsysattr: Some(carrier_getsysattr),
    is_current_xact_tuple: None,
    materialize: Some(carrier_nothing),
    copyslot: None,
    get_heap_tuple: Some(carrier_get_heap_tuple),
    get_minimal_tuple: None,
    copy_heap_tuple: None,
    copy_minimal_tuple: None,
};

fn not_to_be_read() -> ! {
    pg_error!(crate::pg::error::INTERNAL_ERROR, "attributes of an encrypted row on its way to heapam were asked for")
}

pg_callback! {
    fn carrier_nothing(_slot: *mut TupleTableSlot) {}

    fn carrier_getsomeattrs(_slot: *mut TupleTableSlot, _natts: c_int) {
        not_to_be_read()
    }

    fn carrier_getsysattr(_slot: *mut TupleTableSlot, _attnum: c_int, _isnull: *mut bool) -> Datum {
        not_to_be_read()
    }

    fn carrier_get_heap_tuple(slot: *mut TupleTableSlot) -> HeapTuple {
        // SAFETY: called with a Carrier only.
        unsafe { (*slot.cast::<Carrier>()).tuple }
    }
}
