//! How the ring gets its content, and when that is out of date.
//!
//! Each change of the key table sends a relcache invalidation of it, at commit to other sessions and at once, also when
//! it is rolled back, to its own. The callback only counts; who next needs a ring that is up to date reads the table.
//! The count that a ring is up to date with is taken after the table's lock, which has processed all invalidations sent
//! so far, and before the snapshot. So a change that the snapshot misses will still be counted.

use std::time::Duration;

use zeroize::Zeroizing;

use super::provider::Provider;
use super::ring::DataKey;
use super::table::{self, StoredKey, StoredKeys, Which};
use super::{provider, shared, vault, BACKEND};
use crate::crypto::cipher::KEY_LEN;
use crate::pg::error::Report;
use crate::pg::{check_for_interrupts, memory, sys, BackendCell, Oid, INVALID_OID};
use crate::{keys::provider::KeyName, pg_callback};

/// Relcache invalidations that may concern the key table, counted from 1.
static CHANGES: BackendCell<u64> = BackendCell::new(1);
/// The value of `CHANGES` that the ring is up to date with; 0 if it was not loaded or there is no key table.
static LOADED_AT: BackendCell<u64> = BackendCell::new(0);
/// The key table that the ring was read from.
static TABLE_OID: BackendCell<Oid> = BackendCell::new(INVALID_OID);

pg_callback! {
    fn on_relcache_change(_arg: sys::Datum, oid: Oid) {
        if oid == INVALID_OID || oid == TABLE_OID.get() {
            CHANGES.set(CHANGES.get() + 1);
        }
    }
}

/// Called once, by `_PG_init`; backends inherit the registration.
pub fn register() {
    // SAFETY: the callback takes the arguments that inval.c passes and only counts.
    unsafe { sys::CacheRegisterRelcacheCallback(Some(on_relcache_change), 0) }
}

/// How many changes of the key table this backend has heard of.
#[inline]
pub fn changes() -> u64 {
    CHANGES.get()
}

/// Whether the ring says what the key table said when invalidations were last processed.
#[inline]
pub fn is_fresh() -> bool {
    LOADED_AT.get() == CHANGES.get()
}

/// Reads the key table into the ring. Returns whether there is one in this database.
pub unsafe fn load() -> bool {
    // SAFETY: in a transaction; the rows that are read live until the context is deleted.
    unsafe {
        vault::prepare_wait_event();
        let context = scratch_context();
        let caller = memory::switch_to(context);
        let rel = table::open(sys::AccessShareLock);
        let found = !rel.is_null();
        TABLE_OID.set(if found { (*rel).rd_id } else { INVALID_OID });
        let changes = CHANGES.get();
        let mut stored = StoredKeys::EMPTY;
        if found {
            stored = table::read(rel, Which::Visible);
            sys::table_close(rel, sys::AccessShareLock as i32);
        }
        memory::switch_to(caller);
        accept(stored);
        LOADED_AT.set(if found { changes } else { 0 });
        sys::MemoryContextDelete(context);
        found
    }
}

/// Looks for keys whose generation has the low byte `byte` and whose transaction has not committed, as far as this one
/// can see: rows that such a transaction has written are read by a unique check, or by a decoder that is streaming it or
/// is ahead of its commit. Adds them to the ring and returns whether there were any. A key that cannot be unwrapped may
/// be what a failed transaction left, so that is no error.
pub unsafe fn load_uncommitted(byte: u8) -> bool {
    // SAFETY: as for `load`.
    unsafe { with_stored(Which::Any, |stored| accept_uncommitted(byte, stored)) }
}

/// Reads the key table, if there is one, and hands its rows to `accept`, which must not keep them.
unsafe fn with_stored<R>(which: Which, accept: impl FnOnce(StoredKeys) -> R) -> R {
    // SAFETY: in a transaction; the rows that are read live until the context is deleted.
    unsafe {
        let context = scratch_context();
        let caller = memory::switch_to(context);
        let rel = table::open(sys::AccessShareLock);
        let mut stored = StoredKeys::EMPTY;
        if !rel.is_null() {
            stored = table::read(rel, which);
            sys::table_close(rel, sys::AccessShareLock as i32);
        }
        memory::switch_to(caller);
        let result = accept(stored);
        sys::MemoryContextDelete(context);
        result
    }
}

/// Unwraps the data key at `index` of the ring, unless it is unwrapped. Raises the provider's ERROR.
///
/// # Safety
/// In a transaction.
pub unsafe fn unwrap(index: usize) {
    if !is_unwrapped(index) {
        // SAFETY: the caller's promise.
        unsafe { refresh_wrapping(index) };
        if let Err(report) = unwrap_or_report(index) {
            check_for_interrupts(); // why a provider may have given up
            report.raise();
        }
    }
}

/// Whether the key at `index` is unwrapped, if need be by a look into shared memory.
fn is_unwrapped(index: usize) -> bool {
    // SAFETY: as in `try_unwrap`.
    let ring = unsafe { &mut (*BACKEND.as_ptr()).ring };
    ring.key_mut(index).is_none_or(|key| key.dek.is_some() || fetch_shared(key))
}

/// Takes the wrapping of the key at `index` from the key table as it is now. The ring may have an older one, as it is not
/// read again before a row is opened; and that may be by a key-encryption key that has been given up.
unsafe fn refresh_wrapping(index: usize) {
    // SAFETY: in a transaction.
    unsafe { with_stored(Which::Visible, |stored| accept_wrapping(index, stored)) }
}

fn accept_wrapping(index: usize, stored: StoredKeys) {
    // SAFETY: as in `try_unwrap`.
    let ring = unsafe { &mut (*BACKEND.as_ptr()).ring };
    let Some(key) = ring.key_mut(index) else { return };
    if let Some(row) = stored.iter().find(|row| row.key_id == key.key_id) {
        let now = data_key(row, key.visible);
        (key.provider, key.wrapped, key.kek_version) = (now.provider, now.wrapped, now.kek_version);
    }
}

/// A frame that is gone before the ERROR is raised.
#[inline(never)]
fn unwrap_or_report(index: usize) -> Result<(), Report> {
    try_unwrap(index).map_err(provider::Problem::into_report)
}

/// [`unwrap`] that raises nothing.
pub fn try_unwrap(index: usize) -> Result<(), provider::Problem> {
    // SAFETY: nothing in here comes back to the ring, and nothing in here processes invalidations.
    let ring = unsafe { &mut (*BACKEND.as_ptr()).ring };
    ring.key_mut(index).map_or(Ok(()), fetch)
}

/// Gets the data key itself: from shared memory, else from its provider.
fn fetch(key: &mut DataKey) -> Result<(), provider::Problem> {
    if key.dek.is_some() || fetch_shared(key) || wait_for_others(key) {
        return Ok(());
    }
    let name = KeyName { generation: key.generation, key_id: &key.key_id };
    let unwrapped = provider::unwrap(&key.provider, name, &key.wrapped);
    if let Ok(dek) = &unwrapped {
        shared::publish(&key.key_id, dek);
    }
    shared::disclaim(&key.key_id);
    key.dek = Some(Box::new(unwrapped?));
    Ok(())
}

/// While another process asks a key server for the data key, waits for its answer, but not for long: then, or if that
/// process has failed, this one asks for itself. Returns whether the data key has come; if not, the claim is ours, or nobody's.
fn wait_for_others(key: &mut DataKey) -> bool {
    const POLL: Duration = Duration::from_millis(5);
    const POLLS: usize = 200;
    if Provider::of_name(&key.provider) != Some(Provider::Vault) {
        return false;
    }
    for _ in 0..POLLS {
        if shared::claim(&key.key_id) {
            let come = fetch_shared(key); // just before
            if come {
                shared::disclaim(&key.key_id);
            }
            return come;
        }
        if vault::pause(POLL) || fetch_shared(key) {
            break;
        }
    }
    key.dek.is_some()
}

/// Gets the data key from shared memory. Returns whether it is there.
fn fetch_shared(key: &mut DataKey) -> bool {
    let mut dek = Box::new(Zeroizing::new([0; KEY_LEN]));
    let found = shared::lookup(&key.key_id, &mut dek);
    if found {
        key.dek = Some(dek);
    }
    found
}

/// Puts the rows of the key table into the ring.
fn accept(stored: StoredKeys) {
    // SAFETY: as in `try_unwrap`.
    let backend = unsafe { &mut *BACKEND.as_ptr() };
    backend.ring.replace(stored.iter().map(|row| data_key(row, true)).collect());
    for index in 0..backend.ring.keys().len() {
        if let Some(key) = backend.ring.key_mut(index).filter(|key| key.dek.is_none()) {
            fetch_shared(key);
        }
    }
    let (ring, ciphers) = (&backend.ring, &mut backend.ciphers);
    ciphers.retain(|serial| ring.has_serial(serial));
}

fn accept_uncommitted(byte: u8, stored: StoredKeys) -> bool {
    // SAFETY: as in `try_unwrap`.
    let ring = unsafe { &mut (*BACKEND.as_ptr()).ring };
    let mut added = false;
    for row in stored.iter().filter(|row| row.generation as u8 == byte) {
        if !ring.has_id(&row.key_id) {
            let mut key = data_key(row, false);
            if fetch(&mut key).is_ok() {
                ring.add(key);
                added = true;
            }
        }
    }
    added
}

fn data_key(row: &StoredKey, visible: bool) -> DataKey {
    DataKey {
        generation: row.generation,
        key_id: row.key_id,
        serial: 0,
        provider: row.provider().into_owned(),
        wrapped: row.wrapped().to_vec(),
        kek_version: row.kek_version,
        dek: None,
        visible,
    }
}

/// A memory context for the rows of the key table, deleted by the caller, or with its parent when an ERROR is raised.
unsafe fn scratch_context() -> memory::MemoryContext {
    // SAFETY: a backend always has a current context.
    memory::new_context(unsafe { sys::CurrentMemoryContext }, c"pg_vault_tde key table")
}
