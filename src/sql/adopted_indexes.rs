//! `ALTER TABLE … ADD CONSTRAINT … USING INDEX` with an encrypted index. PostgreSQL takes btrees only there, lest a dump give
//! another index; the mark in the index's options (`encrypted_indexes.rs`) sees to that. So the command is given on in the form
//! into which PostgreSQL itself brings it after its checks.

use core::ffi::c_char;
use core::ptr;

use super::encrypted_indexes::{each, mark, table_of};
use super::index_catalogs::has_default_class;
use super::subcommands::{changes_types, lock_table, node, run, run_first};
use crate::index::{method_oid, METHOD};
use crate::pg::error::{Report, WRONG_OBJECT_TYPE};
use crate::pg::{majors, rel, sys, Oid, INVALID_OID};

/// Whether the command adds a constraint with an index that there is and that is an encrypted one.
///
/// # Safety
/// `command` must be a node of that type; in a transaction.
pub unsafe fn concerns(command: *mut sys::AlterTableStmt) -> bool {
    // SAFETY: a parse tree; nodes are of the type that their tag says.
    unsafe {
        let mut found = false;
        if majors::UNIQUE_BY_OTHER_METHODS && (*command).objtype == sys::OBJECT_TABLE {
            each((*command).cmds, |part: *mut sys::AlterTableCmd| {
                let constraint = constraint_of(part);
                if !constraint.is_null() {
                    let table = table_of((*command).relation);
                    found |= table != INVALID_OID && encrypted_index(table, constraint) != INVALID_OID;
                }
                true
            });
        }
        found
    }
}

/// The constraint that `part` adds with an index that there is, or null.
unsafe fn constraint_of(part: *mut sys::AlterTableCmd) -> *mut sys::Constraint {
    // SAFETY: nodes are of the type that their tag says.
    unsafe {
        let def = (*part).def;
        if (*part).subtype != sys::AT_AddConstraint || def.is_null() || (*def).type_ != sys::T_Constraint {
            return ptr::null_mut();
        }
        let constraint: *mut sys::Constraint = def.cast();
        let is_unique = (*constraint).contype == sys::CONSTR_PRIMARY || (*constraint).contype == sys::CONSTR_UNIQUE;
        if is_unique && !(*constraint).indexname.is_null() {
            constraint
        } else {
            ptr::null_mut()
        }
    }
}

/// The index that the constraint names, looked for where PostgreSQL looks for it, if it is an encrypted one; else InvalidOid.
unsafe fn encrypted_index(table: Oid, constraint: *const sys::Constraint) -> Oid {
    // SAFETY: syscache look-ups.
    unsafe {
        let index = sys::get_relname_relid((*constraint).indexname, sys::get_rel_namespace(table));
        let ours = method_oid();
        let is_ours = index != INVALID_OID && ours != INVALID_OID && sys::get_rel_relam(index) == ours;
        if is_ours {
            index
        } else {
            INVALID_OID
        }
    }
}

/// Changes the command so that PostgreSQL adopts the encrypted indexes that it names, and marks them. What PostgreSQL would
/// refuse is left as it is, for PostgreSQL to say why.
///
/// Raises what PostgreSQL raises of a table that is not the user's, and of an index whose order is not the default.
///
/// # Safety
/// `command` must be a private copy that [`concerns`] holds for, of the text `query_string`.
pub unsafe fn adopt(command: *mut sys::AlterTableStmt, query_string: *const c_char) {
    // SAFETY: a private copy; nodes are made in the memory context that it is in.
    unsafe {
        let table = lock_table(command);
        if table == INVALID_OID {
            return;
        }
        // PostgreSQL looks at an index that is to be adopted after a change of type has made it anew
        if changes_types(command) {
            run_first(command, |part| constraint_of(part).is_null(), query_string);
        }
        let mut parts = ptr::null_mut();
        each((*command).cmds, |part: *mut sys::AlterTableCmd| {
            let constraint = constraint_of(part);
            let index = if constraint.is_null() { INVALID_OID } else { encrypted_index(table, constraint) };
            if index != INVALID_OID {
                parts = replace(parts, part, table, index, query_string);
            } else {
                parts = sys::lappend(parts, part.cast());
            }
            true
        });
        (*command).cmds = parts;
    }
}

/// Appends to `parts` what stands for `part`, which adds a constraint with `index`.
unsafe fn replace(
    parts: *mut sys::List,
    part: *mut sys::AlterTableCmd,
    table: Oid,
    index: Oid,
    query_string: *const c_char,
) -> *mut sys::List {
    // SAFETY: a constraint, as `constraint_of` has found; the table is locked, so its index stays.
    unsafe {
        let constraint: *mut sys::Constraint = (*part).def.cast();
        let open = sys::index_open(index, sys::AccessShareLock as i32);
        let mut parts = parts;
        if fits(open, table, constraint) {
            check_order(open, table, query_string, (*constraint).location);
            if (*constraint).contype == sys::CONSTR_PRIMARY {
                for i in 0..(*(*open).rd_index).indnkeyatts as usize {
                    let not_null: *mut sys::AlterTableCmd = node(sys::T_AlterTableCmd);
                    (*not_null).subtype = sys::AT_SetNotNull;
                    (*not_null).name = sys::get_attname(table, rel::key_column(open, i), false);
                    parts = sys::lappend(parts, not_null.cast());
                }
            }
            (*part).subtype = sys::AT_AddIndexConstraint;
            (*part).def = index_statement(constraint, index).cast();
        }
        sys::relation_close(open, sys::NoLock as i32);
        // (PostgreSQL will refuse a partitioned index)
        let is_stored = sys::get_rel_relkind(index) as u8 == sys::RELKIND_INDEX;
        if (*part).subtype == sys::AT_AddIndexConstraint && is_stored {
            write_mark(index, query_string);
        }
        sys::lappend(parts, part.cast())
    }
}

/// Whether the index is one that PostgreSQL adopts, as far as it looks before it asks for a btree.
unsafe fn fits(index: sys::Relation, table: Oid, constraint: *const sys::Constraint) -> bool {
    // SAFETY: an open index.
    unsafe {
        let form = (*index).rd_index;
        sys::get_index_constraint((*index).rd_id) == INVALID_OID
            && (*form).indrelid == table
            && (*form).indisvalid
            && (*form).indisunique
            && (*form).indisready
            && sys::RelationGetIndexExpressions(index).is_null()
            && sys::RelationGetIndexPredicate(index).is_null()
            && ((*form).indimmediate || (*constraint).deferrable)
    }
}

/// As PostgreSQL does: a constraint's index has the default operator classes, collations and order.
unsafe fn check_order(index: sys::Relation, table: Oid, query_string: *const c_char, location: i32) {
    // SAFETY: an open index on columns of the table.
    unsafe {
        for i in 0..(*(*index).rd_index).indnkeyatts as usize {
            let number = rel::key_column(index, i);
            let (mut type_oid, mut typmod, mut collation) = (0, 0, 0);
            sys::get_atttypetypmodcoll(table, number, &mut type_oid, &mut typmod, &mut collation);
            let is_default = has_default_class(index, i, type_oid)
                && *(*index).rd_indcollation.add(i) == collation
                && *(*index).rd_indoption.add(i) == 0;
            if !is_default {
                let (name, number) = (rel::name(index), i + 1);
                // in one statement: what format_args! makes may not outlive it before Rust 1.89
                Report::new(
                    WRONG_OBJECT_TYPE,
                    format_args!("index \"{name}\" column number {number} does not have default sorting behavior"),
                )
                .detail(format_args!("Cannot create a primary key or unique constraint using such an index."))
                .at(query_string, location)
                .raise();
            }
        }
    }
}

/// What PostgreSQL's own transformation makes of such a constraint.
unsafe fn index_statement(constraint: *const sys::Constraint, index: Oid) -> *mut sys::IndexStmt {
    // SAFETY: a node of that type.
    unsafe {
        let statement: *mut sys::IndexStmt = node(sys::T_IndexStmt);
        (*statement).idxname = (*constraint).conname;
        (*statement).accessMethod = sys::pstrdup(METHOD.as_ptr());
        (*statement).indexOid = index;
        (*statement).unique = true;
        (*statement).primary = (*constraint).contype == sys::CONSTR_PRIMARY;
        (*statement).isconstraint = true;
        (*statement).deferrable = (*constraint).deferrable;
        (*statement).initdeferred = (*constraint).initdeferred;
        (*statement).transformed = true;
        statement
    }
}

/// `ALTER INDEX … SET (deduplicate_items = 'OFF')`
unsafe fn write_mark(index: Oid, query_string: *const c_char) {
    // SAFETY: nodes made here, given to the server as a part of the command.
    unsafe {
        let part: *mut sys::AlterTableCmd = node(sys::T_AlterTableCmd);
        (*part).subtype = sys::AT_SetRelOptions;
        (*part).def = mark(ptr::null_mut()).cast();
        let command: *mut sys::AlterTableStmt = node(sys::T_AlterTableStmt);
        let schema = sys::get_namespace_name(sys::get_rel_namespace(index));
        (*command).relation = sys::makeRangeVar(schema, sys::get_rel_name(index), -1);
        (*command).cmds = sys::lappend(ptr::null_mut(), part.cast());
        (*command).objtype = sys::OBJECT_INDEX;
        run(command, query_string);
    }
}
