//! Functions for the upkeep of encrypted relations. Each checks what its caller may do with the table; that the caller may
//! call it at all is a matter of EXECUTE, which nobody has by default.

use crate::maintenance::{census, progress, reencrypt, relations, retire, stored_target, verify};
use crate::pg::error::{
    pg_format, FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, INVALID_PARAMETER_VALUE, INVALID_TRANSACTION_TERMINATION,
    NULL_VALUE_NOT_ALLOWED, WRONG_OBJECT_TYPE,
};
use crate::pg::fmgr::{put_row, Call};
use crate::pg::{rel as relation, sys, Datum, Oid};
use crate::{pg_error, pg_function};

/// Raises an ERROR where code runs that the current user need not have written: an index expression while the table's
/// owner is being stood in for, the query of a materialized view.
pub fn refuse_restricted_operation(function: &str) {
    // SAFETY: reads a variable.
    if unsafe { sys::InSecurityRestrictedOperation() } {
        pg_error!(INSUFFICIENT_PRIVILEGE, "cannot execute {function} within a security-restricted operation");
    }
}

/// Raises an ERROR unless the current user has the privilege `mode` on the relation.
fn check_privilege(oid: Oid, mode: u32) {
    // SAFETY: in a transaction; raises an ERROR for a relation that does not exist.
    unsafe {
        let result = sys::pg_class_aclcheck(oid, sys::GetUserId(), sys::AclMode::from(mode));
        if result != sys::ACLCHECK_OK {
            let kind = sys::get_relkind_objtype(sys::get_rel_relkind(oid));
            sys::aclcheck_error(result, kind, sys::get_rel_name(oid));
        }
    }
}

unsafe fn is_partitioned(rel: sys::Relation) -> bool {
    // SAFETY: an open relation.
    unsafe { (*(*rel).rd_rel).relkind as u8 == sys::RELKIND_PARTITIONED_TABLE }
}

unsafe fn raise_not_encrypted(rel: sys::Relation) -> ! {
    // SAFETY: an open relation.
    let name = unsafe { relation::name(rel) };
    pg_error!(WRONG_OBJECT_TYPE, "relation \"{name}\" is not encrypted")
}

fn raise_other_temp() -> ! {
    pg_error!(FEATURE_NOT_SUPPORTED, "cannot access temporary tables of other sessions")
}

/// A CALL outside of a transaction block and of an atomic context.
fn may_commit(call: Call) -> bool {
    // SAFETY: the context of a procedure's call is a CallContext.
    unsafe {
        let context = (*call.0).context;
        !context.is_null() && (*context).type_ == sys::T_CallContext && !(*context.cast::<sys::CallContext>()).atomic
    }
}

/// Verifies an encrypted index against its table.
unsafe fn verify_index(call: Call, index: Oid, table: Oid) {
    // SAFETY: in a transaction with a snapshot; the result has these columns.
    unsafe {
        check_privilege(table, sys::ACL_SELECT);
        let lock = sys::AccessShareLock;
        let table = sys::table_open(table, lock as i32);
        if let Some(index) = crate::index::upkeep::Index::open(index, lock) {
            crate::index::verify::verify(&index, table, &mut |tid, problem| {
                let problem = sys::cstring_to_text(pg_format(problem)) as Datum;
                let at = tid.map_or(core::ptr::null(), core::ptr::from_ref) as Datum;
                put_row(call.0, &mut [at, problem], &mut [tid.is_none(), false]);
            });
            index.close(lock);
        }
        sys::table_close(table, lock as i32);
    }
}

pg_function! {
    /// Procedure `vault_tde.reencrypt(regclass, batch_size int)`
    fn vault_tde_reencrypt[pg_finfo_vault_tde_reencrypt](call) {
        const NAME: &str = "vault_tde.reencrypt()";
        refuse_restricted_operation(NAME);
        if call.is_null(0) || call.is_null(1) {
            pg_error!(NULL_VALUE_NOT_ALLOWED, "arguments of {NAME} must not be null");
        }
        let (oid, batch_size) = (call.datum(0) as Oid, call.int32(1));
        // SAFETY: in a transaction; the name is a literal.
        unsafe { sys::PreventCommandDuringRecovery(c"vault_tde.reencrypt()".as_ptr()) };
        check_privilege(oid, sys::ACL_MAINTAIN);
        // SAFETY: in a transaction; the relation is open while it is looked at.
        unsafe {
            let rel = sys::relation_open(oid, sys::AccessShareLock as i32);
            if stored_target(rel).is_none() && !is_partitioned(rel) {
                raise_not_encrypted(rel);
            }
            if relation::is_other_temp(rel) {
                raise_other_temp();
            }
            sys::relation_close(rel, sys::AccessShareLock as i32);
        }
        if batch_size < 1 {
            pg_error!(INVALID_PARAMETER_VALUE, "batch_size must be at least 1");
        }
        if !may_commit(call) {
            pg_error!(INVALID_TRANSACTION_TERMINATION, "{NAME} cannot run inside a transaction block";
                detail: ("It commits its work in batches."));
        }
        // SAFETY: a procedure that may commit.
        unsafe {
            sys::SPI_connect_ext(sys::SPI_OPT_NONATOMIC as i32);
            reencrypt::reencrypt(oid, batch_size as u32);
            sys::SPI_finish();
        }
        0
    }

    /// `vault_tde.verify(regclass) returns table (ctid tid, problem text)`
    fn vault_tde_verify[pg_finfo_vault_tde_verify](call) {
        refuse_restricted_operation("vault_tde.verify()");
        let oid = call.datum(0) as Oid;
        check_privilege(oid, sys::ACL_SELECT);
        // SAFETY: fcinfo of a set-returning function, in a transaction.
        unsafe {
            sys::InitMaterializedSRF(call.0, 0);
            let rel = sys::relation_open(oid, sys::AccessShareLock as i32);
            if crate::index::is_encrypted(rel) {
                verify_index(call, oid, (*(*rel).rd_index).indrelid);
                sys::relation_close(rel, sys::AccessShareLock as i32);
                return 0;
            }
            if relation::is_other_temp(rel) {
                raise_other_temp();
            }
            let Some(target) = stored_target(rel) else {
                if is_partitioned(rel) {
                    let name = relation::name(rel);
                    pg_error!(WRONG_OBJECT_TYPE, "table \"{name}\" is partitioned"; hint: ("Verify each of its partitions."));
                }
                raise_not_encrypted(rel);
            };
            verify::verify(call, target);
            for &index in relations::indexes(Some(oid)) {
                verify_index(call, index, oid);
            }
            sys::relation_close(rel, sys::AccessShareLock as i32);
        }
        0
    }

    /// `vault_tde.retire_key(generation int) returns void`
    fn vault_tde_retire_key[pg_finfo_vault_tde_retire_key](call) {
        refuse_restricted_operation("vault_tde.retire_key()");
        // SAFETY: in a transaction; the name is a literal.
        unsafe {
            let name = c"vault_tde.retire_key()".as_ptr();
            sys::PreventCommandDuringRecovery(name);
            sys::PreventCommandIfReadOnly(name);
            sys::PreventCommandIfParallelMode(name);
            retire::retire(call.int32(0));
        }
        0
    }

    /// `vault_tde.generations_in_use() returns table (relation regclass, generation int, tuples bigint)`
    fn vault_tde_generations_in_use[pg_finfo_vault_tde_generations_in_use](call) {
        refuse_restricted_operation("vault_tde.generations_in_use()");
        // SAFETY: fcinfo of a set-returning function, in a transaction.
        unsafe {
            sys::InitMaterializedSRF(call.0, 0);
            census::report(call);
        }
        0
    }

    /// `vault_tde.reencrypt_progress()`: the rows of `vault_tde.stat_progress_reencrypt`.
    fn vault_tde_reencrypt_progress[pg_finfo_vault_tde_reencrypt_progress](call) {
        // SAFETY: fcinfo of a set-returning function.
        unsafe {
            sys::InitMaterializedSRF(call.0, 0);
            progress::report(call);
        }
        0
    }
}
