//! Storing one value out of line, the counterpart of `toast_save_datum`: cut into pieces, each encrypted and inserted
//! as a chunk; and, for relations that are logically logged, sent as messages.

use core::mem::MaybeUninit;
use core::ptr;

use super::message::{Kind, Sender};
use super::{key_oid, piece_len, pieces, PIECE_SIZE};
use crate::crypto::chunk::CHUNK_OVERHEAD;
use crate::keys;
use crate::pg::sizes::TOAST_MAX_CHUNK_SIZE;
use crate::pg::varlena::{self, Varlena};
use crate::pg::{check_for_interrupts, majors, sys, Datum, Oid, INVALID_OID};

/// A TOAST table and its indexes, open.
pub struct Chunks {
    pub table: sys::Relation,
    indexes: *mut sys::Relation,
    count: i32,
    /// which of the indexes may be used
    valid: i32,
    lock: i32,
}

impl Chunks {
    /// Opens the TOAST table `oid` and its indexes with `lock`.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn open(oid: Oid, lock: u32) -> Self {
        // SAFETY: table_open raises an ERROR if the table is gone.
        unsafe { Self::of(sys::table_open(oid, lock as i32), lock) }
    }

    /// The indexes of the open TOAST table `table`, opened with `lock`.
    ///
    /// # Safety
    /// `table` must be an open TOAST table.
    pub unsafe fn of(table: sys::Relation, lock: u32) -> Self {
        let (mut indexes, mut count) = (ptr::null_mut(), 0);
        // SAFETY: the caller's promise.
        let valid = unsafe { sys::toast_open_indexes(table, lock as i32, &mut indexes, &mut count) };
        Self { table, indexes, count, valid, lock: lock as i32 }
    }

    /// The index on (chunk_id, chunk_seq) that is valid.
    pub fn valid_index(&self) -> sys::Relation {
        // SAFETY: toast_open_indexes gives the place of a valid index.
        unsafe { *self.indexes.add(self.valid as usize) }
    }

    /// Closes the indexes, and the locks on them unless `keep_locks`.
    pub fn close_indexes(&self, keep_locks: bool) {
        let lock = if keep_locks { sys::NoLock as i32 } else { self.lock };
        // SAFETY: opened by `of`.
        unsafe { sys::toast_close_indexes(self.indexes, self.count, lock) }
    }

    /// Inserts a chunk tuple's entries into the indexes that are ready, as core does.
    unsafe fn insert_entries(&self, values: &mut [Datum; 3], nulls: &mut [bool; 3], tid: sys::ItemPointer) {
        for i in 0..self.count as usize {
            // SAFETY: an open index; the index columns are the table's first ones.
            unsafe {
                let index = *self.indexes.add(i);
                if (*(*index).rd_index).indisready {
                    let unique =
                        if (*(*index).rd_index).indisunique { sys::UNIQUE_CHECK_YES } else { sys::UNIQUE_CHECK_NO };
                    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                    sys::index_insert(index, values, nulls, tid, self.table, unique, false, ptr::null_mut());
                }
            }
        }
    }

    /// Whether any chunk of the value is in the table, dead or alive (`toastrel_valueid_exists`).
    unsafe fn holds(&self, value_id: Oid) -> bool {
        // SAFETY: an ordinary index scan of the TOAST table.
        unsafe {
            let mut key: sys::ScanKeyData = core::mem::zeroed();
            sys::ScanKeyInit(&mut key, 1, sys::BTEqualStrategyNumber as u16, sys::F_OIDEQ, value_id as Datum);
            let index = (*self.valid_index()).rd_id;
            let scan = sys::systable_beginscan(self.table, index, true, &raw mut sys::SnapshotAnyData, 1, &mut key);
            let found = !sys::systable_getnext(scan).is_null();
            sys::systable_endscan(scan);
            found
        }
    }
}

/// Stores the in-line value `value` of `rel` out of line and returns the TOAST pointer to it, in the current memory
/// context. `old_external` is the pointer that the value was fetched from, if any. `options` are those of heap_insert.
/// Raises the errors of the key provider and of heap_insert.
///
/// # Safety
/// `rel` must be an open encrypted table with a TOAST table, `value` a varlena that is not external.
pub unsafe fn store(
    rel: sys::Relation,
    value: Datum,
    old_external: *const sys::varlena,
    options: majors::Options,
) -> Datum {
    // SAFETY: the caller's promises.
    unsafe {
        let chunks = Chunks::open((*(*rel).rd_rel).reltoastrelid, sys::RowExclusiveLock);
        let payload = Varlena::of(value).payload();
        let (value_id, already_there) = choose_value_id(rel, &chunks, old_external);
        if !already_there {
            write_chunks(rel, &chunks, value_id, payload.data, payload.len, options);
        }
        // the lock on the TOAST table is kept until commit, for a REINDEX of it to wait for
        chunks.close_indexes(true);
        sys::table_close(chunks.table, sys::NoLock as i32);
        varlena::new_pointer(payload.rawsize, payload.extinfo, value_id, key_oid(rel))
    }
}

/// The value's id, and whether the value is in the TOAST table already. An unused OID; but in a rewrite that keeps the
/// TOAST table's OID, values keep their ids, and several versions of a row may share one.
unsafe fn choose_value_id(rel: sys::Relation, chunks: &Chunks, old_external: *const sys::varlena) -> (Oid, bool) {
    // SAFETY: as for `store`.
    unsafe {
        let index = (*chunks.valid_index()).rd_id;
        let permanent = (*rel).rd_toastoid;
        if permanent == INVALID_OID {
            return (sys::GetNewOidWithIndex(chunks.table, index, 1), false);
        }
        if !old_external.is_null() {
            let pointer = Varlena::of(old_external as Datum).pointer();
            if pointer.va_toastrelid == permanent {
                return (pointer.va_valueid, chunks.holds(pointer.va_valueid));
            }
        }
        loop {
            let value_id = sys::GetNewOidWithIndex(chunks.table, index, 1);
            let old_table = Chunks::open(permanent, sys::AccessShareLock);
            let taken = old_table.holds(value_id);
            old_table.close_indexes(false);
            sys::table_close(old_table.table, sys::AccessShareLock as i32);
            if !taken {
                return (value_id, false);
            }
        }
    }
}

/// A chunk as a bytea: the header of a varlena and room for the largest stored chunk.
#[repr(C, align(8))]
struct ChunkDatum([MaybeUninit<u8>; varlena::HEADER + TOAST_MAX_CHUNK_SIZE]);

unsafe fn write_chunks(
    rel: sys::Relation,
    chunks: &Chunks,
    value_id: Oid,
    data: *const u8,
    len: usize,
    options: majors::Options,
) {
    // SAFETY: as for `store`; `data` points to `len` bytes.
    unsafe {
        let cid = sys::GetCurrentCommandId(true);
        let key_oid = key_oid(rel);
        let mut sender = Sender::new(rel, Kind::New, key_oid, value_id, len as u32, options);
        let mut buffer = ChunkDatum([MaybeUninit::uninit(); varlena::HEADER + TOAST_MAX_CHUNK_SIZE]);
        let datum: *mut u8 = buffer.0.as_mut_ptr().cast();
        // Core's reassembly must not see the chunks: decoders get them by message, and deform no row on their own.
        let options = (options & !(sys::HEAP_INSERT_SPECULATIVE as majors::Options))
            | sys::HEAP_INSERT_NO_LOGICAL as majors::Options;
        for seq in 0..pieces(len as u32) {
            check_for_interrupts();
            let plain_len = piece_len(len as u32, seq);
            let stored = datum.add(varlena::HEADER);
            let stored_len = plain_len + CHUNK_OVERHEAD;
            let plain = core::slice::from_raw_parts(data.add(seq as usize * PIECE_SIZE), plain_len);
            keys::seal_chunk(key_oid, (value_id, seq), plain, stored);
            varlena::set_size(datum, varlena::HEADER + stored_len);
            sender.add(seq, core::slice::from_raw_parts(stored, stored_len));

            let mut values = [value_id as Datum, seq as Datum, datum as Datum];
            let mut nulls = [false; 3];
            let tuple = sys::heap_form_tuple((*chunks.table).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr());
            sys::heap_insert(chunks.table, tuple, cid, options, ptr::null_mut());
            chunks.insert_entries(&mut values, &mut nulls, &mut (*tuple).t_self);
            sys::heap_freetuple(tuple);
        }
        sender.finish();
    }
}

/// The stored chunks of a value in their order, from piece `first` to `last`: calls `body(seq, chunk_data)` for each.
/// Raises ERRCODE_DATA_CORRUPTED if one is missing, doubled or out of place.
///
/// # Safety
/// `chunks` must be open; `body` must own nothing that needs dropping, as an ERROR may jump over it.
pub unsafe fn for_each_chunk(chunks: &Chunks, value_id: Oid, range: (u32, u32, u32), mut body: impl FnMut(u32, &[u8])) {
    // SAFETY: the caller's promises.
    unsafe {
        let all = try_for_each_chunk(chunks, value_id, range, |seq, stored| {
            body(seq, stored);
            true
        });
        if let Err(expected) = all {
            super::fetch::raise_sequence(chunks.table, value_id, expected);
        }
    }
}

/// [`for_each_chunk`] that goes on as long as `body` returns true, and raises nothing of its own: the number of the chunk that
/// is missing, doubled or out of place is returned as an error.
///
/// # Safety
/// As for [`for_each_chunk`].
pub unsafe fn try_for_each_chunk(
    chunks: &Chunks,
    value_id: Oid,
    (first, last, total): (u32, u32, u32),
    mut body: impl FnMut(u32, &[u8]) -> bool,
) -> Result<(), u32> {
    // SAFETY: the caller's promises; the tuples stay pinned until the next one is asked for.
    unsafe {
        let mut keys: [sys::ScanKeyData; 3] = core::mem::zeroed();
        let mut nkeys = 1;
        sys::ScanKeyInit(&mut keys[0], 1, sys::BTEqualStrategyNumber as u16, sys::F_OIDEQ, value_id as Datum);
        if first != 0 || last + 1 != total {
            let at_least = sys::BTGreaterEqualStrategyNumber as u16;
            let at_most = sys::BTLessEqualStrategyNumber as u16;
            sys::ScanKeyInit(&mut keys[1], 2, at_least, sys::F_INT4GE, first as Datum);
            sys::ScanKeyInit(&mut keys[2], 2, at_most, sys::F_INT4LE, last as Datum);
            nkeys = 3;
        }
        let desc = (*chunks.table).rd_att;
        let mut snapshot = MaybeUninit::uninit();
        let snapshot = majors::toast_snapshot(&mut snapshot);
        let scan =
            sys::systable_beginscan_ordered(chunks.table, chunks.valid_index(), snapshot, nkeys, keys.as_mut_ptr());
        let mut expected = first;
        let result = loop {
            let tuple = sys::systable_getnext_ordered(scan, sys::ForwardScanDirection);
            if tuple.is_null() {
                break if expected == last + 1 { Ok(()) } else { Err(expected) };
            }
            let mut isnull = false;
            let seq = sys::heap_getattr(tuple, 2, desc, &mut isnull) as u32;
            let data = Varlena::of(sys::heap_getattr(tuple, 3, desc, &mut isnull));
            if isnull || data.is_external() || seq != expected || seq > last {
                break Err(expected);
            }
            let payload = data.payload();
            if !body(seq, core::slice::from_raw_parts(payload.data, payload.len)) {
                break Ok(());
            }
            expected += 1;
        };
        sys::systable_endscan_ordered(scan);
        result
    }
}
