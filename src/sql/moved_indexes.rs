//! `ALTER TABLE … SET ACCESS METHOD`: the indexes of a table that becomes an encrypted one become encrypted ones, and those of one
//! that is not encrypted any more become btrees again. The command builds all indexes anew, so their catalog rows are changed before.

use core::ffi::c_char;
use core::ptr;

use super::encrypted_indexes::{each, is_ordered_as_by_btree};
use super::index_catalogs::{class_for, has_default_class, key_columns, set_method, Column};
use super::plaintext_indexes;
use super::subcommands::{lock_table, run_first};
use crate::index::{has_rows, method_oid, settings};
use crate::pg::{majors, sys, Oid, INVALID_OID};

/// Whether the command sets the access method of a table.
///
/// # Safety
/// `command` must be a node of that type.
pub unsafe fn concerns(command: *mut sys::AlterTableStmt) -> bool {
    // SAFETY: a parse tree.
    unsafe {
        let is_table = (*command).objtype == sys::OBJECT_TABLE || (*command).objtype == sys::OBJECT_MATVIEW;
        is_table && !method_of(command).is_null()
    }
}

/// The part of the command that sets the access method, or null.
unsafe fn method_of(command: *mut sys::AlterTableStmt) -> *mut sys::AlterTableCmd {
    let mut found = ptr::null_mut();
    // SAFETY: a parse tree.
    unsafe {
        each((*command).cmds, |part: *mut sys::AlterTableCmd| {
            if (*part).subtype == sys::AT_SetAccessMethod {
                found = part;
            }
            true
        });
    }
    found
}

/// Changes the indexes of the table that the command moves. If it does more than that, the table is moved here, and the rest remains:
/// what makes indexes, or makes them anew, must find the table as it will be. Raises what PostgreSQL raises of a table that is not the user's, and an ERROR if an index remains in
/// the clear that must not.
///
/// # Safety
/// `command` must be a private copy that [`concerns`] holds for, of the text `query_string`.
pub unsafe fn prepare(command: *mut sys::AlterTableStmt, query_string: *const c_char) {
    // SAFETY: the caller's promise; syscache look-ups.
    unsafe {
        let table = lock_table(command);
        let ours = sys::get_table_am_oid(c"encrypted_heap".as_ptr(), true);
        let kind = if table == INVALID_OID { 0 } else { sys::get_rel_relkind(table) as u8 };
        if ours == INVALID_OID
            || method_oid() == INVALID_OID
            || (kind != sys::RELKIND_RELATION && kind != sys::RELKIND_MATVIEW)
        {
            return;
        }
        let name = match (*method_of(command)).name {
            name if name.is_null() => sys::default_table_access_method.cast_const(),
            name => name.cast_const(),
        };
        let (old, new) = (sys::get_rel_relam(table), sys::get_table_am_oid(name, true));
        let (becomes_ours, was_ours) = (new == ours && old != ours, old == ours && new != ours && new != INVALID_OID);
        if !becomes_ours && !was_ours {
            return;
        }
        let moves = |part: *mut sys::AlterTableCmd| (*part).subtype == sys::AT_SetAccessMethod;
        if !each((*command).cmds, moves) {
            // comes here again, alone
            run_first(command, moves, query_string);
        } else if (*(*command).cmds).length == 1 {
            move_indexes(table, becomes_ours);
        }
    }
}

unsafe fn move_indexes(table: Oid, encrypt: bool) {
    // SAFETY: the table is locked.
    unsafe {
        let open = sys::table_open(table, sys::NoLock as i32);
        let indexes = sys::RelationGetIndexList(open);
        sys::table_close(open, sys::NoLock as i32);
        let to = if encrypt { method_oid() } else { sys::BTREE_AM_OID };
        let from = if encrypt { sys::BTREE_AM_OID } else { method_oid() };
        let count = if indexes.is_null() { 0 } else { (*indexes).length as usize };
        for i in 0..count {
            let index = (*(*indexes).elements.add(i)).oid_value;
            let open = sys::index_open(index, sys::AccessExclusiveLock as i32);
            let wanted = !encrypt || settings::ENCRYPT.get();
            let moves = wanted && (*(*open).rd_rel).relam == from && can_move(open, table, to);
            let expressions = sys::RelationGetIndexExpressions(open);
            sys::index_close(open, sys::NoLock as i32);
            if moves {
                set_method(index, table, to, expressions);
            } else if encrypt {
                plaintext_indexes::report(index, table);
            }
        }
    }
}

/// Whether the index would be the same with the access method `to`. It is not if it is attached to a partitioned one, whose method it must
/// have, or if it has another operator class than the default one.
unsafe fn can_move(index: sys::Relation, table: Oid, to: Oid) -> bool {
    // SAFETY: an open index of the table.
    unsafe {
        let form = (*index).rd_index;
        if (*(*index).rd_rel).relispartition
            || (*form).indisexclusion
            || ((*form).indisunique && !majors::UNIQUE_BY_OTHER_METHODS)
        {
            return false;
        }
        let expressions = sys::RelationGetIndexExpressions(index);
        key_columns(form, table, expressions).enumerate().all(|(i, column)| {
            let type_oid = column.type_oid();
            has_default_class(index, i, type_oid)
                && class_for(type_oid, to) != INVALID_OID
                && is_ordered_as_by_btree(type_oid)
                && !(matches!(column, Column::Expression(_)) && has_rows(type_oid))
        })
    }
}
