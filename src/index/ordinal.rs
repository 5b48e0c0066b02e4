//! Types whose values are numbers of a fixed length: their order is that of words, so no function of theirs need be called
//! to compare two, and how far apart two are tells where among others a third belongs.

use crate::pg::{sys, Datum, Oid};

/// A value, so that words are ordered as values are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    high: i64,
    low: u64,
}

/// How a type's values become words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ordinal {
    /// signed integers of so many bytes, and what PostgreSQL keeps as one: dates, times
    Signed(u8),
    Oid,
    Uuid,
}

impl Word {
    pub const ZERO: Word = Word { high: 0, low: 0 };

    #[inline]
    pub fn high(self) -> i64 {
        self.high
    }

    /// The least word with that high part.
    #[inline]
    pub fn from_high(high: i64) -> Word {
        Word { high, low: 0 }
    }

    /// Where `self` lies between two others, which may be in either order: 0 is at `from`, 1 at `to`. None if they are too
    /// close to tell.
    #[inline]
    pub fn position(self, from: Word, to: Word) -> Option<f64> {
        let whole = from.high.abs_diff(to.high);
        if whole == 0 {
            return None;
        }
        let inside = if from <= to { from <= self && self <= to } else { to <= self && self <= from };
        if inside {
            Some(from.high.abs_diff(self.high) as f64 / whole as f64)
        } else {
            Some(if (self < from) == (from < to) { 0.0 } else { 1.0 })
        }
    }
}

impl Ordinal {
    /// That of a type whose values are compared by the function `compare`.
    pub fn of(compare: Oid) -> Option<Ordinal> {
        match compare {
            sys::F_BTINT2CMP => Some(Ordinal::Signed(2)),
            sys::F_BTINT4CMP | sys::F_DATE_CMP => Some(Ordinal::Signed(4)),
            sys::F_BTINT8CMP | sys::F_CASH_CMP | sys::F_TIME_CMP | sys::F_TIMESTAMP_CMP | sys::F_TIMESTAMPTZ_CMP => {
                Some(Ordinal::Signed(8))
            }
            sys::F_BTOIDCMP => Some(Ordinal::Oid),
            sys::F_UUID_CMP => Some(Ordinal::Uuid),
            _ => None,
        }
    }

    /// That of an argument which a column's values are compared with by the function `compare`; None if their words do not
    /// tell what that function does.
    pub fn of_argument(compare: Oid) -> Option<Ordinal> {
        match compare {
            sys::F_BTINT42CMP | sys::F_BTINT82CMP => Some(Ordinal::Signed(2)),
            sys::F_BTINT24CMP | sys::F_BTINT84CMP => Some(Ordinal::Signed(4)),
            sys::F_BTINT28CMP | sys::F_BTINT48CMP => Some(Ordinal::Signed(8)),
            same => Ordinal::of(same),
        }
    }

    /// Whether the high part of a word is all of it.
    #[inline]
    pub fn is_high_only(self) -> bool {
        self != Ordinal::Uuid
    }

    /// The word of a value.
    ///
    /// # Safety
    /// `value` must be of a type with that ordinal.
    #[inline]
    pub unsafe fn word(self, value: Datum) -> Word {
        match self {
            Ordinal::Signed(8) => Word { high: value as i64, low: 0 },
            Ordinal::Signed(4) => Word { high: i64::from(value as i32), low: 0 },
            Ordinal::Signed(_) => Word { high: i64::from(value as i16), low: 0 },
            Ordinal::Oid => Word { high: i64::from(value as u32), low: 0 },
            Ordinal::Uuid => {
                // SAFETY: a uuid is 16 bytes, compared from the first on.
                let [high, low] = unsafe { (value as *const [[u8; 8]; 2]).read() };
                Word { high: (u64::from_be_bytes(high) ^ 1 << 63) as i64, low: u64::from_be_bytes(low) }
            }
        }
    }
}
