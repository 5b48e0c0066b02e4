//! Variable-length values: the macros of varatt.h that Rust needs.

use core::ptr;

use super::sys;
use super::{Datum, Oid};

#[cfg(not(target_endian = "little"))]
compile_error!("pg_vault_tde reads varlena headers of little-endian machines only");

/// `VARHDRSZ`
pub const HEADER: usize = 4;
/// `VARHDRSZ_SHORT`
const SHORT_HEADER: usize = 1;
/// `VARHDRSZ_EXTERNAL`
const EXTERNAL_HEADER: usize = 2;
/// `TOAST_POINTER_SIZE`
pub const POINTER_SIZE: usize = EXTERNAL_HEADER + size_of::<sys::varatt_external>();
/// `VARLENA_EXTSIZE_BITS` and `VARLENA_EXTSIZE_MASK`
const EXTSIZE_BITS: u32 = 30;
const EXTSIZE_MASK: u32 = (1 << EXTSIZE_BITS) - 1;

/// A pointer to a value of a type with `typlen = -1`.
#[derive(Clone, Copy)]
pub struct Varlena(*const u8);

/// What an in-line value consists of behind its header.
pub struct Payload {
    pub data: *const u8,
    pub len: usize,
    /// `va_rawsize` of a TOAST pointer to the value
    pub rawsize: i32,
    /// `va_extinfo` of a TOAST pointer to the value
    pub extinfo: u32,
}

impl Varlena {
    /// # Safety
    /// The datum must point to a valid varlena that stays in place while the result is used.
    pub unsafe fn of(datum: Datum) -> Self {
        Self(datum as *const u8)
    }

    fn first(self) -> u8 {
        // SAFETY: a varlena has at least one byte.
        unsafe { *self.0 }
    }

    /// `VARATT_IS_EXTERNAL`
    pub fn is_external(self) -> bool {
        self.first() == 0x01
    }

    /// `VARATT_IS_EXTERNAL_ONDISK`
    pub fn is_on_disk(self) -> bool {
        // SAFETY: an external varlena has a tag byte.
        self.is_external() && unsafe { *self.0.add(1) } as u32 == sys::VARTAG_ONDISK
    }

    /// `VARATT_EXTERNAL_GET_POINTER` of a value for which [`Varlena::is_on_disk`] holds.
    pub fn pointer(self) -> sys::varatt_external {
        // SAFETY: an on-disk pointer is followed by a varatt_external, not aligned.
        unsafe { ptr::read_unaligned(self.0.add(EXTERNAL_HEADER).cast()) }
    }

    /// The payload of a value that is not external, with what a pointer to it has to say.
    pub fn payload(self) -> Payload {
        // SAFETY: the header says which form the value has and how long it is.
        unsafe {
            if self.first() & 0x01 != 0 {
                let len = (self.first() >> 1) as usize - SHORT_HEADER;
                let rawsize = (len + HEADER) as i32;
                return Payload { data: self.0.add(SHORT_HEADER), len, rawsize, extinfo: len as u32 };
            }
            let size = (ptr::read_unaligned(self.0.cast::<u32>()) >> 2) as usize;
            let (data, len) = (self.0.add(HEADER), size - HEADER);
            if self.first() & 0x02 != 0 {
                let tcinfo = ptr::read_unaligned(data.cast::<u32>());
                let rawsize = (tcinfo & EXTSIZE_MASK) as i32 + HEADER as i32;
                let method = tcinfo & !EXTSIZE_MASK;
                return Payload { data, len, rawsize, extinfo: len as u32 | method };
            }
            Payload { data, len, rawsize: size as i32, extinfo: len as u32 }
        }
    }
}

/// `VARATT_EXTERNAL_GET_EXTSIZE`: bytes of the value as stored out of line.
pub fn external_size(pointer: &sys::varatt_external) -> u32 {
    pointer.va_extinfo & EXTSIZE_MASK
}

/// `VARATT_EXTERNAL_IS_COMPRESSED`
pub fn external_is_compressed(pointer: &sys::varatt_external) -> bool {
    external_size(pointer) < (pointer.va_rawsize as u32) - HEADER as u32
}

/// A new on-disk TOAST pointer in the current memory context.
pub fn new_pointer(rawsize: i32, extinfo: u32, value_id: Oid, toast_oid: Oid) -> Datum {
    let pointer = sys::varatt_external {
        va_rawsize: rawsize,
        va_extinfo: extinfo,
        va_valueid: value_id,
        va_toastrelid: toast_oid,
    };
    // SAFETY: palloc gives POINTER_SIZE bytes; the struct is written unaligned behind the two header bytes.
    unsafe {
        let datum: *mut u8 = sys::palloc(POINTER_SIZE).cast();
        *datum = 0x01;
        *datum.add(1) = sys::VARTAG_ONDISK as u8;
        ptr::write_unaligned(datum.add(EXTERNAL_HEADER).cast(), pointer);
        datum as Datum
    }
}

/// A new indirect datum (`VARTAG_INDIRECT`) to the varlena at `target`, in the current memory context.
pub fn new_indirect(target: *mut sys::varlena) -> *mut u8 {
    // SAFETY: palloc gives as many bytes as are written.
    unsafe {
        let datum: *mut u8 = sys::palloc(EXTERNAL_HEADER + size_of::<sys::varatt_indirect>()).cast();
        *datum = 0x01;
        *datum.add(1) = sys::VARTAG_INDIRECT as u8;
        ptr::write_unaligned(datum.add(EXTERNAL_HEADER).cast(), sys::varatt_indirect { pointer: target });
        datum
    }
}

/// `SET_VARSIZE_COMPRESSED(at, size)`
///
/// # Safety
/// `at` must be writable for 4 bytes.
pub unsafe fn set_size_compressed(at: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::write_unaligned(at.cast::<u32>(), ((size as u32) << 2) | 0x02) }
}

/// `SET_VARSIZE(at, size)`
///
/// # Safety
/// `at` must be writable for 4 bytes.
pub unsafe fn set_size(at: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::write_unaligned(at.cast::<u32>(), (size as u32) << 2) }
}

/// `VARSIZE_ANY(at)` of a value that is not out of line
///
/// # Safety
/// `at` must point to such a varlena.
#[inline]
pub unsafe fn size_any(at: *const u8) -> usize {
    // SAFETY: the header says which form the value has.
    unsafe {
        if *at & 0x01 != 0 {
            (*at >> 1) as usize
        } else {
            (ptr::read_unaligned(at.cast::<u32>()) >> 2) as usize
        }
    }
}

/// `VARATT_IS_COMPRESSED(at)`
///
/// # Safety
/// `at` must point to a varlena.
#[inline]
pub unsafe fn is_compressed(at: *const sys::varlena) -> bool {
    // SAFETY: a varlena has at least one byte.
    unsafe { *at.cast::<u8>() & 0x03 == 0x02 }
}
