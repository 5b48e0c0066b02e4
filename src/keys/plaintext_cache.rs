//! Plaintext that this backend is likely to need again soon: rows of small tables, which the planner reads from one end to
//! the other for each look-up, and the keys in the upper levels of encrypted indexes, which every descent compares.
//!
//! An entry is found by all that its decryption depends on: the relation and every byte that is authenticated. So what is found is
//! what decryption would have given. It holds no more of a secret than the process does anyway, which has the keys
//! themselves; it is kept out of core dumps, and gone with the process, `DISCARD ALL`, or a change of
//! `pg_vault_tde.plaintext_cache`.
//!
//! The memory is a fixed number of places of three sizes, in sets of two. Which set an entry belongs to follows from its tag.

use core::ptr;

use super::settings;
use crate::pg::memory::slice;
use crate::pg::{BackendCell, Oid};

/// What stands at the beginning of a place; the authenticated bytes and the plaintext follow.
#[repr(C)]
struct Header {
    oid: Oid,
    /// 0 in an empty place
    sealed_len: u16,
    plain_len: u16,
}

const HEADER: usize = size_of::<Header>();
const WAYS: usize = 2;
/// Bytes of a place, smallest first. The smallest holds an integer of an index in one cache line, the largest a row of some
/// 200 bytes.
const SIZES: [usize; 3] = [64, 128, 512];
/// What part of the memory is for places of that size: one half, one quarter, one quarter.
const SHARES: [usize; 3] = [2, 4, 4];

struct Cache {
    /// Where the places of each size begin; null before the first entry.
    places: [*mut u8; SIZES.len()],
    /// sets of each size, less one: a power of two, less one
    masks: [usize; SIZES.len()],
    mapped: usize,
    /// counts what was kept, to choose which of a set's entries goes
    kept: usize,
}

const NONE: Cache = Cache { places: [ptr::null_mut(); SIZES.len()], masks: [0; SIZES.len()], mapped: 0, kept: 0 };

static CACHE: BackendCell<Cache> = BackendCell::new(NONE);

/// Which size of place takes `len` bytes.
#[inline]
fn size_for(len: usize) -> Option<usize> {
    SIZES.iter().position(|size| HEADER + len <= *size)
}

/// The first place of the set that the bytes belong to.
#[inline]
fn set_of(cache: &Cache, size: usize, sealed: &[u8]) -> Option<*mut u8> {
    let tag = u64::from_ne_bytes(*sealed.last_chunk::<8>()?);
    let set = tag as usize & cache.masks[size];
    let base = cache.places[size];
    // SAFETY: a set below their number, in the mapped memory.
    (!base.is_null()).then(|| unsafe { base.add(set * WAYS * SIZES[size]) })
}

/// Copies the plaintext of `sealed`, the authenticated bytes of something of relation `oid` (IV, ciphertext and tag at the end),
/// to `out` if it is here, and returns whether it is. `len` is the plaintext's length.
///
/// # Safety
/// `out` must have room for `len` bytes.
#[inline]
pub unsafe fn find(oid: Oid, sealed: &[u8], out: *mut u8, len: usize) -> bool {
    // SAFETY: nothing in here comes back to the cache.
    let cache = unsafe { &*CACHE.as_ptr() };
    let Some(size) = size_for(sealed.len() + len) else { return false };
    let Some(set) = set_of(cache, size, sealed) else { return false };
    for way in 0..WAYS {
        // SAFETY: a place of the set; it holds as many bytes as its header says.
        unsafe {
            let place = set.add(way * SIZES[size]);
            let header = &*place.cast::<Header>();
            if header.oid == oid
                && usize::from(header.sealed_len) == sealed.len()
                && usize::from(header.plain_len) == len
                && slice(place.add(HEADER).cast_const(), sealed.len()) == sealed
            {
                ptr::copy_nonoverlapping(place.add(HEADER + sealed.len()), out, len);
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
pub unsafe fn keep(oid: Oid, sealed: &[u8], plain: *const u8, len: usize) {
    // SAFETY: nothing in here comes back to the cache.
    let cache = unsafe { &mut *CACHE.as_ptr() };
    let Some(size) = size_for(sealed.len() + len) else { return };
    if cache.mapped == 0 && !map(cache) {
        return;
    }
    let Some(set) = set_of(cache, size, sealed) else { return };
    cache.kept = cache.kept.wrapping_add(1);
    // SAFETY: places of the set, which have room for that size.
    unsafe {
        let is_empty = |way: usize| (*set.add(way * SIZES[size]).cast::<Header>()).sealed_len == 0;
        let way = (0..WAYS).find(|way| is_empty(*way)).unwrap_or(cache.kept % WAYS);
        let place = set.add(way * SIZES[size]);
        ptr::copy_nonoverlapping(sealed.as_ptr(), place.add(HEADER), sealed.len());
        ptr::copy_nonoverlapping(plain, place.add(HEADER + sealed.len()), len);
        // both lengths fit: they are below the size of a place
        place.cast::<Header>().write(Header { oid, sealed_len: sealed.len() as u16, plain_len: len as u16 });
    }
}

/// Gets the memory that `pg_vault_tde.plaintext_cache` allows, zeroed; false if that is none, or there is none.
#[cold]
fn map(cache: &mut Cache) -> bool {
    let bytes = settings::plaintext_cache();
    if bytes == 0 {
        return false;
    }
    // SAFETY: an anonymous private mapping at an address of the kernel's choice.
    let base = unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping just made. Where the advice is not known the plaintext is in core dumps, as the keys are.
    unsafe { libc::madvise(base, bytes, libc::MADV_DONTDUMP) };
    let mut at: *mut u8 = base.cast();
    for (size, share) in SHARES.iter().enumerate() {
        let sets = bytes / share / (WAYS * SIZES[size]);
        cache.places[size] = at;
        cache.masks[size] = sets - 1;
        // SAFETY: the shares are parts of the mapping.
        at = unsafe { at.add(bytes / share) };
    }
    cache.mapped = bytes;
    true
}

/// Gives the memory back. The kernel clears it before anybody else gets it.
pub fn forget() {
    // SAFETY: nobody holds a pointer into the cache; the mapping is as long as noted.
    unsafe {
        let cache = &mut *CACHE.as_ptr();
        if cache.mapped != 0 {
            libc::munmap(cache.places[0].cast(), cache.mapped);
            *cache = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(number: u8, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(7)).collect();
        bytes[len - 1] = number;
        bytes
    }

    fn found(oid: Oid, sealed: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; len];
        // SAFETY: a buffer of that length.
        unsafe { find(oid, sealed, out.as_mut_ptr(), len) }.then_some(out)
    }

    fn keep_it(oid: Oid, sealed: &[u8], plain: &[u8]) {
        // SAFETY: pointer and length of a slice.
        unsafe { keep(oid, sealed, plain.as_ptr(), plain.len()) }
    }

    /// One test, since the cache is one of the process.
    #[test]
    fn finds_what_was_kept_and_nothing_else() {
        settings::PLAINTEXT_CACHE.set(64);
        assert_eq!(found(1, &sealed(1, 38), 4), None);
        keep_it(1, &sealed(1, 38), b"four");
        assert_eq!(found(1, &sealed(1, 38), 4).as_deref(), Some(&b"four"[..]));
        assert_eq!(found(2, &sealed(1, 38), 4), None, "another relation");
        assert_eq!(found(1, &sealed(2, 38), 4), None, "another tag");
        assert_eq!(found(1, &sealed(1, 38), 3), None, "another length");
        let mut altered = sealed(1, 38);
        altered[0] ^= 1;
        assert_eq!(found(1, &altered, 4), None, "other bytes before the tag");

        let (long, longest) = (vec![5; 180], vec![6; 400]);
        keep_it(1, &sealed(3, 200), &long);
        keep_it(1, &sealed(4, 420), &longest);
        assert_eq!(found(1, &sealed(3, 200), 180), Some(long));
        assert_eq!(found(1, &sealed(4, 420), 400), None, "no place is so large");

        // sets of two: of three that belong to one set the last is there
        for oid in 11..=13 {
            keep_it(oid, &sealed(9, 38), b"same");
        }
        let there = (11..=13).filter(|oid| found(*oid, &sealed(9, 38), 4).is_some()).count();
        assert_eq!((there, found(13, &sealed(9, 38), 4).is_some()), (WAYS, true));

        forget();
        assert_eq!(found(13, &sealed(9, 38), 4), None);
        settings::PLAINTEXT_CACHE.set(0);
        keep_it(1, &sealed(1, 38), b"four");
        assert_eq!(found(1, &sealed(1, 38), 4), None, "no cache");
    }
}
