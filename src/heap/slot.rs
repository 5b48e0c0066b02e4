//! The slot of encrypted tables: a heap slot that decrypts when an attribute is first asked for.
//!
//! heapam fills only slots of kind `TTSOpsBufferHeapTuple`. So each slot of ours carries a *raw* slot of that kind, which
//! the read callbacks (`scan.rs`) let heapam fill with the stored row. [`publish`] then marks the outer slot *lazy*: it
//! has a row, but no tuple yet. [`force`] decrypts into the slot's own buffer. `count(*)`, existence checks and
//! lock-only paths never get that far.
//!
//! The outer slot is a `HeapTupleTableSlot` to everything in core: what is not about laziness is done by
//! `TTSOpsHeapTuple`'s own functions. Clearing or materializing the outer slot releases the raw slot's pin.
//!
//! An UPDATE meets its old row three times: the scan finds it, the executor fetches it again to form the new row, and
//! `tuple_update` compares the two. It is read and decrypted once, since the slots that have last been filled are
//! remembered (`recent.rs`).

use core::mem::{size_of, MaybeUninit};
use core::ptr;

use super::{recent, row};
use crate::pg::memory::{self, Scratch};
use crate::pg::tuple::{clear, is_empty, set_invalid, HeapTuple, TupleTableSlot};
use crate::pg::{majors, sys, BackendCell, Datum, Oid, INVALID_OID};
use crate::{copy_minimal_tuple_callback, pg_callback, pg_error};

/// The slot. `base` comes first, so that a pointer to it is a pointer to a `TupleTableSlot` and a `HeapTupleTableSlot`.
#[repr(C)]
pub struct VaultSlot {
    base: sys::HeapTupleTableSlot,
    /// What heapam fills. It shares the outer slot's descriptor and value arrays and takes no reference of its own.
    raw: sys::BufferHeapTupleTableSlot,
    /// The raw slot holds a row that is not decrypted yet; `base.tuple` is null.
    lazy: bool,
    /// `pg::rel::key_oid` of the relation that the raw slot's row is from.
    key_oid: Oid,
    /// The slot's tuple is the one in `buffer`.
    opened: bool,
    /// What is likely of the lazy row.
    expected: Expected,
    /// Whoever asks for an attribute of the lazy row holds the content lock of its page, shared.
    locked: bool,
    /// Where the row is decrypted to; lives in `tts_mcxt`.
    buffer: Scratch,
    /// Bytes of `buffer` that may hold plaintext: the slot's row or, until that is decrypted, the one before.
    used: usize,
}

/// Whether a row's plaintext is worth a look into what the session has kept (`keys::keep_row`), or worth to be kept.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Expected {
    /// Nothing: it is opened.
    Nothing,
    /// It may have been written by this session just now.
    Written,
    /// It is read again and again, by one scan after the other.
    Again,
}

static OPS: BackendCell<MaybeUninit<sys::TupleTableSlotOps>> = BackendCell::new(MaybeUninit::uninit());

/// The slot callbacks: an address that never changes, as slots are recognised by it. Valid after [`register`].
pub fn ops() -> *const sys::TupleTableSlotOps {
    OPS.as_ptr().cast()
}

/// Fills the table of slot callbacks; called once, from `_PG_init`.
pub fn register() {
    // SAFETY: TTSOpsHeapTuple is a constant of the server; OPS is written once, before any slot exists.
    unsafe {
        let mut table = ptr::read(&raw const sys::TTSOpsHeapTuple);
        table.base_slot_size = size_of::<VaultSlot>();
        table.init = Some(slot_init);
        table.release = Some(slot_release);
        table.clear = Some(slot_clear);
        table.getsomeattrs = Some(slot_getsomeattrs);
        table.getsysattr = Some(slot_getsysattr);
        table.is_current_xact_tuple = Some(slot_is_current_xact_tuple);
        table.materialize = Some(slot_materialize);
        table.copyslot = Some(slot_copyslot);
        table.get_heap_tuple = Some(slot_get_heap_tuple);
        table.copy_heap_tuple = Some(slot_copy_heap_tuple);
        table.copy_minimal_tuple = Some(slot_copy_minimal_tuple);
        OPS.as_ptr().cast::<sys::TupleTableSlotOps>().write(table);
    }
}

/// heapam's own callbacks for heap slots, which ours call for everything that is not about laziness.
macro_rules! heap_op {
    ($name:ident($($arg:expr),*)) => {
        // every callback that is called through here exists in TTSOpsHeapTuple
        (sys::TTSOpsHeapTuple.$name.unwrap_unchecked())($($arg),*)
    };
}

/// The raw slot for heapam to fill. Raises an ERROR if the slot is of another kind, as heapam's read callbacks assert.
///
/// # Safety
/// `slot` must be a valid slot.
#[inline]
pub unsafe fn raw_of(slot: *mut TupleTableSlot) -> *mut TupleTableSlot {
    // SAFETY: a slot with our callbacks was allocated with room for a VaultSlot.
    unsafe {
        if (*slot).tts_ops != ops() {
            wrong_kind();
        }
        let vault: *mut VaultSlot = slot.cast();
        let raw = &raw mut (*vault).raw.base.base;
        // the descriptor of a slot without a fixed one may have changed since init
        (*raw).tts_tupleDescriptor = (*slot).tts_tupleDescriptor;
        (*raw).tts_values = (*slot).tts_values;
        (*raw).tts_isnull = (*slot).tts_isnull;
        raw
    }
}

#[cold]
#[inline(never)]
fn wrong_kind() -> ! {
    pg_error!(crate::pg::error::INTERNAL_ERROR, "slot of another kind passed to a callback of encrypted_heap")
}

/// Makes the row that heapam has put into the raw slot the row of the outer one; it is decrypted when needed.
///
/// # Safety
/// `slot` must be one that [`raw_of`] accepted, its raw slot not empty, `key_oid` that of the row's relation.
#[inline]
pub unsafe fn publish(slot: *mut TupleTableSlot, key_oid: Oid) {
    // SAFETY: as the caller promises; the fields below are those that ExecStoreBufferHeapTuple sets.
    unsafe {
        let vault: *mut VaultSlot = slot.cast();
        let raw = &raw mut (*vault).raw;
        if (*raw).base.tuple.is_null() {
            // a bitmap scan of 17 that needs no columns gives rows of NULLs without reading the table
            sys::ExecStoreAllNullTuple(slot);
            return;
        }
        // a scan's slot points to a tuple of the scan: with one of its own the slot depends on nothing but the pin
        if (*raw).base.tuple != &raw mut (*raw).base.tupdata {
            (*raw).base.tupdata = *(*raw).base.tuple;
            (*raw).base.tuple = &raw mut (*raw).base.tupdata;
        }
        if !(*vault).lazy {
            // (a lazy slot has nothing of the row before: nobody has looked at that)
            drop_tuple(vault);
            (*slot).tts_flags &= !(sys::TTS_FLAG_EMPTY as u16);
            (*vault).lazy = true;
        }
        (*slot).tts_tid = (*raw).base.base.tts_tid;
        (*slot).tts_tableOid = (*raw).base.base.tts_tableOid;
        (*vault).key_oid = key_oid;
        (*vault).expected = Expected::Nothing;
        recent::note(slot);
    }
}

/// Says what is likely of the row just published.
///
/// # Safety
/// As for [`publish`].
#[inline]
pub unsafe fn expect(slot: *mut TupleTableSlot, expected: Expected) {
    // SAFETY: a slot of ours.
    unsafe { (*slot.cast::<VaultSlot>()).expected = expected }
}

/// What was said of the slot's row.
///
/// # Safety
/// As for [`raw_of`].
pub unsafe fn expected(slot: *mut TupleTableSlot) -> Expected {
    // SAFETY: a slot of ours.
    unsafe { (*slot.cast::<VaultSlot>()).expected }
}

/// [`publish`] for a caller that returns with the content lock of the row's page held, shared, and that looks at the page
/// anew when it goes on: the lock is given up for as long as the row is decrypted. The pin keeps the row in place.
///
/// # Safety
/// As for [`publish`]; the lock is held until the slot is cleared or filled anew.
pub unsafe fn publish_locked(slot: *mut TupleTableSlot, key_oid: Oid) {
    // SAFETY: the caller's promises.
    unsafe {
        publish(slot, key_oid);
        (*slot.cast::<VaultSlot>()).locked = true;
    }
}

/// The raw slot's stored row, if the outer slot still has it: null after materializing or for a row that came from
/// elsewhere.
///
/// # Safety
/// As for [`raw_of`].
#[inline]
pub unsafe fn stored(slot: *mut TupleTableSlot) -> HeapTuple {
    // SAFETY: as for raw_of.
    unsafe {
        let vault: *mut VaultSlot = slot.cast();
        if is_empty(&raw const (*vault).raw.base.base) {
            ptr::null_mut()
        } else {
            (*vault).raw.base.tuple
        }
    }
}

/// The slot's tuple, if it has been decrypted into the slot's own buffer; else null. Valid until the slot is touched.
///
/// # Safety
/// As for [`raw_of`].
#[inline]
pub unsafe fn opened(slot: *mut TupleTableSlot) -> HeapTuple {
    // SAFETY: as for raw_of.
    unsafe {
        let vault: *mut VaultSlot = slot.cast();
        if (*vault).opened {
            (*vault).base.tuple
        } else {
            ptr::null_mut()
        }
    }
}

/// The buffer that the raw slot has pinned; valid when [`stored`] is not null.
///
/// # Safety
/// As for [`raw_of`].
pub unsafe fn buffer(slot: *mut TupleTableSlot) -> sys::Buffer {
    // SAFETY: as for raw_of.
    unsafe { (*slot.cast::<VaultSlot>()).raw.buffer }
}

/// A slot of our kind for rows of `rel`, to be dropped with `ExecDropSingleTupleTableSlot`.
///
/// # Safety
/// `rel` must be open.
pub unsafe fn new_slot(rel: sys::Relation) -> *mut TupleTableSlot {
    // SAFETY: the caller's promise.
    unsafe { sys::MakeSingleTupleTableSlot((*rel).rd_att, ops()) }
}

/// Decrypts the row, if that has not been done. Raises the errors of `row::open_into`; the slot stays lazy then.
///
/// # Safety
/// `slot` must be of our kind.
#[inline]
pub unsafe fn force(slot: *mut TupleTableSlot) {
    // SAFETY: `slot` is a VaultSlot.
    unsafe {
        let vault: *mut VaultSlot = slot.cast();
        if (*vault).lazy && (*vault).expected == Expected::Again {
            decrypt_again(vault);
        } else if (*vault).lazy {
            decrypt(vault);
        }
    }
}

#[inline(never)]
unsafe fn decrypt(vault: *mut VaultSlot) {
    // SAFETY: a lazy slot's raw slot holds a pinned row.
    unsafe {
        if (*vault).locked {
            return decrypt_unlocked(vault);
        }
        let stored = (*vault).raw.base.tuple;
        let plain = recent::plaintext(stored, vault.cast());
        let key_oid = (*vault).key_oid;
        if !plain.is_null() {
            fill_buffer(vault, stored, |block| row::copy_opened(plain, stored, block));
        } else if (*vault).expected == Expected::Written {
            fill_buffer(vault, stored, |block| row::find_or_open_into(key_oid, stored, block));
        } else {
            open_to_buffer(vault, stored, key_oid);
        }
        (*vault).lazy = false;
    }
}

/// [`decrypt`] for a row that is read again and again, and so is found most of the time.
#[inline(never)]
unsafe fn decrypt_again(vault: *mut VaultSlot) {
    // SAFETY: as for `decrypt`; no lock is held where that is expected.
    unsafe {
        let (stored, key_oid) = ((*vault).raw.base.tuple, (*vault).key_oid);
        fill_buffer(vault, stored, |block| row::open_again_into(key_oid, stored, block));
        (*vault).lazy = false;
    }
}

/// Decryption may read the key table, or raise an ERROR that looks names up: not with a content lock held.
#[cold]
unsafe fn decrypt_unlocked(vault: *mut VaultSlot) {
    // SAFETY: the lock is held, as publish_locked was promised.
    unsafe {
        let buffer = (*vault).raw.buffer;
        majors::lock_buffer(buffer, sys::BUFFER_LOCK_UNLOCK);
        (*vault).locked = false;
        decrypt(vault);
        majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
    }
}

/// Decrypts a stored row into the slot's buffer and makes it the slot's tuple.
#[inline]
unsafe fn open_to_buffer(vault: *mut VaultSlot, stored: HeapTuple, key_oid: Oid) {
    // SAFETY: the block is as long as open_into asks for.
    unsafe { fill_buffer(vault, stored, |block| row::open_into(key_oid, stored, block)) }
}

/// Makes what `fill` puts into a block of `row::open_size` bytes, the plaintext of `stored`, the slot's tuple. What the row
/// before has left in the buffer is overwritten, or cleansed where it was longer.
#[inline]
unsafe fn fill_buffer(vault: *mut VaultSlot, stored: HeapTuple, fill: impl FnOnce(*mut u8) -> HeapTuple) {
    // SAFETY: the buffer is reserved for the row's length, and at least `used` bytes long.
    unsafe {
        let size = row::open_size((*stored).t_len);
        let block = (*vault).buffer.reserve((*vault).base.base.tts_mcxt, size);
        if (*vault).used > size {
            memory::cleanse(block.add(size).cast(), (*vault).used - size);
        }
        (*vault).used = size;
        (*vault).base.tuple = fill(block);
        (*vault).base.off = 0;
        (*vault).opened = true;
    }
}

/// Stores a stored row that is not in the raw slot, decrypted: for rows that heapam hands out of a slot of its own. The
/// row need stay in place during the call only.
///
/// # Safety
/// `slot` must be of our kind, `stored` a valid stored tuple.
pub unsafe fn store_stored(slot: *mut TupleTableSlot, stored: HeapTuple, key_oid: Oid, table_oid: Oid) {
    // SAFETY: the caller's promise; the buffer is reserved for the row's length.
    unsafe {
        clear(slot);
        let vault: *mut VaultSlot = slot.cast();
        open_to_buffer(vault, stored, key_oid);
        (*slot).tts_flags &= !(sys::TTS_FLAG_EMPTY as u16);
        (*slot).tts_tid = (*stored).t_self;
        (*slot).tts_tableOid = table_oid;
    }
}

/// Lets go of the outer slot's tuple, as `tts_heap_clear`, but for a tuple in the slot's own buffer: that is overwritten by
/// the next one, or cleansed when the slot is cleared.
#[inline]
unsafe fn drop_tuple(vault: *mut VaultSlot) {
    // SAFETY: `vault` is a valid slot of ours.
    unsafe {
        let slot: *mut TupleTableSlot = vault.cast();
        (*vault).lazy = false;
        (*vault).opened = false;
        (*vault).locked = false;
        if (*slot).tts_flags & sys::TTS_FLAG_SHOULDFREE as u16 != 0 {
            let tuple = (*vault).base.tuple;
            memory::cleanse((*tuple).t_data.cast(), (*tuple).t_len as usize);
            heap_op!(clear(slot));
            return;
        }
        (*slot).tts_nvalid = 0;
        (*slot).tts_flags |= sys::TTS_FLAG_EMPTY as u16;
        set_invalid(&mut (*slot).tts_tid);
        (*vault).base.off = 0;
        (*vault).base.tuple = ptr::null_mut();
    }
}

/// Lets go of the raw slot's pin. (heapam empties the raw slot itself at a scan's end.)
#[inline]
unsafe fn unpin(vault: *mut VaultSlot) {
    // SAFETY: the raw slot is initialised by slot_init and has TTSOpsBufferHeapTuple's callbacks.
    unsafe {
        recent::forget(vault.cast());
        let raw = &raw mut (*vault).raw.base.base;
        if !is_empty(raw) {
            clear(raw);
        }
    }
}

pg_callback! {
    fn slot_init(slot: *mut TupleTableSlot) {
        // SAFETY: MakeTupleTableSlot has zeroed the whole slot and set the outer part.
        unsafe {
            let vault: *mut VaultSlot = slot.cast();
            let raw = &raw mut (*vault).raw.base.base;
            (*raw).type_ = sys::T_TupleTableSlot;
            (*raw).tts_flags = sys::TTS_FLAG_EMPTY as u16;
            (&raw mut (*raw).tts_ops).cast_mut().write(&raw const sys::TTSOpsBufferHeapTuple);
            (*raw).tts_mcxt = (*slot).tts_mcxt;
            (&raw mut (*vault).buffer).write(Scratch::new());
            (*vault).key_oid = INVALID_OID;
            (*vault).expected = Expected::Nothing;
        }
    }

    fn slot_release(slot: *mut TupleTableSlot) {
        // SAFETY: the slot has been cleared before; the buffer is its own.
        unsafe { (*slot.cast::<VaultSlot>()).buffer.release() }
    }

    fn slot_clear(slot: *mut TupleTableSlot) {
        // SAFETY: `slot` is a VaultSlot.
        unsafe {
            let vault: *mut VaultSlot = slot.cast();
            drop_tuple(vault);
            if (*vault).used != 0 {
                memory::cleanse((*vault).buffer.as_ptr().cast(), (*vault).used);
                (*vault).used = 0;
            }
            unpin(vault);
        }
    }

    fn slot_getsomeattrs(slot: *mut TupleTableSlot, natts: core::ffi::c_int) {
        // SAFETY: `slot` is a VaultSlot, and holds a tuple once forced.
        unsafe {
            force(slot);
            heap_op!(getsomeattrs(slot, natts));
        }
    }

    fn slot_getsysattr(slot: *mut TupleTableSlot, attnum: core::ffi::c_int, isnull: *mut bool) -> Datum {
        // SAFETY: system attributes are in the header, which is not encrypted: a lazy slot's raw slot answers.
        unsafe {
            let vault: *mut VaultSlot = slot.cast();
            if (*vault).lazy {
                (sys::TTSOpsBufferHeapTuple.getsysattr.unwrap_unchecked())(&raw mut (*vault).raw.base.base, attnum, isnull)
            } else {
                heap_op!(getsysattr(slot, attnum, isnull))
            }
        }
    }

    fn slot_is_current_xact_tuple(slot: *mut TupleTableSlot) -> bool {
        // SAFETY: as for slot_getsysattr: only xmin is read.
        unsafe {
            let vault: *mut VaultSlot = slot.cast();
            if (*vault).lazy {
                let raw = &raw mut (*vault).raw.base.base;
                (sys::TTSOpsBufferHeapTuple.is_current_xact_tuple.unwrap_unchecked())(raw)
            } else {
                heap_op!(is_current_xact_tuple(slot))
            }
        }
    }

    fn slot_materialize(slot: *mut TupleTableSlot) {
        // SAFETY: `slot` is a VaultSlot. A decrypted row in the slot's own buffer depends on nothing else already.
        unsafe {
            let vault: *mut VaultSlot = slot.cast();
            force(slot);
            if !(*vault).opened {
                heap_op!(materialize(slot));
            }
            unpin(vault);
        }
    }

    fn slot_copyslot(dst: *mut TupleTableSlot, src: *mut TupleTableSlot) {
        // SAFETY: both are valid slots; what follows is what tts_heap_copyslot and ExecStoreHeapTuple do.
        unsafe {
            let tuple = memory::within((*dst).tts_mcxt, || sys::ExecCopySlotHeapTuple(src));
            clear(dst);
            let vault: *mut VaultSlot = dst.cast();
            (*vault).base.tuple = tuple;
            (*vault).base.off = 0;
            (*dst).tts_nvalid = 0;
            (*dst).tts_flags &= !(sys::TTS_FLAG_EMPTY as u16);
            (*dst).tts_flags |= sys::TTS_FLAG_SHOULDFREE as u16;
            (*dst).tts_tid = (*tuple).t_self;
            (*dst).tts_tableOid = (*tuple).t_tableOid;
        }
    }

    fn slot_get_heap_tuple(slot: *mut TupleTableSlot) -> sys::HeapTuple {
        // SAFETY: as for slot_getsomeattrs.
        unsafe {
            force(slot);
            heap_op!(get_heap_tuple(slot))
        }
    }

    fn slot_copy_heap_tuple(slot: *mut TupleTableSlot) -> sys::HeapTuple {
        // SAFETY: as for slot_getsomeattrs.
        unsafe {
            force(slot);
            heap_op!(copy_heap_tuple(slot))
        }
    }
}

copy_minimal_tuple_callback!(slot_copy_minimal_tuple, force, heap_op);
