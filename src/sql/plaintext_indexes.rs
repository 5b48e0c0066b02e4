//! `pg_vault_tde.plaintext_indexes`: says, or forbids, that an index of an encrypted table keeps its keys in the clear. An index that
//! is marked as an encrypted one becomes one first (`exchanged_indexes.rs`).
//!
//! It is an object access hook, since indexes come into being on many ways: CREATE INDEX, constraints, partitions that
//! get their parent's indexes, ALTER TABLE that makes them anew.

use core::ptr;

use super::{encrypted_indexes, exchanged_indexes, reused_indexes};
use crate::index::settings::{self, Plaintext};
use crate::pg::error::{Report, FEATURE_NOT_SUPPORTED};
use crate::pg::fmgr::str_of;
use crate::pg::tuple::{self, HeapTuple};
use crate::pg::{sys, BackendCell, Datum, Oid, INVALID_OID};
use crate::pg_callback;

static NEXT: BackendCell<sys::object_access_hook_type> = BackendCell::new(None);

/// Chains the hook; called once, from `_PG_init`.
pub fn register() {
    // SAFETY: _PG_init runs in the postmaster, before any command does.
    unsafe {
        NEXT.set(sys::object_access_hook);
        sys::object_access_hook = Some(on_object_access);
    }
}

pg_callback! {
    fn on_object_access(
        access: sys::ObjectAccessType,
        class: Oid,
        object: Oid,
        part: i32,
        arg: *mut core::ffi::c_void,
    ) {
        // SAFETY: the arguments of the hook, handed on as they came.
        unsafe {
            if let Some(next) = NEXT.get() {
                next(access, class, object, part, arg);
            }
            if access == sys::OAT_POST_CREATE
                && class == sys::RelationRelationId
                && part == 0
                && sys::IsTransactionState()
                && !sys::IsBinaryUpgrade
            {
                look_at(object);
            }
        }
    }
}

/// What the catalogs say about a new index, whose rows this command does not see yet.
struct NewIndex {
    table: Oid,
    method: Oid,
    is_stored: bool,
    is_marked: bool,
    /// it has the file of another index
    is_reused: bool,
    name: sys::NameData,
}

unsafe fn look_at(object: Oid) {
    // SAFETY: in a transaction.
    unsafe {
        let ours = crate::index::method_oid();
        if ours == INVALID_OID {
            return;
        }
        let Some(index) = new_index(object) else { return };
        if index.method == sys::BTREE_AM_OID && index.is_marked && exchanged_indexes::exchange(object, index.table) {
            return;
        }
        if index.method == ours && index.is_stored && index.is_reused {
            reused_indexes::note(object);
        }
        if index.method != ours && index.is_stored && encrypted_indexes::is_encrypted(index.table) {
            say(str_of((&raw const index.name.data).cast()), index.table, index.method);
        }
    }
}

/// Says, or forbids, that an index that there is keeps columns of a table, which becomes an encrypted one, in the clear.
///
/// # Safety
/// In a transaction.
pub unsafe fn report(index: Oid, table: Oid) {
    // SAFETY: syscache look-ups.
    unsafe {
        let method = sys::get_rel_relam(index);
        if method != crate::index::method_oid() {
            say(str_of(sys::get_rel_name(index)), table, method);
        }
    }
}

unsafe fn say(name: &str, table: Oid, method: Oid) {
    if settings::plaintext() == Plaintext::Allow {
        return;
    }
    // SAFETY: syscache look-ups.
    let (table, method) = unsafe { (str_of(sys::get_rel_name(table)), str_of(sys::get_am_name(method))) };
    let report = Report::new(
        FEATURE_NOT_SUPPORTED,
        format_args!("index \"{name}\" keeps columns of encrypted table \"{table}\" in the clear"),
    )
    .detail(format_args!("The keys of access method \"{method}\" are not encrypted."))
    .hint(format_args!(
        "Use access method \"encrypted_btree\", or set \"pg_vault_tde.plaintext_indexes\" to \"allow\"."
    ));
    if settings::plaintext() == Plaintext::Error {
        report.raise();
    }
    report.log(sys::NOTICE);
}

/// None if `object` is no index.
unsafe fn new_index(object: Oid) -> Option<NewIndex> {
    // SAFETY: catalog scans by the row as it was just written; the rows have the columns of their structs.
    unsafe {
        let mut index = NewIndex {
            table: 0,
            method: 0,
            is_stored: false,
            is_marked: false,
            is_reused: false,
            name: core::mem::zeroed(),
        };
        let mut is_index = false;
        let (catalog, by, column) = (sys::RelationRelationId, sys::ClassOidIndexId, sys::Anum_pg_class_oid);
        with_row(catalog, by, column, object, |row, desc| {
            let class: *const sys::FormData_pg_class = tuple::body(row);
            index.is_stored = (*class).relkind as u8 == sys::RELKIND_INDEX;
            is_index = index.is_stored || (*class).relkind as u8 == sys::RELKIND_PARTITIONED_INDEX;
            index.method = (*class).relam;
            index.name = (*class).relname;
            // a new file is named after the OID
            index.is_reused = (*class).relfilenode != object;
            index.is_marked = is_index && exchanged_indexes::has_mark(row, desc);
        });
        if !is_index {
            return None;
        }
        let (catalog, by, column) = (sys::IndexRelationId, sys::IndexRelidIndexId, sys::Anum_pg_index_indexrelid);
        with_row(catalog, by, column, object, |row, _| {
            index.table = (*tuple::body::<sys::FormData_pg_index>(row)).indrelid;
        });
        (index.table != INVALID_OID).then_some(index)
    }
}

/// Calls `body` with the newest version of a catalog row.
unsafe fn with_row(catalog: Oid, by: Oid, column: u32, oid: Oid, body: impl FnOnce(HeapTuple, sys::TupleDesc)) {
    // SAFETY: a catalog, its index on the OID column, and a key of it.
    unsafe {
        let mut key: sys::ScanKeyData = core::mem::zeroed();
        let equal = sys::BTEqualStrategyNumber as u16;
        sys::ScanKeyInit(&mut key, column as i16, equal, sys::F_OIDEQ, oid as Datum);
        let rel = sys::table_open(catalog, sys::AccessShareLock as i32);
        let scan = sys::systable_beginscan(rel, by, true, &raw mut sys::SnapshotSelfData, 1, &mut key);
        let tuple = sys::systable_getnext(scan);
        if !ptr::eq(tuple, ptr::null()) {
            body(tuple, (*rel).rd_att);
        }
        sys::systable_endscan(scan);
        sys::table_close(rel, sys::AccessShareLock as i32);
    }
}
