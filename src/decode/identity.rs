//! The old row of an UPDATE or DELETE, cut down to what heap would have logged.
//!
//! For an encrypted table the writer logs the whole stored row whenever heap would log an old key, since heap cannot
//! pick columns out of ciphertext. So the work of `ExtractReplicaIdentity()` (heapam.c) is left to do here, on
//! plaintext.

use core::mem::size_of_val;

use crate::pg::memory::cleanse;
use crate::pg::rel::Relation;
use crate::pg::sys;
use crate::pg::tuple::{self, HeapTuple};

/// The tuple that heap would have logged for the decrypted `row`: the row itself under REPLICA IDENTITY FULL; a new
/// tuple in the current memory context, with the identity's columns and all others NULL, under DEFAULT and INDEX; null
/// where there is no identity.
///
/// All is read from `relation` as decoded, so the identity is the one that the writer saw. Its columns are asked of
/// `RelationGetIdentityKeyBitmap`, which is made for a historic snapshot, as `RelationGetIndexAttrBitmap` is not.
///
/// # Safety
/// In `change`, with the relation it was called for; `row` must be a tuple of that relation.
pub unsafe fn project(relation: Relation, row: HeapTuple) -> HeapTuple {
    // SAFETY: rd_rel and rd_att of an open relation are set; a historic snapshot is active in `change`.
    unsafe {
        match (*(*relation).rd_rel).relreplident as u8 {
            sys::REPLICA_IDENTITY_FULL => return row,
            sys::REPLICA_IDENTITY_NOTHING => return core::ptr::null_mut(),
            _ => {}
        }
        // null for the empty set, as all sets of columns; already in the current context
        let identity = sys::RelationGetIdentityKeyBitmap(relation);
        if identity.is_null() {
            return core::ptr::null_mut();
        }

        let columns = (*relation).rd_att;
        let (values, nulls) = tuple::deform(row, columns);
        for (i, null) in nulls.iter_mut().enumerate() {
            // attribute numbers count from 1 and are offset in such sets; dropped columns are never members
            let member = i as i32 + 1 - sys::FirstLowInvalidHeapAttributeNumber;
            if !sys::bms_is_member(member, identity) {
                *null = true;
            }
        }
        let key = sys::heap_form_tuple(columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        cleanse(values.as_mut_ptr().cast(), size_of_val(values));
        key
    }
}
