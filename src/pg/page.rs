//! Heap pages: a private copy of one, and its exchange for another of the same layout.

use core::ptr;

use super::tuple::{HeapTupleData, ItemPointerData};
use super::{sys, Oid};

/// `BLCKSZ`
pub const PAGE_SIZE: usize = sys::BLCKSZ as usize;
/// The least bytes of a heap tuple: its header without null bitmap.
const MIN_TUPLE: usize = 23;

/// Which page: relation's OID and block number.
#[derive(Clone, Copy)]
pub struct Place {
    pub table_oid: Oid,
    pub block: u32,
}

/// What a line pointer leads to.
pub enum Item {
    /// Nothing: unused, dead or redirected.
    None,
    Tuple(HeapTupleData),
    /// It points outside of the page, or to less than a tuple header.
    Damaged,
}

/// A private copy of a page, in memory of the context that was current when it was made.
#[derive(Clone, Copy)]
pub struct PageCopy(*mut u8);

impl PageCopy {
    /// Room for a copy. Raises ERROR when out of memory.
    pub fn new() -> Self {
        // SAFETY: palloc gives MAXALIGNed memory or raises.
        Self(unsafe { sys::palloc0(PAGE_SIZE).cast() })
    }

    pub fn as_ptr(self) -> *mut u8 {
        self.0
    }

    /// Copies the page of a pinned buffer whose content lock is held.
    ///
    /// # Safety
    /// As said.
    pub unsafe fn take(self, buffer: sys::Buffer) {
        // SAFETY: a page is PAGE_SIZE bytes long, and the lock keeps it as it is.
        unsafe { ptr::copy_nonoverlapping(page_of(buffer), self.0, PAGE_SIZE) }
    }

    /// Copies another copy.
    pub fn take_copy(self, other: PageCopy) {
        // SAFETY: both are PAGE_SIZE bytes long, and not the same.
        unsafe { ptr::copy_nonoverlapping(other.0, self.0, PAGE_SIZE) }
    }

    /// The highest line pointer; 0 for a page that was never written.
    pub fn items(self) -> u16 {
        // SAFETY: a page of ours.
        unsafe { items_of(self.0) }
    }

    /// What line pointer `offset` leads to; the tuple is in the copy.
    pub fn item(self, offset: u16, place: Place) -> Item {
        // SAFETY: a page of ours; `item_of` looks at nothing outside of it.
        unsafe { item_of(self.0, offset, place) }
    }
}

/// `BufferGetPage()`
///
/// # Safety
/// `buffer` must be pinned.
pub unsafe fn page_of(buffer: sys::Buffer) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { sys::BufferGetPage(buffer).cast() }
}

/// The highest line pointer of a page.
///
/// # Safety
/// `page` must be a page in memory.
pub unsafe fn items_of(page: *mut u8) -> u16 {
    // SAFETY: the caller's promise; a page that was never written is all zeros.
    unsafe {
        let header: *mut sys::PageHeaderData = page.cast();
        if (*header).pd_upper == 0 {
            return 0;
        }
        let behind = usize::from((*header).pd_lower).min(PAGE_SIZE);
        let begin = core::mem::offset_of!(sys::PageHeaderData, pd_linp);
        (behind.saturating_sub(begin) / size_of::<sys::ItemIdData>()) as u16
    }
}

/// What line pointer `offset` (from 1) of a page leads to.
///
/// # Safety
/// `page` must be a page in memory and `offset` at most [`items_of`] it.
pub unsafe fn item_of(page: *mut u8, offset: u16, place: Place) -> Item {
    // SAFETY: the caller's promise; only what lies within the page is pointed to.
    unsafe {
        let header: *mut sys::PageHeaderData = page.cast();
        let id: *const sys::ItemIdData = (&raw const (*header).pd_linp).cast();
        let id = &*id.add(usize::from(offset) - 1);
        if id.lp_flags() != sys::LP_NORMAL {
            return Item::None;
        }
        let (at, len) = (id.lp_off() as usize, id.lp_len() as usize);
        if len < MIN_TUPLE || at + len > PAGE_SIZE || at % 8 != 0 {
            return Item::Damaged;
        }
        Item::Tuple(HeapTupleData {
            t_len: len as u32,
            t_self: tid(place.block, offset),
            t_tableOid: place.table_oid,
            t_data: page.add(at).cast(),
        })
    }
}

/// `ItemPointerSet()`
pub fn tid(block: u32, offset: u16) -> ItemPointerData {
    let ip_blkid = sys::BlockIdData { bi_hi: (block >> 16) as u16, bi_lo: block as u16 };
    ItemPointerData { ip_blkid, ip_posid: offset }
}

/// Runs `change` on a page and logs the page whole, as one change that is there completely or not at all. `change` returns
/// whether it did anything.
///
/// The WAL record is the one by which vacuum prunes, with nothing to prune and a full image. Its replay needs no library
/// of ours, takes the page under a cleanup lock, so that no query of a standby is looking at it, and logical decoding passes
/// over it.
///
/// # Safety
/// `buffer` must be a page of `rel` under a cleanup lock. `change` must neither allocate nor raise: it runs in a critical
/// section.
pub unsafe fn replace(rel: sys::Relation, buffer: sys::Buffer, change: impl FnOnce(*mut u8) -> bool) -> bool {
    // SAFETY: the caller's promise; this is the order of transam/README for a WAL-logged change.
    unsafe {
        let needs_wal = super::rel::needs_wal(rel);
        sys::CritSectionCount += 1;
        let changed = change(page_of(buffer));
        if changed {
            sys::MarkBufferDirty(buffer);
            if needs_wal {
                super::majors::log_page_image(buffer);
            }
        }
        sys::CritSectionCount -= 1;
        changed
    }
}
