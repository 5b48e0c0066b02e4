//! Memory contexts.

use core::ffi::c_void;

use super::sys;

pub use sys::MemoryContext;

/// `MemoryContextSwitchTo()`: makes `context` current and returns the one that was.
#[inline]
pub fn switch_to(context: MemoryContext) -> MemoryContext {
    // SAFETY: CurrentMemoryContext is a plain variable of the backend.
    unsafe { core::ptr::replace(&raw mut sys::CurrentMemoryContext, context) }
}

/// `CurrentMemoryContext`
#[inline]
pub fn current() -> MemoryContext {
    // SAFETY: a plain variable of the backend.
    unsafe { sys::CurrentMemoryContext }
}

/// Runs `body` with `context` current. When `body` raises, PostgreSQL's handler sets the context, as always.
#[inline]
pub fn within<R>(context: MemoryContext, body: impl FnOnce() -> R) -> R {
    let old = switch_to(context);
    let result = body();
    switch_to(old);
    result
}

/// `AllocSetContextCreate()` with default sizes; `name` is a NUL-terminated literal.
pub fn new_context(parent: MemoryContext, name: &'static core::ffi::CStr) -> MemoryContext {
    // SAFETY: the name is static, as AllocSetContextCreateInternal demands.
    unsafe {
        sys::AllocSetContextCreateInternal(
            parent,
            name.as_ptr(),
            sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}

/// A C array as a slice; an empty one may be a null pointer.
///
/// # Safety
/// `at` must point to `len` values that stay in place and unchanged for `'a`, unless `len` is 0.
#[inline]
pub unsafe fn slice<'a, T>(at: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(at, len) }
}

/// Overwrites `len` bytes with zeros in a way that the compiler keeps.
///
/// # Safety
/// `at .. at + len` must be writable.
#[inline]
pub unsafe fn cleanse(at: *mut c_void, len: usize) {
    // SAFETY: the caller's promise; explicit_bzero is never optimised away.
    unsafe { libc::explicit_bzero(at, len) }
}

/// A block in `TopMemoryContext` or another long-lived context that grows and is reused: a scratch buffer whose address
/// changes only when it grows. Its content is cleansed before it is given back.
pub struct Scratch {
    data: *mut u8,
    capacity: usize,
}

impl Scratch {
    pub const fn new() -> Self {
        Self { data: core::ptr::null_mut(), capacity: 0 }
    }

    /// At least `len` writable bytes, MAXALIGNed, valid until the next call; allocated in `context` (always the same
    /// one for one Scratch). Raises ERROR when out of memory.
    #[inline]
    pub fn reserve(&mut self, context: MemoryContext, len: usize) -> *mut u8 {
        if len > self.capacity {
            self.grow(context, len);
        }
        self.data
    }

    /// The block that `reserve` gave last; null if none.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.data
    }

    #[cold]
    fn grow(&mut self, context: MemoryContext, len: usize) {
        let capacity = len.next_power_of_two().max(256);
        // allocate first: an ERROR here leaves the old block as it was
        // SAFETY: a live context of the backend.
        let data = unsafe { sys::MemoryContextAllocHuge(context, capacity) };
        self.release();
        self.data = data.cast();
        self.capacity = capacity;
    }

    /// Cleanses the block and gives it back.
    pub fn release(&mut self) {
        if !self.data.is_null() {
            // SAFETY: the block is ours and `capacity` bytes long.
            unsafe {
                cleanse(self.data.cast(), self.capacity);
                sys::pfree(self.data.cast());
            }
        }
        *self = Self::new();
    }
}
