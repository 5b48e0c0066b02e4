//! A page of an encrypted index in shared buffers, as a search sees it, and how it is known again.

use core::mem::offset_of;

use super::pages::{data_offset, ALT_TID, HAS_NULLS, LINE_POINTERS, NATTS_MASK, TUPLE_HEADER};
use crate::pg::memory::slice;
use crate::pg::page::PAGE_SIZE;
use crate::pg::sys;

const OPAQUE: usize = PAGE_SIZE - size_of::<sys::BTPageOpaqueData>();
/// Where a tuple's data begin, without a bitmap of NULLs and with one.
const DATA: usize = data_offset(false);
const DATA_BEHIND_BITMAP: usize = data_offset(true);

/// What tells a page at one moment from any other page, and from itself at other moments at which its keys were others or stood
/// elsewhere: its header, with the LSN of its last change, and its links. Two pages that one WAL record has changed have
/// the same LSN, but not the same neighbours on the same level.
///
/// Only of indexes whose changes are in WAL, and of pages that have an LSN.
#[derive(Clone, Copy)]
pub struct State([u64; 5]);

impl PartialEq for State {
    #[inline]
    fn eq(&self, other: &State) -> bool {
        // without a call of memcmp()
        self.0.iter().zip(&other.0).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

/// Line pointers of a page.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// behind the high key: where the least value of the page may be
    pub origin: u16,
    /// the first that has a key: on inner pages the first downlink has none
    pub first: u16,
    /// behind the last
    pub end: u16,
}

/// A page in shared buffers whose content lock is held.
#[derive(Clone, Copy)]
pub struct Page(*const u8);

impl State {
    pub const NONE: State = State([0; 5]);

    #[inline]
    pub fn hash(&self) -> u64 {
        let [lsn, .., links, _] = self.0;
        (lsn ^ links.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl Page {
    /// The page in shared buffers that `at` points into; None if that is elsewhere.
    #[inline]
    pub fn of(at: *const u8) -> Option<Page> {
        // SAFETY: variables that are set when the server starts.
        let (begin, len) = unsafe { (sys::BufferBlocks as usize, sys::NBuffers as usize * PAGE_SIZE) };
        let offset = (at as usize).wrapping_sub(begin);
        (offset < len).then(|| Page(at.wrapping_sub(offset % PAGE_SIZE)))
    }

    #[inline]
    fn read<T: Copy>(self, at: usize) -> T {
        assert!(at + size_of::<T>() <= PAGE_SIZE);
        // SAFETY: within the page.
        unsafe { self.0.add(at).cast::<T>().read_unaligned() }
    }

    #[inline]
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Which moment of which page this is.
    #[inline]
    pub fn state(self) -> State {
        State([self.read(0), self.read(8), self.read(16), self.read(OPAQUE), self.read(OPAQUE + 8)])
    }

    /// None if it is not an ordinary page of a btree with an LSN.
    pub fn bounds(self) -> Option<Bounds> {
        let lsn: u64 = self.read(offset_of!(sys::PageHeaderData, pd_lsn));
        let special: u16 = self.read(offset_of!(sys::PageHeaderData, pd_special));
        let lower: u16 = self.read(offset_of!(sys::PageHeaderData, pd_lower));
        let flags: u16 = self.read(OPAQUE + offset_of!(sys::BTPageOpaqueData, btpo_flags));
        let next: u32 = self.read(OPAQUE + offset_of!(sys::BTPageOpaqueData, btpo_next));
        let unusual = (sys::BTP_META | sys::BTP_DELETED | sys::BTP_HALF_DEAD) as u16;
        if lsn == 0 || usize::from(special) != OPAQUE || usize::from(lower) > OPAQUE || flags & unusual != 0 {
            return None;
        }
        let items = usize::from(lower).checked_sub(LINE_POINTERS)? / size_of::<sys::ItemIdData>();
        let origin = 1 + u16::from(next != 0);
        let first = origin + u16::from(flags & sys::BTP_LEAF as u16 == 0);
        Some(Bounds { origin, first, end: items as u16 + 1 })
    }

    /// Where the tuple of a line pointer is.
    #[inline]
    fn offset(self, line: u16) -> usize {
        let pointer: u32 = self.read(LINE_POINTERS + (usize::from(line) - 1) * size_of::<sys::ItemIdData>());
        (pointer & 0x7FFF) as usize
    }

    /// The stored first key of a tuple, of at most `longest` bytes; None if it is NULL, or not such a key.
    #[inline]
    pub fn key<'a>(self, line: u16, longest: usize) -> Option<&'a [u8]> {
        let tuple = self.offset(line);
        if tuple + TUPLE_HEADER > OPAQUE {
            return None;
        }
        let info: u16 = self.read(tuple + offset_of!(sys::IndexTupleData, t_info));
        let offset_number: u16 = self.read(tuple + offset_of!(sys::IndexTupleData, t_tid) + 4);
        if info & ALT_TID != 0 && offset_number & NATTS_MASK == 0 {
            return None;
        }
        let at = if info & HAS_NULLS == 0 {
            tuple + DATA
        } else if self.read::<u8>(tuple + TUPLE_HEADER) & 1 == 0 {
            return None;
        } else {
            tuple + DATA_BEHIND_BITMAP
        };
        let header: u8 = self.read(at);
        // a short length word, which counts itself
        let len = usize::from(header >> 1).checked_sub(1).filter(|len| header & 1 != 0 && *len <= longest)?;
        if at + 1 + len > OPAQUE {
            return None;
        }
        // SAFETY: within the page, which stays as it is while its lock is held.
        Some(unsafe { slice(self.0.add(at + 1), len) })
    }

    /// Whether the first key of a tuple is at `key`.
    #[inline]
    pub fn has_at(self, line: u16, key: *const u8) -> bool {
        let (tuple, at) = (self.offset(line), key as usize - self.0 as usize);
        at == tuple + DATA || at == tuple + DATA_BEHIND_BITMAP
    }

    /// The line pointer of the tuple whose first key is at `key`; None if there is none before `end`. Finds it at once if it is
    /// `near`, or beside.
    #[inline(never)]
    pub fn line_of(self, key: *const u8, near: u16, end: u16) -> Option<u16> {
        let mut lines = [near + 1, near, near.saturating_sub(1)].into_iter().chain(1..end);
        lines.find(|line| (1..end).contains(line) && self.has_at(*line, key))
    }
}
