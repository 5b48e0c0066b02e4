//! Commands that a hook makes, and runs as parts of the user's.

use core::ffi::c_char;
use core::ptr;

use super::encrypted_indexes::each;
use crate::pg::{sys, Oid, INVALID_OID};

/// `makeNode()`
///
/// # Safety
/// `tag` must be that of `T`.
pub unsafe fn node<T>(tag: sys::NodeTag) -> *mut T {
    // SAFETY: each node begins with its tag.
    unsafe {
        let made: *mut T = sys::palloc0(size_of::<T>()).cast();
        made.cast::<sys::NodeTag>().write(tag);
        made
    }
}

/// Locks the table of the command as the command itself will, and makes the command name just that one, not another that may come into
/// the search path. InvalidOid if there is none and `IF EXISTS` allows that. Raises what PostgreSQL raises of a table that is
/// not the user's.
///
/// # Safety
/// `command` must be a private copy of a node of that type, which needs an ACCESS EXCLUSIVE lock.
pub unsafe fn lock_table(command: *mut sys::AlterTableStmt) -> Oid {
    // SAFETY: the caller's promise.
    unsafe {
        let relation = (*command).relation;
        let flags = if (*command).missing_ok { sys::RVR_MISSING_OK } else { 0 };
        let lock = sys::AccessExclusiveLock as i32;
        let owned = Some(sys::RangeVarCallbackOwnsRelation as _);
        let table = sys::RangeVarGetRelidExtended(relation, lock, flags, owned, ptr::null_mut());
        if table != INVALID_OID {
            (*relation).schemaname = sys::get_namespace_name(sys::get_rel_namespace(table));
        }
        table
    }
}

/// Runs a command as a part of that of the text `query_string`.
///
/// # Safety
/// Nobody else may use the command's nodes.
pub unsafe fn run(command: *mut sys::AlterTableStmt, query_string: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe {
        let statement: *mut sys::PlannedStmt = node(sys::T_PlannedStmt);
        (*statement).commandType = sys::CMD_UTILITY;
        (*statement).utilityStmt = command.cast();
        (*statement).stmt_location = -1;
        let (context, receiver) = (sys::PROCESS_UTILITY_SUBCOMMAND, sys::None_Receiver);
        let none = ptr::null_mut();
        sys::ProcessUtility(statement, query_string, false, context, none, ptr::null_mut(), receiver, ptr::null_mut());
        sys::CommandCounterIncrement();
    }
}

/// Whether the command changes the type of a column, and so may make indexes anew.
///
/// # Safety
/// A node of that type.
pub unsafe fn changes_types(command: *mut sys::AlterTableStmt) -> bool {
    // SAFETY: a parse tree.
    unsafe { !each((*command).cmds, |part: *mut sys::AlterTableCmd| (*part).subtype != sys::AT_AlterColumnType) }
}

/// Runs some parts of the command, and takes them out of it.
///
/// # Safety
/// A private copy of a node of that type, of the text `query_string`.
pub unsafe fn run_first(
    command: *mut sys::AlterTableStmt,
    is_first: impl Fn(*mut sys::AlterTableCmd) -> bool,
    query_string: *const c_char,
) {
    // SAFETY: the new command shares its parts with nobody.
    unsafe {
        let (mut firsts, mut others) = (ptr::null_mut(), ptr::null_mut());
        each((*command).cmds, |part: *mut sys::AlterTableCmd| {
            let list = if is_first(part) { &mut firsts } else { &mut others };
            *list = sys::lappend(*list, part.cast());
            true
        });
        let first: *mut sys::AlterTableStmt = sys::copyObjectImpl(command.cast()).cast();
        (*first).cmds = firsts;
        (*command).cmds = others;
        run(first, query_string);
    }
}
