//! Ciphers ready for use: one for each relation, purpose and data key that this backend has lately worked with.
//!
//! A four-way set-associative cache of fixed size: nothing is allocated to find a cipher, and the least recently used of
//! a set makes room for a new one. A cipher with its two key schedules takes about 3 KiB, so a full cache 3 MiB.
//!
//! Beside each cipher is counted what it has done. A bit for each set says that there is something to be counted in it.

use super::tally::Tally;
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
    /// Not given to [`CipherCache::give_counts`] yet.
    tally: Tally,
    cipher: Option<Cipher>,
}

impl Entry {
    const EMPTY: Entry = Entry { oid: 0, serial: 0, purpose: Purpose::Heap, tally: Tally::ZERO, cipher: None };
}

const WORDS: usize = SETS / u64::BITS as usize;

/// The cache; a static of the backend.
pub struct CipherCache {
    sets: [[Entry; WAYS]; SETS],
    /// The sets in which a tally is not zero.
    counted: [u64; WORDS],
    /// Tallies of entries that had to go.
    left_over: Vec<(Oid, Tally)>,
}

impl CipherCache {
    pub const fn new() -> CipherCache {
        CipherCache {
            sets: [const { [const { Entry::EMPTY }; WAYS] }; SETS],
            counted: [0; WORDS],
            left_over: Vec::new(),
        }
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
        if !set[0].tally.is_zero() {
            self.left_over.push((set[0].oid, set[0].tally));
        }
        set[0] = Entry { oid, serial, purpose, tally: Tally::ZERO, cipher: Some(cipher) };
        Some(place)
    }

    /// The cipher that [`Self::find`] or [`Self::make`] has just named.
    #[inline]
    pub fn at(&mut self, place: Place) -> Option<&mut Cipher> {
        self.sets[place.0][0].cipher.as_mut()
    }

    /// Counts what the cipher at `place` has sealed: one row, chunk or key.
    #[inline]
    pub fn count_sealed(&mut self, place: Place) {
        if self.sets[place.0][0].tally.sealed.add_one() {
            self.mark_counted(place);
        }
    }

    /// Counts what the cipher at `place` has opened.
    #[inline]
    pub fn count_opened(&mut self, place: Place) {
        if self.sets[place.0][0].tally.opened.add_one() {
            self.mark_counted(place);
        }
    }

    #[cold]
    #[inline(never)]
    fn mark_counted(&mut self, place: Place) {
        self.counted[place.0 / u64::BITS as usize] |= 1 << (place.0 % u64::BITS as usize);
    }

    /// Whether [`Self::give_counts`] has something to give.
    pub fn has_counts(&self) -> bool {
        !self.left_over.is_empty() || self.counted.iter().any(|&word| word != 0)
    }

    /// Gives what was counted, by relation (which may come several times), and begins again at zero. What `take` refuses
    /// stays.
    pub fn give_counts(&mut self, mut take: impl FnMut(Oid, &Tally) -> bool) {
        self.left_over.retain(|(oid, tally)| !take(*oid, tally));
        for (word, sets) in self.counted.iter_mut().zip(self.sets.chunks_mut(u64::BITS as usize)) {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let mut all_taken = true;
                for entry in sets[bit as usize].iter_mut().filter(|entry| !entry.tally.is_zero()) {
                    if take(entry.oid, &entry.tally) {
                        entry.tally = Tally::ZERO;
                    } else {
                        all_taken = false;
                    }
                }
                if all_taken {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Drops the ciphers of data keys that `keep` does not want.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        for entry in self.sets.as_flattened_mut() {
            if entry.cipher.is_some() && !keep(entry.serial) {
                if !entry.tally.is_zero() {
                    self.left_over.push((entry.oid, entry.tally));
                }
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
