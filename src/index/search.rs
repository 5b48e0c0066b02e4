//! A search that decrypts fewer keys than nbtree asks about.
//!
//! To find its way on a page nbtree halves it, asking seven or eight times how a key compares with the argument, and each
//! key that was not asked about lately costs a decryption. But the keys of a page are sorted, so each answer says something
//! about all keys on one side. What an argument's comparisons have shown is kept with it: the last key before it on
//! the page, the first behind it, the first that is equal. What follows from these is not decrypted. And where keys are numbers, where
//! the argument must be among them can be estimated from how far apart they are. So the first question about a page is
//! answered by opening the keys around that place, mostly two, and the others follow.
//!
//! **Estimates never decide.** An answer is what a decrypted key has shown, or it follows from the order of the page, on which
//! nbtree's own search relies. And it is given only while the page is in the state in which that was found out.

use core::cmp::Ordering;

use super::column::Column;
use super::ordinal::{Ordinal, Word};
use super::page_state::{Bounds, Page, State};
use super::page_words;
use crate::crypto::key::KEY_OVERHEAD;
use crate::pg::memory::cleanse;
use crate::pg::Datum;

/// The longest stored key of a type with words.
const LONGEST: usize = KEY_OVERHEAD + 16;
/// How many keys of a page are opened at most that nbtree has not asked about.
const PROBES: u8 = 4;

/// A key on the page that was compared with the argument.
#[derive(Clone, Copy)]
struct Known {
    /// its line pointer; 0 if there is none
    line: u16,
    word: Word,
}

/// The bytes of a stored key, or none.
struct StoredKey {
    bytes: [u8; LONGEST],
    len: usize,
}

/// What is known of where an argument belongs on the page that it was compared on last. Part of the argument.
pub struct Search {
    key: Ordinal,
    argument: Word,
    descending: bool,
    /// the page's address, 0 if there is none; its state, and what is in that
    page: usize,
    state: State,
    bounds: Bounds,
    words: page_words::Place,
    /// what nbtree's search has come to, if it is one, and what it has asked about last: for guesses of what it asks next
    low: u16,
    high: u16,
    last: u16,
    probes: u8,
    /// the last key before the argument in the order of the page, the first behind, the first equal
    before: Known,
    behind: Known,
    equal: Known,
    /// words between which the page's keys are likely to lie, from the page above
    floor: Option<Word>,
    ceiling: Option<Word>,
    /// the key behind the argument on the page above: mostly this page's high key
    pivot: StoredKey,
}

impl Known {
    const NONE: Known = Known { line: 0, word: Word::ZERO };

    #[inline]
    fn is_some(&self) -> bool {
        self.line != 0
    }
}

impl StoredKey {
    #[inline]
    fn set(&mut self, stored: &[u8]) {
        self.bytes[..stored.len()].copy_from_slice(stored);
        self.len = stored.len();
    }

    #[inline]
    fn is(&self, stored: &[u8]) -> bool {
        self.len != 0 && self.bytes[..self.len] == *stored
    }
}

impl Search {
    /// For an argument with that word, and a column whose keys have words of kind `key`.
    pub fn new(key: Ordinal, argument: Word, descending: bool) -> Search {
        Search {
            key,
            argument,
            descending,
            page: 0,
            state: State::NONE,
            bounds: Bounds { origin: 0, first: 0, end: 0 },
            words: page_words::Place::NONE,
            low: 0,
            high: 0,
            last: 0,
            probes: 0,
            before: Known::NONE,
            behind: Known::NONE,
            equal: Known::NONE,
            floor: None,
            ceiling: None,
            pivot: StoredKey { bytes: [0; LONGEST], len: 0 },
        }
    }

    /// Overwrites what it knows with zeros.
    ///
    /// # Safety
    /// `search` must point to one, which nobody may use any more.
    pub unsafe fn cleanse(search: *mut Search) {
        // SAFETY: the caller's promise.
        unsafe { cleanse(search.cast(), size_of::<Search>()) };
    }

    /// How the stored key at `key` (a datum) compares with the argument: -1, 0, or 1. None if that must be found out otherwise.
    ///
    /// # Safety
    /// In a transaction, while the column's index is current. If `key` points into a shared buffer, its content lock must be
    /// held. May raise an ERROR.
    #[inline]
    pub unsafe fn compare(&mut self, column: *mut Column, key: Datum) -> Option<i32> {
        let key = key as *const u8;
        let page = Page::of(key)?;
        if page.address() != self.page || page.state() != self.state {
            self.turn_to(column, page)?;
        }
        let (middle, end) = (self.low + self.high.saturating_sub(self.low) / 2, self.bounds.end);
        let line = if middle < end && page.has_at(middle, key) { middle } else { page.line_of(key, self.last, end)? };
        self.last = line;
        let order = match self.decided(line) {
            Some(order) => order,
            // SAFETY: the caller's promise.
            None => unsafe { self.decide(column, page, line)? },
        };
        if order == Ordering::Less {
            self.low = line + 1;
        } else if line >= self.bounds.first {
            self.high = line;
        }
        let order = if self.descending { order.reverse() } else { order };
        Some(order as i32)
    }

    #[inline]
    fn is_inner(&self) -> bool {
        self.bounds.first != self.bounds.origin
    }

    #[inline(never)]
    fn turn_to(&mut self, column: *mut Column, page: Page) -> Option<()> {
        if self.equal.is_some() {
            self.floor = Some(self.equal.word);
        } else if self.before.is_some() {
            self.floor = Some(self.before.word);
        }
        if self.behind.is_some() {
            self.ceiling = Some(self.behind.word);
        }
        (self.before, self.behind, self.equal) = (Known::NONE, Known::NONE, Known::NONE);
        self.bounds = page.bounds()?;
        self.page = page.address();
        self.state = page.state();
        (self.low, self.high, self.last) = (self.bounds.origin, self.bounds.end, 0);
        self.probes = PROBES;
        self.words = page_words::place(column, &self.state);
        Some(())
    }

    /// What follows from what is known. Orders are those of the page: `Less` is before the argument.
    #[inline]
    fn decided(&self, line: u16) -> Option<Ordering> {
        if line < self.bounds.first {
            None
        } else if line <= self.before.line {
            Some(Ordering::Less)
        } else if self.behind.is_some() && line >= self.behind.line {
            Some(Ordering::Greater)
        } else if line == self.equal.line {
            Some(Ordering::Equal)
        } else {
            None
        }
    }

    #[inline(never)]
    unsafe fn decide(&mut self, column: *mut Column, page: Page, line: u16) -> Option<Ordering> {
        // SAFETY: the caller's promise.
        unsafe {
            if line < self.bounds.first {
                return self.compare_high_key(column, page, line);
            }
            while let Some(probe) = self.probe(line) {
                self.probes -= 1;
                if self.look_at(column, page, probe).is_none() {
                    self.probes = 0;
                }
                if let Some(order) = self.decided(line) {
                    return Some(order);
                }
            }
            self.look_at(column, page, line)
        }
    }

    /// The key to be looked at next, so that `line` may be decided; None if it is that of `line` itself.
    #[inline]
    fn probe(&self, line: u16) -> Option<u16> {
        if self.probes == 0 {
            return None;
        }
        let below = if self.before.is_some() { self.before.line } else { self.bounds.first - 1 };
        let above = if self.behind.is_some() { self.behind.line } else { self.bounds.end };
        if self.equal.is_some() {
            // those beside it may be equal, too
            let (before, behind) = (self.equal.line - 1, self.equal.line + 1);
            return if line < before && before > below {
                Some(before)
            } else if line > behind && behind < above {
                Some(behind)
            } else {
                None
            };
        }
        // (a damaged page need not be in order)
        if above.saturating_sub(below) <= 2 || page_words::get(self.words, line).is_some() {
            return None;
        }
        let from = if self.before.is_some() { self.before.word } else { self.floor? };
        let to = if self.behind.is_some() { self.behind.word } else { self.ceiling? };
        let begin = if self.before.is_some() { below } else { self.bounds.origin };
        let position = self.argument.position(from, to)?;
        let estimate = begin + (position * f64::from(above - begin)) as u16;
        Some(estimate.clamp(below + 1, above - 1))
    }

    /// Compares a key with the argument, and notes what that shows.
    #[inline]
    unsafe fn look_at(&mut self, column: *mut Column, page: Page, line: u16) -> Option<Ordering> {
        let (word, order) = match self.word_of(line) {
            Some(found) => found,
            None => {
                let stored = page.key(line, LONGEST)?;
                // SAFETY: the caller's promise.
                let found = unsafe { self.open(column, stored) };
                page_words::set(self.words, line, found.0.high());
                found
            }
        };
        let known = Known { line, word };
        match order {
            Ordering::Less if line > self.before.line => self.before = known,
            Ordering::Greater if !self.behind.is_some() || line < self.behind.line => {
                self.behind = known;
                if self.is_inner() {
                    self.pivot.set(page.key(line, LONGEST)?);
                }
            }
            Ordering::Equal if !self.equal.is_some() || line < self.equal.line => self.equal = known,
            _ => {}
        }
        Some(order)
    }

    /// By the words that are kept; None if they do not tell.
    #[inline]
    fn word_of(&self, line: u16) -> Option<(Word, Ordering)> {
        let word = Word::from_high(page_words::get(self.words, line)?);
        if word.high() == self.argument.high() && !self.key.is_high_only() {
            return None;
        }
        Some((word, self.order_of(word)))
    }

    #[inline]
    fn order_of(&self, word: Word) -> Ordering {
        let order = word.cmp(&self.argument);
        if self.descending {
            order.reverse()
        } else {
            order
        }
    }

    #[inline]
    unsafe fn open(&self, column: *mut Column, stored: &[u8]) -> (Word, Ordering) {
        // SAFETY: the caller's promise; what is opened is of the column's type.
        let word = unsafe {
            // what lies on a leaf that is not visited often is not needed again
            let value = if self.is_inner() { (*column).open_once(stored) } else { (*column).open_for_now(stored) };
            self.key.word(value)
        };
        (word, self.order_of(word))
    }

    /// The high key bounds the page, but a key before it may be equal.
    #[inline]
    unsafe fn compare_high_key(&mut self, column: *mut Column, page: Page, line: u16) -> Option<Ordering> {
        let stored = page.key(line, LONGEST)?;
        if self.pivot.is(stored) {
            return Some(Ordering::Greater);
        }
        // SAFETY: the caller's promise.
        let (word, order) = unsafe { self.open(column, stored) };
        if order == Ordering::Greater {
            self.ceiling = Some(word);
        }
        Some(order)
    }
}
