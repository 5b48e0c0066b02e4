//! The map in shared memory from key id to data key, so that one backend's call of a provider serves all.
//!
//! A key id is random and names one data key for ever, so an entry is never wrong. Nothing in here says which key is
//! current; that is the key table's business. When the map is full, the oldest entry makes room: at worst a provider is
//! asked more often.

use core::ffi::CStr;
use core::mem::size_of;
use core::ptr;

use super::settings;
use crate::crypto::cipher::Key;
use crate::crypto::wrap::KeyId;
use crate::pg::{sys, BackendCell};
use crate::pg_callback;

/// Name of the shared memory segment and of the lock's tranche.
const NAME: &CStr = c"pg_vault_tde";

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    key_id: KeyId,
    dek: Key,
}

/// Followed by `capacity` entries, of which `used` are filled; `next` is the one to be filled next. All but `capacity` is
/// protected by the lock.
#[repr(C)]
struct Map {
    capacity: usize,
    used: usize,
    next: usize,
    entries: [Entry; 0],
}

// Set once by the postmaster (or a single-user backend) and inherited by each backend.
static MAP: BackendCell<*mut Map> = BackendCell::new(ptr::null_mut());
static LOCK: BackendCell<*mut sys::LWLock> = BackendCell::new(ptr::null_mut());
static NEXT_REQUEST: BackendCell<sys::shmem_request_hook_type> = BackendCell::new(None);
static NEXT_STARTUP: BackendCell<sys::shmem_startup_hook_type> = BackendCell::new(None);

/// Hooks into the server's start. Called once, by `_PG_init`.
pub fn register() {
    // SAFETY: the postmaster is single-threaded and runs the hooks after all preloaded libraries are there.
    unsafe {
        NEXT_REQUEST.set(sys::shmem_request_hook);
        sys::shmem_request_hook = Some(request);
        NEXT_STARTUP.set(sys::shmem_startup_hook);
        sys::shmem_startup_hook = Some(startup);
    }
}

fn map_size(capacity: usize) -> usize {
    size_of::<Map>() + capacity * size_of::<Entry>()
}

pg_callback! {
    fn request() {
        // SAFETY: the hook that was there before, and then what PostgreSQL allows in this hook.
        unsafe {
            if let Some(next) = NEXT_REQUEST.get() {
                next();
            }
            sys::RequestAddinShmemSpace(map_size(settings::key_cache_size()));
            sys::RequestNamedLWLockTranche(NAME.as_ptr(), 1);
        }
    }

    fn startup() {
        // SAFETY: shared memory exists; a new segment is ours alone until the lock is released.
        unsafe {
            if let Some(next) = NEXT_STARTUP.get() {
                next();
            }
            let addin_lock = sys::pgv_addin_shmem_init_lock();
            sys::LWLockAcquire(addin_lock, sys::LW_EXCLUSIVE);
            let capacity = settings::key_cache_size();
            let mut found = false;
            let map: *mut Map = sys::ShmemInitStruct(NAME.as_ptr(), map_size(capacity), &mut found).cast();
            if !found {
                (*map).capacity = capacity;
                (*map).used = 0;
                (*map).next = 0;
            }
            sys::LWLockRelease(addin_lock);
            MAP.set(map);
            LOCK.set(&raw mut (*sys::GetNamedLWLockTranche(NAME.as_ptr())).lock);
        }
    }
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
    let (map, lock) = (MAP.get(), LOCK.get());
    if map.is_null() || lock.is_null() {
        return None;
    }
    // SAFETY: a lock of the running server; nothing between acquire and release can raise.
    unsafe {
        sys::LWLockAcquire(lock, mode);
        let result = body(map);
        sys::LWLockRelease(lock);
        Some(result)
    }
}
