//! Generations: which one encrypts, how the first comes into being, how the next.

use core::ffi::CStr;

use super::provider::{self, KeyName, NewKey, Provider};
use super::table::{self, NewRow, Which};
use super::{load, shared, vault, BACKEND};
use crate::crypto::wrap::KeyId;
use crate::keys::ring::DataKey;
use crate::pg::error::{log, Report, OBJECT_NOT_IN_PREREQUISITE_STATE, PROGRAM_LIMIT_EXCEEDED, UNDEFINED_OBJECT};
use crate::pg::{check_for_interrupts, sys, BackendCell, Datum};
use crate::pg_error;

/// Makes sure that the ring is up to date and its current key is unwrapped, so that rows can be sealed. May read the key
/// table and call the provider; raises an ERROR that names the remedy when there is no key. Almost free when all is there.
#[inline]
pub fn prepare() {
    if !(load::is_fresh() && current_is_unwrapped()) {
        prepare_slowly();
    }
}

#[inline]
fn current_is_unwrapped() -> bool {
    // SAFETY: the borrow ends with this statement.
    let ring = unsafe { &(*BACKEND.as_ptr()).ring };
    ring.current().and_then(|index| ring.key(index)).is_some_and(|key| key.dek.is_some())
}

#[cold]
#[inline(never)]
fn prepare_slowly() {
    // SAFETY: callers are in a transaction.
    unsafe {
        if !load::is_fresh() && !load::load() {
            raise_no_extension();
        }
        match current() {
            Some(index) => load::unwrap(index),
            None => pg_error!(OBJECT_NOT_IN_PREREQUISITE_STATE, "this database has no data key";
                hint: ("Run SELECT vault_tde.rotate_key() to make one.")),
        }
    }
}

/// The count of changes of the key table at which [`prepare_to_open`] last did its work.
static PREPARED_AT: BackendCell<u64> = BackendCell::new(0);

/// Makes it likely that whatever is opened next can be opened without reading the key table or asking the provider: for
/// those who open while they hold the content lock of a page. Reads the key table if it has changed, and unwraps what is
/// wrapped. Raises nothing for a key that cannot be unwrapped; who needs it will. What it cannot foresee is a key whose
/// transaction has not committed.
#[inline]
pub fn prepare_to_open() {
    if PREPARED_AT.get() != load::changes() {
        prepare_to_open_slowly();
    }
}

#[cold]
#[inline(never)]
fn prepare_to_open_slowly() {
    // SAFETY: callers are in a transaction.
    unsafe {
        if !load::is_fresh() {
            load::load();
        }
        let changes = load::changes();
        // SAFETY: the borrow ends with this statement.
        let keys = (*BACKEND.as_ptr()).ring.keys().len();
        for index in 0..keys {
            let _ = load::try_unwrap(index);
        }
        PREPARED_AT.set(changes);
    }
}

/// Index of the key that encrypts.
fn current() -> Option<usize> {
    // SAFETY: the borrow ends with this statement.
    unsafe { (*BACKEND.as_ptr()).ring.current() }
}

/// Makes sure that the ring is up to date, without asking the provider for anything. Raises an ERROR if the database does
/// not have the extension.
pub fn refresh() {
    // SAFETY: callers are in a transaction.
    if !load::is_fresh() && !unsafe { load::load() } {
        raise_no_extension();
    }
}

/// The generation that encrypts. The ring must be up to date ([`prepare`]).
pub fn current_generation() -> Option<i32> {
    // SAFETY: the borrow ends with this statement.
    let ring = unsafe { &(*BACKEND.as_ptr()).ring };
    ring.current().and_then(|index| ring.key(index)).map(|key| key.generation)
}

/// The generation that a stored form with the generation byte `byte` must be of, as far as the ring knows; None if its
/// key is unknown or the byte stands for several, so that only opening it can tell.
pub fn only_generation(byte: u8) -> Option<i32> {
    // SAFETY: the borrow ends with this statement.
    unsafe { (*BACKEND.as_ptr()).ring.only_generation(byte) }
}

/// Makes generation 1 in the current transaction if the database has no data key. For the table access method, when a
/// relation with encrypted storage is created. A pg_upgrade brings the old keys along, so nothing is made during one.
pub fn ensure_first_generation() {
    // SAFETY: callers are in a transaction.
    unsafe {
        if sys::IsBinaryUpgrade || (load::is_fresh() && current().is_some()) {
            return;
        }
        if !load::load() {
            raise_no_extension();
        }
        if current().is_none() {
            // looks again under the lock: another session may just have made it
            let (rel, newest) = lock();
            if newest.is_none() {
                add(rel, 1);
            }
            sys::table_close(rel, sys::NoLock as i32);
        }
    }
}

/// Makes the next generation in the current transaction and returns its number. Other sessions see it after the commit.
pub fn rotate() -> i32 {
    refuse_where_nothing_is_written(c"vault_tde.rotate_key()");
    // SAFETY: callers are in a transaction.
    unsafe {
        let (rel, newest) = lock();
        let Some(generation) = newest.unwrap_or(0).checked_add(1) else {
            pg_error!(PROGRAM_LIMIT_EXCEEDED, "there are too many key generations");
        };
        add(rel, generation);
        sys::table_close(rel, sys::NoLock as i32);
        generation
    }
}

/// Raises an ERROR where the command `name` may not write.
pub fn refuse_where_nothing_is_written(name: &'static CStr) {
    // SAFETY: NUL-terminated.
    unsafe {
        sys::PreventCommandDuringRecovery(name.as_ptr());
        sys::PreventCommandIfReadOnly(name.as_ptr());
        sys::PreventCommandIfParallelMode(name.as_ptr());
    }
}

/// Opens the key table under a lock that lets one session at a time add keys, to the end of its transaction, while all
/// others may read them. Returns the newest generation, too.
pub unsafe fn lock() -> (sys::Relation, Option<i32>) {
    // SAFETY: in a transaction.
    unsafe {
        vault::prepare_wait_event();
        let rel = table::open(sys::ShareRowExclusiveLock);
        if rel.is_null() {
            raise_no_extension();
        }
        let newest = table::read(rel, Which::Visible).iter().map(|row| row.generation).max();
        (rel, newest)
    }
}

/// Has the configured provider make a data key and inserts it as `generation`.
unsafe fn add(rel: sys::Relation, generation: i32) {
    // SAFETY: `rel` is open and locked; the report is raised from a frame that owns nothing.
    unsafe {
        match make_key(generation) {
            Ok(row) => {
                table::insert(rel, &row);
                log(format_args!("made data key {generation}, wrapped by key provider \"{}\"", row.provider));
            }
            Err(report) => {
                check_for_interrupts(); // why a provider may have given up
                report.raise()
            }
        }
    }
}

/// Makes a data key, and keeps it in the ring until the ring is read again, so that the provider need not be asked for it.
#[inline(never)]
fn make_key(generation: i32) -> Result<NewRow, Report> {
    let provider = Provider::configured();
    let made = provider::random_key_id()
        .and_then(|key_id| Ok((key_id, provider.generate(KeyName { generation, key_id: &key_id })?)));
    let (key_id, NewKey { dek, wrapping }) = made.map_err(provider::Problem::into_report)?;
    let kek_version = wrapping.kek_version;
    let wrapped = bytea(&wrapping.wrapped);
    // at once, or all sessions that write would ask the provider after the commit; if that does not come it is no harm
    shared::publish(&key_id, &dek);
    // SAFETY: nothing in here comes back to the ring.
    let ring = unsafe { &mut (*BACKEND.as_ptr()).ring };
    ring.add(DataKey {
        generation,
        key_id,
        serial: 0,
        provider: provider.name().to_owned(),
        wrapped: wrapping.wrapped,
        kek_version,
        dek: Some(Box::new(dek)),
        visible: false,
    });
    // SAFETY: in a transaction.
    let created_at = unsafe { sys::GetCurrentTransactionStartTimestamp() } as Datum;
    Ok(NewRow { generation, key_id, provider: provider.name(), wrapped, kek_version, created_at })
}

/// A bytea in the current memory context.
pub fn bytea(bytes: &[u8]) -> Datum {
    // SAFETY: pointer and length of a slice; the function copies. A bytea has the form of a text.
    unsafe { sys::cstring_to_text_with_len(bytes.as_ptr().cast(), bytes.len() as i32) as Datum }
}

#[cold]
pub fn raise_no_extension() -> ! {
    pg_error!(UNDEFINED_OBJECT, "extension \"pg_vault_tde\" does not exist in this database";
        hint: ("Run CREATE EXTENSION pg_vault_tde."))
}

/// The key id of a generation that this transaction sees. The ring must be up to date.
pub fn key_id_of(generation: i32) -> Option<KeyId> {
    // SAFETY: the borrow ends with this statement.
    let ring = unsafe { &(*BACKEND.as_ptr()).ring };
    ring.keys().iter().find(|key| key.visible && key.generation == generation).map(|key| key.key_id)
}

/// Locks the key table against other sessions that would change it, to the end of the transaction.
pub fn lock_table() {
    // SAFETY: callers are in a transaction.
    unsafe {
        let (rel, _) = lock();
        sys::table_close(rel, sys::NoLock as i32);
    }
}

/// Deletes a key in the current transaction, under [`lock_table`]. What is encrypted under it cannot be read any more.
/// Raises an ERROR if it is not there.
pub fn delete(generation: i32, key_id: &KeyId) {
    // SAFETY: callers are in a transaction.
    unsafe {
        let (rel, _) = lock();
        if !table::delete(rel, key_id) {
            pg_error!(UNDEFINED_OBJECT, "there is no key generation {generation}");
        }
        sys::table_close(rel, sys::NoLock as i32);
    }
}

/// Copies the rows of the key table to `store`.
///
/// # Safety
/// The columns of `store` must be those of the key table.
pub unsafe fn copy_rows(store: *mut sys::Tuplestorestate) {
    // SAFETY: in a transaction; the caller's promise.
    unsafe {
        let rel = table::open(sys::AccessShareLock);
        if !rel.is_null() {
            table::copy(rel, store);
            sys::table_close(rel, sys::AccessShareLock as i32);
        }
    }
}
