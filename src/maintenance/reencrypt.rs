//! `CALL vault_tde.reencrypt()`: rows, out-of-line values and indexes of older generations, in batches that are each a
//! transaction.

use core::ptr;

use super::progress::{self, Phase, Run};
use super::relations;
use super::reseal::{Outcome, Work};
use super::stored::{Kind, Target};
use crate::index::upkeep::Index;
use crate::keys;
use crate::pg::error::OBJECT_IN_USE;
use crate::pg::fmgr::str_of;
use crate::pg::{check_for_interrupts, memory, rel as relation, sys, Oid, INVALID_OID};
use crate::pg_error;

/// Attempts at the pages that other sessions have in use, with growing pauses: half a minute in all.
const ATTEMPTS: u32 = 40;
/// The longest pause, in microseconds.
const LONGEST_PAUSE: u32 = 1_000_000;
/// So many pages in use are remembered; should there be more, they are found by looking at all pages again.
const MAX_BUSY: usize = 1024;

/// Re-encrypts under the current key what of the table, of its out-of-line values and of its partitions and children is
/// under older ones. Commits first, and after each `batch_size` rows. Raises an ERROR if pages stay in use, with the rest
/// done; it may then be called again.
///
/// # Safety
/// In a procedure that may commit, connected to SPI as such; without open relations.
pub unsafe fn reencrypt(oid: Oid, batch_size: u32) {
    // SAFETY: the caller's promise. The list is in SPI's memory, which outlives the commits.
    unsafe {
        let relations = relations::with_children(oid);
        // whatever this transaction has done becomes permanent before anything is done that cannot be undone
        sys::SPI_commit();
        for &oid in relations {
            table(oid, batch_size);
        }
        progress::end();
    }
}

/// Memory for the pages in use of one relation; lives in SPI's memory.
struct Busy {
    blocks: *mut u32,
    count: usize,
    /// There were more than fit.
    overflow: bool,
}

/// Work on one relation, as it stands between two transactions.
struct State {
    table: Oid,
    kind: Kind,
    batch_size: u32,
    /// The storage that the blocks are of; 0 before the first batch.
    storage: sys::RelFileNumber,
    next: u32,
    end: u32,
    busy: Busy,
    run: Run,
}

unsafe fn table(oid: Oid, batch_size: u32) {
    // SAFETY: as for `reencrypt`.
    unsafe {
        if !is_encrypted(oid) {
            return;
        }
        let mut run = Run::of(oid);
        run.phase = Phase::WaitingForWriters;
        progress::show(&run);
        relations::wait_for_writers(oid);
        sys::SPI_commit();
        for (kind, phase) in [(Kind::Rows, Phase::Rows), (Kind::Chunks, Phase::Values)] {
            run.phase = phase;
            let blocks = sys::palloc(MAX_BUSY * size_of::<u32>()).cast();
            let mut state = State {
                table: oid,
                kind,
                batch_size,
                storage: 0,
                next: 0,
                end: 0,
                busy: Busy { blocks, count: 0, overflow: false },
                run,
            };
            state.all_batches();
            state.pages_in_use();
            run.tuples_done = state.run.tuples_done;
            sys::pfree(blocks.cast());
        }
        run.phase = Phase::Indexes;
        for &index in relations::indexes(Some(oid)) {
            reencrypt_index(index, batch_size, &mut run);
        }
    }
}

/// All keys of an encrypted index, each batch in a transaction of its own. While writers split pages, keys may move to pages
/// that were done, but keys of an older generation are not added; so it is over when nothing more is found.
unsafe fn reencrypt_index(oid: Oid, batch_size: u32, run: &mut Run) {
    // SAFETY: as for `reencrypt`.
    unsafe {
        let mut found = true;
        while found {
            found = false;
            let mut next = 1;
            loop {
                let mut more = false;
                memory::within(sys::TopTransactionContext, || {
                    if let Some(index) = Index::open(oid, sys::RowExclusiveLock) {
                        let (block, keys) = index.reencrypt(next, batch_size);
                        next = block;
                        more = block < index.blocks();
                        found |= keys > 0;
                        run.tuples_done += keys;
                        (run.blocks_done, run.blocks_total) = (block, index.blocks());
                        progress::show(run);
                        index.close(sys::NoLock);
                    }
                });
                sys::SPI_commit();
                if !more {
                    break;
                }
            }
        }
    }
}

/// Whether the relation is there and its rows are encrypted (a partitioned table has none).
unsafe fn is_encrypted(oid: Oid) -> bool {
    // SAFETY: in a transaction.
    unsafe {
        let lock = sys::AccessShareLock as i32;
        let rel = sys::try_relation_open(oid, lock);
        if rel.is_null() {
            return false;
        }
        let yes = Target::of(rel).is_some();
        sys::relation_close(rel, lock);
        yes
    }
}

/// Both opened with a lock that keeps VACUUM, index builds and changes of the table out, but neither readers nor writers.
struct Opened {
    table: sys::Relation,
    target: Target,
}

impl Opened {
    /// The table, or its TOAST table; None if there is none (any more), or it is not encrypted (any more).
    unsafe fn new(table: Oid, kind: Kind) -> Option<Self> {
        // SAFETY: in a transaction; what is opened here is closed here or by `close`.
        unsafe {
            let lock = sys::ShareUpdateExclusiveLock as i32;
            let table = sys::try_relation_open(table, lock);
            if table.is_null() {
                return None;
            }
            let rel = match kind {
                Kind::Rows => table,
                Kind::Chunks => match (*(*table).rd_rel).reltoastrelid {
                    INVALID_OID => ptr::null_mut(),
                    toast => sys::try_relation_open(toast, lock),
                },
            };
            let target = if rel.is_null() || relation::is_other_temp(rel) { None } else { Target::of(rel) };
            match target {
                Some(target) if target.kind == kind => Some(Self { table, target }),
                _ => {
                    if !rel.is_null() && rel != table {
                        sys::relation_close(rel, lock);
                    }
                    sys::relation_close(table, lock);
                    None
                }
            }
        }
    }

    /// Closes both; the locks stay until the transaction ends.
    unsafe fn close(self) {
        // SAFETY: opened by `new`.
        unsafe {
            if self.target.rel != self.table {
                sys::relation_close(self.target.rel, sys::NoLock as i32);
            }
            sys::relation_close(self.table, sys::NoLock as i32);
        }
    }
}

impl State {
    /// All pages, each batch in a transaction of its own; leaves no transaction's work uncommitted.
    unsafe fn all_batches(&mut self) {
        // SAFETY: as for `reencrypt`. What a batch allocates goes with its transaction.
        unsafe {
            while memory::within(sys::TopTransactionContext, || self.batch()) {
                sys::SPI_commit();
            }
            sys::SPI_commit();
        }
    }

    /// The next `batch_size` tuples. Returns whether there is more to do.
    unsafe fn batch(&mut self) -> bool {
        // SAFETY: as for `reencrypt`: in a transaction of its own.
        unsafe {
            let Some(opened) = Opened::new(self.table, self.kind) else { return false };
            let target = opened.target;
            keys::prepare();
            self.look_at_storage(&target);
            let work = Work::new(&target);
            let mut tuples = 0;
            while self.next < self.end && tuples < u64::from(self.batch_size) {
                check_for_interrupts();
                match work.page(&target, self.next) {
                    Outcome::Done(count) => tuples += count,
                    Outcome::Busy => self.busy.add(self.next),
                }
                self.next += 1;
            }
            opened.close();
            self.run.tuples_done += tuples;
            self.run.blocks_done = self.next;
            progress::show(&self.run);
            self.next < self.end
        }
    }

    /// Begins anew if the relation has got new storage: what was written to it is of the generation that is current since.
    unsafe fn look_at_storage(&mut self, target: &Target) {
        // SAFETY: the relation is open.
        unsafe {
            let storage = (*target.rel).rd_locator.relNumber;
            if storage != self.storage {
                self.storage = storage;
                self.next = 0;
                self.end = sys::RelationGetNumberOfBlocksInFork(target.rel, sys::MAIN_FORKNUM);
                self.busy.count = 0;
                self.busy.overflow = false;
                self.run.blocks_total = self.end;
            } else if self.end > self.next {
                // VACUUM may have cut off empty pages
                self.end = self.end.min(sys::RelationGetNumberOfBlocksInFork(target.rel, sys::MAIN_FORKNUM));
            }
        }
    }

    /// Comes back to the pages that were in use, each time in a transaction of its own, so that nobody waits for this while
    /// this waits for them.
    unsafe fn pages_in_use(&mut self) {
        let mut pause = 1000;
        for _ in 0..ATTEMPTS {
            if self.busy.count == 0 {
                return;
            }
            self.run.phase = Phase::WaitingForPages;
            progress::show(&self.run);
            check_for_interrupts();
            // SAFETY: as for `reencrypt`.
            unsafe {
                sys::pg_usleep(i64::from(pause));
                pause = (pause * 2).min(LONGEST_PAUSE);
                if self.busy.overflow {
                    self.storage = 0;
                    self.all_batches();
                } else {
                    memory::within(sys::TopTransactionContext, || self.retry());
                    sys::SPI_commit();
                }
            }
        }
        if self.busy.count > 0 {
            self.raise_in_use();
        }
    }

    unsafe fn retry(&mut self) {
        // SAFETY: as for `batch`; the list is not longer than MAX_BUSY.
        unsafe {
            let Some(opened) = Opened::new(self.table, self.kind) else {
                self.busy.count = 0;
                return;
            };
            keys::prepare();
            self.look_at_storage(&opened.target);
            let blocks = sys::RelationGetNumberOfBlocksInFork(opened.target.rel, sys::MAIN_FORKNUM);
            let work = Work::new(&opened.target);
            let mut left = 0;
            for i in 0..self.busy.count {
                let block = *self.busy.blocks.add(i);
                let outcome = if block < blocks { work.page(&opened.target, block) } else { Outcome::Done(0) };
                match outcome {
                    Outcome::Done(count) => self.run.tuples_done += count,
                    Outcome::Busy => {
                        self.busy.blocks.add(left).write(block);
                        left += 1;
                    }
                }
            }
            self.busy.count = left;
            opened.close();
        }
    }

    #[cold]
    fn raise_in_use(&self) -> ! {
        let pages = self.busy.count;
        // SAFETY: in a transaction; null for a relation that is gone.
        let name = unsafe { str_of(sys::get_rel_name(self.table)) };
        pg_error!(
            OBJECT_IN_USE, "could not re-encrypt all of table \"{name}\"";
            detail: ("Other sessions have {pages} of its pages in use; all others are done.");
            hint: ("Look for open cursors and for transactions that wait for row locks, then call the procedure again.")
        )
    }
}

impl Busy {
    fn add(&mut self, block: u32) {
        if self.count == MAX_BUSY {
            self.overflow = true;
            return;
        }
        // SAFETY: the array has MAX_BUSY entries.
        unsafe { self.blocks.add(self.count).write(block) }
        self.count += 1;
    }
}
