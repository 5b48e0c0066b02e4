//! `vault_tde.retire_key()`: forgetting a data key that nothing needs any more.
//!
//! A key is needed by tuples that are of its generation, by transactions that may still write such, and by logical
//! replication slots whose consumers have not got past the WAL that holds such. The first are counted, the second waited
//! for. For the third, the function remembers, in shared memory, the end of WAL at the time when it first found that
//! nothing else needs the key; slots must have got past that. (If a restart makes it forget, the next call remembers anew.)

use super::stored::Kind;
use super::{census, progress, relations};
use crate::keys;
use crate::pg::error::{log, pg_format, OBJECT_IN_USE, OBJECT_NOT_IN_PREREQUISITE_STATE, UNDEFINED_OBJECT};
use crate::pg::fmgr::str_of;
use crate::pg::{spi, sys, Oid};
use crate::pg_error;

/// Deletes the data key of `generation` in the current transaction, or raises an ERROR that says who needs it.
///
/// # Safety
/// In a transaction that may write.
pub unsafe fn retire(generation: i32) {
    // SAFETY: the caller's promise.
    unsafe {
        keys::refresh();
        let current = keys::current_generation();
        let Some(key_id) = keys::key_id_of(generation) else {
            pg_error!(UNDEFINED_OBJECT, "there is no key generation {generation}";
                hint: ("The view vault_tde.keys shows the generations that there are."));
        };
        if current.is_none_or(|current| generation >= current) {
            pg_error!(OBJECT_NOT_IN_PREREQUISITE_STATE, "key generation {generation} is the current one";
                hint: ("Make a newer one with vault_tde.rotate_key(), and re-encrypt the tables with vault_tde.reencrypt()."));
        }
        // whoever writes after this knows the current generation
        refuse_prepared_transactions();
        keys::lock_table();
        relations::wait_for_transactions();
        let end_of_wal = sys::GetXLogInsertRecPtr();
        for &oid in relations::all() {
            refuse_if_needed_by(oid, generation);
        }
        for &oid in relations::indexes(None) {
            refuse_if_needed_by_index(oid, generation);
        }
        let since = progress::unneeded_since(&key_id, end_of_wal);
        if since == end_of_wal {
            // lets the slots get past it soon
            sys::LogStandbySnapshot();
        }
        refuse_slots_behind(since, generation);
        keys::delete(generation, &key_id);
        log(format_args!("deleted data key {generation}"));
    }
}

unsafe fn refuse_if_needed_by(oid: Oid, generation: i32) {
    // SAFETY: in a transaction.
    unsafe {
        let mut other_temp = false;
        let Some(target) = census::open(oid, &mut other_temp) else {
            if other_temp {
                let name = str_of(sys::get_rel_name(oid));
                pg_error!(OBJECT_IN_USE, "key generation {generation} may be needed by temporary table \"{name}\" of another session";
                    hint: ("Wait until that session has ended."));
            }
            return;
        };
        let tuples = census::take(&target).count(generation);
        if tuples > 0 {
            let (what, table) = match target.kind {
                Kind::Rows => ("rows", oid),
                Kind::Chunks => ("pieces of out-of-line values", relations::table_of(oid)),
            };
            let name = str_of(sys::get_rel_name(table));
            pg_error!(
                OBJECT_IN_USE, "key generation {generation} is needed by {tuples} {what} of table \"{name}\"";
                hint: ("Re-encrypt the table with CALL vault_tde.reencrypt(). What is left of deleted rows is removed by VACUUM.")
            );
        }
        sys::relation_close(target.rel, sys::AccessShareLock as i32);
    }
}

unsafe fn refuse_if_needed_by_index(oid: Oid, generation: i32) {
    // SAFETY: in a transaction.
    unsafe {
        let mut other_temp = false;
        let census = census::take_index(oid, &mut other_temp);
        let name = str_of(sys::get_rel_name(oid));
        if other_temp {
            pg_error!(OBJECT_IN_USE, "key generation {generation} may be needed by temporary index \"{name}\" of another session";
                hint: ("Wait until that session has ended."));
        }
        let keys = census.map_or(0, |census| census.count(generation));
        if keys > 0 {
            pg_error!(
                OBJECT_IN_USE, "key generation {generation} is needed by {keys} keys of index \"{name}\"";
                hint: ("Re-encrypt its table with CALL vault_tde.reencrypt(), or REINDEX it.")
            );
        }
    }
}

/// A prepared transaction may have written under any key, and waiting for one would be waiting for somebody to remember it.
unsafe fn refuse_prepared_transactions() {
    // SAFETY: in a transaction.
    unsafe {
        let names = spi::first_value(
            c"SELECT pg_catalog.string_agg(pg_catalog.quote_literal(gid), ', ') FROM pg_catalog.pg_prepared_xacts
              WHERE database OPERATOR(pg_catalog.=) pg_catalog.current_database()",
        );
        if !names.is_null() {
            let names = str_of(names);
            pg_error!(OBJECT_IN_USE, "prepared transactions may need an older key";
                detail: ("There are: {names}.");
                hint: ("Use COMMIT PREPARED or ROLLBACK PREPARED, then try again."));
        }
    }
}

/// Raises an ERROR if the consumer of a logical slot of this database has not got past `lsn`.
unsafe fn refuse_slots_behind(lsn: sys::XLogRecPtr, generation: i32) {
    // SAFETY: in a transaction; pg_format gives a NUL-terminated string.
    unsafe {
        let (high, low) = (lsn >> 32, lsn as u32);
        let query = pg_format(format_args!(
            "SELECT pg_catalog.string_agg(pg_catalog.quote_ident(slot_name), ', ') FROM pg_catalog.pg_replication_slots
             WHERE database OPERATOR(pg_catalog.=) pg_catalog.current_database() AND invalidation_reason IS NULL
               AND restart_lsn OPERATOR(pg_catalog.<) '{high:X}/{low:X}'::pg_catalog.pg_lsn"
        ));
        let names = spi::first_value(core::ffi::CStr::from_ptr(query));
        if !names.is_null() {
            let names = str_of(names);
            pg_error!(
                OBJECT_IN_USE, "key generation {generation} may be needed by logical replication slots: {names}";
                detail: ("They still hold WAL from before {high:X}/{low:X}, since when no row needs the key.");
                hint: ("Let their consumers catch up, or drop the slots, then try again.")
            );
        }
    }
}
