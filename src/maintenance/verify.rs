//! `vault_tde.verify()`: reads every row and every out-of-line value of a table and says which do not authenticate. It
//! changes nothing, takes no transaction id, and so runs on a standby too.

use core::mem::size_of;

use super::reseal::MAX_ITEMS;
use super::stored::{self, Kind, Target};
use crate::crypto::chunk::CHUNK_OVERHEAD;
use crate::keys::{self, OpenError, Opened};
use crate::pg::error::pg_format;
use crate::pg::fmgr::{put_row, Call};
use crate::pg::page::{self, Item, PageCopy, Place};
use crate::pg::tuple::{HeapTupleData, ItemPointerData};
use crate::pg::varlena::{self, Varlena};
use crate::pg::{check_for_interrupts, majors, memory, rel as relation, sys, Datum, INVALID_OID};
use crate::stats;
use crate::toast::store::{try_for_each_chunk, Chunks};
use crate::toast::{piece_len, pieces, PIECE_SIZE};

/// Who can see a tuple.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nobody,
    /// By an older snapshot, or when a transaction that is in progress has committed.
    Others,
    Us,
}

/// The verification of one relation.
struct Verifier {
    call: Call,
    target: Target,
    /// The TOAST table; None if there is none.
    chunks: Option<Chunks>,
    values: *mut Datum,
    nulls: *mut bool,
}

/// Writes a row (ctid, problem) to the result of `call` for each fault of the open encrypted relation. Raises the errors of
/// the key provider.
///
/// # Safety
/// In a transaction with an active snapshot; `call` made ready by InitMaterializedSRF.
pub unsafe fn verify(call: Call, target: Target) {
    // SAFETY: the caller's promise; what is opened here is closed here.
    unsafe {
        keys::refresh();
        let rel = target.rel;
        let chunks = match (*(*rel).rd_rel).reltoastrelid {
            toast if toast != INVALID_OID && target.kind == Kind::Rows => {
                Some(Chunks::open(toast, sys::AccessShareLock))
            }
            _ => None,
        };
        let natts = (*(*rel).rd_att).natts.max(1) as usize;
        let values = sys::palloc(natts * size_of::<Datum>()).cast();
        let nulls = sys::palloc(natts * size_of::<bool>()).cast();
        let verifier = Verifier { call, target, chunks, values, nulls };
        verifier.all_pages();
        if let Some(chunks) = &verifier.chunks {
            chunks.close_indexes(false);
            sys::table_close(chunks.table, sys::AccessShareLock as i32);
        }
    }
}

impl Verifier {
    unsafe fn all_pages(&self) {
        // SAFETY: as for `verify`; a page is copied, and its tuples judged, under its lock.
        unsafe {
            let rel = self.target.rel;
            let (copy, mut seen) = (PageCopy::new(), [Seen::Nobody; MAX_ITEMS]);
            let strategy = sys::GetAccessStrategy(sys::BAS_BULKREAD);
            let oldest_xmin = sys::GetOldestNonRemovableTransactionId(rel);
            let per_row = memory::new_context(memory::current(), c"pg_vault_tde verification");
            for block in 0..sys::RelationGetNumberOfBlocksInFork(rel, sys::MAIN_FORKNUM) {
                check_for_interrupts();
                let place = Place { table_oid: relation::oid(rel), block };
                let buffer = sys::ReadBufferExtended(rel, sys::MAIN_FORKNUM, block, sys::RBM_NORMAL, strategy);
                majors::lock_buffer(buffer, sys::BUFFER_LOCK_SHARE);
                for (offset, seen) in (1..=page::items_of(page::page_of(buffer))).zip(seen.iter_mut()) {
                    *seen = who_sees(place, offset, buffer, oldest_xmin);
                }
                copy.take(buffer);
                sys::UnlockReleaseBuffer(buffer);
                for (offset, &seen) in (1..=copy.items()).zip(&seen) {
                    let caller = memory::switch_to(per_row);
                    self.tuple(copy, place, offset, seen);
                    memory::switch_to(caller);
                    sys::MemoryContextReset(per_row);
                }
            }
            sys::MemoryContextDelete(per_row);
        }
    }

    unsafe fn tuple(&self, copy: PageCopy, place: Place, offset: u16, seen: Seen) {
        let tid = page::tid(place.block, offset);
        // SAFETY: as for `verify`.
        unsafe {
            let mut tuple = match copy.item(offset, place) {
                Item::None => return,
                Item::Damaged => return self.fault(&tid, format_args!("the line pointer is damaged")),
                Item::Tuple(_) if seen == Seen::Nobody => return,
                Item::Tuple(tuple) => tuple,
            };
            let Some(stored) = self.target.locate(&mut tuple) else {
                return self.fault(&tid, format_args!("the tuple does not have the form of a chunk"));
            };
            match self.target.open(&stored) {
                Ok(opened) => {
                    if self.chunks.is_some() && seen == Seen::Us {
                        self.out_of_line_values(&tid, &opened);
                    }
                    stored::cleanse(opened.len);
                }
                Err(problem) => self.unreadable(&tid, problem),
            }
        }
    }

    /// Looks at the values that the row which was just opened points to.
    unsafe fn out_of_line_values(&self, tid: &ItemPointerData, opened: &Opened) {
        // SAFETY: the plaintext is a tuple of the relation's row type; the arrays have natts entries.
        unsafe {
            let desc = (*self.target.rel).rd_att;
            let mut row = HeapTupleData {
                t_len: opened.len as u32,
                t_self: *tid,
                t_tableOid: relation::oid(self.target.rel),
                t_data: self.target.plain(opened).cast(),
            };
            if !crate::toast::toaster::has_external(&mut row) {
                return;
            }
            sys::heap_deform_tuple(&mut row, desc, self.values, self.nulls);
            for i in 0..(*desc).natts as usize {
                let attribute = majors::attribute(desc, i);
                if (*attribute).attlen != -1 || (*attribute).attisdropped || *self.nulls.add(i) {
                    continue;
                }
                let value = Varlena::of(*self.values.add(i));
                if value.is_on_disk() {
                    let name = crate::pg::fmgr::str_of((&raw const (*attribute).attname.data).cast());
                    self.value(tid, name, &value.pointer());
                }
            }
        }
    }

    /// Reads all chunks of one value.
    unsafe fn value(&self, tid: &ItemPointerData, column: &str, pointer: &sys::varatt_external) {
        let Some(chunks) = &self.chunks else { return };
        // SAFETY: as for `verify`; the piece is cleansed.
        unsafe {
            let toast = relation::oid(chunks.table);
            if pointer.va_toastrelid != toast {
                return self
                    .fault(tid, format_args!("column \"{column}\": the value is not in the table's TOAST table"));
            }
            let (size, id) = (varlena::external_size(pointer), pointer.va_valueid);
            let total = pieces(size);
            let mut piece = [0u8; PIECE_SIZE];
            let mut bad = None;
            let complete = try_for_each_chunk(chunks, id, (0, total - 1, total), |seq, stored| {
                let len = piece_len(size, seq);
                let sound = stored.len() == len + CHUNK_OVERHEAD
                    && keys::open_chunk(toast, (id, seq), stored, piece.as_mut_ptr()).is_ok();
                if !sound {
                    bad = Some(seq);
                }
                sound
            });
            memory::cleanse(piece.as_mut_ptr().cast(), PIECE_SIZE);
            match (bad, complete) {
                (Some(seq), _) => {
                    stats::note_failure(toast);
                    self.fault(
                        tid,
                        format_args!("column \"{column}\": chunk {seq} of TOAST value {id} does not authenticate"),
                    );
                }
                (None, Err(seq)) => {
                    self.fault(
                        tid,
                        format_args!("column \"{column}\": chunk {seq} of TOAST value {id} is missing or unexpected"),
                    );
                }
                (None, Ok(())) => (),
            }
        }
    }

    unsafe fn unreadable(&self, tid: &ItemPointerData, problem: OpenError) {
        self.target.note_failure();
        // SAFETY: as for `verify`.
        unsafe {
            match problem {
                OpenError::NotEncrypted => self.fault(tid, format_args!("the tuple does not have an encrypted form")),
                OpenError::UnknownGeneration(byte) => self.fault(
                    tid,
                    format_args!("encrypted with a key that this database does not have (its generation ends in {byte} modulo 256)"),
                ),
                OpenError::Authentication => self.fault(
                    tid,
                    format_args!("does not authenticate: its bytes were changed, or it was encrypted with another key"),
                ),
            }
        }
    }

    /// A row of the result.
    unsafe fn fault(&self, tid: &ItemPointerData, problem: core::fmt::Arguments<'_>) {
        // SAFETY: the result has these two columns, and copies.
        unsafe {
            let problem = sys::cstring_to_text(pg_format(problem)) as Datum;
            let tid: *const ItemPointerData = tid;
            put_row(self.call.0, &mut [tid as Datum, problem], &mut [false; 2]);
        }
    }
}

/// Who sees the tuple `offset` of the buffer's page, which is locked. Judged from its header, which is not encrypted.
unsafe fn who_sees(place: Place, offset: u16, buffer: sys::Buffer, oldest_xmin: sys::TransactionId) -> Seen {
    // SAFETY: the caller's promise.
    unsafe {
        let Item::Tuple(mut tuple) = page::item_of(page::page_of(buffer), offset, place) else {
            return Seen::Nobody;
        };
        if sys::HeapTupleSatisfiesVisibility(&mut tuple, sys::GetActiveSnapshot(), buffer) {
            Seen::Us
        } else if sys::HeapTupleSatisfiesVacuum(&mut tuple, oldest_xmin, buffer) == sys::HEAPTUPLE_DEAD {
            Seen::Nobody
        } else {
            Seen::Others
        }
    }
}
