//! `vault_tde.rewrap_keys()`: wraps every data key anew, by the provider and key-encryption key that are configured now. The
//! data keys stay what they are, so no row is touched and no session has to forget anything.

use super::generations::{bytea, lock, refuse_where_nothing_is_written};
use super::provider::{KeyName, Provider};
use super::ring::DataKey;
use super::table::{self, NewRow, StoredKey, Which};
use super::{load, BACKEND};
use crate::crypto::wrap::KeyId;
use crate::pg::error::{log, Report};
use crate::pg::{check_for_interrupts, sys};

/// Wraps every data key of the database anew in the current transaction, and returns how many there are. The provider is
/// asked for all of them before anything is written. Raises its ERROR.
pub fn rewrap() -> i32 {
    refuse_where_nothing_is_written(c"vault_tde.rewrap_keys()");
    // SAFETY: callers are in a transaction; the rows are in memory of the calling function's context.
    unsafe {
        let (rel, _) = lock();
        load::load(); // the data keys that this server has in memory
        let stored = table::read(rel, Which::Visible);
        let count = stored.iter().count();
        let size = count.max(1) * size_of::<Option<NewRow>>();
        let new: *mut Option<NewRow> = sys::MemoryContextAllocHuge(sys::CurrentMemoryContext, size).cast();
        for (i, row) in stored.iter().enumerate() {
            match wrap_anew(row) {
                Ok(row) => new.add(i).write(Some(row)),
                Err(report) => {
                    check_for_interrupts(); // why a provider may have given up
                    report.raise()
                }
            }
            check_for_interrupts();
        }
        for i in 0..count {
            if let Some(new) = &*new.add(i) {
                table::replace(rel, new);
            }
        }
        sys::table_close(rel, sys::NoLock as i32);
        log(format_args!("wrapped {count} data keys anew by key provider \"{}\"", Provider::configured().name()));
        count as i32
    }
}

/// A frame that is gone before an ERROR is raised.
#[inline(never)]
fn wrap_anew(row: &StoredKey) -> Result<NewRow, Report> {
    let provider = Provider::configured();
    let name = KeyName { generation: row.generation, key_id: &row.key_id };
    // SAFETY: nothing in here comes back to the ring.
    let ring = unsafe { &(*BACKEND.as_ptr()).ring };
    let known = known(ring.keys(), &row.key_id);
    let wrapping =
        provider.rewrap(name, &row.provider(), row.wrapped(), known).map_err(super::provider::Problem::into_report)?;
    Ok(NewRow {
        generation: row.generation,
        key_id: row.key_id,
        provider: provider.name(),
        wrapped: bytea(&wrapping.wrapped),
        kek_version: wrapping.kek_version,
        created_at: row.created_at,
    })
}

/// The data key itself, if this process has it, which `load` sees to when it is in shared memory.
fn known<'a>(keys: &'a [DataKey], key_id: &KeyId) -> Option<&'a crate::crypto::Key> {
    keys.iter().find(|key| key.key_id == *key_id)?.dek.as_ref().map(|dek| &***dek)
}
