//! Words of keys on pages that are visited often: inner pages, by which every descent comes, and the leaves of small indexes.
//! With these at hand a descent neither decrypts nor looks at keys before it has come to a leaf.
//!
//! What is kept belongs to a page as it was at one moment, and is found by all that tells that moment from others (`State`). As
//! `keys::plaintext_cache` it is kept out of core dumps, and gone with the process, `DISCARD ALL`, or a change of
//! `pg_vault_tde.plaintext_cache`, of whose memory it takes an eighth as much beside.
//!
//! A page gets a place when it comes again soon after its first visit. A page that has one keeps it as long as it is visited
//! more often than others ask for the place.

use core::ptr;

use super::column::Column;
use super::page_state::State;
use crate::keys;
use crate::pg::{hidden, BackendCell};

/// Keys of a page that have room; there are not more if each is encrypted.
const LINES: usize = 160;

/// Bits that remember first visits, and after how many of these they are forgotten.
const SEEN_BITS: usize = 16 * 1024;
const SEEN_MOST: usize = SEEN_BITS / 8;

const MOST_LIVES: u8 = 15;

#[repr(C)]
struct Entry {
    state: State,
    column: *mut Column,
    /// which use of the place this is
    serial: u64,
    known: [u64; LINES.div_ceil(64)],
    words: [i64; LINES],
}

/// What is known of a place without looking at it: a part of its state's hash, and how often it was found. 0 and 0 is an
/// empty one.
#[derive(Clone, Copy)]
struct Mark {
    print: u16,
    lives: u8,
}

/// Where a page's words are, unless the place has been given to another page since.
#[derive(Clone, Copy)]
pub struct Place {
    number: usize,
    serial: u64,
}

impl Place {
    pub const NONE: Place = Place { number: 0, serial: 0 };
}

struct Table {
    entries: *mut Entry,
    marks: *mut Mark,
    count: usize,
    serial: u64,
    seen: [u64; SEEN_BITS / 64],
    seen_count: usize,
}

static TABLE: BackendCell<Table> = BackendCell::new(Table {
    entries: ptr::null_mut(),
    marks: ptr::null_mut(),
    count: 0,
    serial: 0,
    seen: [0; SEEN_BITS / 64],
    seen_count: 0,
});

impl Table {
    /// Whether a page with that hash was here lately; notes that it is.
    #[inline]
    fn seen(&mut self, hash: u64) -> bool {
        let bit = (hash >> 16) as usize % SEEN_BITS;
        let (word, bit) = (&mut self.seen[bit / 64], 1 << (bit % 64));
        if *word & bit != 0 {
            return true;
        }
        *word |= bit;
        self.seen_count += 1;
        if self.seen_count > SEEN_MOST {
            self.seen_count = 0;
            self.seen = [0; SEEN_BITS / 64];
        }
        false
    }
}

/// The place of a page of the column's index in that state; `NONE` if it has none.
pub fn place(column: *mut Column, state: &State) -> Place {
    // SAFETY: nothing in here comes back to the table; entries and marks below `count` are mapped.
    unsafe {
        let table = &mut *TABLE.as_ptr();
        if table.entries.is_null() && !map(table) {
            return Place::NONE;
        }
        let hash = state.hash();
        let number = ((hash >> 32) as usize * table.count) >> 32;
        let (mark, print) = (&mut *table.marks.add(number), hash as u16);
        if mark.print == print {
            let entry = &*table.entries.add(number);
            if entry.serial != 0 && entry.state == *state && entry.column == column {
                mark.lives = (mark.lives + 1).min(MOST_LIVES);
                return Place { number, serial: entry.serial };
            }
        }
        if !table.seen(hash) {
            return Place::NONE;
        }
        if mark.lives > 0 {
            mark.lives -= 1;
            return Place::NONE;
        }
        mark.print = print;
        table.serial += 1;
        let entry = &mut *table.entries.add(number);
        (entry.state, entry.column, entry.serial) = (*state, column, table.serial);
        entry.known = [0; LINES.div_ceil(64)];
        Place { number, serial: entry.serial }
    }
}

/// The entry, if it is still that of `place`.
#[inline]
fn entry<'a>(place: Place) -> Option<&'a mut Entry> {
    // SAFETY: as for `place`; callers use it at once.
    unsafe {
        let table = &*TABLE.as_ptr();
        if place.serial == 0 || place.number >= table.count {
            return None;
        }
        let entry = &mut *table.entries.add(place.number);
        (entry.serial == place.serial).then_some(entry)
    }
}

/// The high part of the word of the key at that line pointer, if it is known.
#[inline]
pub fn get(place: Place, line: u16) -> Option<i64> {
    let (entry, line) = (entry(place)?, usize::from(line));
    (line < LINES && entry.known[line / 64] & 1 << (line % 64) != 0).then(|| entry.words[line])
}

/// Notes it.
#[inline]
pub fn set(place: Place, line: u16, word: i64) {
    let line = usize::from(line);
    if let Some(entry) = entry(place).filter(|_| line < LINES) {
        entry.words[line] = word;
        entry.known[line / 64] |= 1 << (line % 64);
    }
}

#[cold]
fn map(table: &mut Table) -> bool {
    let each = size_of::<Entry>() + size_of::<Mark>();
    let count = keys::settings::plaintext_cache() / 8 / each;
    if count == 0 {
        return false;
    }
    let base = hidden::map(count * each);
    if base.is_null() {
        return false;
    }
    table.entries = base.cast();
    // SAFETY: behind the entries is room for as many marks.
    table.marks = unsafe { base.add(count * size_of::<Entry>()) }.cast();
    table.count = count;
    true
}

/// Gives the memory back.
pub fn forget() {
    // SAFETY: nobody holds an entry; the mapping is as long as noted.
    unsafe {
        let table = &mut *TABLE.as_ptr();
        if table.count != 0 {
            hidden::unmap(table.entries.cast(), table.count * (size_of::<Entry>() + size_of::<Mark>()));
            (table.entries, table.marks, table.count) = (ptr::null_mut(), ptr::null_mut(), 0);
        }
    }
}
