//! What an UPDATE or DELETE means for HOT, lock strength and the replica identity, read from the decrypted rows: the
//! plaintext's side of `HeapDetermineColumnsInfo` and `ExtractReplicaIdentity` in heapam.c.

use core::ptr;

use super::row;
use super::shadow::Modified;
use crate::pg::memory::Scratch;
use crate::pg::tuple::{HeapTuple, HeapTupleData};
use crate::pg::{majors, memory, rel as relation, sys, BackendCell};

/// What heapam has to be told about an UPDATE.
#[derive(Clone, Copy)]
pub struct Changed {
    pub modified: Modified,
    /// core would log an old key or the old row
    pub log_old_row: bool,
}

/// Where the old row of an UPDATE is decrypted to; holds plaintext only during the comparison.
static OLD: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// Cleanses what an ERROR has left behind; called when a (sub)transaction aborts.
pub fn forget_old_row() {
    // SAFETY: nothing uses the block at that time.
    unsafe { (*OLD.as_ptr()).release() }
}

/// The index attribute bitmaps that matter to an UPDATE (copies, as `RelationGetIndexAttrBitmap` gives them).
struct Bitmaps {
    hot_blocking: *mut sys::Bitmapset,
    summarized: *mut sys::Bitmapset,
    key: *mut sys::Bitmapset,
    identity: *mut sys::Bitmapset,
}

impl Bitmaps {
    unsafe fn of(rel: sys::Relation, with_identity: bool) -> Self {
        // SAFETY: `rel` is open; the bitmaps are allocated in the current context.
        unsafe {
            Self {
                hot_blocking: sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_HOT_BLOCKING),
                summarized: sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_SUMMARIZED),
                key: sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_KEY),
                identity: if with_identity {
                    sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_IDENTITY_KEY)
                } else {
                    ptr::null_mut()
                },
            }
        }
    }

    fn all(&self) -> [*mut sys::Bitmapset; 4] {
        [self.hot_blocking, self.summarized, self.key, self.identity]
    }

    fn is_empty(&self) -> bool {
        self.all().iter().all(|set| set.is_null())
    }

    unsafe fn free(self) {
        for set in self.all() {
            // SAFETY: each set is a copy of ours, or null.
            unsafe { sys::bms_free(set) }
        }
    }
}

/// What the UPDATE of the row at `otid` to `new` changes. Reads and decrypts the old row unless nothing depends on it.
///
/// # Safety
/// `rel` must be open, `new` a plaintext tuple of its row type.
pub unsafe fn by_update(rel: sys::Relation, otid: sys::ItemPointer, new: HeapTuple) -> Changed {
    // SAFETY: the caller's promise.
    unsafe {
        let identity = (*(*rel).rd_rel).relreplident as u8;
        let logged = relation::is_logically_logged(rel);
        let by_key = logged && identity != sys::REPLICA_IDENTITY_FULL && identity != sys::REPLICA_IDENTITY_NOTHING;
        let mut changed = Changed {
            modified: Modified::default(),
            log_old_row: logged && identity == sys::REPLICA_IDENTITY_FULL,
        };
        let bitmaps = Bitmaps::of(rel, by_key);
        if !bitmaps.is_empty() {
            compare(rel, otid, new, &bitmaps, &mut changed);
        }
        bitmaps.free();
        changed
    }
}

unsafe fn compare(
    rel: sys::Relation,
    otid: sys::ItemPointer,
    new: HeapTuple,
    bitmaps: &Bitmaps,
    changed: &mut Changed,
) {
    // SAFETY: as for by_update. The old row is pinned while it is decrypted, not afterwards.
    unsafe {
        let mut stored = HeapTupleData { t_len: 0, t_self: *otid, t_tableOid: 0, t_data: ptr::null_mut() };
        let mut buffer = 0;
        if !sys::heap_fetch(rel, &raw mut sys::SnapshotAnyData, &mut stored, &mut buffer, false) {
            // heap_update() will say what is wrong with the row
            changed.modified = Modified { hot_blocking: true, summarized: true, key: true };
            return;
        }
        let size = row::open_size(stored.t_len);
        let block = (*OLD.as_ptr()).reserve(sys::TopMemoryContext, size);
        let old = row::open_into(relation::key_oid(rel), &mut stored, block);
        sys::ReleaseBuffer(buffer);

        let mut interesting = sys::bms_copy(bitmaps.hot_blocking);
        for set in &bitmaps.all()[1..] {
            interesting = sys::bms_add_members(interesting, *set);
        }
        let mut member = -1;
        loop {
            member = sys::bms_next_member(interesting, member);
            if member < 0 {
                break;
            }
            if is_modified(rel, old, new, member) {
                changed.modified.hot_blocking |= sys::bms_is_member(member, bitmaps.hot_blocking);
                changed.modified.summarized |= sys::bms_is_member(member, bitmaps.summarized);
                changed.modified.key |= sys::bms_is_member(member, bitmaps.key);
                changed.log_old_row |= sys::bms_is_member(member, bitmaps.identity);
            }
        }
        sys::bms_free(interesting);
        memory::cleanse(block.cast(), size);
    }
}

/// Whether an attribute of an index attribute bitmap differs, as heapam's `HeapDetermineColumnsInfo` sees it: whole-row
/// references always do, system attributes but tableoid too.
unsafe fn is_modified(rel: sys::Relation, old: HeapTuple, new: HeapTuple, member: i32) -> bool {
    let attnum = member + sys::FirstLowInvalidHeapAttributeNumber;
    if attnum <= 0 {
        return attnum != sys::TableOidAttributeNumber;
    }
    // SAFETY: both tuples are of rel's row type and attnum one of its attributes.
    unsafe {
        let desc = (*rel).rd_att;
        let (mut old_null, mut new_null) = (false, false);
        let old_value = sys::heap_getattr(old, attnum, desc, &mut old_null);
        let new_value = sys::heap_getattr(new, attnum, desc, &mut new_null);
        if old_null || new_null {
            return old_null != new_null;
        }
        let attribute = majors::attribute(desc, attnum as usize - 1);
        !sys::datumIsEqual(old_value, new_value, (*attribute).attbyval, (*attribute).attlen.into())
    }
}

/// Whether core would log an old key or the old row for a DELETE.
///
/// # Safety
/// `rel` must be open.
pub unsafe fn delete_logs_old_row(rel: sys::Relation) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if !relation::is_logically_logged(rel) {
            return false;
        }
        match (*(*rel).rd_rel).relreplident as u8 {
            sys::REPLICA_IDENTITY_FULL => true,
            sys::REPLICA_IDENTITY_NOTHING => false,
            _ => {
                let identity = sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_IDENTITY_KEY);
                let has_identity = !identity.is_null();
                sys::bms_free(identity);
                has_identity
            }
        }
    }
}
