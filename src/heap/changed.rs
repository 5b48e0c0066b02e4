//! What an UPDATE or DELETE means for HOT, lock strength and the replica identity, read from the decrypted rows: the
//! plaintext's side of `HeapDetermineColumnsInfo` and `ExtractReplicaIdentity` in heapam.c.

use core::ptr;

use super::old::OldRow;
use crate::pg::shadow::Modified;
use crate::pg::tuple::HeapTuple;
use crate::pg::varlena::Varlena;
use crate::pg::{majors, rel as relation, sys, Datum};

/// The index attribute bitmaps of a relation that matter to an UPDATE or DELETE: copies, as
/// `RelationGetIndexAttrBitmap` gives them.
pub struct Bitmaps {
    hot_blocking: *mut sys::Bitmapset,
    summarized: *mut sys::Bitmapset,
    key: *mut sys::Bitmapset,
    /// Columns of the replica identity; empty if none is logged, or the whole row is.
    identity: *mut sys::Bitmapset,
    /// REPLICA IDENTITY FULL on a relation that is logically logged.
    whole_row: bool,
}

impl Bitmaps {
    /// What matters to a DELETE: the replica identity.
    ///
    /// # Safety
    /// `rel` must be open.
    pub unsafe fn of_identity(rel: sys::Relation) -> Self {
        let mut bitmaps = Self {
            hot_blocking: ptr::null_mut(),
            summarized: ptr::null_mut(),
            key: ptr::null_mut(),
            identity: ptr::null_mut(),
            whole_row: false,
        };
        // SAFETY: the caller's promise.
        unsafe {
            if relation::is_logically_logged(rel) {
                match (*(*rel).rd_rel).relreplident as u8 {
                    sys::REPLICA_IDENTITY_NOTHING => (),
                    sys::REPLICA_IDENTITY_FULL => bitmaps.whole_row = true,
                    _ => bitmaps.identity = sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_IDENTITY_KEY),
                }
            }
        }
        bitmaps
    }

    /// What matters to an UPDATE.
    ///
    /// # Safety
    /// `rel` must be open.
    pub unsafe fn of(rel: sys::Relation) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                hot_blocking: sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_HOT_BLOCKING),
                summarized: sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_SUMMARIZED),
                key: sys::RelationGetIndexAttrBitmap(rel, sys::INDEX_ATTR_BITMAP_KEY),
                ..Self::of_identity(rel)
            }
        }
    }

    fn all(&self) -> [*mut sys::Bitmapset; 4] {
        [self.hot_blocking, self.summarized, self.key, self.identity]
    }

    /// Whether an UPDATE has to compare any attribute.
    pub fn is_empty(&self) -> bool {
        self.all().iter().all(|set| set.is_null())
    }

    /// Whether core logs an old key or the old row for every DELETE.
    pub fn log_deletes(&self) -> bool {
        self.whole_row || !self.identity.is_null()
    }

    /// The columns whose old values decoders are given; null for all of them.
    pub fn identity(&self) -> *mut sys::Bitmapset {
        self.identity
    }

    /// Gives the copies back.
    ///
    /// # Safety
    /// Nothing may use them afterwards.
    pub unsafe fn free(self) {
        for set in self.all() {
            // SAFETY: each set is a copy of ours, or null.
            unsafe { sys::bms_free(set) }
        }
    }
}

/// What heapam has to be told about an UPDATE.
pub struct Changed {
    pub modified: Modified,
    /// core would log an old key or the old row
    pub log_old_row: bool,
}

/// What the UPDATE of `old` to `new` changes; both before the toaster has seen them, as core compares them.
///
/// # Safety
/// `rel` must be open, `new` and `old` plaintext of its row type, `bitmaps` its bitmaps.
pub unsafe fn by_update(rel: sys::Relation, old: &OldRow, new: HeapTuple, bitmaps: &Bitmaps) -> Changed {
    let mut changed = Changed { modified: Modified::default(), log_old_row: bitmaps.whole_row };
    if bitmaps.is_empty() {
        return changed;
    }
    if old.gone {
        // heap_update() will say what is wrong with the row
        changed.modified = Modified { hot_blocking: true, summarized: true, key: true };
        return changed;
    }
    // SAFETY: the caller's promise; the old row was decrypted, since the bitmaps are not empty.
    unsafe {
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
            match compare(rel, old.tuple, new, member) {
                Comparison::Modified => {
                    changed.modified.hot_blocking |= sys::bms_is_member(member, bitmaps.hot_blocking);
                    changed.modified.summarized |= sys::bms_is_member(member, bitmaps.summarized);
                    changed.modified.key |= sys::bms_is_member(member, bitmaps.key);
                    changed.log_old_row |= sys::bms_is_member(member, bitmaps.identity);
                }
                // the new row's WAL would not contain the key, so core logs the old one
                Comparison::SameOutOfLine => changed.log_old_row |= sys::bms_is_member(member, bitmaps.identity),
                Comparison::Same => (),
            }
        }
        sys::bms_free(interesting);
    }
    changed
}

enum Comparison {
    Modified,
    Same,
    SameOutOfLine,
}

/// How an attribute of an index attribute bitmap compares, as `HeapDetermineColumnsInfo` sees it: whole-row references
/// are always modified, system attributes but tableoid too.
unsafe fn compare(rel: sys::Relation, old: HeapTuple, new: HeapTuple, member: i32) -> Comparison {
    let attnum = member + sys::FirstLowInvalidHeapAttributeNumber;
    if attnum <= 0 {
        return if attnum == sys::TableOidAttributeNumber { Comparison::Same } else { Comparison::Modified };
    }
    // SAFETY: both tuples are of rel's row type and attnum one of its attributes.
    unsafe {
        let desc = (*rel).rd_att;
        let value_of = |row: HeapTuple| -> Option<Datum> {
            let mut isnull = false;
            let value = sys::heap_getattr(row, attnum, desc, &mut isnull);
            (!isnull).then_some(value)
        };
        let attribute = majors::attribute(desc, attnum as usize - 1);
        let (by_value, len) = ((*attribute).attbyval, (*attribute).attlen);
        match (value_of(old), value_of(new)) {
            (None, None) => Comparison::Same,
            (Some(a), Some(b)) if sys::datumIsEqual(a, b, by_value, len.into()) => {
                if len == -1 && Varlena::of(a).is_external() {
                    Comparison::SameOutOfLine
                } else {
                    Comparison::Same
                }
            }
            _ => Comparison::Modified,
        }
    }
}
