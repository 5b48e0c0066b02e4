//! A transaction as core presents it to the callbacks.

use core::ffi::{c_char, c_void};
use core::ptr;

use crate::pg::majors;
use crate::pg::sys::{self, ReorderBufferTXN, TimestampTz, TransactionId, XLogRecPtr};

/// Whether the transaction, or its current stream, has sent a line: what `skip-empty-xacts` asks. The two bits are kept
/// in the value of `txn->output_plugin_private` itself, so there is nothing to allocate, to free, or to leak with a
/// transaction that never ends. (An inner plugin has that member to itself: the text format does not run then.)
const XACT_WROTE: usize = 1;
const STREAM_WROTE: usize = 2;

#[derive(Clone, Copy)]
pub struct Txn(*mut ReorderBufferTXN);

impl Txn {
    /// # Safety
    /// `txn` must be the transaction that the running callback was called with; the value must not outlive the
    /// callback.
    #[inline]
    pub unsafe fn of(txn: *mut ReorderBufferTXN) -> Self {
        Self(txn)
    }

    #[inline]
    pub fn xid(self) -> TransactionId {
        // SAFETY: `of` was promised a live transaction.
        unsafe { (*self.0).xid }
    }

    /// The name of a prepared transaction; null if it is none.
    pub fn gid(self) -> *const c_char {
        // SAFETY: as for `xid`.
        unsafe { (*self.0).gid }
    }

    pub fn commit_time(self) -> TimestampTz {
        // SAFETY: as for `xid`.
        unsafe { majors::transaction_time(self.0) }
    }

    pub fn prepare_time(self) -> TimestampTz {
        self.commit_time()
    }

    /// Where the record of its end is that is being decoded, or was the last one read of a transaction in progress.
    pub fn final_lsn(self) -> XLogRecPtr {
        // SAFETY: as for `xid`.
        unsafe { (*self.0).final_lsn }
    }

    /// Where the record behind that begins.
    pub fn end_lsn(self) -> XLogRecPtr {
        // SAFETY: as for `xid`.
        unsafe { (*self.0).end_lsn }
    }

    /// `rbtxn_is_toptxn()`
    pub fn is_top(self) -> bool {
        // SAFETY: as for `xid`.
        unsafe { (*self.0).toptxn.is_null() }
    }

    /// `rbtxn_get_toptxn()`: where the bits of a sub-transaction are.
    pub fn top(self) -> Self {
        if self.is_top() {
            return self;
        }
        // SAFETY: as for `xid`; the top transaction lives at least as long.
        Self(unsafe { (*self.0).toptxn })
    }

    #[inline]
    fn bits(self) -> usize {
        // SAFETY: as for `xid`.
        unsafe { (*self.0).output_plugin_private.addr() }
    }

    #[inline]
    fn set_bits(self, bits: usize) {
        // SAFETY: as for `xid`; core only hands the member back to us.
        unsafe { (*self.0).output_plugin_private = ptr::without_provenance_mut::<c_void>(bits) }
    }

    /// The transaction has sent nothing yet, or is over.
    pub fn clear(self) {
        self.set_bits(0);
    }

    /// A stream starts, and has sent nothing yet.
    pub fn clear_stream(self) {
        self.set_bits(self.bits() & !STREAM_WROTE);
    }

    /// Whether the transaction has sent a line.
    #[inline]
    pub fn wrote(self) -> bool {
        self.bits() & XACT_WROTE != 0
    }

    #[inline]
    pub fn mark_wrote(self) {
        self.set_bits(self.bits() | XACT_WROTE);
    }

    /// Whether the current stream has sent a line.
    #[inline]
    pub fn stream_wrote(self) -> bool {
        self.bits() & STREAM_WROTE != 0
    }

    #[inline]
    pub fn mark_stream_wrote(self) {
        self.set_bits(self.bits() | XACT_WROTE | STREAM_WROTE);
    }
}

/// What a change is: the part of `ReorderBufferChange` that the format and the swap both ask for.
///
/// # Safety
/// `change` must be the change that the running callback was called with.
pub unsafe fn is_dml(change: *const sys::ReorderBufferChange) -> bool {
    // SAFETY: the caller's promise.
    let action = unsafe { (*change).action };
    matches!(
        action,
        sys::REORDER_BUFFER_CHANGE_INSERT | sys::REORDER_BUFFER_CHANGE_UPDATE | sys::REORDER_BUFFER_CHANGE_DELETE
    )
}
