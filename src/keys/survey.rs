//! What `vault_tde.status()` says of the keys and their provider. Nothing in here raises an ERROR because a provider cannot be
//! used, nor asks it for longer than one time-out.

use std::time::Instant;

use super::provider::{Finding, KeyName, Provider};
use super::{load, settings, BACKEND};

/// The state of the keys.
pub struct Survey {
    /// Whether this database has a key table.
    pub extension: bool,
    pub current: Option<i32>,
    pub keys: usize,
    /// How many of them cannot be unwrapped.
    pub wrapped: usize,
    /// How many are not wrapped by the newest key-encryption key of the configured provider.
    pub outdated: usize,
    /// What the provider says.
    pub findings: Vec<Finding>,
}

/// Reads the key table, asks the provider, and tries to unwrap each key.
///
/// # Safety
/// In a transaction.
pub unsafe fn survey() -> Survey {
    // SAFETY: the caller's promise.
    let extension = unsafe { load::load() };
    let started = Instant::now();
    let (findings, newest) = Provider::configured().examine();
    let usable = findings.first().is_some_and(|finding| finding.ok);
    let mut failing = (!usable).then(Provider::configured);
    // SAFETY: the borrow ends with this statement.
    let keys = unsafe { (*BACKEND.as_ptr()).ring.keys().len() };
    let (mut wrapped, mut outdated) = (0, 0);
    for index in 0..keys {
        // a key server that is down is not asked for key after key; a file costs nothing
        let asked = |provider| provider == Provider::File || failing != Some(provider);
        let patient = started.elapsed() < settings::vault_timeout();
        // SAFETY: as above.
        let Some(key) = (unsafe { (*BACKEND.as_ptr()).ring.key(index) }) else { break };
        let name = KeyName { generation: key.generation, key_id: &key.key_id };
        if !Provider::configured().is_current(name, &key.provider, &key.wrapped, key.kek_version, newest) {
            outdated += 1;
        }
        let provider = Provider::of_name(&key.provider);
        if key.dek.is_none() && provider.is_none_or(|provider| !(patient && asked(provider))) {
            wrapped += 1;
        } else if load::try_unwrap(index).is_err() {
            wrapped += 1;
            failing = provider;
        }
    }
    // SAFETY: the borrow ends with this statement.
    let ring = unsafe { &(*BACKEND.as_ptr()).ring };
    let current = ring.current().and_then(|index| ring.key(index)).map(|key| key.generation);
    Survey { extension, current, keys, wrapped, outdated, findings }
}
