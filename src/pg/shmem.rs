//! Shared memory: segments that the library asks for when the server starts, each with a lock of its own.

use core::ffi::CStr;
use core::ptr;

use super::{sys, BackendCell};
use crate::pg_callback;

/// A segment of shared memory; a static of who uses it. Its lock's tranche has its name.
pub struct Segment {
    name: &'static CStr,
    /// Bytes; asked when configuration parameters are known.
    size: fn() -> usize,
    /// Fills new memory, that many bytes.
    init: unsafe fn(*mut u8),
    // set once by the postmaster (or a single-user backend) and inherited by each backend
    place: BackendCell<*mut u8>,
    lock: BackendCell<*mut sys::LWLock>,
}

impl Segment {
    pub const fn new(name: &'static CStr, size: fn() -> usize, init: unsafe fn(*mut u8)) -> Self {
        let (place, lock) = (BackendCell::new(ptr::null_mut()), BackendCell::new(ptr::null_mut()));
        Self { name, size, init, place, lock }
    }

    /// Runs `body`, which raises nothing, on the segment under its lock. None if there is no shared memory.
    pub fn with_lock<R>(&self, mode: sys::LWLockMode, body: impl FnOnce(*mut u8) -> R) -> Option<R> {
        let (place, lock) = (self.place.get(), self.lock.get());
        if place.is_null() || lock.is_null() {
            return None;
        }
        // SAFETY: a lock of the running server; nothing between acquire and release can raise.
        unsafe {
            sys::LWLockAcquire(lock, mode);
            let result = body(place);
            sys::LWLockRelease(lock);
            Some(result)
        }
    }
}

static SEGMENTS: BackendCell<&'static [&'static Segment]> = BackendCell::new(&[]);
static NEXT_REQUEST: BackendCell<sys::shmem_request_hook_type> = BackendCell::new(None);
static NEXT_STARTUP: BackendCell<sys::shmem_startup_hook_type> = BackendCell::new(None);

/// Hooks into the server's start. Called once, by `_PG_init`.
pub fn register(segments: &'static [&'static Segment]) {
    SEGMENTS.set(segments);
    // SAFETY: the postmaster is single-threaded and runs the hooks after all preloaded libraries are there.
    unsafe {
        NEXT_REQUEST.set(sys::shmem_request_hook);
        sys::shmem_request_hook = Some(request);
        NEXT_STARTUP.set(sys::shmem_startup_hook);
        sys::shmem_startup_hook = Some(startup);
    }
}

pg_callback! {
    fn request() {
        // SAFETY: the hook that was there before, and then what PostgreSQL allows in this hook.
        unsafe {
            if let Some(next) = NEXT_REQUEST.get() {
                next();
            }
            for segment in SEGMENTS.get() {
                sys::RequestAddinShmemSpace((segment.size)());
                sys::RequestNamedLWLockTranche(segment.name.as_ptr(), 1);
            }
        }
    }

    fn startup() {
        // SAFETY: shared memory exists; a new segment is ours alone until the lock is released.
        unsafe {
            if let Some(next) = NEXT_STARTUP.get() {
                next();
            }
            let addin_lock = sys::pgv_addin_shmem_init_lock();
            for segment in SEGMENTS.get() {
                sys::LWLockAcquire(addin_lock, sys::LW_EXCLUSIVE);
                let mut found = false;
                let place: *mut u8 =
                    sys::ShmemInitStruct(segment.name.as_ptr(), (segment.size)(), &mut found).cast();
                if !found {
                    (segment.init)(place);
                }
                sys::LWLockRelease(addin_lock);
                segment.place.set(place);
                segment.lock.set(&raw mut (*sys::GetNamedLWLockTranche(segment.name.as_ptr())).lock);
            }
        }
    }
}
