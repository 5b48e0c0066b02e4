//! Changes the access method of an index in the catalogs, so that they say what they would if it had been made with that method.
//! What is in its file is not touched: the caller sees to it that it is built before anything reads it.

use core::ptr;

use super::encrypted_indexes::{mark, unmark};
use crate::index::method_oid;
use crate::pg::error::INTERNAL_ERROR;
use crate::pg::tuple::{body, HeapTuple};
use crate::pg::{sys, Datum, Oid, INVALID_OID};
use crate::pg_error;

/// Gives the index the access method `method`, with the default operator classes for the types of its columns, and, if it is the
/// index of a constraint, the mark that goes with that method. `expressions` are its expressions, as
/// `RelationGetIndexExpressions` gives them.
///
/// # Safety
/// The index is one of `table`, its catalog rows can be seen, it is locked, and nobody looks at its relation cache entry before
/// this returns. Each key column's type must have an operator class, see [`class_for`].
pub unsafe fn set_method(index: Oid, table: Oid, method: Oid, expressions: *mut sys::List) {
    // SAFETY: catalogs are read and written as index_create does; the caller's promise.
    unsafe {
        let row = copy_of(sys::INDEXRELID as _, index, 0);
        let form: *const sys::FormData_pg_index = body(row);
        let nkeys = (*form).indnkeyatts as usize;
        let mut classes = [INVALID_OID; sys::INDEX_MAX_KEYS as usize];
        for (i, (class, column)) in classes.iter_mut().zip(key_columns(form, table, expressions)).enumerate() {
            *class = class_for(column.type_oid(), method);
            exchange_dependency(index, class_for(column.type_oid(), sys::get_rel_relam(index)), *class);
            update_attribute(index, i as i16 + 1, *class, column);
        }
        update_index(row, &classes[..nkeys]);
        update_class(index, method);
        forget_access_info(index);
        sys::CommandCounterIncrement();
    }
}

/// The default operator class of the access method for a type, or InvalidOid.
pub fn class_for(type_oid: Oid, method: Oid) -> Oid {
    // SAFETY: a syscache look-up.
    unsafe { sys::GetDefaultOpClass(type_oid, method) }
}

/// Whether key column `i` of the index, from 0, has the default operator class of the index's access method for `type_oid`.
///
/// # Safety
/// An open index with as many columns.
pub unsafe fn has_default_class(index: sys::Relation, i: usize, type_oid: Oid) -> bool {
    // SAFETY: the caller's promise; syscache look-ups.
    unsafe {
        let class = class_for(type_oid, (*(*index).rd_rel).relam);
        class != INVALID_OID
            && sys::get_opclass_family(class) == *(*index).rd_opfamily.add(i)
            && sys::get_opclass_input_type(class) == *(*index).rd_opcintype.add(i)
    }
}

/// What a key column of an index holds.
pub enum Column {
    OfTable(Oid, i16),
    Expression(*mut sys::Node),
}

/// The key columns of an index of `table` whose row of pg_index is `form`, with these expressions.
///
/// # Safety
/// `form` and `expressions` must be of one index, and stay while the result is used.
pub unsafe fn key_columns(
    form: *const sys::FormData_pg_index,
    table: Oid,
    expressions: *mut sys::List,
) -> impl Iterator<Item = Column> {
    let mut next_expression = 0;
    // SAFETY: the caller's promise: as many column numbers, and an expression for each that is 0.
    unsafe {
        (0..(*form).indnkeyatts as usize).map(move |i| match *(*form).indkey.values.as_ptr().add(i) {
            0 => {
                next_expression += 1;
                Column::Expression((*(*expressions).elements.add(next_expression - 1)).ptr_value.cast())
            }
            number => Column::OfTable(table, number),
        })
    }
}

impl Column {
    /// # Safety
    /// A column that is there, or an expression.
    pub unsafe fn type_oid(&self) -> Oid {
        // SAFETY: a column that is there, or an expression.
        unsafe {
            match *self {
                Column::OfTable(table, number) => sys::get_atttype(table, number),
                Column::Expression(node) => sys::exprType(node),
            }
        }
    }
}

/// A copy of a catalog row that is known to be there. `number` is 0 where the cache has one key.
unsafe fn copy_of(cache: i32, key: Oid, number: i16) -> HeapTuple {
    // SAFETY: a syscache look-up.
    unsafe {
        let row = sys::SearchSysCacheCopy(cache as _, key as Datum, number as Datum, 0, 0);
        if row.is_null() {
            pg_error!(INTERNAL_ERROR, "cache lookup failed for object {key}");
        }
        row
    }
}

/// Writes a changed copy of a row, and frees it.
unsafe fn write(catalog: Oid, row: HeapTuple) {
    // SAFETY: a changed copy of a row of that catalog.
    unsafe {
        let rel = sys::table_open(catalog, sys::RowExclusiveLock as i32);
        sys::CatalogTupleUpdate(rel, &raw mut (*row).t_self, row);
        sys::table_close(rel, sys::RowExclusiveLock as i32);
        sys::heap_freetuple(row);
    }
}

/// `row` with another value of one column, by its number; 0 makes it NULL. Frees `row`.
unsafe fn with_value<const COLUMNS: usize>(catalog: Oid, row: HeapTuple, column: u32, value: Datum) -> HeapTuple {
    let (mut values, mut nulls, mut replaced) = ([0; COLUMNS], [false; COLUMNS], [false; COLUMNS]);
    let place = column as usize - 1;
    (values[place], nulls[place], replaced[place]) = (value, value == 0, true);
    // SAFETY: arrays of as many elements as the catalog has columns.
    unsafe {
        let rel = sys::table_open(catalog, sys::AccessShareLock as i32);
        let (values, nulls, replaced) = (values.as_ptr(), nulls.as_ptr(), replaced.as_ptr());
        let changed = sys::heap_modify_tuple(row, (*rel).rd_att, values, nulls, replaced);
        sys::table_close(rel, sys::AccessShareLock as i32);
        sys::heap_freetuple(row);
        changed
    }
}

unsafe fn update_class(index: Oid, method: Oid) {
    const COLUMNS: usize = sys::Natts_pg_class as usize;
    // SAFETY: a copy of the index's row.
    unsafe {
        let mut row = copy_of(sys::RELOID as _, index, 0);
        if sys::get_index_constraint(index) != INVALID_OID {
            let mut is_null = false;
            let column = sys::Anum_pg_class_reloptions;
            let options = sys::SysCacheGetAttr(sys::RELOID as _, row, column as i16, &mut is_null);
            let options = if is_null { ptr::null_mut() } else { sys::untransformRelOptions(options) };
            let options = if method == method_oid() { mark(options) } else { unmark(options) };
            let none = ptr::null_mut();
            let options = sys::transformRelOptions(0, options, ptr::null(), none, false, false);
            row = with_value::<COLUMNS>(sys::RelationRelationId, row, column, options);
        }
        (*body::<sys::FormData_pg_class>(row)).relam = method;
        write(sys::RelationRelationId, row);
    }
}

/// `row` is a copy of the index's row, which is freed.
unsafe fn update_index(row: HeapTuple, classes: &[Oid]) {
    const COLUMNS: usize = sys::Natts_pg_index as usize;
    // SAFETY: a row of that catalog.
    unsafe {
        let classes = sys::buildoidvector(classes.as_ptr(), classes.len() as i32) as Datum;
        let catalog = sys::IndexRelationId;
        write(catalog, with_value::<COLUMNS>(catalog, row, sys::Anum_pg_index_indclass, classes));
    }
}

/// The index's column as `ConstructTupleDescriptor` makes it: of the type that the operator class stores, or of its own.
unsafe fn update_attribute(index: Oid, number: i16, class: Oid, column: Column) {
    // SAFETY: copies of catalog rows that are there.
    unsafe {
        let class_row = copy_of(sys::CLAOID as _, class, 0);
        let stored = (*body::<sys::FormData_pg_opclass>(class_row)).opckeytype;
        sys::heap_freetuple(class_row);
        let row = copy_of(sys::ATTNUM as _, index, number);
        let to: *mut sys::FormData_pg_attribute = body(row);
        match column {
            Column::OfTable(table, number) if stored == INVALID_OID => {
                let of_table = copy_of(sys::ATTNUM as _, table, number);
                let from: *const sys::FormData_pg_attribute = body(of_table);
                (*to).atttypid = (*from).atttypid;
                (*to).atttypmod = (*from).atttypmod;
                (*to).attlen = (*from).attlen;
                (*to).attbyval = (*from).attbyval;
                (*to).attalign = (*from).attalign;
                (*to).attstorage = (*from).attstorage;
                (*to).attcompression = (*from).attcompression;
                sys::heap_freetuple(of_table);
            }
            Column::Expression(node) if stored == INVALID_OID => {
                set_type(to, sys::exprType(node), sys::exprTypmod(node));
            }
            _ => set_type(to, stored, -1),
        }
        write(sys::AttributeRelationId, row);
    }
}

unsafe fn set_type(to: *mut sys::FormData_pg_attribute, type_oid: Oid, typmod: i32) {
    // SAFETY: a row of pg_attribute; a copy of the type's row.
    unsafe {
        let type_row = copy_of(sys::TYPEOID as _, type_oid, 0);
        let of_type: *const sys::FormData_pg_type = body(type_row);
        (*to).atttypid = type_oid;
        (*to).atttypmod = typmod;
        (*to).attlen = (*of_type).typlen;
        (*to).attbyval = (*of_type).typbyval;
        (*to).attalign = (*of_type).typalign;
        (*to).attstorage = (*of_type).typstorage;
        (*to).attcompression = 0;
        sys::heap_freetuple(type_row);
    }
}

/// The index depends on its operator class, unless that is built in.
unsafe fn exchange_dependency(index: Oid, old: Oid, new: Oid) {
    let address = |catalog, object| sys::ObjectAddress { classId: catalog, objectId: object, objectSubId: 0 };
    let (relations, classes) = (sys::RelationRelationId, sys::OperatorClassRelationId);
    // SAFETY: addresses of objects that exist.
    unsafe {
        sys::deleteDependencyRecordsForSpecific(relations, index, sys::DEPENDENCY_NORMAL as i8, classes, old);
        sys::recordDependencyOn(&address(relations, index), &address(classes, new), sys::DEPENDENCY_NORMAL);
    }
}

/// Makes the relation cache read all of an index anew, as it does of one that is being created: as long as there is no access
/// information. Of an index that has it, only little is ever read again, as an index's method does not change.
unsafe fn forget_access_info(index: Oid) {
    // SAFETY: nobody looks at the access information before the next command counter increment, which builds it anew or throws the
    // entry away. What is in the context is in nothing else.
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
