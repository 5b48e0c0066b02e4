//! The key table, `vault_tde.data_keys`: how its rows are found, read and written.
//!
//! It is a materialized view, and what is written is not logically logged: `README.md` says why.
//!
//! It is read in any session: in an ordinary one, in a parallel worker, on a standby, and in a logical decoding session
//! under a historic snapshot. So the table is found, and its rows are judged, by a snapshot of now
//! (`GetNonHistoricCatalogSnapshot`): an MVCC one, since a scan by SnapshotSelf may miss both versions of a row that is
//! being updated. It sees this transaction's own changes after a CommandCounterIncrement. Rows are fetched with
//! SnapshotAny and each is then tested, so that a serializable transaction takes no predicate lock on the table.

use core::ffi::{c_char, CStr};
use core::ptr;

use crate::crypto::wrap::KeyId;
use crate::pg::error::{INTERNAL_ERROR, OBJECT_NOT_IN_PREREQUISITE_STATE};
use crate::pg::shadow::Shadow;
use crate::pg::{majors, sys, Datum, Oid, INVALID_OID};
use crate::pg_error;

/// The extension's schema.
pub const SCHEMA: &CStr = c"vault_tde";
/// The key table's name in it.
pub const TABLE: &CStr = c"data_keys";

/// Columns of the key table.
const COLUMNS: usize = 6;
const COLUMN_TYPES: [u32; COLUMNS] =
    [sys::INT4OID, sys::UUIDOID, sys::TEXTOID, sys::BYTEAOID, sys::INT4OID, sys::TIMESTAMPTZOID];

/// A row of the key table, in palloc'd memory.
pub struct StoredKey {
    next: *mut StoredKey,
    pub generation: i32,
    pub key_id: KeyId,
    /// NUL-terminated.
    provider: *const c_char,
    wrapped: *const u8,
    wrapped_len: usize,
    pub kek_version: Option<i32>,
    /// As the table holds it.
    pub created_at: Datum,
}

impl StoredKey {
    pub fn provider(&self) -> std::borrow::Cow<'_, str> {
        // SAFETY: `read` has set it to a NUL-terminated string, which lives as long as the row.
        unsafe { CStr::from_ptr(self.provider) }.to_string_lossy()
    }

    pub fn wrapped(&self) -> &[u8] {
        // SAFETY: `read` has set pointer and length from one datum, which lives as long as the row.
        unsafe { core::slice::from_raw_parts(self.wrapped, self.wrapped_len) }
    }
}

/// What `read` has found, in no particular order. Valid as long as the memory context that `read` ran in.
#[derive(Clone, Copy)]
pub struct StoredKeys(*mut StoredKey);

impl StoredKeys {
    pub const EMPTY: StoredKeys = StoredKeys(ptr::null_mut());

    pub fn iter<'a>(self) -> impl Iterator<Item = &'a StoredKey> {
        let mut at = self.0;
        core::iter::from_fn(move || {
            // SAFETY: a list that `read` has linked, still in its memory context.
            let row = unsafe { at.as_ref::<'a>() }?;
            at = row.next;
            Some(row)
        })
    }
}

/// Which rows `read` returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that are committed now or were written by this transaction.
    Visible,
    /// All that are in the table's file: also those of transactions that are in progress or have ended badly.
    Any,
}

/// Opens the key table with `lock`; null if this database has none, that is no extension. Raises an ERROR if there is
/// a relation of that name which is not ours.
pub unsafe fn open(lock: u32) -> sys::Relation {
    // SAFETY: in a transaction; the relation's descriptor is valid while it is open.
    unsafe {
        let oid = find();
        if oid == INVALID_OID {
            return ptr::null_mut();
        }
        let rel = sys::try_table_open(oid, lock as i32);
        if rel.is_null() {
            return rel;
        }
        let class = (*rel).rd_rel;
        let is_heap = (*class).relkind as u8 == sys::RELKIND_MATVIEW && (*class).relam == sys::HEAP_TABLE_AM_OID;
        let has_columns = COLUMN_TYPES.iter().zip(1..).all(|(&t, n)| sys::SPI_gettypeid((*rel).rd_att, n) == t);
        if !is_heap || !has_columns {
            pg_error!(OBJECT_NOT_IN_PREREQUISITE_STATE, "relation \"vault_tde.data_keys\" is not the key table of pg_vault_tde";
                hint: ("Drop the relation, then run CREATE EXTENSION pg_vault_tde."));
        }
        rel
    }
}

/// The OID of the key table as the catalogs say now; InvalidOid if there is none. Not by the system caches, which in a
/// decoding session show the catalogs as they were.
unsafe fn find() -> Oid {
    // SAFETY: in a transaction; the keys are initialised by ScanKeyInit before they are read.
    unsafe {
        let mut keys: [sys::ScanKeyData; 2] = core::mem::zeroed();
        let mut name: sys::NameData = core::mem::zeroed();
        sys::namestrcpy(&mut name, SCHEMA.as_ptr());
        scan_key(&mut keys[0], sys::Anum_pg_namespace_nspname, sys::F_NAMEEQ, (&raw const name) as Datum);
        let schema =
            find_oid(sys::NamespaceRelationId, sys::NamespaceNameIndexId, sys::Anum_pg_namespace_oid, &mut keys[..1]);
        if schema == INVALID_OID {
            return INVALID_OID;
        }
        sys::namestrcpy(&mut name, TABLE.as_ptr());
        scan_key(&mut keys[0], sys::Anum_pg_class_relname, sys::F_NAMEEQ, (&raw const name) as Datum);
        scan_key(&mut keys[1], sys::Anum_pg_class_relnamespace, sys::F_OIDEQ, schema as Datum);
        find_oid(sys::RelationRelationId, sys::ClassNameNspIndexId, sys::Anum_pg_class_oid, &mut keys)
    }
}

/// `column = value`
unsafe fn scan_key(key: &mut sys::ScanKeyData, column: u32, function: u32, value: Datum) {
    // SAFETY: fills `key`.
    unsafe { sys::ScanKeyInit(key, column as i16, sys::BTEqualStrategyNumber as u16, function, value) }
}

/// The `oid` column of the catalog row that `keys` select.
unsafe fn find_oid(catalog: Oid, index: Oid, oid_column: u32, keys: &mut [sys::ScanKeyData]) -> Oid {
    // SAFETY: the caller names a catalog, one of its indexes, and keys of that index.
    unsafe {
        let rel = sys::table_open(catalog, sys::AccessShareLock as i32);
        let snapshot = sys::RegisterSnapshot(sys::GetNonHistoricCatalogSnapshot(catalog));
        let scan = sys::systable_beginscan(rel, index, true, snapshot, keys.len() as i32, keys.as_mut_ptr());
        let tuple = sys::systable_getnext(scan);
        let mut oid = INVALID_OID;
        if !tuple.is_null() {
            let mut is_null = false;
            oid = sys::heap_getattr(tuple, oid_column as i32, (*rel).rd_att, &mut is_null) as Oid;
        }
        sys::systable_endscan(scan);
        sys::UnregisterSnapshot(snapshot);
        sys::table_close(rel, sys::AccessShareLock as i32);
        oid
    }
}

/// Whether a relation, as a decoder sees it, is a key table.
///
/// # Safety
/// `rel` must be open, in a transaction.
pub unsafe fn is_key_table(rel: sys::Relation) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let class = (*rel).rd_rel;
        (*class).relkind as u8 == sys::RELKIND_MATVIEW && CStr::from_ptr((*class).relname.data.as_ptr()) == TABLE && {
            let schema = sys::get_namespace_name((*class).relnamespace);
            let is_ours = !schema.is_null() && CStr::from_ptr(schema) == SCHEMA;
            if !schema.is_null() {
                sys::pfree(schema.cast());
            }
            is_ours
        }
    }
}

/// Reads the key table into the current memory context.
///
/// # Safety
/// `rel` must come from [`open`].
pub unsafe fn read(rel: sys::Relation, which: Which) -> StoredKeys {
    let mut list = StoredKeys::EMPTY;
    // SAFETY: the caller's promise; the tuples are of the relation's descriptor.
    unsafe { for_each(rel, which, |tuple| list = push(list, tuple, (*rel).rd_att)) };
    list
}

/// Copies the visible rows as they are to `store`.
///
/// # Safety
/// `rel` must come from [`open`]; the columns of `store` must be those of the key table.
pub unsafe fn copy(rel: sys::Relation, store: *mut sys::Tuplestorestate) {
    // SAFETY: the caller's promise; the tuplestore copies.
    unsafe { for_each(rel, Which::Visible, |tuple| sys::tuplestore_puttuple(store, tuple)) };
}

/// Calls `body` with each tuple, which is in the scan's buffer.
unsafe fn for_each(rel: sys::Relation, which: Which, mut body: impl FnMut(sys::HeapTuple)) {
    // SAFETY: the scan's slot is a buffer heap slot that holds the tuple until the next call.
    unsafe {
        let snapshot = sys::RegisterSnapshot(sys::GetNonHistoricCatalogSnapshot((*rel).rd_id));
        let any = &raw mut sys::SnapshotAnyData;
        let scan = sys::systable_beginscan(rel, INVALID_OID, false, any, 0, ptr::null_mut());
        loop {
            let tuple = sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            if which == Which::Any || sys::table_tuple_satisfies_snapshot(rel, (*scan).slot, snapshot) {
                body(tuple);
            }
        }
        sys::systable_endscan(scan);
        sys::UnregisterSnapshot(snapshot);
    }
}

/// Puts a copy of `tuple` before `list`.
unsafe fn push(list: StoredKeys, tuple: sys::HeapTuple, desc: sys::TupleDesc) -> StoredKeys {
    let column = |n: i32| {
        let mut is_null = true;
        // SAFETY: a valid tuple of that descriptor, which `open` has checked to have the column.
        let value = unsafe { sys::heap_getattr(tuple, n, desc, &mut is_null) };
        (!is_null).then_some(value)
    };
    // none of them is ever NULL; a row that somebody made otherwise is no key
    let (Some(generation), Some(key_id), Some(provider), Some(wrapped)) = (column(1), column(2), column(3), column(4))
    else {
        return list;
    };
    // SAFETY: the datums are of the types that `open` has checked; what lies in the scan's buffer is copied.
    unsafe {
        let row: *mut StoredKey = sys::palloc(size_of::<StoredKey>()).cast();
        let mut wrapped_len = 0;
        let wrapped = sys::pgv_vardata_any(sys::pg_detoast_datum_copy(wrapped as *mut _) as Datum, &mut wrapped_len);
        let kek_version = column(5).map(|version| version as i32);
        let created_at = column(6).unwrap_or(0);
        row.write(StoredKey {
            next: list.0,
            generation: generation as i32,
            key_id: *(key_id as *const KeyId),
            provider: sys::text_to_cstring(provider as *const sys::text),
            wrapped: wrapped.cast(),
            wrapped_len,
            kek_version,
            created_at,
        });
        StoredKeys(row)
    }
}

/// A row to insert; all in palloc'd memory or static.
#[derive(Clone, Copy)]
pub struct NewRow {
    pub generation: i32,
    pub key_id: KeyId,
    pub provider: &'static str,
    /// A bytea.
    pub wrapped: Datum,
    pub kek_version: Option<i32>,
    /// A timestamptz.
    pub created_at: Datum,
}

/// Inserts a key and makes it visible to this transaction; other sessions drop their rings when it commits.
///
/// # Safety
/// `rel` must come from [`open`] with ShareRowExclusiveLock.
pub unsafe fn insert(rel: sys::Relation, row: &NewRow) {
    // SAFETY: values and nulls are of the table's columns; what they point to outlives the call.
    unsafe {
        let values: [Datum; COLUMNS] = [
            row.generation as Datum,
            (&raw const row.key_id) as Datum,
            crate::pg::fmgr::text_datum(row.provider),
            row.wrapped,
            row.kek_version.unwrap_or(0) as Datum,
            row.created_at,
        ];
        let nulls = [false, false, false, false, row.kek_version.is_none(), false];
        let tuple = sys::heap_form_tuple((*rel).rd_att, values.as_ptr(), nulls.as_ptr());
        sys::heap_insert(
            rel,
            tuple,
            sys::GetCurrentCommandId(true),
            sys::HEAP_INSERT_NO_LOGICAL as majors::Options,
            ptr::null_mut(),
        );
        sys::heap_freetuple(tuple);
        sys::CacheInvalidateRelcache(rel);
        sys::CommandCounterIncrement();
    }
}

/// Puts `row` into the place of the row of the same key id.
///
/// It is a deletion and an insertion, for the sake of decoders: an insertion can be hidden from them, a deletion is only
/// seen to have happened, as of a table without replica identity, and an update without its new row is what no output
/// plugin is made for.
///
/// # Safety
/// As for [`delete`].
pub unsafe fn replace(rel: sys::Relation, row: &NewRow) {
    // SAFETY: the caller's promise.
    unsafe {
        if !delete(rel, &row.key_id) {
            pg_error!(INTERNAL_ERROR, "a row of vault_tde.data_keys has gone while its table was locked");
        }
        insert(rel, row);
    }
}

/// Deletes a key; other sessions drop their rings when the transaction commits. Returns whether it was there.
///
/// # Safety
/// `rel` must come from [`open`] with ShareRowExclusiveLock.
pub unsafe fn delete(rel: sys::Relation, key_id: &KeyId) -> bool {
    // SAFETY: the caller's promise. Nobody else changes the table, so a row that is seen can be deleted.
    unsafe {
        let mut tid = None;
        for_each(rel, Which::Visible, |tuple| {
            let mut is_null = false;
            let id = sys::heap_getattr(tuple, 2, (*rel).rd_att, &mut is_null);
            if !is_null && *(id as *const KeyId) == *key_id {
                tid = Some((*tuple).t_self);
            }
        });
        let Some(mut tid) = tid else { return false };
        let mut space = Shadow::new();
        sys::simple_heap_delete(space.never_decoded(rel), &raw mut tid);
        sys::CacheInvalidateRelcache(rel);
        sys::CommandCounterIncrement();
        true
    }
}
