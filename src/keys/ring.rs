//! The ring: this backend's copy of the key table, with the data keys that were needed so far.
//!
//! It is plain data without a PostgreSQL call; `load.rs` fills it.

use zeroize::Zeroizing;

use crate::crypto::cipher::Key;
use crate::crypto::wrap::KeyId;

/// A data key of the ring.
pub struct DataKey {
    pub generation: i32,
    pub key_id: KeyId,
    /// Names the key id in this process: ciphers are cached under it. Never 0, never used again for another key id.
    pub serial: u32,
    /// Name of the provider that wrapped it.
    pub provider: String,
    pub wrapped: Vec<u8>,
    /// The key itself, once it was unwrapped.
    pub dek: Option<Box<Zeroizing<Key>>>,
    /// False for a key of a transaction that has not committed, as far as this one can see: it decrypts, but is never
    /// the current one.
    pub visible: bool,
}

/// All data keys of the database, in the order of their generations.
pub struct Ring {
    keys: Vec<DataKey>,
    /// By the low byte of the generation: 1 + the index of the newest such key, or 0.
    newest: [u16; 256],
    /// 1 + the index of the newest visible key, or 0.
    current: u16,
    last_serial: u32,
}

impl Ring {
    pub const fn new() -> Ring {
        Ring { keys: Vec::new(), newest: [0; 256], current: 0, last_serial: 0 }
    }

    #[inline]
    pub fn key(&self, index: usize) -> Option<&DataKey> {
        self.keys.get(index)
    }

    pub fn key_mut(&mut self, index: usize) -> Option<&mut DataKey> {
        self.keys.get_mut(index)
    }

    pub fn keys(&self) -> &[DataKey] {
        &self.keys
    }

    /// Index of the key that encrypts: the newest visible one.
    #[inline]
    pub fn current(&self) -> Option<usize> {
        usize::from(self.current).checked_sub(1)
    }

    /// Index of the newest key whose generation has the low byte `byte`.
    #[inline]
    pub fn newest(&self, byte: u8) -> Option<usize> {
        usize::from(self.newest[usize::from(byte)]).checked_sub(1)
    }

    /// Index of the next older key with the same low byte as that of `index`.
    pub fn older(&self, index: usize) -> Option<usize> {
        let byte = self.keys.get(index)?.generation as u8;
        self.keys[..index].iter().rposition(|key| key.generation as u8 == byte)
    }

    /// The generation that a stored form with the generation byte `byte` must be of; None if there is no such key, or
    /// more than one.
    pub fn only_generation(&self, byte: u8) -> Option<i32> {
        let index = self.newest(byte)?;
        match self.older(index) {
            None => self.keys.get(index).map(|key| key.generation),
            Some(_) => None,
        }
    }

    pub fn has_id(&self, key_id: &KeyId) -> bool {
        self.keys.iter().any(|key| key.key_id == *key_id)
    }

    pub fn has_serial(&self, serial: u32) -> bool {
        self.keys.iter().any(|key| key.serial == serial)
    }

    /// Takes over what the key table says now. Data keys that were known stay unwrapped, which a key id allows: it never
    /// changes its key. `DataKey::serial` of what comes in is set here.
    pub fn replace(&mut self, keys: Vec<DataKey>) {
        let mut old = core::mem::take(&mut self.keys);
        for mut key in keys {
            if let Some(known) = old.iter_mut().find(|known| known.key_id == key.key_id) {
                key.serial = known.serial;
                key.dek = known.dek.take();
            }
            self.push(key);
        }
        self.index();
    }

    /// Adds a key that is not in the ring.
    pub fn add(&mut self, key: DataKey) {
        self.push(key);
        self.index();
    }

    fn push(&mut self, mut key: DataKey) {
        if key.serial == 0 {
            self.last_serial += 1;
            key.serial = self.last_serial;
        }
        self.keys.push(key);
    }

    /// Sorts the keys and builds the two indexes anew.
    fn index(&mut self) {
        // more keys than an index can name: the oldest are left out (65535 rotations)
        self.keys.sort_by_key(|key| (key.generation, key.visible));
        let surplus = self.keys.len().saturating_sub(usize::from(u16::MAX));
        self.keys.drain(..surplus);
        self.newest = [0; 256];
        self.current = 0;
        for (key, place) in self.keys.iter().zip(1..) {
            self.newest[usize::from(key.generation as u8)] = place;
            if key.visible {
                self.current = place;
            }
        }
    }
}
