//! The map in shared memory from key id to data key, so that one backend's call of a provider serves all.
//!
//! An entry never changes: a key id is random and names one data key for ever. Nothing in here says which key is
//! current; that is the key table's business. When the map is full, each backend asks the provider for itself.

use core::mem::size_of;

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

/// Followed by `capacity` entries, of which `used` are filled. All but `capacity` is protected by the lock.
#[repr(C)]
struct Map {
    capacity: usize,
    used: usize,
    entries: [Entry; 0],
}

/// To be registered by `_PG_init`.
pub static SEGMENT: Segment = Segment::new(c"pg_vault_tde", map_size, init);

fn map_size() -> usize {
    size_of::<Map>() + settings::key_cache_size() * size_of::<Entry>()
}

unsafe fn init(place: *mut u8) {
    // SAFETY: new memory of `map_size` bytes.
    unsafe { place.cast::<Map>().write(Map { capacity: settings::key_cache_size(), used: 0, entries: [] }) }
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

/// Adds a data key, unless it is there or the map is full.
pub fn publish(key_id: &KeyId, dek: &Key) {
    with_lock(sys::LW_EXCLUSIVE, |map| {
        // SAFETY: the lock is held exclusively, and there is room for the entry that is written.
        unsafe {
            if (*map).used < (*map).capacity && entries(map).iter().all(|entry| entry.key_id != *key_id) {
                let place = (&raw mut (*map).entries).cast::<Entry>().add((*map).used);
                place.write(Entry { key_id: *key_id, dek: *dek });
                (*map).used += 1;
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
