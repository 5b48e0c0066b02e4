//! Ciphers ready for use: one for each relation, purpose and data key that this backend has lately worked with.
//!
//! A four-way set-associative cache of fixed size: nothing is allocated to find a cipher, and the least recently used of
//! a set makes room for a new one. A cipher with its two key schedules takes about 3 KiB, so a full cache 3 MiB.

use crate::crypto::{kdf, Cipher, Key};
use crate::pg::Oid;

/// What a key is for: the label that it is derived with.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Rows of a table.
    Heap,
    /// Chunks of a TOAST table.
    Toast,
    /// Keys of an index.
    Index,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Purpose::Heap => kdf::LABEL_HEAP,
            Purpose::Toast => kdf::LABEL_TOAST,
            Purpose::Index => kdf::LABEL_INDEX,
        }
    }
}

const WAYS: usize = 4;
const SET_BITS: u32 = 8;
const SETS: usize = 1 << SET_BITS;

struct Entry {
    oid: Oid,
    /// `DataKey::serial`
    serial: u32,
    purpose: Purpose,
    cipher: Option<Cipher>,
}

impl Entry {
    const EMPTY: Entry = Entry { oid: 0, serial: 0, purpose: Purpose::Heap, cipher: None };
}

/// The cache; a static of the backend.
pub struct CipherCache {
    sets: [[Entry; WAYS]; SETS],
}

impl CipherCache {
    pub const fn new() -> CipherCache {
        CipherCache { sets: [const { [const { Entry::EMPTY }; WAYS] }; SETS] }
    }

    /// Where the cipher of `oid`'s key for `purpose` under the data key `serial` is, if it is here: for [`Self::at`].
    #[inline]
    pub fn find(&mut self, oid: Oid, purpose: Purpose, serial: u32) -> Option<Place> {
        let place = Place::of(oid, serial);
        let set = &mut self.sets[place.0];
        let wanted = |e: &Entry| e.oid == oid && e.serial == serial && e.purpose == purpose;
        // a statement works with few relations, so the first way is nearly always the right one
        if !wanted(&set[0]) {
            let way = set.iter().position(wanted)?;
            set.swap(0, way);
        }
        Some(place)
    }

    /// Derives that key from the data key and makes its cipher. None if OpenSSL fails.
    #[cold]
    pub fn make(&mut self, oid: Oid, purpose: Purpose, serial: u32, dek: &Key) -> Option<Place> {
        let key = kdf::derive(dek, purpose.label(), oid).ok()?;
        let cipher = Cipher::new(&key).ok()?;
        let place = Place::of(oid, serial);
        let set = &mut self.sets[place.0];
        set.rotate_right(1);
        set[0] = Entry { oid, serial, purpose, cipher: Some(cipher) };
        Some(place)
    }

    /// The cipher that [`Self::find`] or [`Self::make`] has just named.
    #[inline]
    pub fn at(&mut self, place: Place) -> Option<&mut Cipher> {
        self.sets[place.0][0].cipher.as_mut()
    }

    /// Drops the ciphers of data keys that `keep` does not want.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        for entry in self.sets.as_flattened_mut() {
            if entry.cipher.is_some() && !keep(entry.serial) {
                *entry = Entry::EMPTY;
            }
        }
    }
}

/// The set whose first way is the cipher looked for; good until the cache is asked for another one.
#[derive(Clone, Copy)]
pub struct Place(usize);

impl Place {
    #[inline]
    const fn of(oid: Oid, serial: u32) -> Place {
        let hash = (oid ^ serial.rotate_right(8)).wrapping_mul(0x9E37_79B1);
        Place((hash >> (u32::BITS - SET_BITS)) as usize)
    }
}
