//! Decrypted keys of an index that is being built: its sort compares each key with many others. A table of fixed size in memory;
//! the place of a key follows from its IV, which is random.

use core::ptr;

use crate::pg::memory::{cleanse, MemoryContext};
use crate::pg::sys;

/// The IV, 12 bytes from here on; the tag is at a key's end.
const IV_OFFSET: usize = 6;
const IV_LEN: usize = 12;
const TAG_LEN: usize = 16;
const FEWEST: usize = 1 << 8;
const MOST: usize = 1 << 20;
/// Longest plaintext that is kept.
const ROOM: usize = 96;

/// One key: by IV and tag, which no other key has.
#[repr(C, align(64))]
struct Slot {
    iv: [u8; IV_LEN],
    tag: [u8; TAG_LEN],
    /// of the plaintext, plus one
    len: u32,
    plain: [u8; ROOM],
}

/// The table; none until [`Cache::begin`].
pub struct Cache {
    slots: *mut Slot,
    /// the number of slots, a power of two
    count: usize,
}

impl Cache {
    pub const NONE: Cache = Cache { slots: ptr::null_mut(), count: 0 };

    /// Makes room for about `keys` keys, in at most `bytes` bytes.
    ///
    /// # Safety
    /// `context` must live as long as this.
    pub unsafe fn begin(&mut self, context: MemoryContext, keys: usize, bytes: usize) {
        self.end();
        let fit = (bytes / size_of::<Slot>()).clamp(FEWEST, MOST);
        let count = keys.clamp(FEWEST, fit).next_power_of_two();
        // SAFETY: zeros are empty slots, as lengths are kept plus one. The allocator aligns less than the type says, so one slot
        // more is allocated than used.
        unsafe {
            let len = (count + 1) * size_of::<Slot>();
            let flags = (sys::MCXT_ALLOC_HUGE | sys::MCXT_ALLOC_ZERO) as i32;
            self.slots = sys::MemoryContextAllocExtended(context, len, flags).cast();
        }
        self.count = count;
    }

    /// Whether there is no table.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.slots.is_null()
    }

    /// Cleanses the plaintext and frees the table.
    pub fn end(&mut self) {
        if !self.slots.is_null() {
            // SAFETY: allocated by `begin` with this length.
            unsafe {
                cleanse(self.slots.cast(), (self.count + 1) * size_of::<Slot>());
                sys::pfree(self.slots.cast());
            }
            *self = Cache::NONE;
        }
    }

    /// Where a key has its place, and its IV and tag; None if there is no table.
    #[inline]
    fn slot(&self, stored: &[u8]) -> Option<(*mut Slot, [u8; IV_LEN], [u8; TAG_LEN])> {
        if self.slots.is_null() {
            return None;
        }
        let iv: [u8; IV_LEN] = stored.get(IV_OFFSET..IV_OFFSET + IV_LEN)?.try_into().ok()?;
        let tag = *stored.last_chunk::<TAG_LEN>()?;
        let number = u32::from_ne_bytes([iv[0], iv[1], iv[2], iv[3]]) as usize & (self.count - 1);
        let base = (self.slots as usize).next_multiple_of(align_of::<Slot>()) as *mut Slot;
        // SAFETY: below `count`, in a block with one more.
        Some((unsafe { base.add(number) }, iv, tag))
    }

    /// Copies the plaintext of `stored` to `out`, if it is here; returns whether it is.
    ///
    /// # Safety
    /// `out` must have room for `len` bytes, the length of the plaintext.
    #[inline]
    pub unsafe fn find(&self, stored: &[u8], out: *mut u8, len: usize) -> bool {
        let Some((slot, iv, tag)) = self.slot(stored) else { return false };
        // SAFETY: a slot of the table; `len` bytes are there if the slot says so.
        unsafe {
            if (*slot).iv != iv || (*slot).tag != tag || (*slot).len as usize != len + 1 {
                return false;
            }
            ptr::copy_nonoverlapping((*slot).plain.as_ptr(), out, len);
        }
        true
    }

    /// Keeps the plaintext of `stored`.
    ///
    /// # Safety
    /// `plain` must point to `len` bytes.
    #[inline]
    pub unsafe fn keep(&mut self, stored: &[u8], plain: *const u8, len: usize) {
        if len > ROOM {
            return;
        }
        if let Some((slot, iv, tag)) = self.slot(stored) {
            // SAFETY: a slot of the table, with room for ROOM bytes.
            unsafe {
                (*slot).iv = iv;
                (*slot).tag = tag;
                (*slot).len = len as u32 + 1;
                ptr::copy_nonoverlapping(plain, (*slot).plain.as_mut_ptr(), len);
            }
        }
    }
}
