//! Commands that a hook makes, and runs as parts of the user's.

use core::ffi::c_char;
use core::ptr;

use super::encrypted_indexes::each;
use crate::pg::sys;

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
