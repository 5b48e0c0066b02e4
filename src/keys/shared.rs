//! The map in shared memory from key id to data key, so that one backend's call of a provider serves all.
//!
//! A key id is random and names one data key for ever, so an entry is never wrong. Nothing in here says which key is
//! current; that is the key table's business. When the map is full, the oldest entry makes room: at worst a provider is
//! asked more often.

use core::mem::size_of;
use core::time::Duration;

use super::settings;
use crate::crypto::cipher::Key;
use crate::crypto::wrap::KeyId;
use crate::pg::shmem::Segment;
use crate::pg::sys;

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    key_id: KeyId,
    dek: Key,
}

/// That somebody asks a provider for a data key.
#[repr(C)]
#[derive(Clone, Copy)]
struct Claim {
    key_id: KeyId,
    /// When it is void, in milliseconds of the machine's uptime: who has made it may have been killed, or be waiting long.
    until: u64,
}

/// Data keys that may be asked for at the same time; of more than that, each process asks for itself.
const CLAIMS: usize = 16;
/// How long a claim is good.
const CLAIM_TIME: Duration = Duration::from_secs(1);

/// Followed by `capacity` entries, of which `used` are filled; `next` is the one to be filled next. All but `capacity` is
/// protected by the lock.
#[repr(C)]
struct Map {
    capacity: usize,
    used: usize,
    next: usize,
    claims: [Claim; CLAIMS],
    entries: [Entry; 0],
}

/// To be registered by `_PG_init`.
pub static SEGMENT: Segment = Segment::new(c"pg_vault_tde", map_size, init);

fn map_size() -> usize {
    size_of::<Map>() + settings::key_cache_size() * size_of::<Entry>()
}

unsafe fn init(place: *mut u8) {
    let claims = [Claim { key_id: [0; 16], until: 0 }; CLAIMS];
    let map = Map { capacity: settings::key_cache_size(), used: 0, next: 0, claims, entries: [] };
    // SAFETY: new memory of `map_size` bytes.
    unsafe { place.cast::<Map>().write(map) }
}

/// Copies the data key `key_id` to `out` if the map has it.
pub fn lookup(key_id: &KeyId, out: &mut Key) -> bool {
    with_lock(sys::LW_SHARED, |map| {
        // SAFETY: the lock is held.
        let entry = unsafe { entries(map) }.iter().find(|entry| entry.key_id == *key_id);
        entry.map(|entry| *out = entry.dek).is_some()
    })
    .unwrap_or(false)
}

/// Claims to be the one who asks a provider for a data key. False if another process is about it, whose answer is worth
/// waiting for: when a server has just started, all its sessions may need the same data key at once.
pub fn claim(key_id: &KeyId) -> bool {
    let now = uptime();
    with_lock(sys::LW_EXCLUSIVE, |map| {
        // SAFETY: the lock is held exclusively.
        let claims = unsafe { &mut (*map).claims };
        if claims.iter().any(|claim| claim.key_id == *key_id && claim.until > now) {
            return false;
        }
        if let Some(free) = claims.iter_mut().find(|claim| claim.until <= now) {
            *free = Claim { key_id: *key_id, until: now + CLAIM_TIME.as_millis() as u64 };
        }
        true
    })
    .unwrap_or(true)
}

/// Gives a claim up.
pub fn disclaim(key_id: &KeyId) {
    with_lock(sys::LW_EXCLUSIVE, |map| {
        // SAFETY: the lock is held exclusively.
        let claims = unsafe { &mut (*map).claims };
        claims.iter_mut().filter(|claim| claim.key_id == *key_id).for_each(|claim| claim.until = 0);
    });
}

/// Milliseconds, the same for all processes.
fn uptime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills `time`; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Adds a data key, unless it is there.
pub fn publish(key_id: &KeyId, dek: &Key) {
    with_lock(sys::LW_EXCLUSIVE, |map| {
        // SAFETY: the lock is held exclusively; `next` is below the capacity, which is at least 1.
        unsafe {
            if entries(map).iter().all(|entry| entry.key_id != *key_id) {
                let place = (&raw mut (*map).entries).cast::<Entry>().add((*map).next);
                place.write(Entry { key_id: *key_id, dek: *dek });
                (*map).next = ((*map).next + 1) % (*map).capacity;
                (*map).used = ((*map).used + 1).min((*map).capacity);
            }
        }
    });
}

/// Entries in use, and how many there may be.
pub fn usage() -> (usize, usize) {
    // SAFETY: the lock is held.
    with_lock(sys::LW_SHARED, |map| unsafe { ((*map).used, (*map).capacity) }).unwrap_or((0, 0))
}

/// The entries in use.
///
/// # Safety
/// The lock must be held for `'a`.
unsafe fn entries<'a>(map: *mut Map) -> &'a [Entry] {
    // SAFETY: the caller's promise; `used` entries behind the header are filled.
    unsafe { core::slice::from_raw_parts((&raw const (*map).entries).cast(), (*map).used) }
}

/// Runs `body`, which raises nothing, under the lock. None if there is no shared memory.
fn with_lock<R>(mode: sys::LWLockMode, body: impl FnOnce(*mut Map) -> R) -> Option<R> {
    SEGMENT.with_lock(mode, |place| body(place.cast()))
}
