//! Re-encryption of one page.

use super::stored::{self, Stored, Target};
use crate::keys::{self, OpenError};
use crate::pg::error::DATA_CORRUPTED;
use crate::pg::page::{self, Item, PageCopy, Place, PAGE_SIZE};
use crate::pg::{majors, rel as relation, sys, BackendCell};
use crate::pg_error;

/// `MaxHeapTuplesPerPage`
pub const MAX_ITEMS: usize = 291;

/// What became of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing on it is of an older generation any more; so many tuples were.
    Done(u64),
    /// Somebody is using it, or it has changed meanwhile.
    Busy,
}

/// Memory for the work on pages.
#[derive(Clone, Copy)]
pub struct Work {
    /// The page as it was read.
    before: PageCopy,
    /// The same with the ciphertext exchanged.
    after: PageCopy,
    /// A form sealed again.
    sealed: PageCopy,
    strategy: sys::BufferAccessStrategy,
    oldest_xmin: sys::TransactionId,
}

/// Line pointers of the tuples that are exchanged.
static CHANGED: BackendCell<[u16; MAX_ITEMS]> = BackendCell::new([0; MAX_ITEMS]);

impl Work {
    /// For pages of the relation; in the current memory context.
    ///
    /// # Safety
    /// In a transaction, with `target`'s relation open.
    pub unsafe fn new(target: &Target) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                before: PageCopy::new(),
                after: PageCopy::new(),
                sealed: PageCopy::new(),
                strategy: sys::GetAccessStrategy(sys::BAS_VACUUM),
                oldest_xmin: sys::GetOldestNonRemovableTransactionId(target.rel),
            }
        }
    }

    /// Re-encrypts what on the page is not of the current generation. Takes no lock for longer than copying a page takes.
    /// Raises ERRCODE_DATA_CORRUPTED for a row that cannot be read (and that anybody could see), and the errors of the
    /// key provider.
    ///
    /// # Safety
    /// In a transaction; `block` must be a block of the target's relation. The keys must be prepared
    /// (`keys::prepare`), and the current generation committed.
    pub unsafe fn page(&self, target: &Target, block: u32) -> Outcome {
        // SAFETY: the caller's promises; the buffer is pinned until the end.
        unsafe {
            let main = sys::MAIN_FORKNUM;
            let buffer = sys::ReadBufferExtended(target.rel, main, block, sys::RBM_NORMAL, self.strategy);
            majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
            self.before.take(buffer);
            majors::lock_buffer(buffer, sys::BUFFER_LOCK_UNLOCK);

            let place = Place { table_oid: relation::oid(target.rel), block };
            let changed = self.reseal(target, place, buffer);
            if changed.is_empty() {
                sys::ReleaseBuffer(buffer);
                return Outcome::Done(0);
            }
            if !sys::ConditionalLockBufferForCleanup(buffer) {
                sys::ReleaseBuffer(buffer);
                return Outcome::Busy;
            }
            let mut exchanged = 0;
            page::replace(target.rel, buffer, |now| {
                exchanged = self.exchange(target, place, changed, now);
                exchanged > 0
            });
            sys::UnlockReleaseBuffer(buffer);
            if exchanged == changed.len() {
                Outcome::Done(exchanged as u64)
            } else {
                Outcome::Busy
            }
        }
    }

    /// Seals anew, in `after`, what is not of the current generation; returns the line pointers.
    unsafe fn reseal(&self, target: &Target, place: Place, buffer: sys::Buffer) -> &'static [u16] {
        // SAFETY: as for `page`; the list has room for the line pointers of a page.
        unsafe {
            let changed = &mut *CHANGED.as_ptr();
            let mut count = 0;
            let current = keys::current_generation();
            self.after.take_copy(self.before);
            for offset in 1..=self.before.items() {
                let mut tuple = match self.before.item(offset, place) {
                    Item::None => continue,
                    Item::Tuple(tuple) => tuple,
                    Item::Damaged => raise_damaged(target, place, offset),
                };
                let found = target.locate(&mut tuple).and_then(|s| Some((s, target.generation_byte(&s)?)));
                let Some((stored, byte)) = found else {
                    self.raise_unless_dead(target, place, offset, buffer, OpenError::NotEncrypted);
                    continue;
                };
                if keys::only_generation(byte).is_some_and(|only| Some(only) == current) {
                    continue;
                }
                match target.open(&stored) {
                    Ok(opened) => {
                        if Some(opened.generation) != current {
                            self.seal(target, place, offset, &stored, &opened);
                            if let Some(entry) = changed.get_mut(count) {
                                *entry = offset;
                                count += 1;
                            }
                        }
                        stored::cleanse(opened.len);
                    }
                    Err(problem) => self.raise_unless_dead(target, place, offset, buffer, problem),
                }
            }
            &changed[..count]
        }
    }

    /// Puts the form, sealed under the current generation, into `after`.
    unsafe fn seal(&self, target: &Target, place: Place, offset: u16, stored: &Stored, opened: &keys::Opened) {
        // SAFETY: `after` is a copy of `before`, so the form is in the same place there.
        unsafe {
            target.seal(stored, opened, self.sealed.as_ptr());
            let Some(copy) = located(target, self.after.as_ptr(), place, offset) else { return };
            let sealed = core::slice::from_raw_parts(self.sealed.as_ptr(), stored.bytes().len());
            copy.set_cipher(&sealed[stored.fixed()..]);
        }
    }

    /// Exchanges the ciphertext of the tuples `changed` on the page itself, where it is still what was read. Returns how
    /// many. Neither allocates nor raises.
    unsafe fn exchange(&self, target: &Target, place: Place, changed: &[u16], now: *mut u8) -> usize {
        let mut exchanged = 0;
        for &offset in changed {
            // SAFETY: pages in memory; the one in the buffer is locked exclusively.
            unsafe {
                let found = (
                    located(target, self.before.as_ptr(), place, offset),
                    located(target, self.after.as_ptr(), place, offset),
                );
                let (Some(before), Some(after)) = found else { continue };
                if offset > page::items_of(now) {
                    continue;
                }
                let Some(there) = located(target, now, place, offset) else { continue };
                if there.cipher() == before.cipher() && there.chunk == before.chunk {
                    there.set_cipher(after.cipher());
                    exchanged += 1;
                }
            }
        }
        exchanged
    }

    /// A tuple that cannot be read is of no interest if nobody can see it: it was perhaps written by a transaction that
    /// made a generation, and failed.
    unsafe fn raise_unless_dead(
        &self,
        target: &Target,
        place: Place,
        offset: u16,
        buffer: sys::Buffer,
        problem: OpenError,
    ) {
        // SAFETY: the buffer is pinned; HeapTupleSatisfiesVacuum wants the content lock.
        unsafe {
            if is_dead(place, offset, buffer, self.oldest_xmin) {
                return;
            }
            target.note_failure();
            let name = relation::name(target.rel);
            let block = place.block;
            match problem {
                OpenError::UnknownGeneration(byte) => pg_error!(
                    DATA_CORRUPTED,
                    "tuple ({block},{offset}) of relation \"{name}\" was encrypted with a key that this database does not have";
                    detail: ("It names the key generation whose number ends in {byte} (modulo 256).");
                    hint: ("Run vault_tde.verify() to find all such rows.")
                ),
                _ => pg_error!(
                    DATA_CORRUPTED, "could not decrypt tuple ({block},{offset}) of relation \"{name}\"";
                    hint: ("Run vault_tde.verify() to find all such rows.")
                ),
            }
        }
    }
}

/// Whether no transaction can see the tuple any more, or none ever could. False if it is not there.
///
/// # Safety
/// `buffer` must be pinned, not locked.
pub unsafe fn is_dead(place: Place, offset: u16, buffer: sys::Buffer, oldest_xmin: sys::TransactionId) -> bool {
    // SAFETY: the caller's promise; the page is looked at under the content lock.
    unsafe {
        majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
        let now = page::page_of(buffer);
        let dead = match (offset <= page::items_of(now)).then(|| page::item_of(now, offset, place)) {
            Some(Item::Tuple(mut tuple)) => {
                sys::HeapTupleSatisfiesVacuum(&mut tuple, oldest_xmin, buffer) == sys::HEAPTUPLE_DEAD
            }
            // pruned since it was read
            Some(Item::None) | None => true,
            Some(Item::Damaged) => false,
        };
        majors::lock_buffer(buffer, sys::BUFFER_LOCK_UNLOCK);
        dead
    }
}

/// The form in the tuple `offset` of a page in memory.
unsafe fn located(target: &Target, page: *mut u8, place: Place, offset: u16) -> Option<Stored> {
    // SAFETY: the caller's promise; `offset` is a line pointer of the page.
    unsafe {
        match page::item_of(page, offset, place) {
            Item::Tuple(mut tuple) => target.locate(&mut tuple).filter(|s| s.bytes().len() <= PAGE_SIZE),
            _ => None,
        }
    }
}

#[cold]
fn raise_damaged(target: &Target, place: Place, offset: u16) -> ! {
    // SAFETY: the relation is open.
    let name = unsafe { relation::name(target.rel) };
    let block = place.block;
    pg_error!(DATA_CORRUPTED, "line pointer {offset} of page {block} of relation \"{name}\" is damaged")
}
