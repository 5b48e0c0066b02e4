//! Indexes of constraints that come into being as btrees although they are marked as encrypted ones (`encrypted_indexes.rs`):
//! `ALTER TABLE … ALTER COLUMN … TYPE` makes a constraint anew from its definition, without a command that a hook could
//! look at. The object access hook is called when the index's catalog rows are written, but before anything is in its file:
//! there the rows are made those of an encrypted index.

use core::ptr;

use super::encrypted_indexes::{is_encrypted, is_marked, is_ordered_as_by_btree};
use crate::index::method_oid;
use crate::pg::error::INTERNAL_ERROR;
use crate::pg::tuple::{body, HeapTuple};
use crate::pg::{majors, sys, Datum, Oid, INVALID_OID};
use crate::pg_error;

/// Whether the storage options say that the index of a constraint is an encrypted one. `row` is the index's row of pg_class, of
/// descriptor `desc`.
///
/// # Safety
/// A row of that catalog.
pub unsafe fn has_mark(row: HeapTuple, desc: sys::TupleDesc) -> bool {
    // SAFETY: the caller's promise; the array of options is in the row or detoasted by the function that reads it.
    unsafe {
        let mut is_null = false;
        let options = sys::heap_getattr(row, sys::Anum_pg_class_reloptions as i32, desc, &mut is_null);
        !is_null && is_marked(sys::untransformRelOptions(options))
    }
}

/// Makes a marked btree, whose catalog rows this command has just written, an encrypted index; returns whether it has. It has
/// not if the table is not encrypted, if the index is not that of a constraint, or if the type of a column has no operator class.
///
/// # Safety
/// Called by the object access hook for a new index, which is locked and open, and whose storage is empty.
pub unsafe fn exchange(index: Oid, table: Oid) -> bool {
    // SAFETY: catalogs are read and written as index_create does; the caller's promise.
    unsafe {
        let ours = method_oid();
        if !majors::UNIQUE_BY_OTHER_METHODS || ours == INVALID_OID || !is_encrypted(table) {
            return false;
        }
        // so that the rows can be seen, and updated
        sys::CommandCounterIncrement();
        if sys::get_index_constraint(index) == INVALID_OID {
            return false;
        }
        let mut classes: Classes = [INVALID_OID; sys::INDEX_MAX_KEYS as usize];
        let Some(nkeys) = classes_for(index, table, ours, &mut classes) else { return false };
        let classes = &classes[..nkeys];
        update_class(index, ours);
        update_index(index, classes);
        for (i, class) in classes.iter().enumerate() {
            update_attribute(index, i as i16 + 1, *class);
            depend(index, *class);
        }
        forget_access_info(index);
        sys::CommandCounterIncrement();
        true
    }
}

type Classes = [Oid; sys::INDEX_MAX_KEYS as usize];

/// The operator classes of the index's key columns, and their number.
unsafe fn classes_for(index: Oid, table: Oid, ours: Oid, classes: &mut Classes) -> Option<usize> {
    // SAFETY: the row is there; it begins as its struct says, up to the column numbers.
    unsafe {
        let row = copy_of(sys::INDEXRELID as i32, index, 0);
        let form: *const sys::FormData_pg_index = body(row);
        let nkeys = (*form).indnkeyatts as usize;
        let columns = (*form).indkey.values.as_ptr();
        let all = (0..nkeys).all(|i| {
            let type_oid = sys::get_atttype(table, *columns.add(i));
            classes[i] = sys::GetDefaultOpClass(type_oid, ours);
            classes[i] != INVALID_OID && is_ordered_as_by_btree(type_oid)
        });
        sys::heap_freetuple(row);
        all.then_some(nkeys)
    }
}

/// A copy of a catalog row that is known to be there. `number` is 0 where the cache has one key.
unsafe fn copy_of(cache: i32, key: Oid, number: i16) -> HeapTuple {
    // SAFETY: a syscache look-up.
    unsafe {
        let row = sys::SearchSysCacheCopy(cache as _, key as Datum, number as Datum, 0, 0);
        if row.is_null() {
            pg_error!(INTERNAL_ERROR, "cache lookup failed for index {key}");
        }
        row
    }
}

unsafe fn write(catalog: Oid, row: HeapTuple) {
    // SAFETY: a changed copy of a row of that catalog.
    unsafe {
        let rel = sys::table_open(catalog, sys::RowExclusiveLock as i32);
        sys::CatalogTupleUpdate(rel, &raw mut (*row).t_self, row);
        sys::table_close(rel, sys::RowExclusiveLock as i32);
        sys::heap_freetuple(row);
    }
}

unsafe fn update_class(index: Oid, method: Oid) {
    // SAFETY: a copy of the index's row.
    unsafe {
        let row = copy_of(sys::RELOID as i32, index, 0);
        (*body::<sys::FormData_pg_class>(row)).relam = method;
        write(sys::RelationRelationId, row);
    }
}

unsafe fn update_index(index: Oid, classes: &[Oid]) {
    const COLUMNS: usize = sys::Natts_pg_index as usize;
    const CLASSES: usize = sys::Anum_pg_index_indclass as usize - 1;
    let mut values: [Datum; COLUMNS] = [0; COLUMNS];
    let mut replaced = [false; COLUMNS];
    replaced[CLASSES] = true;
    // SAFETY: a copy of the index's row, of as many columns.
    unsafe {
        values[CLASSES] = sys::buildoidvector(classes.as_ptr(), classes.len() as i32) as Datum;
        let row = copy_of(sys::INDEXRELID as i32, index, 0);
        let rel = sys::table_open(sys::IndexRelationId, sys::AccessShareLock as i32);
        let nulls = [false; COLUMNS];
        let changed = sys::heap_modify_tuple(row, (*rel).rd_att, values.as_ptr(), nulls.as_ptr(), replaced.as_ptr());
        sys::table_close(rel, sys::AccessShareLock as i32);
        sys::heap_freetuple(row);
        write(sys::IndexRelationId, changed);
    }
}

/// The index's column as `ConstructTupleDescriptor` makes it for an operator class with a type of storage.
unsafe fn update_attribute(index: Oid, number: i16, class: Oid) {
    // SAFETY: copies of the rows of the index's column and of the operator class's type.
    unsafe {
        let class_row = copy_of(sys::CLAOID as i32, class, 0);
        let stored = (*body::<sys::FormData_pg_opclass>(class_row)).opckeytype;
        sys::heap_freetuple(class_row);
        let type_row = copy_of(sys::TYPEOID as i32, stored, 0);
        let of_type: *const sys::FormData_pg_type = body(type_row);
        let row = copy_of(sys::ATTNUM as i32, index, number);
        let attribute: *mut sys::FormData_pg_attribute = body(row);
        (*attribute).atttypid = stored;
        (*attribute).atttypmod = -1;
        (*attribute).attlen = (*of_type).typlen;
        (*attribute).attbyval = (*of_type).typbyval;
        (*attribute).attalign = (*of_type).typalign;
        (*attribute).attstorage = (*of_type).typstorage;
        (*attribute).attcompression = 0;
        sys::heap_freetuple(type_row);
        write(sys::AttributeRelationId, row);
    }
}

/// The index depends on its operator class. (That of btree, where it is not built in, stays noted, too: the type has it.)
unsafe fn depend(index: Oid, class: Oid) {
    let address = |catalog, object| sys::ObjectAddress { classId: catalog, objectId: object, objectSubId: 0 };
    // SAFETY: addresses of objects that exist.
    unsafe {
        sys::recordDependencyOn(
            &address(sys::RelationRelationId, index),
            &address(sys::OperatorClassRelationId, class),
            sys::DEPENDENCY_NORMAL,
        );
    }
}

/// Makes the relation cache read all of an open index anew, as it does of one that is being created: as long as there is no access
/// information. Of an index that has it, only little is ever read again, as an index's method does not change.
unsafe fn forget_access_info(index: Oid) {
    // SAFETY: the creator has the index open and does not look at the access information before the next command counter
    // increment, which builds it. What is in the context is in nothing else.
    unsafe {
        let rel = sys::RelationIdGetRelation(index);
        let context = (*rel).rd_indexcxt;
        (*rel).rd_indexcxt = ptr::null_mut();
        (*rel).rd_indam = ptr::null_mut();
        (*rel).rd_amcache = ptr::null_mut();
        if !context.is_null() {
            sys::MemoryContextDelete(context);
        }
        sys::RelationClose(rel);
    }
}
