//! Generations: which one encrypts, how the first comes into being, how the next.

use super::provider::{self, Provider};
use super::table::{self, NewRow, Which};
use super::{load, BACKEND};
use crate::crypto::wrap::KeyId;
use crate::keys::ring::DataKey;
use crate::pg::error::{Report, OBJECT_NOT_IN_PREREQUISITE_STATE, PROGRAM_LIMIT_EXCEEDED, UNDEFINED_OBJECT};
use crate::pg::{sys, BackendCell, Datum};
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
    // SAFETY: callers are in a transaction; the names are literals.
    unsafe {
        let name = c"vault_tde.rotate_key()".as_ptr();
        sys::PreventCommandDuringRecovery(name);
        sys::PreventCommandIfReadOnly(name);
        sys::PreventCommandIfParallelMode(name);
        let (rel, newest) = lock();
        let Some(generation) = newest.unwrap_or(0).checked_add(1) else {
            pg_error!(PROGRAM_LIMIT_EXCEEDED, "there are too many key generations");
        };
        add(rel, generation);
        sys::table_close(rel, sys::NoLock as i32);
        generation
    }
}

/// Opens the key table under a lock that lets one session at a time add keys, to the end of its transaction, while all
/// others may read them. Returns the newest generation, too.
unsafe fn lock() -> (sys::Relation, Option<i32>) {
    // SAFETY: in a transaction.
    unsafe {
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
            Ok(row) => table::insert(rel, &row),
            Err(report) => report.raise(),
        }
    }
}

/// Makes a data key, and keeps it in the ring until the ring is read again, so that the provider need not be asked for it.
#[inline(never)]
fn make_key(generation: i32) -> Result<NewRow, Report> {
    let provider = Provider::configured();
    let made = provider::random_key_id().and_then(|key_id| Ok((key_id, provider.generate(&key_id)?)));
    let (key_id, key): (KeyId, _) = made.map_err(provider::Problem::into_report)?;
    let kek_version = key.kek_version;
    // SAFETY: pointer and length of a live Vec; the function copies. A bytea has the form of a text.
    let wrapped =
        unsafe { sys::cstring_to_text_with_len(key.wrapped.as_ptr().cast(), key.wrapped.len() as i32) } as Datum;
    // SAFETY: nothing in here comes back to the ring.
    let ring = unsafe { &mut (*BACKEND.as_ptr()).ring };
    ring.add(DataKey {
        generation,
        key_id,
        serial: 0,
        provider: provider.name().to_owned(),
        wrapped: key.wrapped,
        dek: Some(Box::new(key.dek)),
        visible: false,
    });
    Ok(NewRow { generation, key_id, provider: provider.name(), wrapped, kek_version })
}

#[cold]
fn raise_no_extension() -> ! {
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

/// What `vault_tde.status()` tells about the ring.
#[derive(Clone, Copy)]
pub struct Survey {
    /// Whether this database has a key table.
    pub extension: bool,
    pub current: Option<i32>,
    pub keys: usize,
    /// How many of them cannot be unwrapped.
    pub wrapped: usize,
}

/// Reads the key table and tries to unwrap each key.
pub fn survey() -> Survey {
    // SAFETY: callers are in a transaction.
    let extension = unsafe { load::load() };
    // SAFETY: the borrow ends with this statement.
    let keys = unsafe { (*BACKEND.as_ptr()).ring.keys().len() };
    let wrapped = (0..keys).filter(|&index| load::try_unwrap(index).is_err()).count();
    // SAFETY: the borrow ends with this statement.
    let ring = unsafe { &(*BACKEND.as_ptr()).ring };
    let current = ring.current().and_then(|index| ring.key(index)).map(|key| key.generation);
    Survey { extension, current, keys, wrapped }
}
