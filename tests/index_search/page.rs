//! A pool of buffers with pages of btrees, as nbtree writes them.

use crate::ordinal::Ordinal;
use crate::pg::page::PAGE_SIZE;
use crate::pg::sys;
use crate::{Bytes, Random};

pub const PAGES: usize = 8;
pub const OPAQUE: usize = PAGE_SIZE - size_of::<sys::BTPageOpaqueData>();

#[no_mangle]
#[allow(non_upper_case_globals)]
static mut BufferBlocks: *mut std::ffi::c_char = std::ptr::null_mut();
#[no_mangle]
#[allow(non_upper_case_globals)]
static mut NBuffers: i32 = PAGES as i32;

/// What stands on a page, in its order; None is NULL. Without the first downlink of an inner page, which has no key.
pub struct Content {
    pub keys: Vec<Option<Bytes>>,
    pub high_key: Option<Bytes>,
    pub is_leaf: bool,
    pub descending: bool,
    pub kind: Ordinal,
}

/// A page of the pool, and what stands on it.
pub struct Page {
    pub at: *mut u8,
    pub content: Content,
}

/// The pool: page `number` is at its address. Made once for each thread of tests, so there is one test that uses it.
fn pool() -> *mut u8 {
    // SAFETY: aligned as buffers are; never freed.
    unsafe {
        if BufferBlocks.is_null() {
            let layout = std::alloc::Layout::from_size_align(PAGES * PAGE_SIZE, 4096).expect("a valid layout");
            BufferBlocks = std::alloc::alloc_zeroed(layout).cast();
        }
        BufferBlocks.cast()
    }
}

impl Page {
    pub fn new(number: usize, lsn: u64, random: &Random, content: Content) -> Page {
        // SAFETY: a page of the pool.
        let page = Page { at: unsafe { pool().add(number * PAGE_SIZE) }, content };
        page.write(lsn, random);
        page
    }

    pub fn put<T>(&self, at: usize, value: T) {
        assert!(at + size_of::<T>() <= PAGE_SIZE);
        // SAFETY: within the page.
        unsafe { self.at.add(at).cast::<T>().write_unaligned(value) }
    }

    pub fn origin(&self) -> usize {
        1 + usize::from(self.content.high_key.is_some())
    }

    /// Line pointer of the first key.
    pub fn first(&self) -> usize {
        self.origin() + usize::from(!self.content.is_leaf)
    }

    pub fn end(&self) -> usize {
        self.first() + self.content.keys.len()
    }

    /// The key of a line pointer; None if it is NULL or there is none.
    pub fn key(&self, line: usize) -> Option<&Bytes> {
        if line < self.origin() {
            return self.content.high_key.as_ref();
        }
        self.content.keys.get(line.checked_sub(self.first())?)?.as_ref()
    }

    /// Writes the page as nbtree does; the tuples stand in random order.
    fn write(&self, lsn: u64, random: &Random) {
        // SAFETY: a page of the pool.
        unsafe { std::ptr::write_bytes(self.at, 0, PAGE_SIZE) };
        let end = self.end();
        let mut lines: Vec<usize> = (1..end).collect();
        for i in (1..lines.len()).rev() {
            lines.swap(i, random.below(i + 1));
        }
        let mut upper = OPAQUE;
        for line in lines {
            let key = self.key(line);
            let has_no_key = !self.content.is_leaf && line == self.origin();
            let has_bitmap = key.is_none() && !has_no_key || random.below(9) == 0;
            let data = if has_bitmap { 16 } else { 8 };
            let stored: Vec<u8> = key.map_or(Vec::new(), |bytes| {
                let iv = random.next() as u8;
                let mut stored = vec![7, 7, 0, 0, 1, 1, iv];
                stored.extend((0..11).map(|_| random.next() as u8));
                stored.extend(bytes.iter().map(|byte| byte ^ iv));
                stored.extend((0..16).map(|_| random.next() as u8));
                stored
            });
            let len = (data + 1 + stored.len()).next_multiple_of(8);
            upper -= len;
            assert!(upper >= 24 + (end - 1) * 4, "too many keys for a page");
            let natts = if has_no_key { 0u16 } else { 1 };
            let is_pivot = !self.content.is_leaf || line < self.origin();
            self.put(upper + 4, natts);
            let info = len as u16 | if has_bitmap { 0x8000 } else { 0 } | if is_pivot { 0x2000 } else { 0 };
            self.put(upper + 6, info);
            if has_bitmap {
                self.put(upper + 8, u8::from(key.is_some()));
            }
            if key.is_some() {
                self.put(upper + data, ((stored.len() as u8 + 1) << 1) | 1);
                for (i, byte) in stored.iter().enumerate() {
                    self.put(upper + data + 1 + i, *byte);
                }
            }
            self.put(24 + (line - 1) * 4, upper as u32 | 1 << 15 | (len as u32) << 17);
        }
        self.put(0, lsn);
        self.put(12, (24 + (end - 1) * 4) as u16);
        self.put(14, upper as u16);
        self.put(16, OPAQUE as u16);
        self.put(OPAQUE + 4, u32::from(self.content.high_key.is_some()));
        self.put(OPAQUE + 8, u32::from(!self.content.is_leaf));
        self.put(OPAQUE + 12, if self.content.is_leaf { sys::BTP_LEAF as u16 } else { 0 });
    }

    /// The datum of a line pointer's key, as nbtree passes it to the comparison.
    pub fn datum(&self, line: usize) -> usize {
        // SAFETY: within the page.
        unsafe {
            let pointer = self.at.add(24 + (line - 1) * 4).cast::<u32>().read();
            let tuple = self.at.add((pointer & 0x7FFF) as usize);
            let has_bitmap = tuple.add(6).cast::<u16>().read() & 0x8000 != 0;
            tuple as usize + if has_bitmap { 16 } else { 8 }
        }
    }
}
