//! Where a streamed transaction comes from.
//!
//! Core takes the replication origin of a stream from the stream's first change, and a message has none. So when a stream
//! begins with messages of ours, which the inner plugin is not to notice, the origin has to come from the change behind
//! them.

use core::mem::offset_of;
use core::ptr;

use super::values;
use crate::pg::majors;
use crate::pg::sys::{self, LogicalDecodingContext, ReorderBufferChange, ReorderBufferTXN};

/// Sets `txn->origin_id` to what it would be without our messages.
///
/// # Safety
/// The arguments must be those of `stream_start`.
pub unsafe fn complete(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
    // SAFETY: the caller's promise; lists of the reorder buffer do not change meanwhile.
    unsafe {
        if u32::from((*txn).origin_id) != majors::NO_ORIGIN {
            return;
        }
        let mut first: *mut ReorderBufferChange = ptr::null_mut();
        // the record that was read last, in case that nothing but messages has come yet
        let record = (*(*ctx).reader).record;
        let mut is_its_record = false;
        for_each_transaction(txn, |part| {
            is_its_record |= !record.is_null() && (*record).header.xl_xid == (*part).xid;
            let change = first_change(part);
            if !change.is_null() && (first.is_null() || (*change).lsn < (*first).lsn) {
                first = change;
            }
        });
        if !first.is_null() {
            (*txn).origin_id = (*first).origin_id;
        } else if is_its_record {
            (*txn).origin_id = (*record).record_origin;
        }
    }
}

/// Calls `body` with the transaction and each sub-transaction of it.
unsafe fn for_each_transaction(txn: *mut ReorderBufferTXN, mut body: impl FnMut(*mut ReorderBufferTXN)) {
    // SAFETY: the list links `node` members of transactions, and ends where it begins.
    unsafe {
        body(txn);
        let head = &raw mut (*txn).subtxns.head;
        let mut node = (*head).next;
        while !node.is_null() && node != head {
            body(node.byte_sub(offset_of!(ReorderBufferTXN, node)).cast());
            node = (*node).next;
        }
    }
}

/// The first change of one (sub)transaction that is not a message of ours; null if there is none in memory.
unsafe fn first_change(txn: *mut ReorderBufferTXN) -> *mut ReorderBufferChange {
    // SAFETY: as for `for_each_transaction`; a message has a prefix.
    unsafe {
        let head = &raw mut (*txn).changes.head;
        let mut node = (*head).next;
        while !node.is_null() && node != head {
            let change: *mut ReorderBufferChange = node.byte_sub(offset_of!(ReorderBufferChange, node)).cast();
            let ours =
                (*change).action == sys::REORDER_BUFFER_CHANGE_MESSAGE && values::is_ours((*change).data.msg.prefix);
            if !ours {
                return change;
            }
            node = (*node).next;
        }
        ptr::null_mut()
    }
}
