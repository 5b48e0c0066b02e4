//! The pages of an encrypted index as they are on disk: which keys lie on them. For what has to see every key, whatever its
//! row: which generations are in use, re-encryption, verification. Nothing here trusts a page's content.

use crate::pg::memory::slice;
use crate::pg::page::PAGE_SIZE;
use crate::pg::tuple::maxalign;
use crate::pg::{sys, varlena};

/// `offsetof(PageHeaderData, pd_linp)`
pub const LINE_POINTERS: usize = core::mem::offset_of!(sys::PageHeaderData, pd_linp);
const LOWER: usize = core::mem::offset_of!(sys::PageHeaderData, pd_lower);
const UPPER: usize = core::mem::offset_of!(sys::PageHeaderData, pd_upper);
const SPECIAL: usize = core::mem::offset_of!(sys::PageHeaderData, pd_special);

/// `sizeof(IndexTupleData)`
pub const TUPLE_HEADER: usize = size_of::<sys::IndexTupleData>();
/// `INDEX_SIZE_MASK`, `INDEX_ALT_TID_MASK` (a pivot or posting tuple), `INDEX_NULL_MASK`
const SIZE_MASK: u16 = 0x1FFF;
pub const ALT_TID: u16 = 0x2000;
pub const HAS_NULLS: u16 = 0x8000;
/// `BT_IS_POSTING`, `BT_OFFSET_MASK` of the offset number of such a tuple
const IS_POSTING: u16 = 0x2000;
pub const NATTS_MASK: u16 = 0x0FFF;
/// `sizeof(IndexAttributeBitMapData)`
const NULL_BITMAP: usize = (sys::INDEX_MAX_KEYS as usize).div_ceil(8);

/// Where a tuple's values begin (`IndexInfoFindDataOffset()`).
pub const fn data_offset(has_nulls: bool) -> usize {
    maxalign(TUPLE_HEADER + if has_nulls { NULL_BITMAP } else { 0 })
}

/// A page has not the form of a page of an encrypted index; the line pointer where that was seen, or 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Damaged(pub u16);

/// A stored key on a page.
#[derive(Clone, Copy)]
pub struct Found {
    /// line pointer of its tuple
    pub item: u16,
    /// numbered from 0
    pub column: usize,
    /// where its bytes begin on the page, and how many they are
    pub at: usize,
    pub len: usize,
}

fn u16_at(page: &[u8; PAGE_SIZE], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([page[at], page[at + 1]]))
}

/// Calls `body` with each key on a page (not the metapage) of an index of `ncolumns` columns, pivot tuples' included.
pub fn for_each_key(page: &[u8; PAGE_SIZE], ncolumns: usize, mut body: impl FnMut(Found)) -> Result<(), Damaged> {
    if u16_at(page, UPPER) == 0 {
        return Ok(()); // a new page
    }
    let (lower, special) = (u16_at(page, LOWER), u16_at(page, SPECIAL));
    if special + size_of::<sys::BTPageOpaqueData>() > PAGE_SIZE || lower < LINE_POINTERS || lower > special {
        return Err(Damaged(0));
    }
    let flags = u16_at(page, special + core::mem::offset_of!(sys::BTPageOpaqueData, btpo_flags)) as u32;
    if flags & (sys::BTP_DELETED | sys::BTP_META) != 0 {
        return Ok(());
    }
    for item in 1..=(lower - LINE_POINTERS) / size_of::<sys::ItemIdData>() {
        let at = LINE_POINTERS + (item - 1) * size_of::<sys::ItemIdData>();
        let pointer = u32::from_ne_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let (start, state, len) = ((pointer & 0x7FFF) as usize, (pointer >> 15) & 3, (pointer >> 17) as usize);
        if state == sys::LP_UNUSED || len == 0 {
            continue;
        }
        if start < LINE_POINTERS || start + len > special || len < TUPLE_HEADER {
            return Err(Damaged(item as u16));
        }
        keys_of_tuple(page, (start, len), item as u16, ncolumns, &mut body).ok_or(Damaged(item as u16))?;
    }
    Ok(())
}

/// The keys of one tuple; None if it is damaged.
fn keys_of_tuple(
    page: &[u8; PAGE_SIZE],
    (start, room): (usize, usize),
    item: u16,
    ncolumns: usize,
    body: &mut impl FnMut(Found),
) -> Option<()> {
    let info = u16_at(page, start + TUPLE_HEADER - 2) as u16;
    let offset_number = u16_at(page, start + TUPLE_HEADER - 4) as u16;
    let size = usize::from(info & SIZE_MASK);
    if size > room || size < TUPLE_HEADER {
        return None;
    }
    let natts = match info & ALT_TID {
        0 => ncolumns,
        _ if offset_number & IS_POSTING != 0 => return None,
        _ => usize::from(offset_number & NATTS_MASK),
    };
    if natts > ncolumns {
        return None;
    }
    let has_nulls = info & HAS_NULLS != 0;
    let mut at = start + data_offset(has_nulls);
    let end = start + size;
    for column in 0..natts {
        if has_nulls && page[start + TUPLE_HEADER + column / 8] & (1 << (column % 8)) == 0 {
            continue;
        }
        // a zero byte is padding before a length word
        if *page.get(at).filter(|_| at < end)? == 0 {
            at = (at + 3) & !3;
        }
        let (header, total) = if *page.get(at)? & 0x01 != 0 {
            (1, usize::from(page[at] >> 1))
        } else {
            let word = page.get(at..at + varlena::HEADER)?;
            (varlena::HEADER, (u32::from_ne_bytes([word[0], word[1], word[2], word[3]]) >> 2) as usize)
        };
        if total < header || at + total > end {
            return None;
        }
        body(Found { item, column, at: at + header, len: total - header });
        at += total;
    }
    Some(())
}

/// The page of a buffer that is locked, or of a copy.
///
/// # Safety
/// `page` must point to a page that stays in place and unchanged for `'a`.
pub unsafe fn page_at<'a>(page: *const u8) -> &'a [u8; PAGE_SIZE] {
    // SAFETY: the caller's promise.
    unsafe { &*slice(page, PAGE_SIZE).as_ptr().cast::<[u8; PAGE_SIZE]>() }
}
