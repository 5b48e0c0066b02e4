//! State of one backend. PostgreSQL backends are processes with one thread that runs PostgreSQL code, so a static needs
//! no lock; what it needs is that nobody holds a reference across a call that may come back to the same state.

use core::cell::UnsafeCell;

/// A static of one backend. The accessor hands out a raw pointer, so that each use says for how long it borrows.
pub struct BackendCell<T>(UnsafeCell<T>);

// SAFETY: only the backend's one thread ever runs code of this library (design: no thread of ours).
unsafe impl<T> Sync for BackendCell<T> {}

impl<T> BackendCell<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The place of the value. A reference made from it must not be live across a call that may re-enter its user.
    #[inline]
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Copy> BackendCell<T> {
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: one thread, and no reference outlives the statement that made it.
        unsafe { *self.0.get() }
    }

    #[inline]
    pub fn set(&self, value: T) {
        // SAFETY: as for `get`.
        unsafe { *self.0.get() = value }
    }
}
