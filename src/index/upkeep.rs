//! Upkeep of encrypted indexes: which key generations their keys are of, and re-encryption under the current one.
//!
//! A key is as long under one data key as under another, and its place in the tree depends on its plaintext only. So keys are
//! re-encrypted in place, a page at a time, under the page's exclusive lock: nothing reads keys on a page without a lock, so no
//! cleanup lock is needed. The page is logged whole, which recovery replays without knowing of us.

use super::column::Column;
use super::inner::{self, Entered};
use super::pages::{self, Damaged, Found};
use crate::crypto::key;
use crate::keys;
use crate::pg::error::DATA_CORRUPTED;
use crate::pg::page::{page_of, PageCopy, PAGE_SIZE};
use crate::pg::{check_for_interrupts, majors, memory, rel as relation, sys, Oid};
use crate::pg_error;

/// Most keys on a page: each takes more than 40 bytes.
const MAX_KEYS: usize = PAGE_SIZE / 40;

/// An open encrypted index.
pub struct Index {
    pub rel: sys::Relation,
    entered: Entered,
}

impl Index {
    /// Opens an index with `lock`; None if it is gone, or not of `encrypted_btree`.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn open(oid: Oid, lock: u32) -> Option<Index> {
        // SAFETY: the caller's promise.
        unsafe {
            let rel = sys::try_relation_open(oid, lock as i32);
            if rel.is_null() {
                return None;
            }
            if !super::is_encrypted(rel) || relation::is_other_temp(rel) {
                sys::relation_close(rel, lock as i32);
                return None;
            }
            let entered = inner::enter(rel);
            Some(Index { rel, entered })
        }
    }

    /// Closes it, and keeps `lock` until the transaction ends, or gives it up.
    ///
    /// # Safety
    /// `lock` must be NoLock or the one that it was opened with.
    pub unsafe fn close(self, lock: u32) {
        self.entered.leave();
        // SAFETY: opened by `open`.
        unsafe { sys::relation_close(self.rel, lock as i32) }
    }

    fn ncolumns(&self) -> usize {
        // SAFETY: inner indexes are never freed.
        unsafe { (*self.entered.index).ncolumns() }
    }

    /// The column that a key was found in.
    pub fn column(&self, found: &Found) -> *mut Column {
        // SAFETY: as above; `for_each_key` finds no more columns than there are.
        unsafe { (*self.entered.index).column(found.column) }
    }

    /// A column, numbered from 0.
    pub fn column_at(&self, i: usize) -> *mut Column {
        // SAFETY: as above.
        unsafe { (*self.entered.index).column(i) }
    }

    /// Blocks of the index.
    pub fn blocks(&self) -> u32 {
        // SAFETY: an open relation.
        unsafe { sys::RelationGetNumberOfBlocksInFork(self.rel, sys::MAIN_FORKNUM) }
    }

    /// Calls `body` with each key of the page `block`, as it was copied to `copy`.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn keys_of(
        &self,
        block: u32,
        copy: PageCopy,
        strategy: sys::BufferAccessStrategy,
        mut body: impl FnMut(Found, &[u8]),
    ) -> Result<(), Damaged> {
        // SAFETY: the caller's promise; the page is copied under its lock.
        unsafe {
            let buffer = sys::ReadBufferExtended(self.rel, sys::MAIN_FORKNUM, block, sys::RBM_NORMAL, strategy);
            majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
            copy.take(buffer);
            sys::UnlockReleaseBuffer(buffer);
            let page = pages::page_at(copy.as_ptr());
            pages::for_each_key(page, self.ncolumns(), |found| body(found, &page[found.at..found.at + found.len]))
        }
    }

    /// Calls `body` with the generation of each key, or None if it cannot be told.
    ///
    /// # Safety
    /// In a transaction, with the keys up to date (`keys::refresh`).
    pub unsafe fn generations(&self, mut body: impl FnMut(Option<i32>)) {
        // SAFETY: the caller's promise.
        unsafe {
            let copy = PageCopy::new();
            let strategy = sys::GetAccessStrategy(sys::BAS_VACUUM);
            for block in 1..self.blocks() {
                check_for_interrupts();
                let whole = self.keys_of(block, copy, strategy, |found, stored| {
                    let only = key::generation_byte(stored).and_then(keys::only_generation);
                    body(only.or_else(|| (*self.column(&found)).generation(stored).ok()));
                });
                if whole.is_err() {
                    body(None);
                }
            }
        }
    }

    /// Re-encrypts what is not of the current generation on the pages from `block` on, until about `batch` keys were.
    /// Returns the block to go on with and how many keys were re-encrypted.
    ///
    /// # Safety
    /// In a transaction; opened with RowExclusiveLock or stronger; the current generation must be committed.
    pub unsafe fn reencrypt(&self, mut block: u32, batch: u32) -> (u32, u64) {
        // SAFETY: the caller's promise.
        unsafe {
            keys::prepare();
            keys::prepare_to_open();
            let (copy, mut done) = (PageCopy::new(), 0);
            let places = sys::palloc(MAX_KEYS * size_of::<Found>()).cast();
            let strategy = sys::GetAccessStrategy(sys::BAS_VACUUM);
            while block < self.blocks() && done < u64::from(batch) {
                check_for_interrupts();
                done += self.reencrypt_page(block, copy, strategy, places);
                block += 1;
            }
            sys::pfree(places.cast());
            (block, done)
        }
    }

    unsafe fn reencrypt_page(
        &self,
        block: u32,
        copy: PageCopy,
        strategy: sys::BufferAccessStrategy,
        places: *mut Found,
    ) -> u64 {
        let current = keys::current_generation();
        let mut count = 0;
        let old = |_: Found, stored: &[u8]| {
            let byte = key::generation_byte(stored);
            byte.and_then(keys::only_generation).is_none_or(|only| Some(only) != current)
        };
        // SAFETY: as for `reencrypt`. What is changed under the exclusive lock are the bytes of keys, by others of the same length.
        unsafe {
            let mut any = false;
            if self.keys_of(block, copy, strategy, |found, stored| any |= old(found, stored)).is_err() {
                raise_damaged(self.rel, block);
            }
            if !any {
                return 0;
            }
            let buffer = sys::ReadBufferExtended(self.rel, sys::MAIN_FORKNUM, block, sys::RBM_NORMAL, strategy);
            majors::lock_buffer(buffer, sys::BUFFER_LOCK_EXCLUSIVE);
            copy.take(buffer);
            let page = pages::page_at(page_of(buffer));
            let whole = pages::for_each_key(page, self.ncolumns(), |found| {
                let stored = &page[found.at..found.at + found.len];
                if old(found, stored)
                    && count < MAX_KEYS
                    && (*self.column(&found)).reseal(stored, copy.as_ptr().add(found.at), current)
                {
                    places.add(count).write(found);
                    count += 1;
                }
            });
            if whole.is_err() {
                raise_damaged(self.rel, block);
            }
            if count > 0 {
                sys::CritSectionCount += 1;
                for found in memory::slice(places.cast_const(), count) {
                    core::ptr::copy_nonoverlapping(
                        copy.as_ptr().add(found.at),
                        page_of(buffer).add(found.at),
                        found.len,
                    );
                }
                sys::MarkBufferDirty(buffer);
                if relation::needs_wal(self.rel) {
                    sys::log_newpage_buffer(buffer, true);
                }
                sys::CritSectionCount -= 1;
            }
            sys::UnlockReleaseBuffer(buffer);
            count as u64
        }
    }
}

#[cold]
unsafe fn raise_damaged(rel: sys::Relation, block: u32) -> ! {
    // SAFETY: an open relation.
    let name = unsafe { relation::name(rel) };
    pg_error!(DATA_CORRUPTED, "block {block} of index \"{name}\" does not have the form of an index page";
        hint: ("Please REINDEX it."))
}
