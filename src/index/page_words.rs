//! Words of keys on pages that are visited often: inner pages, by which every descent comes, and the leaves of small indexes.
//! With these at hand a descent neither decrypts nor looks at keys before it has come to a leaf.
//!
//! What is kept belongs to a page as it was at one moment, and is found by all that tells that moment from others (`State`). As
//! `keys::plaintext_cache` it is kept out of core dumps, and gone with the process, `DISCARD ALL`, or a change of
//! `pg_vault_tde.plaintext_cache`, of whose memory it takes an eighth as much beside.
//!
//! The last few pages have places in any case, since the next statement may look for the same row. Another gets a place when it
//! comes again soon after its first visit. A page that has one keeps it as long as it is visited more often than others ask for
//! the place.

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

/// Places of the last pages, which stay in the processor's cache. They are behind those of the table.
const LAST: usize = 4;

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
    /// parts of the hashes of the last pages, and which of their places is next
    last: [u16; LAST],
    next_last: usize,
    seen: [u64; SEEN_BITS / 64],
    seen_count: usize,
}

static TABLE: BackendCell<Table> = BackendCell::new(Table {
    entries: ptr::null_mut(),
    marks: ptr::null_mut(),
    count: 0,
    serial: 0,
    last: [0; LAST],
    next_last: 0,
    seen: [0; SEEN_BITS / 64],
    seen_count: 0,
});

impl Table {
    /// The place of that number, if it is the page's.
    #[inline]
    fn found(&self, number: usize, column: *mut Column, state: &State) -> Option<Place> {
        // SAFETY: the place is one of the mapped ones.
        let entry = unsafe { &*self.entries.add(number) };
        let is_its = entry.serial != 0 && entry.state == *state && entry.column == column;
        is_its.then_some(Place { number, serial: entry.serial })
    }

    /// Gives the place of that number to a page.
    #[inline]
    fn give(&mut self, number: usize, column: *mut Column, state: &State) -> Place {
        self.serial += 1;
        // SAFETY: as for `found`.
        let entry = unsafe { &mut *self.entries.add(number) };
        (entry.state, entry.column, entry.serial) = (*state, column, self.serial);
        entry.known = [0; LINES.div_ceil(64)];
        Place { number, serial: self.serial }
    }

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
    // SAFETY: nothing in here comes back to the table.
    let table = unsafe { &mut *TABLE.as_ptr() };
    if table.entries.is_null() && !map(table) {
        return Place::NONE;
    }
    let hash = state.hash();
    let print = hash as u16;
    let number = ((hash >> 32) as usize * table.count) >> 32;
    // SAFETY: as many marks as places of the table.
    let mark = unsafe { &mut *table.marks.add(number) };
    if mark.print == print {
        if let Some(place) = table.found(number, column, state) {
            mark.lives = (mark.lives + 1).min(MOST_LIVES);
            return place;
        }
    }
    for i in 0..LAST {
        if table.last[i] == print {
            if let Some(place) = table.found(table.count + i, column, state) {
                return place;
            }
        }
    }
    if !table.seen(hash) {
        table.next_last = (table.next_last + 1) % LAST;
        table.last[table.next_last] = print;
        return table.give(table.count + table.next_last, column, state);
    }
    if mark.lives > 0 {
        mark.lives -= 1;
        return Place::NONE;
    }
    mark.print = print;
    table.give(number, column, state)
}

/// The entry, if it is still that of `place`.
#[inline]
fn entry<'a>(place: Place) -> Option<&'a mut Entry> {
    // SAFETY: as for `place`; callers use it at once.
    unsafe {
        let table = &*TABLE.as_ptr();
        if place.serial == 0 || place.number >= table.count + LAST || table.count == 0 {
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

/// Bytes of a table with `count` places.
fn size(count: usize) -> usize {
    (count + LAST) * size_of::<Entry>() + count * size_of::<Mark>()
}

#[cold]
fn map(table: &mut Table) -> bool {
    let count = keys::settings::plaintext_cache() / 8 / (size_of::<Entry>() + size_of::<Mark>());
    if count == 0 {
        return false;
    }
    let base = hidden::map(size(count));
    if base.is_null() {
        return false;
    }
    table.entries = base.cast();
    // SAFETY: behind the entries is room for the marks.
    table.marks = unsafe { base.add((count + LAST) * size_of::<Entry>()) }.cast();
    table.count = count;
    true
}

/// Gives the memory back.
pub fn forget() {
    // SAFETY: nobody holds an entry; the mapping is as long as noted.
    unsafe {
        let table = &mut *TABLE.as_ptr();
        if table.count != 0 {
            hidden::unmap(table.entries.cast(), size(table.count));
            (table.entries, table.marks, table.count) = (ptr::null_mut(), ptr::null_mut(), 0);
        }
    }
}
