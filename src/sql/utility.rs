//! The utility hook: what SQL commands must not do to the extension's own objects, which indexes they make encrypted
//! (`encrypted_indexes.rs`), and what pg_upgrade does not bring along.

use core::ptr;

use super::encrypted_indexes::{is_encrypted, table_of, with_encrypted_indexes};
use crate::pg::error::OBJECT_NOT_IN_PREREQUISITE_STATE;
use crate::pg::fmgr::str_of;
use crate::pg::{majors, sys, BackendCell, Oid, INVALID_OID};
use crate::{index, pg_callback, pg_error};

static NEXT: BackendCell<sys::ProcessUtility_hook_type> = BackendCell::new(None);

/// Chains the hook; called once, from `_PG_init`.
pub fn register() {
    // SAFETY: _PG_init runs in the postmaster, before any command does.
    unsafe {
        NEXT.set(sys::ProcessUtility_hook);
        sys::ProcessUtility_hook = Some(process_utility);
    }
}

/// `REFRESH MATERIALIZED VIEW vault_tde.data_keys WITH NO DATA` would throw all keys away, and with them all encrypted
/// rows; a script that empties every materialized view is an honest way to come by it.
unsafe fn refuse_to_empty_the_key_table(statement: *const sys::RefreshMatViewStmt) {
    // SAFETY: a parsed statement of that node type.
    unsafe {
        if !(*statement).skipData {
            return;
        }
        let flags = sys::RVR_MISSING_OK;
        let lock = sys::NoLock as i32;
        let oid: Oid = sys::RangeVarGetRelidExtended((*statement).relation, lock, flags, None, ptr::null_mut());
        if oid != INVALID_OID
            && str_of(sys::get_rel_name(oid)) == "data_keys"
            && str_of(sys::get_namespace_name(sys::get_rel_namespace(oid))) == "vault_tde"
        {
            pg_error!(
                OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot empty vault_tde.data_keys";
                detail: ("It holds the keys of this database's encrypted tables.");
                hint: ("Leave it out, or use REFRESH MATERIALIZED VIEW without WITH NO DATA, which keeps its rows.")
            );
        }
    }
}

/// In pg_upgrade, which makes the extension's members one by one, from what pg_dump has found: makes `encrypted_heap` depend
/// on `encrypted_toast`, as the extension's script says (and why), as soon as both are there.
unsafe fn order_access_methods(statement: *const sys::CreateAmStmt) {
    // SAFETY: a parsed statement of that node type, which has just been carried out.
    unsafe {
        if !matches!(str_of((*statement).amname), "encrypted_heap" | "encrypted_toast") {
            return;
        }
        sys::CommandCounterIncrement();
        let heap = sys::get_table_am_oid(c"encrypted_heap".as_ptr(), true);
        let toast = sys::get_table_am_oid(c"encrypted_toast".as_ptr(), true);
        if heap != INVALID_OID && toast != INVALID_OID {
            let address =
                |oid| sys::ObjectAddress { classId: sys::AccessMethodRelationId, objectId: oid, objectSubId: 0 };
            sys::recordDependencyOn(&address(heap), &address(toast), sys::DEPENDENCY_NORMAL);
        }
    }
}

/// REPACK (CONCURRENTLY) of an encrypted table, or of one with an encrypted index, is refused before it has done anything. (The
/// access methods refuse it, too, but late, and the decoder that the command starts might be the first to find out.)
unsafe fn refuse_concurrent_repack(node: *mut sys::Node) {
    // SAFETY: a parsed statement.
    unsafe {
        let table = majors::repacked_concurrently(node);
        if table.is_null() {
            return;
        }
        let oid = table_of(table);
        if oid != INVALID_OID && is_encrypted(oid) {
            crate::heap::refuse_concurrent_repack(str_of(sys::get_rel_name(oid)));
        }
        if oid != INVALID_OID && index::is_on(oid) {
            index::refuse_concurrent_repack(str_of(sys::get_rel_name(oid)));
        }
    }
}

pg_callback! {
    fn process_utility(
        statement: *mut sys::PlannedStmt,
        query_string: *const core::ffi::c_char,
        read_only_tree: bool,
        context: sys::ProcessUtilityContext,
        params: sys::ParamListInfo,
        query_env: *mut sys::QueryEnvironment,
        dest: *mut sys::DestReceiver,
        completion: *mut sys::QueryCompletion,
    ) {
        // SAFETY: the arguments of the hook, handed on as they came.
        unsafe {
            let node = (*statement).utilityStmt;
            if (*node).type_ == sys::T_RefreshMatViewStmt {
                refuse_to_empty_the_key_table(node.cast());
            }
            refuse_concurrent_repack(node);
            let alters_table = (*node).type_ == sys::T_AlterTableStmt;
            let discards_all = (*node).type_ == sys::T_DiscardStmt
                && (*node.cast::<sys::DiscardStmt>()).target == sys::DISCARD_ALL;
            let statement = with_encrypted_indexes(statement, query_string);
            let next = NEXT.get().unwrap_or(sys::standard_ProcessUtility);
            next(statement, query_string, read_only_tree, context, params, query_env, dest, completion);
            if alters_table {
                super::reused_indexes::build();
            }
            if discards_all {
                super::guc::forget_plaintext();
            }
            if sys::IsBinaryUpgrade && (*node).type_ == sys::T_CreateAmStmt {
                order_access_methods(node.cast());
            }
        }
    }
}
