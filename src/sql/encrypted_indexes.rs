//! Which indexes become encrypted ones without being asked: `pg_vault_tde.encrypt_indexes`. The utility hook looks at a
//! command's parse tree and, where an index of an encrypted table would be a btree, names `encrypted_btree`.
//!
//! A constraint cannot name its access method in SQL, so a dump does not say which one its index has, and a pg_upgrade would
//! put the file of an encrypted index under a btree. Therefore the index of a constraint is marked by a storage option
//! that a dump does carry: `deduplicate_items = 'OFF'`, in capitals, which is true of every encrypted index anyway.
//! A constraint that is so marked gets an encrypted index whatever the parameter says.

use core::ffi::{c_char, CStr};
use core::ptr;

use super::{adopted_indexes, moved_indexes};
use crate::index::{has_rows, method_oid, settings, METHOD};
use crate::pg::error::UNDEFINED_OBJECT;
use crate::pg::fmgr::str_of;
use crate::pg::{majors, sys, Oid, INVALID_OID};
use crate::pg_error;

const OPTION: &CStr = c"deduplicate_items";
const MARK: &CStr = c"OFF";

/// The command with encrypted indexes where they are due: as it is, or a changed copy.
///
/// # Safety
/// `statement` must be a utility command that is about to be run, of the text `query_string`; in a transaction.
pub unsafe fn with_encrypted_indexes(
    statement: *mut sys::PlannedStmt,
    query_string: *const c_char,
) -> *mut sys::PlannedStmt {
    // SAFETY: the caller's promise; nodes are of the type that their tag says.
    unsafe {
        let mut statement = statement;
        let mut node = (*statement).utilityStmt;
        let kind = (*node).type_;
        if kind == sys::T_IndexStmt {
            check_columns(node.cast());
        }
        if kind == sys::T_AlterTableStmt && moved_indexes::concerns(node.cast()) {
            statement = sys::copyObjectImpl(statement.cast()).cast();
            node = (*statement).utilityStmt;
            moved_indexes::prepare(node.cast(), query_string);
        }
        let adopts = kind == sys::T_AlterTableStmt && adopted_indexes::concerns(node.cast());
        let concerned = (kind == sys::T_IndexStmt && concerns_index(node.cast(), query_string))
            || (kind == sys::T_AlterTableStmt && concerns_table(node.cast()));
        if !concerned && !adopts {
            return statement;
        }
        let statement: *mut sys::PlannedStmt = sys::copyObjectImpl(statement.cast()).cast();
        let node = (*statement).utilityStmt;
        if adopts {
            adopted_indexes::adopt(node.cast(), query_string);
        }
        if kind == sys::T_IndexStmt {
            encrypt_index(node.cast());
        } else if concerned {
            encrypt_constraints(node.cast());
        }
        statement
    }
}

/// CREATE INDEX, and the indexes of the constraints of CREATE TABLE, which come here one by one.
unsafe fn concerns_index(index: *mut sys::IndexStmt, query_string: *const c_char) -> bool {
    // SAFETY: a node of that type.
    unsafe {
        let restored = (*index).isconstraint && is_marked((*index).options);
        (may_encrypt() || restored)
            && !(*index).accessMethod.is_null()
            && str_of((*index).accessMethod) == "btree"
            && (*index).indexOid == INVALID_OID
            && (!(*index).unique || majors::UNIQUE_BY_OTHER_METHODS)
            && !(*index).relation.is_null()
            && method_oid() != INVALID_OID
            && {
                let table = table_of((*index).relation);
                table != INVALID_OID
                    && (restored || wants_encrypted_indexes(table))
                    && each((*index).indexParams, |element: *mut sys::IndexElem| {
                        (*element).opclass.is_null()
                            && if (*element).name.is_null() {
                                let type_oid = expression_type(table, index, (*element).expr, query_string);
                                is_ordered_as_by_btree(type_oid) && !has_rows(type_oid)
                            } else {
                                has_class(table, (*element).name)
                            }
                    })
            }
    }
}

/// The type of an expression of CREATE INDEX. Raises what PostgreSQL raises of an expression that is wrong.
unsafe fn expression_type(
    table: Oid,
    index: *const sys::IndexStmt,
    expression: *mut sys::Node,
    query_string: *const c_char,
) -> Oid {
    // SAFETY: as transformIndexStmt does, with a copy of the expression.
    unsafe {
        if (*index).transformed {
            return sys::exprType(expression);
        }
        let lock = sys::AccessShareLock as i32;
        let rel = sys::table_open(table, lock);
        let state = sys::make_parsestate(ptr::null_mut());
        (*state).p_sourcetext = query_string;
        let item = sys::addRangeTableEntryForRelation(state, rel, lock, ptr::null_mut(), false, true);
        sys::addNSItemToQuery(state, item, false, true, true);
        let copy = sys::copyObjectImpl(expression.cast()).cast();
        let transformed = sys::transformExpr(state, copy, sys::EXPR_KIND_INDEX_EXPRESSION);
        let type_oid = sys::exprType(transformed);
        sys::free_parsestate(state);
        sys::table_close(rel, lock);
        type_oid
    }
}

/// A pg_upgrade's dump names the access method of each index but those of constraints.
fn may_encrypt() -> bool {
    // SAFETY: a plain variable.
    settings::ENCRYPT.get() && unsafe { !sys::IsBinaryUpgrade }
}

unsafe fn encrypt_index(index: *mut sys::IndexStmt) {
    // SAFETY: a private copy.
    unsafe {
        (*index).accessMethod = sys::pstrdup(METHOD.as_ptr());
        if (*index).isconstraint {
            (*index).options = mark((*index).options);
        }
    }
}

/// ALTER TABLE … ADD CONSTRAINT, and ADD COLUMN with one.
unsafe fn concerns_table(command: *mut sys::AlterTableStmt) -> bool {
    // SAFETY: a node of that type.
    unsafe {
        if !majors::UNIQUE_BY_OTHER_METHODS || (*command).objtype != sys::OBJECT_TABLE {
            return false;
        }
        let (mut any, mut marked) = (false, false);
        for_each_constraint(command, |constraint, _| {
            any |= may_encrypt();
            marked |= is_marked((*constraint).options);
        });
        (any || marked) && method_oid() != INVALID_OID && {
            let table = table_of((*command).relation);
            table != INVALID_OID && (marked || wants_encrypted_indexes(table))
        }
    }
}

unsafe fn encrypt_constraints(command: *mut sys::AlterTableStmt) {
    // SAFETY: a private copy.
    unsafe {
        let table = table_of((*command).relation);
        let unasked = may_encrypt() && wants_encrypted_indexes(table);
        for_each_constraint(command, |constraint, column| {
            let fits = if column.is_null() {
                each((*constraint).keys, |key: *mut sys::String| {
                    has_class(table, (*key).sval) || is_added(command, (*key).sval)
                })
            } else {
                type_has_class((*column).typeName)
            };
            if fits && (unasked || is_marked((*constraint).options)) {
                (*constraint).access_method = sys::pstrdup(METHOD.as_ptr());
                (*constraint).options = mark((*constraint).options);
            }
        });
    }
}

/// Calls `body` with each primary key or unique constraint that the command adds and whose index it makes, and with the
/// definition of the column that it is written at, or null.
unsafe fn for_each_constraint(
    command: *mut sys::AlterTableStmt,
    mut body: impl FnMut(*mut sys::Constraint, *mut sys::ColumnDef),
) {
    // SAFETY: a parse tree; nodes are of the type that their tag says.
    unsafe {
        each((*command).cmds, |part: *mut sys::AlterTableCmd| {
            let def = (*part).def;
            if def.is_null() {
                return true;
            }
            if (*part).subtype == sys::AT_AddConstraint && is_index_constraint(def) {
                body(def.cast(), ptr::null_mut());
            } else if (*part).subtype == sys::AT_AddColumn && (*def).type_ == sys::T_ColumnDef {
                let column: *mut sys::ColumnDef = def.cast();
                each((*column).constraints, |constraint: *mut sys::Node| {
                    if is_index_constraint(constraint) {
                        body(constraint.cast(), column);
                    }
                    true
                });
            }
            true
        });
    }
}

unsafe fn is_index_constraint(node: *mut sys::Node) -> bool {
    // SAFETY: nodes are of the type that their tag says.
    unsafe {
        if (*node).type_ != sys::T_Constraint {
            return false;
        }
        let constraint: *mut sys::Constraint = node.cast();
        ((*constraint).contype == sys::CONSTR_PRIMARY || (*constraint).contype == sys::CONSTR_UNIQUE)
            && (*constraint).indexname.is_null()
            && (*constraint).access_method.is_null()
            && !majors::without_overlaps(constraint)
    }
}

/// Whether `name` is a column that the same command adds, with a type that can be indexed.
unsafe fn is_added(command: *mut sys::AlterTableStmt, name: *const c_char) -> bool {
    let mut found = false;
    // SAFETY: as for `for_each_constraint`.
    unsafe {
        each((*command).cmds, |part: *mut sys::AlterTableCmd| {
            if (*part).subtype == sys::AT_AddColumn && (*(*part).def).type_ == sys::T_ColumnDef {
                let column: *mut sys::ColumnDef = (*part).def.cast();
                found |= str_of((*column).colname) == str_of(name) && type_has_class((*column).typeName);
            }
            true
        });
    }
    found
}

/// The table's OID, or InvalidOid; not locked.
///
/// # Safety
/// In a transaction.
pub unsafe fn table_of(name: *mut sys::RangeVar) -> Oid {
    // SAFETY: without a lock: what is decided here is looked at again by nobody, but a table keeps its method for as long as
    // commands that need the lock do not change it.
    unsafe { sys::RangeVarGetRelidExtended(name, sys::NoLock as i32, sys::RVR_MISSING_OK, None, ptr::null_mut()) }
}

/// Whether indexes of the table become encrypted ones. In a tree of partitions it is its root that decides, since an index can only be
/// attached to one of the same access method.
unsafe fn wants_encrypted_indexes(table: Oid) -> bool {
    // SAFETY: syscache look-ups; the last of a partition's ancestors is the root.
    unsafe {
        if !sys::get_rel_relispartition(table) {
            return is_encrypted(table);
        }
        let ancestors = sys::get_partition_ancestors(table);
        is_encrypted((*(*ancestors).elements.add((*ancestors).length as usize - 1)).oid_value)
    }
}

/// Whether the table, or for a partitioned one what will be in it, is encrypted.
///
/// # Safety
/// In a transaction.
pub unsafe fn is_encrypted(table: Oid) -> bool {
    // SAFETY: syscache look-ups.
    unsafe {
        let ours = sys::get_table_am_oid(c"encrypted_heap".as_ptr(), true);
        let method = sys::get_rel_relam(table);
        if ours == INVALID_OID || method != INVALID_OID {
            return ours != INVALID_OID && method == ours;
        }
        if sys::get_rel_relkind(table) as u8 != sys::RELKIND_PARTITIONED_TABLE {
            return false;
        }
        let is_default = str_of(sys::default_table_access_method) == "encrypted_heap";
        let children = sys::find_inheritance_children(table, sys::NoLock as i32);
        let count = if children.is_null() { 0 } else { (*children).length as usize };
        is_default || (0..count).any(|i| is_encrypted((*(*children).elements.add(i)).oid_value))
    }
}

/// Whether the column's type can be indexed by `encrypted_btree`.
unsafe fn has_class(table: Oid, column: *const c_char) -> bool {
    // SAFETY: syscache look-ups.
    unsafe {
        let number = sys::get_attnum(table, column);
        number != 0 && is_ordered_as_by_btree(sys::get_atttype(table, number))
    }
}

/// Whether `encrypted_btree` keeps values of the type in the order in which btree does. It may have an operator class for a
/// type that the type can be taken for (text for citext), and so another equality.
///
/// # Safety
/// In a transaction.
pub unsafe fn is_ordered_as_by_btree(type_oid: Oid) -> bool {
    // SAFETY: syscache look-ups.
    unsafe {
        let ours = sys::GetDefaultOpClass(type_oid, method_oid());
        let btree = sys::GetDefaultOpClass(type_oid, sys::BTREE_AM_OID);
        ours != INVALID_OID
            && btree != INVALID_OID
            && sys::get_opclass_input_type(ours) == sys::get_opclass_input_type(btree)
    }
}

/// CREATE INDEX … USING encrypted_btree: refuses a column of a type that would be indexed as another type.
unsafe fn check_columns(index: *mut sys::IndexStmt) {
    // SAFETY: a node of that type.
    unsafe {
        let asked = !(*index).accessMethod.is_null()
            && str_of((*index).accessMethod).as_bytes() == METHOD.to_bytes()
            && !(*index).relation.is_null();
        let table = if asked { table_of((*index).relation) } else { INVALID_OID };
        if table == INVALID_OID || method_oid() == INVALID_OID {
            return;
        }
        each((*index).indexParams, |element: *mut sys::IndexElem| {
            let (name, number) = match (*element).name {
                name if name.is_null() || !(*element).opclass.is_null() => return true,
                name => (name, sys::get_attnum(table, name)),
            };
            let type_oid = if number == 0 { INVALID_OID } else { sys::get_atttype(table, number) };
            let taken_for_another = type_oid != INVALID_OID
                && sys::GetDefaultOpClass(type_oid, method_oid()) != INVALID_OID
                && sys::GetDefaultOpClass(type_oid, sys::BTREE_AM_OID) != INVALID_OID
                && !is_ordered_as_by_btree(type_oid);
            if taken_for_another {
                let type_name = str_of(sys::format_type_be(type_oid));
                pg_error!(
                    UNDEFINED_OBJECT,
                    "data type {type_name} of column \"{}\" has no operator class for access method \"encrypted_btree\"", str_of(name);
                    hint: ("Run SELECT vault_tde.add_operator_class('{type_name}').")
                );
            }
            true
        });
    }
}

unsafe fn type_has_class(name: *mut sys::TypeName) -> bool {
    // SAFETY: a node of that type, or null.
    unsafe {
        if name.is_null() {
            return false;
        }
        // serial and its like are no types; they are integers
        let names = (*name).names;
        if !names.is_null() && (*names).length == 1 {
            let word: *mut sys::String = (*(*names).elements).ptr_value.cast();
            if (*name).typeOid == INVALID_OID && str_of((*word).sval).contains("serial") {
                return true;
            }
        }
        let oid = sys::LookupTypeNameOid(ptr::null_mut(), name, true);
        oid != INVALID_OID && is_ordered_as_by_btree(oid)
    }
}

/// Whether `test` holds for all elements of a list of pointers. Stops at the first for which it does not.
///
/// # Safety
/// A list of such nodes, or null.
pub unsafe fn each<T>(list: *mut sys::List, mut test: impl FnMut(*mut T) -> bool) -> bool {
    // SAFETY: a list of such nodes, or null.
    unsafe {
        let count = if list.is_null() { 0 } else { (*list).length as usize };
        (0..count).all(|i| test((*(*list).elements.add(i)).ptr_value.cast()))
    }
}

/// Whether the options carry the mark of an encrypted constraint.
///
/// # Safety
/// A list of DefElem, or null.
pub unsafe fn is_marked(options: *mut sys::List) -> bool {
    let mut marked = false;
    // SAFETY: a list of DefElem.
    unsafe {
        each(options, |option: *mut sys::DefElem| {
            let named = (*option).defnamespace.is_null() && str_of((*option).defname).as_bytes() == OPTION.to_bytes();
            if named && !(*option).arg.is_null() && (*(*option).arg).type_ == sys::T_String {
                let value: *mut sys::String = (*option).arg.cast();
                marked |= str_of((*value).sval).as_bytes() == MARK.to_bytes();
            }
            true
        });
    }
    marked
}

/// The options without the mark.
///
/// # Safety
/// A list of DefElem, or null.
pub unsafe fn unmark(options: *mut sys::List) -> *mut sys::List {
    // SAFETY: a new list is made of the elements.
    unsafe {
        let mut kept = ptr::null_mut();
        each(options, |option: *mut sys::DefElem| {
            let only = sys::lappend(ptr::null_mut(), option.cast());
            if !is_marked(only) {
                kept = sys::lappend(kept, option.cast());
            }
            true
        });
        kept
    }
}

/// The options with the mark, in place of what they said about deduplication, which there is none of.
///
/// # Safety
/// A list of DefElem that may be changed, or null.
pub unsafe fn mark(options: *mut sys::List) -> *mut sys::List {
    // SAFETY: nodes are made in the current memory context; the list is a private copy.
    unsafe {
        let mut kept = ptr::null_mut();
        each(options, |option: *mut sys::DefElem| {
            if str_of((*option).defname).as_bytes() != OPTION.to_bytes() {
                kept = sys::lappend(kept, option.cast());
            }
            true
        });
        let value = sys::makeString(sys::pstrdup(MARK.as_ptr()));
        sys::lappend(kept, sys::makeDefElem(sys::pstrdup(OPTION.as_ptr()), value.cast(), -1).cast())
    }
}
