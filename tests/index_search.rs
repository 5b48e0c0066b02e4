//! Searches in pages of encrypted indexes, without a server: pages made here, and nbtree's own way of asking.
//! `cargo test --test index_search`

use std::cell::Cell;
use std::cmp::Ordering;

#[allow(dead_code)]
#[path = "../src/pg/cell.rs"]
mod cell;
#[allow(dead_code, unused_imports)]
#[path = "../src/crypto/mod.rs"]
mod crypto;
#[path = "../src/pg/hidden.rs"]
mod hidden;
#[allow(dead_code)]
#[path = "../src/index/ordinal.rs"]
mod ordinal;
#[path = "index_search/page.rs"]
mod page;
#[path = "../src/index/page_state.rs"]
mod page_state;
#[path = "../src/index/page_words.rs"]
mod page_words;
#[allow(dead_code)]
#[path = "../src/index/pages.rs"]
mod pages;
#[path = "../src/index/search.rs"]
mod search;

mod pg {
    pub use crate::cell::BackendCell;
    pub(crate) use crate::hidden;
    pub type Oid = u32;
    pub type Datum = usize;
    #[allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, improper_ctypes, clippy::all)]
    #[allow(unsafe_op_in_unsafe_fn, unnecessary_transmutes, clippy::undocumented_unsafe_blocks)]
    pub mod sys {
        include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
    }
    pub mod page {
        pub const PAGE_SIZE: usize = 8192;
    }
    pub mod tuple {
        pub const fn maxalign(len: usize) -> usize {
            len.next_multiple_of(8)
        }
    }
    pub mod varlena {
        pub const HEADER: usize = 4;
    }
    pub mod memory {
        /// # Safety
        /// `len` values at `at`.
        pub unsafe fn slice<'a, T>(at: *const T, len: usize) -> &'a [T] {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(at, len) }
        }

        /// # Safety
        /// `len` bytes at `at`.
        pub unsafe fn cleanse(at: *mut std::ffi::c_void, len: usize) {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::write_bytes(at.cast::<u8>(), 0, len) }
        }
    }
}
mod keys {
    pub mod settings {
        pub fn plaintext_cache() -> usize {
            4 << 20
        }
    }
}
mod column {
    use std::cell::Cell;

    use crate::pg::Datum;

    thread_local! {
        pub static OPENED: Cell<usize> = const { Cell::new(0) };
    }

    /// "Decrypts" keys: the value stands where the ciphertext would, altered by the IV.
    pub struct Column {
        pub value: [u8; 16],
    }

    impl Column {
        pub unsafe fn open_once(&mut self, stored: &[u8]) -> Datum {
            OPENED.set(OPENED.get() + 1);
            let text = &stored[18..stored.len() - 16];
            for (i, byte) in text.iter().enumerate() {
                self.value[i] = byte ^ stored[6];
            }
            if text.len() == 8 {
                usize::from_ne_bytes(*self.value.first_chunk().expect("there are 16"))
            } else {
                self.value.as_ptr() as Datum
            }
        }

        pub unsafe fn open_for_now(&mut self, stored: &[u8]) -> Datum {
            // SAFETY: as promised.
            unsafe { self.open_once(stored) }
        }
    }
}

use column::{Column, OPENED};
use ordinal::{Ordinal, Word};
use page::{Content, Page, OPAQUE, PAGES};
use pg::page::PAGE_SIZE;
use pg::sys;
use search::Search;

/// Random numbers that are the same each time.
struct Random(Cell<u64>);

impl Random {
    fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
}

/// The bytes of a key, so that their order is that of the values: of a bigint, or of a uuid.
type Bytes = Vec<u8>;

fn bigint(value: i64) -> Bytes {
    value.to_ne_bytes().to_vec()
}

fn order(kind: Ordinal, a: &Bytes, b: &Bytes) -> Ordering {
    let number = |bytes: &Bytes| i64::from_ne_bytes(*bytes.first_chunk().expect("8 bytes"));
    match kind {
        Ordinal::Uuid => a.cmp(b),
        _ => number(a).cmp(&number(b)),
    }
}

fn word(kind: Ordinal, bytes: &Bytes) -> Word {
    // SAFETY: a value of the type, by value or by address.
    unsafe {
        kind.word(if kind == Ordinal::Uuid {
            bytes.as_ptr() as usize
        } else {
            usize::from_ne_bytes(*bytes.first_chunk().expect("8 bytes"))
        })
    }
}

/// An argument with its search.
struct Argument {
    bytes: Bytes,
    search: Search,
}

impl Argument {
    fn new(kind: Ordinal, bytes: Bytes, descending: bool) -> Argument {
        let search = Search::new(kind, word(kind, &bytes), descending);
        Argument { bytes, search }
    }

    /// How the key of a line pointer compares with the argument, which must be the truth.
    fn ask(&mut self, page: &Page, line: usize, column: &mut Column) -> Ordering {
        let truth = order(page.content.kind, page.key(line).expect("a key"), &self.bytes);
        // SAFETY: a datum in the pool, of the column's type.
        let answer = unsafe { self.search.compare(column, page.datum(line)) };
        assert_eq!(answer, Some(truth as i32), "line {line} of {}..{}", page.first(), page.end());
        truth
    }

    /// `_bt_compare()`: how the argument compares with a line's tuple, in the order of the page.
    fn bt_compare(&mut self, page: &Page, line: usize, column: &mut Column) -> Ordering {
        let is_pivot = !page.content.is_leaf || line < page.origin();
        if !page.content.is_leaf && line == page.origin() {
            return Ordering::Greater;
        }
        if page.key(line).is_none() {
            // NULLs come first in descending order, last in ascending
            return if page.content.descending { Ordering::Greater } else { Ordering::Less };
        }
        let found = self.ask(page, line, column);
        let result = if page.content.descending { found } else { found.reverse() };
        if is_pivot && result == Ordering::Equal {
            Ordering::Greater
        } else {
            result
        }
    }

    /// `_bt_moveright()` and `_bt_binsrch()`; what they find.
    fn find(&mut self, page: &Page, next_key: bool, column: &mut Column) -> usize {
        if page.content.high_key.is_some() {
            self.bt_compare(page, 1, column);
        }
        let (mut low, mut high) = (page.origin(), page.end());
        while low < high {
            let middle = low + (high - low) / 2;
            let result = self.bt_compare(page, middle, column);
            if result == Ordering::Greater || result == Ordering::Equal && next_key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn opened(body: impl FnOnce()) -> usize {
    let before = OPENED.get();
    body();
    OPENED.get() - before
}

/// Random keys: far apart, dense, all alike, or at the ends of the type.
fn random_keys(kind: Ordinal, random: &Random) -> Vec<Bytes> {
    let count = random.below(100);
    let spread = [1usize, 2, 40, 200, 1 << 30][random.below(5)];
    let base = [0i64, i64::MIN, i64::MAX - 300, 1 << 60][random.below(4)];
    let number = || base.wrapping_add(random.below(spread) as i64);
    let value = || match kind {
        Ordinal::Uuid => {
            let mut bytes = number().to_be_bytes().to_vec();
            bytes.extend((random.below(3) as u64).to_be_bytes());
            bytes
        }
        _ => bigint(number()),
    };
    (0..count).map(|_| value()).collect()
}

fn random_content(random: &Random, kind: Ordinal, descending: bool) -> Content {
    let mut sorted = random_keys(kind, random);
    sorted.sort_by(|a, b| order(kind, a, b));
    if descending {
        sorted.reverse();
    }
    let high_key = (random.below(3) > 0).then(|| sorted.pop()).flatten();
    let mut keys: Vec<Option<Bytes>> = sorted.into_iter().map(Some).collect();
    for _ in 0..[0, 0, 3][random.below(3)] {
        if descending {
            keys.insert(0, None);
        } else if high_key.is_none() {
            keys.push(None);
        }
    }
    Content { keys, high_key, is_leaf: random.below(3) > 0, descending, kind }
}

/// Searches that go on while pages change, and ask as nbtree's searches and scans do: every answer is the truth.
fn all_answers_are_true(random: &Random, kind: Ordinal, descending: bool) {
    let mut column = Column { value: [0; 16] };
    let mut lsn = 1;
    let mut page = |number, random: &Random| {
        lsn += 1;
        Page::new(number, lsn, random, random_content(random, kind, descending))
    };
    let mut pages: Vec<Page> = (0..PAGES).map(|number| page(number, random)).collect();
    let mut arguments: Vec<Argument> = Vec::new();
    for _ in 0..20_000 {
        let number = random.below(PAGES);
        if random.below(8) == 0 {
            pages[number] = page(number, random);
        }
        if random.below(1000) == 0 {
            page_words::forget();
        }
        let page = &pages[number];
        if arguments.len() < 12 || random.below(6) == 0 {
            // mostly a value of the page, or beside one
            let keys: Vec<&Bytes> = page.content.keys.iter().flatten().collect();
            let mut bytes = if keys.is_empty() { vec![9; 16] } else { keys[random.below(keys.len())].clone() };
            if kind != Ordinal::Uuid {
                bytes.truncate(8);
            }
            if random.below(3) == 0 {
                let last = bytes.len() - 1;
                bytes[if kind == Ordinal::Uuid { last } else { 0 }] ^= 1;
            }
            if arguments.len() == 12 {
                arguments.swap_remove(random.below(12));
            }
            arguments.push(Argument::new(kind, bytes, descending));
        }
        let which = random.below(arguments.len());
        let argument = &mut arguments[which];
        match random.below(4) {
            0 | 1 => {
                let at = argument.find(page, random.below(2) == 0, &mut column);
                for line in at..page.end().min(at + 3) {
                    if page.key(line).is_some() {
                        argument.ask(page, line, &mut column);
                    }
                }
            }
            2 => {
                for line in (page.first()..page.end()).rev().filter(|line| page.key(*line).is_some()) {
                    argument.ask(page, line, &mut column);
                }
            }
            _ => {
                let line = 1 + random.below(page.end());
                if page.key(line).is_some() && line < page.end() {
                    argument.ask(page, line, &mut column);
                }
            }
        }
    }
}

fn evenly(from: i64, count: i64, step: i64) -> Vec<Option<Bytes>> {
    (0..count).map(|i| Some(bigint(from + i * step))).collect()
}

/// A descent in a large index of consecutive numbers: three keys of a leaf are opened, as many as prove what is there.
fn few_keys_are_opened(random: &Random) {
    page_words::forget();
    let mut column = Column { value: [0; 16] };
    let kind = Ordinal::Signed(8);
    let content = |keys, high_key, is_leaf| Content { keys, high_key, is_leaf, descending: false, kind };
    let above = Page::new(0, 7, random, content(evenly(1100, 99, 100), Some(bigint(11_000)), false));
    // each leaf is another one, and so not remembered
    let search = |wanted: i64, lsn: u64, column: &mut Column| {
        let from = wanted / 100 * 100;
        let leaf = Page::new(1, lsn, random, content(evenly(from, 100, 1), Some(bigint(from + 100)), true));
        let mut argument = Argument::new(kind, bigint(wanted), false);
        argument.find(&above, false, column);
        opened(|| {
            let at = argument.find(&leaf, false, column);
            argument.ask(&leaf, at, column);
            argument.ask(&leaf, at + 1, column);
        })
    };
    for i in 0..2000 {
        let wanted = 1100 + random.below(90) as i64 * 100 + 1 + random.below(98) as i64;
        let count = search(wanted, 100 + i, &mut column);
        // the high key, which was opened on the page above, was written anew here, so it counts as one more
        assert!(count <= 4, "{count} keys opened for {wanted}");
    }
    // the next statement looks for the same row
    let leaf = Page::new(1, 9000, random, content(evenly(2500, 100, 1), Some(bigint(2600)), true));
    for opened_before in [true, false] {
        let mut argument = Argument::new(kind, bigint(2550), false);
        argument.find(&above, false, &mut column);
        let count = opened(|| _ = argument.find(&leaf, false, &mut column));
        assert!(count <= if opened_before { 4 } else { 1 }, "{count} keys opened");
    }
    // the page above is remembered
    let mut argument = Argument::new(kind, bigint(5555), false);
    assert_eq!(opened(|| _ = argument.find(&above, false, &mut column)), 1, "its high key only");
}

/// What is on a page that is not to be searched, or not on a page in shared buffers, is left to others.
fn nothing_else_is_answered(random: &Random) {
    let kind = Ordinal::Signed(8);
    let mut column = Column { value: [0; 16] };
    let content = || Content { keys: evenly(1, 9, 1), high_key: None, is_leaf: true, descending: false, kind };
    let mut answer = |datum: usize| {
        let mut argument = Argument::new(kind, bigint(5), false);
        // SAFETY: as the page was made.
        unsafe { argument.search.compare(&mut column, datum) }
    };
    let page = Page::new(2, 5, random, content());
    assert_eq!(answer(page.datum(3)), Some(-1));
    for flag in [sys::BTP_META, sys::BTP_DELETED, sys::BTP_HALF_DEAD] {
        page.put(OPAQUE + 12, (sys::BTP_LEAF | flag) as u16);
        assert_eq!(answer(page.datum(3)), None, "flag {flag}");
    }
    let page = Page::new(2, 0, random, content());
    assert_eq!(answer(page.datum(3)), None, "a page without an LSN");
    let page = Page::new(2, 5, random, content());
    assert_eq!(answer(page.datum(3) + 1), None, "not the first key of a tuple");
    let mut copy = vec![0u64; PAGE_SIZE / 8];
    // SAFETY: a page of the pool is copied.
    unsafe { std::ptr::copy_nonoverlapping(page.at, copy.as_mut_ptr().cast(), PAGE_SIZE) };
    let moved = copy.as_ptr() as usize + page.datum(3) - page.at as usize;
    assert_eq!(answer(moved), None, "a copy of a page");
    let page = Page::new(2, 5, random, Content { descending: true, ..content() });
    page.put(16, 0u16);
    assert_eq!(answer(page.datum(3)), None, "no special space");
}

/// A damaged page gets some answer.
fn disorder_is_survived(random: &Random) {
    let kind = Ordinal::Signed(8);
    let mut column = Column { value: [0; 16] };
    let keys = |count| (0..count).map(|_| Some(bigint(random.below(1000) as i64))).collect();
    for lsn in 20_000..20_500 {
        let content = |is_leaf| Content { keys: keys(90), high_key: None, is_leaf, descending: false, kind };
        let pages = [Page::new(3, lsn, random, content(false)), Page::new(4, lsn, random, content(true))];
        let mut argument = Argument::new(kind, bigint(random.below(1000) as i64), false);
        for page in pages {
            for _ in 0..20 {
                let line = page.first() + random.below(90);
                // SAFETY: a datum in the pool.
                let answer = unsafe { argument.search.compare(&mut column, page.datum(line)) };
                assert!(answer.is_some());
            }
        }
    }
}

/// A search is cleansed to its end.
fn nothing_is_left() {
    let mut search =
        std::mem::ManuallyDrop::new(Search::new(Ordinal::Oid, word(Ordinal::Signed(8), &bigint(77)), false));
    let at = &raw mut *search;
    // SAFETY: what is left of it is looked at as bytes.
    unsafe {
        Search::cleanse(at);
        assert!(std::slice::from_raw_parts(at.cast::<u8>(), size_of::<Search>()).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn searches_in_pages() {
    let random = Random(Cell::new(0x5EED_0001));
    for kind in [Ordinal::Signed(8), Ordinal::Uuid] {
        for descending in [false, true] {
            all_answers_are_true(&random, kind, descending);
        }
    }
    few_keys_are_opened(&random);
    nothing_else_is_answered(&random);
    disorder_is_survived(&random);
    nothing_is_left();
}

#[test]
fn words_are_ordered_as_values() {
    let ints = [i64::MIN, i64::MIN + 1, -1 << 32, -2, -1, 0, 1, 2, 1 << 32, i64::MAX - 1, i64::MAX];
    for (a, b) in ints.iter().flat_map(|a| ints.iter().map(move |b| (*a, *b))) {
        let (long_a, long_b) = (word(Ordinal::Signed(8), &bigint(a)), word(Ordinal::Signed(8), &bigint(b)));
        assert_eq!(long_a.cmp(&long_b), a.cmp(&b));
        // a Datum's upper bytes do not count in shorter types
        // SAFETY: by value.
        let (four, two, oid) = unsafe {
            let all = |ordinal: Ordinal| (ordinal.word(a as usize), ordinal.word(b as usize));
            (all(Ordinal::Signed(4)), all(Ordinal::Signed(2)), all(Ordinal::Oid))
        };
        assert_eq!(four.0.cmp(&four.1), (a as i32).cmp(&(b as i32)));
        assert_eq!(two.0.cmp(&two.1), (a as i16).cmp(&(b as i16)));
        assert_eq!(oid.0.cmp(&oid.1), (a as u32).cmp(&(b as u32)));
        for wanted in ints {
            let position = word(Ordinal::Signed(8), &bigint(wanted)).position(long_a, long_b);
            assert!(position.is_none_or(|p| (0.0..=1.0).contains(&p)), "{wanted} between {a} and {b}: {position:?}");
            assert_eq!(position.is_none(), a == b);
        }
    }
}
