//! Verification of an encrypted index: that every key on its pages authenticates; that entries are in order, and belong to
//! rows with just those values; that every row has its entry. The last two as a snapshot sees the table: entries of rows that
//! it does not see are only decrypted.

use core::fmt;
use core::mem::MaybeUninit;
use core::ptr;

use super::upkeep::Index;
use crate::keys::{self, OpenError};
use crate::pg::page::PageCopy;
use crate::pg::tuple::{block_number, offset_number, ItemPointerData, TupleTableSlot};
use crate::pg::{check_for_interrupts, majors, memory, rel as relation, sys, Datum};

/// Takes a fault: the row, if it is one of a row, and what is wrong.
pub type Report<'a> = dyn FnMut(Option<&ItemPointerData>, fmt::Arguments<'_>) + 'a;

const MAX_COLUMNS: usize = sys::INDEX_MAX_KEYS as usize;

/// A row's index values.
#[derive(Clone, Copy)]
struct Row {
    values: [Datum; MAX_COLUMNS],
    nulls: [bool; MAX_COLUMNS],
}

impl Row {
    const EMPTY: Row = Row { values: [0; MAX_COLUMNS], nulls: [false; MAX_COLUMNS] };
}

/// Reports each fault of the index, whose table is open too. Raises the errors of the key provider, and those of the index's
/// expressions, which run as the table's owner.
///
/// # Safety
/// In a transaction with an active snapshot.
pub unsafe fn verify(index: &Index, table: sys::Relation, report: &mut Report<'_>) {
    // SAFETY: the caller's promise. An ERROR restores user and settings with the transaction.
    unsafe {
        keys::refresh();
        keys::prepare_to_open();
        if !pages(index, report) {
            return; // to compare such keys would raise an ERROR
        }
        let form = (*index.rel).rd_index;
        if !(*form).indisvalid || !usable(index.rel) {
            return;
        }
        let (mut user, mut context) = (0, 0);
        sys::GetUserIdAndSecContext(&mut user, &mut context);
        let restricted = context | sys::SECURITY_RESTRICTED_OPERATION as i32;
        sys::SetUserIdAndSecContext((*(*table).rd_rel).relowner, restricted);
        let level = sys::NewGUCNestLevel();
        sys::RestrictSearchPath();
        let mut pass = Pass::begin(index, table);
        pass.entries(report);
        pass.rows(report);
        pass.end();
        sys::AtEOXact_GUC(false, level);
        sys::SetUserIdAndSecContext(user, context);
    }
}

/// Whether the active snapshot may use the index: its HOT chains may not fit older ones.
unsafe fn usable(index: sys::Relation) -> bool {
    // SAFETY: an open index; its pg_index row is in the relcache entry.
    unsafe {
        let row = (*(*index).rd_indextuple).t_data;
        !(*(*index).rd_index).indcheckxmin
            || sys::TransactionIdPrecedes((*row).t_choice.t_heap.t_xmin, sys::TransactionXmin)
    }
}

/// Decrypts every key on every page. Returns whether all could be.
unsafe fn pages(index: &Index, report: &mut Report<'_>) -> bool {
    // SAFETY: as for `verify`.
    unsafe {
        let (copy, strategy) = (PageCopy::new(), sys::GetAccessStrategy(sys::BAS_BULKREAD));
        let name = relation::name(index.rel);
        let mut sound = true;
        for block in 1..index.blocks() {
            check_for_interrupts();
            let whole = index.keys_of(block, copy, strategy, |found, stored| {
                if let Err(error) = (*index.column(&found)).try_open(stored) {
                    sound = false;
                    crate::stats::note_failure(relation::oid(index.rel));
                    let problem = match error {
                        OpenError::NotEncrypted => "is not a key of this column",
                        OpenError::UnknownGeneration(_) => "is encrypted with a key that this database does not have",
                        OpenError::Authentication => "does not authenticate",
                    };
                    let (item, column) = (found.item, found.column + 1);
                    report(
                        None,
                        format_args!(
                            "index \"{name}\", block {block}, item {item}: what is in column {column} {problem}"
                        ),
                    );
                }
            });
            if let Err(damaged) = whole {
                sound = false;
                report(None, format_args!("index \"{name}\", block {block}, item {}: damaged", damaged.0));
            }
        }
        sound
    }
}

/// The two passes over a sound index.
struct Pass<'a> {
    index: &'a Index,
    table: sys::Relation,
    info: *mut sys::IndexInfo,
    estate: *mut sys::EState,
    econtext: *mut sys::ExprContext,
    predicate: *mut sys::ExprState,
    slot: *mut TupleTableSlot,
    /// rows that have an entry: a bit for each, by block
    seen: *mut sys::HTAB,
    nkeys: usize,
    ncolumns: usize,
}

/// An entry of `seen`.
#[repr(C)]
struct Seen {
    block: u32,
    rows: [u64; 5],
}

impl<'a> Pass<'a> {
    unsafe fn begin(index: &'a Index, table: sys::Relation) -> Pass<'a> {
        // SAFETY: as for `verify`; everything is in the current memory context and its children.
        unsafe {
            let info = sys::BuildIndexInfo(index.rel);
            let estate = sys::CreateExecutorState();
            let econtext = sys::MakePerTupleExprContext(estate);
            let slot = sys::table_slot_create(table, ptr::null_mut());
            (*econtext).ecxt_scantuple = slot;
            let predicate = sys::ExecPrepareQual((*info).ii_Predicate, estate);
            let mut control: sys::HASHCTL = MaybeUninit::zeroed().assume_init();
            control.keysize = size_of::<u32>();
            control.entrysize = size_of::<Seen>();
            control.hcxt = memory::current();
            let flags = (sys::HASH_ELEM | sys::HASH_BLOBS | sys::HASH_CONTEXT) as i32;
            let seen = sys::hash_create(c"pg_vault_tde verified rows".as_ptr(), 1024, &control, flags);
            let form = (*index.rel).rd_index;
            let (nkeys, ncolumns) = ((*form).indnkeyatts as usize, (*form).indnatts as usize);
            Pass { index, table, info, estate, econtext, predicate, slot, seen, nkeys, ncolumns }
        }
    }

    unsafe fn end(self) {
        // SAFETY: what `begin` has made.
        unsafe {
            sys::ExecDropSingleTupleTableSlot(self.slot);
            sys::FreeExecutorState(self.estate);
            sys::hash_destroy(self.seen);
        }
    }

    /// The index values of the row in the slot; false if it does not belong into the index.
    unsafe fn form(&self, row: &mut Row) -> bool {
        // SAFETY: the slot holds a row of the table.
        unsafe {
            sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            if !self.predicate.is_null() && !sys::ExecQual(self.predicate, self.econtext) {
                return false;
            }
            let (values, nulls) = (row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
            memory::within((*self.econtext).ecxt_per_tuple_memory, || {
                sys::FormIndexDatum(self.info, self.slot, self.estate, values, nulls);
            });
            true
        }
    }

    /// The bit of the row in the slot; a new one is unset.
    unsafe fn bit(&self) -> (*mut Seen, usize, u64) {
        // SAFETY: the table has entries of that size.
        unsafe {
            let tid = &(*self.slot).tts_tid;
            let (block, offset) = (block_number(tid), usize::from(offset_number(tid)));
            let mut found = false;
            let key = (&raw const block).cast();
            let seen: *mut Seen = sys::hash_search(self.seen, key, sys::HASH_ENTER, &mut found).cast();
            if !found {
                (*seen).rows = [0; 5];
            }
            (seen, (offset / 64).min(4), 1 << (offset % 64))
        }
    }

    /// Every entry against its row and against the entry before it.
    unsafe fn entries(&mut self, report: &mut Report<'_>) {
        // SAFETY: as for `verify`; what the scan returns is copied before the next is asked for.
        unsafe {
            let name = relation::name(self.index.rel);
            let scan = majors::index_beginscan(self.table, self.index.rel, sys::GetActiveSnapshot());
            (*scan).xs_want_itup = true;
            sys::index_rescan(scan, ptr::null_mut(), 0, ptr::null_mut(), 0);
            let (mut row, mut formed, mut before) = (Row::EMPTY, Row::EMPTY, Row::EMPTY);
            let mut last: sys::IndexTuple = ptr::null_mut();
            let mut last_seen = false;
            while !sys::index_getnext_tid(scan, sys::ForwardScanDirection).is_null() {
                check_for_interrupts();
                let (entry, desc) = ((*scan).xs_itup, (*scan).xs_itupdesc);
                sys::index_deform_tuple(entry, desc, row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
                let tid = (*scan).xs_heaptid;
                let visible = sys::index_fetch_heap(scan, self.slot);
                if visible {
                    let (seen, word, bit) = self.bit();
                    (*seen).rows[word] |= bit;
                    let tid = (*self.slot).tts_tid;
                    if !self.form(&mut formed) {
                        report(
                            Some(&tid),
                            format_args!("index \"{name}\" has an entry for a row that its predicate excludes"),
                        );
                    } else if !self.same(&row, &formed) {
                        report(
                            Some(&tid),
                            format_args!("index \"{name}\" has an entry with other values than the row"),
                        );
                    }
                }
                if !last.is_null() {
                    let order = self.order(&before, &row);
                    if order > 0 {
                        report(Some(&tid), format_args!("index \"{name}\" has an entry out of order"));
                    } else if order == 0 && visible && last_seen && self.is_unique(&row) {
                        report(Some(&tid), format_args!("index \"{name}\" is unique but has this row's key twice"));
                    }
                    sys::pfree(last.cast());
                }
                last = sys::CopyIndexTuple(entry);
                sys::index_deform_tuple(last, desc, before.values.as_mut_ptr(), before.nulls.as_mut_ptr());
                // several dead entries may lie between two live ones of a key
                last_seen = visible;
            }
            sys::index_endscan(scan);
        }
    }

    /// Every row against the entries.
    unsafe fn rows(&mut self, report: &mut Report<'_>) {
        // SAFETY: as for `verify`.
        unsafe {
            let name = relation::name(self.index.rel);
            let scan = majors::table_beginscan(self.table, sys::GetActiveSnapshot());
            let mut formed = Row::EMPTY;
            while sys::table_scan_getnextslot(scan, sys::ForwardScanDirection, self.slot) {
                check_for_interrupts();
                let (seen, word, bit) = self.bit();
                if (*seen).rows[word] & bit == 0 && self.form(&mut formed) {
                    let tid = (*self.slot).tts_tid;
                    report(Some(&tid), format_args!("index \"{name}\" has no entry for the row"));
                }
            }
            sys::table_endscan(scan);
        }
    }

    /// Whether an entry has a row's values.
    unsafe fn same(&self, entry: &Row, row: &Row) -> bool {
        // SAFETY: values of the index's columns.
        unsafe {
            (0..self.ncolumns).all(|i| {
                if entry.nulls[i] || row.nulls[i] {
                    return entry.nulls[i] == row.nulls[i];
                }
                if i < self.nkeys {
                    return self.compare(i, entry, row) == 0;
                }
                let (mut len, mut by_value) = (0, false);
                sys::get_typlenbyval((*self.index.column_at(i)).input_type, &mut len, &mut by_value);
                sys::datum_image_eq(entry.values[i], row.values[i], by_value, i32::from(len))
            })
        }
    }

    unsafe fn compare(&self, i: usize, a: &Row, b: &Row) -> i32 {
        // SAFETY: two values of a key column.
        unsafe {
            let column = self.index.column_at(i);
            let (function, collation) = (&raw mut (*column).compare, (*column).collation);
            sys::FunctionCall2Coll(function, collation, a.values[i], b.values[i]) as i32
        }
    }

    /// The order of two entries: -1, 0, 1.
    unsafe fn order(&self, a: &Row, b: &Row) -> i32 {
        // SAFETY: values of the index's key columns; rd_indoption has an entry for each.
        unsafe {
            for i in 0..self.nkeys {
                let option = *(*self.index.rel).rd_indoption.add(i) as u32;
                let nulls_first = option & sys::INDOPTION_NULLS_FIRST != 0;
                let order = match (a.nulls[i], b.nulls[i]) {
                    (true, true) => 0,
                    (true, false) => {
                        if nulls_first {
                            -1
                        } else {
                            1
                        }
                    }
                    (false, true) => {
                        if nulls_first {
                            1
                        } else {
                            -1
                        }
                    }
                    (false, false) if option & sys::INDOPTION_DESC != 0 => self.compare(i, b, a).signum(),
                    (false, false) => self.compare(i, a, b).signum(),
                };
                if order != 0 {
                    return order;
                }
            }
            0
        }
    }

    /// Whether another row may not have the same key.
    unsafe fn is_unique(&self, row: &Row) -> bool {
        // SAFETY: an open index.
        unsafe {
            let form = (*self.index.rel).rd_index;
            let has_null = (0..self.nkeys).any(|i| row.nulls[i]);
            (*form).indisunique && (*form).indimmediate && (!has_null || (*form).indnullsnotdistinct)
        }
    }
}
