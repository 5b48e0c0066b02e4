//! Plaintext that this backend is likely to need again soon: rows of small tables, which the planner reads from one end to
//! the other for each look-up, and the keys in the upper levels of encrypted indexes, which every descent compares.
//!
//! An entry is found by all that its decryption depends on: the relation and every byte that is authenticated. So what is found is
//! what decryption would have given. It holds no more of a secret than the process does anyway, which has the keys
//! themselves; it is kept out of core dumps, and gone with the process, `DISCARD ALL`, or a change of
//! `pg_vault_tde.plaintext_cache`.
//!
//! The memory is a fixed number of places of four sizes, in sets of two. Which set an entry belongs to follows from its tag. An
//! entry that was found again has as many lives more, and each entry that wants its place takes one: else the
//! keys of leaves, which nobody asks for twice, would drive out those that every descent needs.

use core::ptr;

use super::settings;
use crate::pg::memory::slice;
use crate::pg::{BackendCell, Oid};

/// What stands at the beginning of a place; the authenticated bytes and the plaintext follow.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    oid: Oid,
    /// from the lowest bit on: [`LEN_BITS`] of how many bytes are authenticated, 0 in an empty place; as many of the
    /// plaintext's length; lives
    state: u32,
}

const LEN_BITS: u32 = 12;
const LENGTHS: u32 = (1 << (2 * LEN_BITS)) - 1;
const LIFE: u32 = LENGTHS + 1;
const MOST_LIVES: u32 = 15;

impl Header {
    /// Without lives. Both lengths are below the size of a place.
    #[inline]
    fn new(oid: Oid, sealed_len: usize, plain_len: usize) -> Header {
        Header { oid, state: sealed_len as u32 | (plain_len as u32) << LEN_BITS }
    }

    #[inline]
    fn is_of(self, other: Header) -> bool {
        self.oid == other.oid && (self.state ^ other.state) & LENGTHS == 0
    }

    #[inline]
    fn is_empty(self) -> bool {
        self.state == 0
    }

    #[inline]
    fn lives(self) -> u32 {
        self.state / LIFE
    }
}

const HEADER: usize = size_of::<Header>();
const WAYS: usize = 2;
/// Bytes of a place, smallest first. The smallest holds an integer of an index in one cache line, the largest a row of some
/// 200 bytes.
const SIZES: [usize; 4] = [64, 128, 256, 512];
/// What part of the memory is for places of that size: one half, one eighth, ...
const SHARES: [usize; 4] = [2, 8, 4, 8];

struct Cache {
    /// Where the places of each size begin; null before the first entry.
    places: [*mut u8; SIZES.len()],
    /// sets of each size, less one: a power of two, less one
    masks: [usize; SIZES.len()],
    mapped: usize,
}

const NONE: Cache = Cache { places: [ptr::null_mut(); SIZES.len()], masks: [0; SIZES.len()], mapped: 0 };

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
    let wanted = Header::new(oid, sealed.len(), len);
    for way in 0..WAYS {
        // SAFETY: a place of the set; it holds as many bytes as its header says.
        unsafe {
            let place = set.add(way * SIZES[size]);
            let header = place.cast::<Header>();
            if (*header).is_of(wanted) && slice(place.add(HEADER).cast_const(), sealed.len()) == sealed {
                if (*header).lives() < MOST_LIVES {
                    (*header).state += LIFE;
                }
                let plain = place.add(HEADER + sealed.len());
                match len {
                    // keys that are numbers: no call
                    4 => ptr::copy_nonoverlapping(plain, out, 4),
                    8 => ptr::copy_nonoverlapping(plain, out, 8),
                    _ => ptr::copy_nonoverlapping(plain, out, len),
                }
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
    // SAFETY: places of the set, which have room for that size.
    unsafe {
        let header = |way: usize| set.add(way * SIZES[size]).cast::<Header>();
        let mut weakest = 0;
        for way in 0..WAYS {
            if (*header(way)).is_empty() {
                weakest = way;
                break;
            }
            if (*header(way)).lives() < (*header(weakest)).lives() {
                weakest = way;
            }
        }
        if (*header(weakest)).lives() > 0 {
            (*header(weakest)).state -= LIFE;
            return;
        }
        let place: *mut u8 = header(weakest).cast();
        ptr::copy_nonoverlapping(sealed.as_ptr(), place.add(HEADER), sealed.len());
        ptr::copy_nonoverlapping(plain, place.add(HEADER + sealed.len()), len);
        header(weakest).write(Header::new(oid, sealed.len(), len));
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
