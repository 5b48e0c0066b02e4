//! Plaintext that this backend is likely to need again soon: rows of small tables, which the planner reads from one end to
//! the other for each look-up, rows that it has just updated, and the keys in the upper levels of encrypted indexes, which every
//! descent compares.
//!
//! An entry is found by all that its decryption depends on: the relation and every byte that is authenticated. So what is found is
//! what decryption would have given. It holds no more of a secret than the process does anyway, which has the keys
//! themselves; it is kept out of core dumps, and gone with the process, `DISCARD ALL`, or a change of
//! `pg_vault_tde.plaintext_cache`.
//!
//! The memory is a fixed number of places of four sizes, in sets of two. Which set an entry belongs to follows from its tag. An
//! entry that was found again has as many lives more, and each entry that wants its place takes one: else the
//! keys of leaves, which nobody asks for twice, would drive out those that every descent needs. But what is sure to be read again
//! takes half of them, or all if that entry was not found lately: it is a row, then, as it was before somebody has
//! updated it. Lives, the time of the last visit and a part of the tag stand in a table of their own, which stays in the
//! processor's cache: who is not here costs no look at a place.

use core::ptr;

use super::settings;
use crate::pg::{hidden, BackendCell, Oid};

/// What stands at the beginning of a place; the authenticated bytes and the plaintext follow.
#[repr(C)]
#[derive(PartialEq, Eq)]
struct Header {
    oid: Oid,
    sealed_len: u16,
    plain_len: u16,
}

/// What is known of a place without looking at it: a part of the entry's tag, its lives, and when it was found last. 0 is an
/// empty place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u16);

impl Mark {
    const EMPTY: Mark = Mark(0);
    const PRINT: u16 = 0x00ff;
    const LIFE: u16 = 0x0100;
    const LIVES: u16 = 0x0f00;
    const TIME: u32 = 12;
    /// What is this many times old or older was not found lately.
    const STALE: u16 = 2;

    /// Of a new entry.
    #[inline]
    fn new(print: u16, time: u16) -> Mark {
        Mark(print | (time << Mark::TIME))
    }

    /// That of an entry which was found again.
    #[inline]
    fn found(self, time: u16) -> Mark {
        let mark = if self.0 & Mark::LIVES == Mark::LIVES { self.0 } else { self.0 + Mark::LIFE };
        Mark((mark & (Mark::PRINT | Mark::LIVES)) | (time << Mark::TIME))
    }

    #[inline]
    fn has_print(self, print: u16) -> bool {
        self.0 & Mark::PRINT == print
    }

    fn lives(self) -> u16 {
        (self.0 & Mark::LIVES) / Mark::LIFE
    }

    /// That of an entry whose place was asked for.
    fn weakened(self, need: Need) -> Mark {
        let lives = match need {
            Need::Possible => self.lives().saturating_sub(1),
            Need::Sure => self.lives() / 2,
        };
        Mark((self.0 & !Mark::LIVES) | (lives * Mark::LIFE))
    }

    fn is_stale(self, time: u16) -> bool {
        time.wrapping_sub(self.0 >> Mark::TIME) & 0xf >= Mark::STALE
    }
}

/// How urgent it is to keep an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It may be asked for again.
    Possible,
    /// It will be.
    Sure,
}

const HEADER: usize = size_of::<Header>();
/// Nothing shorter than a tag is looked for.
const TAG_LEN: usize = 16;
const WAYS: usize = 2;
/// Bytes of a place, smallest first. The smallest holds an integer of an index in one cache line, the largest a row of some
/// 200 bytes.
const SIZES: [usize; 4] = [64, 128, 256, 512];
/// What part of the memory is for places of that size: one half, one eighth, ...
const SHARES: [usize; 4] = [2, 8, 4, 8];

struct Cache {
    /// Where the places of each size begin; null before the first entry.
    places: [*mut u8; SIZES.len()],
    /// as many marks
    marks: [*mut Mark; SIZES.len()],
    /// sets of each size, less one: a power of two, less one
    masks: [usize; SIZES.len()],
    mapped: usize,
    /// how often something was found
    hits: u32,
}

const NONE: Cache = Cache {
    places: [ptr::null_mut(); SIZES.len()],
    marks: [ptr::null_mut(); SIZES.len()],
    masks: [0; SIZES.len()],
    mapped: 0,
    hits: 0,
};

impl Cache {
    /// The time that marks tell: it passes with what is found, so that all rows of a small table, or nearly, are found before
    /// they are stale; after 16 it begins anew.
    #[inline]
    fn time(&self) -> u16 {
        (self.hits / 2048) as u16
    }
}

static CACHE: BackendCell<Cache> = BackendCell::new(NONE);

/// Which size of place takes `len` bytes.
#[inline]
fn size_for(len: usize) -> Option<usize> {
    SIZES.iter().position(|size| HEADER + len <= *size)
}

/// The places of one size that an entry may have, and what part of its tag is in its mark.
struct Set {
    places: *mut u8,
    size: usize,
    marks: *mut Mark,
    print: u16,
}

impl Set {
    /// The set that `sealed`, which ends with a tag, belongs to; None if there is no memory yet.
    #[inline]
    fn of(cache: &Cache, size: usize, sealed: &[u8]) -> Option<Set> {
        let tag = sealed.last_chunk::<TAG_LEN>()?;
        let tag = u64::from_ne_bytes(*tag.last_chunk::<8>()?);
        let first = (tag as usize & cache.masks[size]) * WAYS;
        if cache.mapped == 0 {
            return None;
        }
        // never 0; other bits of the tag than those that choose the set
        let print = (tag >> 48) as u16 & Mark::PRINT | 1;
        // SAFETY: a set below their number, in the mapped memory.
        let (places, marks) = unsafe { (cache.places[size].add(first * SIZES[size]), cache.marks[size].add(first)) };
        Some(Set { places, size: SIZES[size], marks, print })
    }

    #[inline]
    fn mark(&self, way: usize) -> *mut Mark {
        // SAFETY: one of the set's marks.
        unsafe { self.marks.add(way) }
    }

    #[inline]
    fn place(&self, way: usize) -> *mut u8 {
        // SAFETY: one of the set's places.
        unsafe { self.places.add(way * self.size) }
    }
}

/// Whether two runs of bytes are the same. Without a call of memcmp(): they are short, as a rule.
///
/// # Safety
/// Both must be `len` bytes long, and that at least 16.
#[inline(always)]
unsafe fn is_same(a: *const u8, b: *const u8, len: usize) -> bool {
    // SAFETY: the caller's promise; some of the last 16 bytes are compared twice.
    unsafe {
        let is_same_at = |i| a.add(i).cast::<u128>().read_unaligned() == b.add(i).cast::<u128>().read_unaligned();
        let mut i = 0;
        while i + 16 < len {
            if !is_same_at(i) {
                return false;
            }
            i += 16;
        }
        is_same_at(len - 16)
    }
}

/// Copies bytes, short runs without a call of memcpy().
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; some of the last 16 bytes are copied twice.
    unsafe {
        let copy_at = |i| to.add(i).cast::<u128>().write_unaligned(from.add(i).cast::<u128>().read_unaligned());
        match len {
            // numbers
            4 => ptr::copy_nonoverlapping(from, to, 4),
            8 => ptr::copy_nonoverlapping(from, to, 8),
            16..=96 => {
                let mut i = 0;
                while i + 16 < len {
                    copy_at(i);
                    i += 16;
                }
                copy_at(len - 16);
            }
            _ => ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies the plaintext of `sealed`, the authenticated bytes of something of relation `oid` (IV, ciphertext and tag at the end),
/// to `out` if it is here, and returns whether it is. `len` is the plaintext's length.
///
/// # Safety
/// `out` must have room for `len` bytes.
#[inline(always)]
pub unsafe fn find(oid: Oid, sealed: &[u8], out: *mut u8, len: usize) -> bool {
    // SAFETY: nothing in here comes back to the cache.
    let cache = unsafe { &mut *CACHE.as_ptr() };
    let Some(size) = size_for(sealed.len() + len) else { return false };
    let Some(set) = Set::of(cache, size, sealed) else { return false };
    // both lengths fit: they are below the size of a place
    let wanted = Header { oid, sealed_len: sealed.len() as u16, plain_len: len as u16 };
    for way in 0..WAYS {
        // SAFETY: a place of the set; it holds as many bytes as its header says.
        unsafe {
            let (mark, place) = (set.mark(way), set.place(way));
            if (*mark).has_print(set.print)
                && *place.cast::<Header>() == wanted
                && is_same(place.add(HEADER), sealed.as_ptr(), sealed.len())
            {
                cache.hits = cache.hits.wrapping_add(1);
                *mark = (*mark).found(cache.time());
                copy(place.add(HEADER + sealed.len()), out, len);
                return true;
            }
        }
    }
    false
}

/// Keeps the plaintext of `sealed` (see [`find`]) for a while, if there is a place for as much.
///
/// # Safety
/// `plain` must point to `len` bytes.
pub unsafe fn keep(oid: Oid, sealed: &[u8], plain: *const u8, len: usize, need: Need) {
    // SAFETY: nothing in here comes back to the cache.
    let cache = unsafe { &mut *CACHE.as_ptr() };
    let Some(size) = size_for(sealed.len() + len) else { return };
    if cache.mapped == 0 && !map(cache) {
        return;
    }
    let Some(set) = Set::of(cache, size, sealed) else { return };
    // SAFETY: marks and places of the set, which have room for that size.
    unsafe {
        let time = cache.time();
        // an empty place comes before one without lives
        let strength = |way| match *set.mark(way) {
            Mark::EMPTY => 0,
            mark if need == Need::Sure && mark.is_stale(time) => 1,
            mark => 1 + mark.lives(),
        };
        let weakest = (0..WAYS).min_by_key(|way| strength(*way)).unwrap_or(0);
        let mark = set.mark(weakest);
        if strength(weakest) > 1 {
            *mark = (*mark).weakened(need);
            return;
        }
        let place = set.place(weakest);
        place.cast::<Header>().write(Header { oid, sealed_len: sealed.len() as u16, plain_len: len as u16 });
        ptr::copy_nonoverlapping(sealed.as_ptr(), place.add(HEADER), sealed.len());
        ptr::copy_nonoverlapping(plain, place.add(HEADER + sealed.len()), len);
        *mark = Mark::new(set.print, time);
    }
}

/// Gets the memory that `pg_vault_tde.plaintext_cache` allows, zeroed; false if that is none, or there is none.
#[cold]
fn map(cache: &mut Cache) -> bool {
    let bytes = settings::plaintext_cache();
    if bytes == 0 {
        return false;
    }
    let sets = |size: usize| bytes / SHARES[size] / (WAYS * SIZES[size]);
    let marks: usize = (0..SIZES.len()).map(|size| sets(size) * WAYS).sum();
    let mapped = bytes + marks * size_of::<Mark>();
    let base = hidden::map(mapped);
    if base.is_null() {
        return false;
    }
    // SAFETY: the mapping just made, of which the places and behind them the marks are parts.
    unsafe {
        let mut place = base;
        let mut mark: *mut Mark = place.add(bytes).cast();
        for (size, share) in SHARES.iter().enumerate() {
            cache.places[size] = place;
            cache.marks[size] = mark;
            cache.masks[size] = sets(size) - 1;
            place = place.add(bytes / share);
            mark = mark.add(sets(size) * WAYS);
        }
    }
    cache.mapped = mapped;
    true
}

/// Gives the memory back.
pub fn forget() {
    // SAFETY: nobody holds a pointer into the cache; the mapping is as long as noted.
    unsafe {
        let cache = &mut *CACHE.as_ptr();
        if cache.mapped != 0 {
            hidden::unmap(cache.places[0], cache.mapped);
            *cache = NONE;
        }
    }
}
