//! Which key generations a relation's tuples are of. Reads every page; decrypts only where a generation byte stands for
//! more than one generation of the ring, which takes more than 256 rotations.

use super::relations;
use super::stored::{self, Target};
use crate::index::upkeep::Index;
use crate::keys;
use crate::pg::fmgr::{put_row, Call};
use crate::pg::page::{Item, PageCopy, Place};
use crate::pg::{check_for_interrupts, majors, rel as relation, sys, Datum, Oid};

/// How many tuples are of each generation, in palloc'd memory.
pub struct Census {
    entries: *mut (i32, i64),
    used: usize,
    capacity: usize,
    /// Tuples whose generation could not be told: damaged, or of a key that is not there.
    pub unknown: i64,
}

impl Census {
    unsafe fn new() -> Self {
        let capacity = 16;
        Self {
            // SAFETY: palloc never returns null.
            entries: unsafe { sys::palloc(capacity * size_of::<(i32, i64)>()).cast() },
            used: 0,
            capacity,
            unknown: 0,
        }
    }

    /// Generation and number of tuples.
    pub fn entries(&self) -> &[(i32, i64)] {
        // SAFETY: `used` entries are set.
        unsafe { core::slice::from_raw_parts(self.entries, self.used) }
    }

    /// Rows of the result of `call`.
    unsafe fn put(&self, call: Call, oid: Oid) {
        // SAFETY: the result has these columns.
        unsafe {
            for &(generation, tuples) in self.entries() {
                put_row(call.0, &mut [oid as Datum, generation as Datum, tuples as Datum], &mut [false; 3]);
            }
            if self.unknown > 0 {
                let values = &mut [oid as Datum, 0, self.unknown as Datum];
                put_row(call.0, values, &mut [false, true, false]);
            }
        }
    }

    pub fn count(&self, generation: i32) -> i64 {
        self.entries().iter().find(|entry| entry.0 == generation).map_or(0, |entry| entry.1)
    }

    unsafe fn add(&mut self, generation: i32) {
        // SAFETY: the array is grown before it is full.
        unsafe {
            for i in 0..self.used {
                let entry = &mut *self.entries.add(i);
                if entry.0 == generation {
                    entry.1 += 1;
                    return;
                }
            }
            if self.used == self.capacity {
                self.capacity *= 2;
                self.entries = sys::repalloc(self.entries.cast(), self.capacity * size_of::<(i32, i64)>()).cast();
            }
            self.entries.add(self.used).write((generation, 1));
            self.used += 1;
        }
    }
}

/// Counts the tuples of an open relation by generation, those that nobody can see any more included. In the current memory
/// context.
///
/// # Safety
/// In a transaction; `target`'s relation must be open.
pub unsafe fn take(target: &Target) -> Census {
    // SAFETY: the caller's promise; each page is copied under its lock.
    unsafe {
        let mut census = Census::new();
        let copy = PageCopy::new();
        let strategy = sys::GetAccessStrategy(sys::BAS_VACUUM);
        let main = sys::MAIN_FORKNUM;
        for block in 0..sys::RelationGetNumberOfBlocksInFork(target.rel, main) {
            check_for_interrupts();
            let buffer = sys::ReadBufferExtended(target.rel, main, block, sys::RBM_NORMAL, strategy);
            majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
            copy.take(buffer);
            sys::UnlockReleaseBuffer(buffer);
            let place = Place { table_oid: relation::oid(target.rel), block };
            for offset in 1..=copy.items() {
                match copy.item(offset, place) {
                    Item::None => (),
                    Item::Damaged => census.unknown += 1,
                    Item::Tuple(mut tuple) => match generation(target, &mut tuple) {
                        Some(generation) => census.add(generation),
                        None => census.unknown += 1,
                    },
                }
            }
        }
        census
    }
}

unsafe fn generation(target: &Target, tuple: sys::HeapTuple) -> Option<i32> {
    // SAFETY: a tuple of the relation.
    unsafe {
        let stored = target.locate(tuple)?;
        let byte = target.generation_byte(&stored)?;
        keys::only_generation(byte).or_else(|| {
            let opened = target.open(&stored).ok()?;
            stored::cleanse(opened.len);
            Some(opened.generation)
        })
    }
}

/// As [`take`], of the keys of an encrypted index; None if it is gone, or a temporary one of another session (then
/// `other_temp` is set).
///
/// # Safety
/// In a transaction.
pub unsafe fn take_index(oid: Oid, other_temp: &mut bool) -> Option<Census> {
    // SAFETY: the caller's promise.
    unsafe {
        let lock = sys::AccessShareLock;
        let Some(index) = Index::open(oid, lock) else {
            let rel = sys::try_relation_open(oid, lock as i32);
            *other_temp = !rel.is_null() && relation::is_other_temp(rel);
            if !rel.is_null() {
                sys::relation_close(rel, lock as i32);
            }
            return None;
        };
        let mut census = Census::new();
        index.generations(|generation| match generation {
            Some(generation) => census.add(generation),
            None => census.unknown += 1,
        });
        index.close(lock);
        Some(census)
    }
}

/// Opens an encrypted relation for reading its pages. None if it is gone, not encrypted any more, or a temporary one of
/// another session, whose pages cannot be read (then `other_temp` is set).
///
/// # Safety
/// In a transaction.
pub unsafe fn open(oid: Oid, other_temp: &mut bool) -> Option<Target> {
    // SAFETY: the caller's promise.
    unsafe {
        let lock = sys::AccessShareLock as i32;
        let rel = sys::try_relation_open(oid, lock);
        if rel.is_null() {
            return None;
        }
        *other_temp = relation::is_other_temp(rel);
        let target = if *other_temp { None } else { Target::of(rel) };
        if target.is_none() {
            sys::relation_close(rel, lock);
        }
        target
    }
}

/// The rows of `vault_tde.generations_in_use()`: relation, generation, tuples (of an index,
/// keys).
///
/// # Safety
/// `call` must be that of the function, made ready by InitMaterializedSRF.
pub unsafe fn report(call: Call) {
    // SAFETY: in a transaction; the result has these columns.
    unsafe {
        keys::refresh();
        for &oid in relations::all() {
            let mut other_temp = false;
            let Some(target) = open(oid, &mut other_temp) else { continue };
            let census = take(&target);
            sys::relation_close(target.rel, sys::AccessShareLock as i32);
            census.put(call, oid);
        }
        for &oid in relations::indexes(None) {
            if let Some(census) = take_index(oid, &mut false) {
                census.put(call, oid);
            }
        }
    }
}
