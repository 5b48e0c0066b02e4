//! A column of an encrypted index: how its values become stored keys and come back.
//!
//! What is encrypted is the value's bare bytes: those of a pass-by-value or fixed-length type, of a variable-length one
//! those behind the length, decompressed unless it is so long that nbtree would have compressed it, too.

use core::ptr;

use super::cache::Cache;
use super::ordinal::Ordinal;
use crate::crypto::key::{self, Place, COMPRESSED, KEY_OVERHEAD};
use crate::keys::{self, OpenError};
use crate::pg::error::DATA_CORRUPTED;
use crate::pg::memory::{cleanse, slice, MemoryContext};
use crate::pg::varlena::{self, Varlena};
use crate::pg::{sys, Datum, Oid};
use crate::pg_error;

/// `TOAST_INDEX_TARGET`: nbtree compresses values that are longer.
const COMPRESS_FROM: usize = sys::BLCKSZ as usize / 16;
/// Types of at least this fixed length are stored without their trailing zeros (`name`).
const TRIM_FROM: i16 = 64;

/// A block that grows, in the memory of its index: never given back, cleansed by [`Block::forget`].
struct Block {
    data: *mut u8,
    capacity: usize,
    used: usize,
}

impl Block {
    const EMPTY: Block = Block { data: ptr::null_mut(), capacity: 0, used: 0 };

    /// `len` writable bytes, MAXALIGNed, until the next call.
    #[inline]
    unsafe fn reserve(&mut self, context: MemoryContext, len: usize) -> *mut u8 {
        if len > self.capacity {
            // SAFETY: a context that lives as long as the index.
            unsafe { self.grow(context, len) };
        }
        self.used = self.used.max(len);
        self.data
    }

    #[cold]
    unsafe fn grow(&mut self, context: MemoryContext, len: usize) {
        let capacity = len.next_power_of_two().max(128);
        // SAFETY: allocates first, so that an ERROR leaves the old block as it was.
        unsafe {
            let data = sys::MemoryContextAllocHuge(context, capacity);
            self.forget();
            if !self.data.is_null() {
                sys::pfree(self.data.cast());
            }
            self.data = data.cast();
            self.capacity = capacity;
        }
    }

    fn forget(&mut self) {
        if self.used > 0 {
            // SAFETY: `used` bytes of the block were handed out.
            unsafe { cleanse(self.data.cast(), self.used) };
            self.used = 0;
        }
    }
}

/// The key that was opened last on one side of a comparison. A binary search compares one key with many, so one side mostly
/// has what it needs. Found again by all of its stored bytes, not by its address.
struct Opened {
    stored: Block,
    stored_len: usize,
    plain: Block,
    value: Datum,
}

impl Opened {
    const EMPTY: Opened = Opened { stored: Block::EMPTY, stored_len: 0, plain: Block::EMPTY, value: 0 };

    #[inline]
    fn holds(&self, stored: &[u8]) -> bool {
        // SAFETY: `stored_len` bytes were copied to the block.
        self.stored_len == stored.len() && unsafe { slice(self.stored.data, self.stored_len) } == stored
    }

    fn forget(&mut self) {
        self.stored_len = 0;
        self.stored.forget();
        self.plain.forget();
    }
}

/// A comparison of the column's values with those of another type.
struct Cross {
    types: (Oid, Oid),
    function: sys::FmgrInfo,
    next: *mut Cross,
}

/// A column of an index. In its index's memory, at one address for the backend's life.
pub struct Column {
    index: Oid,
    /// numbered from 1
    number: u8,
    context: MemoryContext,
    typlen: i16,
    typbyval: bool,
    pub compressible: bool,
    pub input_type: Oid,
    /// InvalidOid, like `compare`, for an included column
    pub family: Oid,
    pub collation: Oid,
    pub compare: sys::FmgrInfo,
    /// how the type's values are ordered, if as words
    pub ordinal: Option<Ordinal>,
    /// the index has them in descending order
    pub descending: bool,
    /// the type's own sort support, or InvalidOid
    pub sort_support: Oid,
    cross: *mut Cross,
    sealed: Block,
    opened: [Opened; 2],
    cache: Cache,
    /// a comparison is running, so `opened` must not change
    pub busy: bool,
}

/// The bytes of a value.
struct Image {
    data: *const u8,
    len: usize,
    compressed: bool,
    /// to be freed, or null
    copy: *mut sys::varlena,
}

impl Column {
    /// # Safety
    /// `typlen`, `typbyval` and `compressible` must be those of the column's values; the memory context must live on.
    pub unsafe fn new(index: Oid, number: u8, context: MemoryContext, value: ValueType) -> Column {
        Column {
            index,
            number,
            context,
            typlen: value.len,
            typbyval: value.by_value,
            compressible: value.compressible,
            input_type: value.oid,
            family: 0,
            collation: 0,
            // SAFETY: all zeros is "no function".
            compare: unsafe { core::mem::zeroed() },
            ordinal: None,
            descending: false,
            sort_support: 0,
            cross: ptr::null_mut(),
            sealed: Block::EMPTY,
            opened: [Opened::EMPTY; 2],
            cache: Cache::NONE,
            busy: false,
        }
    }

    /// The length of the column's values; None if each has its own.
    pub fn fixed_len(&self) -> Option<usize> {
        usize::try_from(self.typlen).ok()
    }

    pub fn is_first(&self) -> bool {
        self.number == 1
    }

    pub fn is_by_value(&self) -> bool {
        self.typbyval
    }

    /// Encrypts a value. The result is a datum of type `encrypted_key` in the column's own memory, valid until the next call.
    ///
    /// # Safety
    /// In a transaction; `value` must be of the column's type. May raise an ERROR.
    pub unsafe fn seal(&mut self, value: Datum) -> Datum {
        // SAFETY: the caller's promise.
        unsafe {
            let by_value = value.to_ne_bytes();
            let image = self.image(value, &by_value);
            let place =
                Place { index: self.index, column: self.number | if image.compressed { COMPRESSED } else { 0 } };
            let len = varlena::HEADER + KEY_OVERHEAD + image.len;
            let out = self.sealed.reserve(self.context, len);
            let plain = slice(image.data, image.len);
            keys::seal_key(place, plain, out.add(varlena::HEADER));
            varlena::set_size(out, len);
            if !self.busy {
                // nbtree will compare it with others in a moment
                let stored = slice(out.add(varlena::HEADER).cast_const(), len - varlena::HEADER);
                let to = self.remember(1, stored, image.len);
                ptr::copy_nonoverlapping(image.data, to, image.len);
                self.opened[1].value = self.finish(1, image.len, image.compressed);
            }
            if !image.copy.is_null() {
                cleanse(image.copy.cast(), varlena::size_any(image.copy.cast()));
                sys::pfree(image.copy.cast());
            }
            out as Datum
        }
    }

    /// The bytes of `value`; `by_value` is where those of a pass-by-value type are.
    unsafe fn image(&self, value: Datum, by_value: &[u8; 8]) -> Image {
        let plain = |data, len| Image { data, len, compressed: false, copy: ptr::null_mut() };
        // SAFETY: a value of the column's type.
        unsafe {
            if self.typbyval {
                // little-endian: the value's bytes come first
                return plain(by_value.as_ptr(), self.typlen as usize);
            }
            let data = value as *const u8;
            if self.typlen > 0 {
                let mut len = self.typlen as usize;
                if self.typlen >= TRIM_FROM {
                    while len > 0 && *data.add(len - 1) == 0 {
                        len -= 1;
                    }
                }
                return plain(data, len);
            }
            self.varlena_image(value)
        }
    }

    unsafe fn varlena_image(&self, value: Datum) -> Image {
        let original: *mut sys::varlena = value as *mut _;
        // SAFETY: a value of a type with typlen -1.
        unsafe {
            let fetched =
                if Varlena::of(value).is_external() { sys::detoast_external_attr(original) } else { original };
            let mut copy = if ptr::eq(fetched, original) { ptr::null_mut() } else { fetched };
            let mut now = fetched;
            let is_small = || Varlena::of(now as Datum).payload().rawsize as usize <= COMPRESS_FROM;
            if varlena::is_compressed(now) && (!self.compressible || is_small()) {
                now = replace(&mut copy, sys::pg_detoast_datum(now));
            } else if self.compressible && !varlena::is_compressed(now) && varlena::size_any(now.cast()) > COMPRESS_FROM
            {
                let shorter = sys::toast_compress_datum(now as Datum, sys::default_toast_compression as i8);
                if shorter != 0 {
                    now = replace(&mut copy, shorter as *mut _);
                }
            }
            let compressed = varlena::is_compressed(now);
            let payload = Varlena::of(now as Datum).payload();
            Image { data: payload.data, len: payload.len, compressed, copy }
        }
    }

    /// Decrypts a stored key for side 0 or 1 of a comparison. The result is valid until that side is opened again.
    ///
    /// # Safety
    /// In a transaction. May raise an ERROR.
    #[inline]
    pub unsafe fn open(&mut self, side: usize, stored: &[u8]) -> Datum {
        if self.opened[side].holds(stored) {
            return self.opened[side].value;
        }
        // SAFETY: the caller's promise; the block has room for the plaintext.
        unsafe {
            let compressed = self.check_place(stored);
            let len = key::plain_len(stored.len()).unwrap_or(0);
            let out = self.remember(side, stored, len);
            self.opened[side].stored_len = 0;
            if self.cache.is_none() {
                self.decrypt(stored, out);
            } else if !self.cache.find(stored, out, len) {
                self.decrypt_once(stored, out);
                self.cache.keep(stored, out, len);
            }
            self.opened[side].stored_len = stored.len();
            let value = self.finish(side, len, compressed);
            self.opened[side].value = value;
            value
        }
    }

    /// As [`Column::open`] for side 0, without asking whether it is there and without noting it: for one of many keys that
    /// are compared with an argument.
    ///
    /// # Safety
    /// In a transaction. May raise an ERROR.
    #[inline]
    pub unsafe fn open_once(&mut self, stored: &[u8]) -> Datum {
        // SAFETY: the caller's promise.
        unsafe { self.open_by(stored, Column::decrypt) }
    }

    /// As [`Column::open_once`], for a key that is not likely to be compared again soon.
    ///
    /// # Safety
    /// In a transaction. May raise an ERROR.
    #[inline]
    pub unsafe fn open_for_now(&mut self, stored: &[u8]) -> Datum {
        // SAFETY: the caller's promise.
        unsafe { self.open_by(stored, Column::decrypt_once) }
    }

    #[inline]
    unsafe fn open_by(&mut self, stored: &[u8], decrypt: unsafe fn(&Column, &[u8], *mut u8)) -> Datum {
        // SAFETY: the block has room for the plaintext.
        unsafe {
            let compressed = self.check_place(stored);
            let len = key::plain_len(stored.len()).unwrap_or(0);
            let (room, offset) = (self.room(len), self.offset());
            self.opened[0].stored_len = 0;
            let out = self.opened[0].plain.reserve(self.context, room).add(offset);
            decrypt(self, stored, out);
            self.finish(0, len, compressed)
        }
    }

    /// As [`Column::open`], into memory of the current context: for a comparison inside a comparison.
    ///
    /// # Safety
    /// In a transaction. May raise an ERROR.
    pub unsafe fn open_copy(&self, stored: &[u8]) -> Datum {
        // SAFETY: room for the plaintext, its length word and the zeros of a trimmed value.
        unsafe {
            let compressed = self.check_place(stored);
            let len = key::plain_len(stored.len()).unwrap_or(0);
            let block: *mut u8 = sys::palloc(self.room(len)).cast();
            self.decrypt(stored, block.add(self.offset()));
            self.datum(block, len, compressed)
        }
    }

    /// Decrypts a stored key that may be damaged, to the memory of side 0. Raises the errors of the key provider only.
    ///
    /// # Safety
    /// In a transaction; not inside of a comparison.
    pub unsafe fn try_open(&mut self, stored: &[u8]) -> Result<keys::Opened, OpenError> {
        let place = key::place(stored).ok_or(OpenError::NotEncrypted)?;
        if place.index != self.index || place.column & !COMPRESSED != self.number {
            return Err(OpenError::NotEncrypted);
        }
        // SAFETY: the block has room for the plaintext.
        unsafe {
            let out = self.remember(0, stored, key::plain_len(stored.len()).unwrap_or(0));
            self.opened[0].stored_len = 0;
            keys::open_key_of_generation(place, stored, out)
        }
    }

    /// The generation of a stored key, by decrypting it.
    ///
    /// # Safety
    /// As for [`Column::try_open`].
    pub unsafe fn generation(&mut self, stored: &[u8]) -> Result<i32, OpenError> {
        // SAFETY: the caller's promise.
        unsafe { self.try_open(stored) }.map(|opened| opened.generation)
    }

    /// Encrypts a stored key anew, under the current generation, to `out`, which has room for as many bytes. Returns false if
    /// it is of generation `current` already.
    ///
    /// # Safety
    /// As for [`Column::try_open`]. May raise an ERROR.
    pub unsafe fn reseal(&mut self, stored: &[u8], out: *mut u8, current: Option<i32>) -> bool {
        // SAFETY: the plaintext is where `try_open` has put it.
        unsafe {
            match self.try_open(stored) {
                Ok(opened) if Some(opened.generation) == current => false,
                Ok(opened) => {
                    let place = Place { index: self.index, column: stored[key::COLUMN_OFFSET] };
                    let plain = slice(self.opened[0].plain.data.add(self.offset()).cast_const(), opened.len);
                    keys::seal_key(place, plain, out);
                    true
                }
                Err(OpenError::NotEncrypted) => raise_foreign(self.index, self.number),
                Err(error) => raise_not_opened(self.index, self.number, error),
            }
        }
    }

    /// Raises an ERROR unless the key belongs to this column; returns whether it is compressed.
    #[inline]
    fn check_place(&self, stored: &[u8]) -> bool {
        match key::place(stored) {
            Some(place) if place.index == self.index && place.column & !COMPRESSED == self.number => {
                place.column & COMPRESSED != 0
            }
            _ => raise_foreign(self.index, self.number),
        }
    }

    #[inline]
    unsafe fn decrypt(&self, stored: &[u8], out: *mut u8) {
        let place = Place { index: self.index, column: self.number };
        // SAFETY: the caller has reserved room for the plaintext.
        if let Err(error) = unsafe { keys::open_key_again(place, stored, out) } {
            raise_not_opened(self.index, self.number, error);
        }
    }

    /// [`Column::decrypt`] for who has a cache of its own.
    #[inline]
    unsafe fn decrypt_once(&self, stored: &[u8], out: *mut u8) {
        let place = Place { index: self.index, column: self.number };
        // SAFETY: the caller has reserved room for the plaintext.
        if let Err(error) = unsafe { keys::open_key(place, stored, out) } {
            raise_not_opened(self.index, self.number, error);
        }
    }

    /// Where the plaintext goes in a block: behind a length word if the type has one.
    #[inline]
    fn offset(&self) -> usize {
        if self.typlen == -1 {
            varlena::HEADER
        } else {
            0
        }
    }

    #[inline]
    fn room(&self, len: usize) -> usize {
        // a Datum is read from the block of a pass-by-value type
        (self.offset() + len).max(self.typlen.max(8) as usize)
    }

    /// Notes `stored` as what `side` holds, and returns where `len` bytes of plaintext go.
    #[inline]
    unsafe fn remember(&mut self, side: usize, stored: &[u8], len: usize) -> *mut u8 {
        let (room, offset) = (self.room(len), self.offset());
        let opened = &mut self.opened[side];
        // SAFETY: blocks of at least that size.
        unsafe {
            opened.stored_len = 0;
            let block = opened.stored.reserve(self.context, stored.len());
            ptr::copy_nonoverlapping(stored.as_ptr(), block, stored.len());
            let plain = opened.plain.reserve(self.context, room);
            opened.stored_len = stored.len();
            plain.add(offset)
        }
    }

    #[inline]
    unsafe fn finish(&self, side: usize, len: usize, compressed: bool) -> Datum {
        // SAFETY: `remember` has reserved the room, and the plaintext is there.
        unsafe { self.datum(self.opened[side].plain.data, len, compressed) }
    }

    /// The value whose plaintext is in `block`.
    #[inline]
    unsafe fn datum(&self, block: *mut u8, len: usize, compressed: bool) -> Datum {
        // SAFETY: the block has `room` bytes.
        unsafe {
            if self.typlen == -1 {
                let size = varlena::HEADER + len;
                if compressed {
                    varlena::set_size_compressed(block, size);
                } else {
                    varlena::set_size(block, size);
                }
                return block as Datum;
            }
            let whole = self.typlen as usize;
            if len != whole {
                if len > whole || self.typlen < TRIM_FROM {
                    raise_foreign(self.index, self.number);
                }
                ptr::write_bytes(block.add(len), 0, whole - len);
            }
            if self.typbyval {
                fetch_by_value(block, whole)
            } else {
                block as Datum
            }
        }
    }

    /// The function that compares values of type `left` with those of type `right`. Raises an ERROR if there is none.
    ///
    /// # Safety
    /// In a transaction.
    #[inline]
    pub unsafe fn cross_comparison(&mut self, left: Oid, right: Oid) -> *mut sys::FmgrInfo {
        if left == self.input_type && right == self.input_type {
            return &mut self.compare;
        }
        // SAFETY: the caller's promise.
        unsafe { self.find_cross_comparison(left, right) }
    }

    #[inline(never)]
    unsafe fn find_cross_comparison(&mut self, left: Oid, right: Oid) -> *mut sys::FmgrInfo {
        // SAFETY: a list in the index's memory, of entries that are never freed.
        unsafe {
            let mut at = self.cross;
            while !at.is_null() {
                if (*at).types == (left, right) {
                    return &mut (*at).function;
                }
                at = (*at).next;
            }
            let function = sys::get_opfamily_proc(self.family, left, right, sys::BTORDER_PROC as i16);
            if function == 0 {
                pg_error!(
                    crate::pg::error::INTERNAL_ERROR,
                    "missing support function 1({left},{right}) in operator family {}",
                    self.family
                );
            }
            let entry: *mut Cross = sys::MemoryContextAllocZero(self.context, size_of::<Cross>()).cast();
            sys::fmgr_info_cxt(function, &mut (*entry).function, self.context);
            (*entry).types = (left, right);
            (*entry).next = self.cross;
            self.cross = entry;
            &mut (*entry).function
        }
    }

    /// Keeps decrypted keys in memory, about `keys` of them in at most `bytes` bytes, until `forget` or `end_cache`.
    pub fn begin_cache(&mut self, keys: usize, bytes: usize) {
        // SAFETY: the index's memory is never freed.
        unsafe { self.cache.begin(self.context, keys, bytes) }
    }

    pub fn end_cache(&mut self) {
        self.cache.end();
    }

    /// Cleanses the plaintext.
    pub fn forget(&mut self) {
        self.cache.end();
        self.busy = false;
        self.opened.iter_mut().for_each(Opened::forget);
    }
}

/// The type of a column's values.
#[derive(Clone, Copy)]
pub struct ValueType {
    pub oid: Oid,
    pub len: i16,
    pub by_value: bool,
    pub compressible: bool,
}

/// Frees `copy`, an intermediate form of a value, and makes `next` the copy and the value.
unsafe fn replace(copy: &mut *mut sys::varlena, next: *mut sys::varlena) -> *mut sys::varlena {
    if !copy.is_null() {
        // SAFETY: a palloc'd varlena that nobody else has.
        unsafe {
            cleanse(copy.cast(), varlena::size_any(copy.cast()));
            sys::pfree(copy.cast());
        }
    }
    *copy = next;
    next
}

/// `fetch_att()` of a pass-by-value type of `len` bytes.
///
/// # Safety
/// `len` bytes at `at`, MAXALIGNed.
#[inline]
unsafe fn fetch_by_value(at: *const u8, len: usize) -> Datum {
    // SAFETY: the caller's promise. Integers that are shorter than a Datum are extended by their sign.
    unsafe {
        match len {
            4 => at.cast::<i32>().read() as Datum,
            8 => at.cast::<Datum>().read(),
            2 => at.cast::<i16>().read() as Datum,
            _ => at.cast::<i8>().read() as Datum,
        }
    }
}

fn index_name(index: Oid) -> &'static str {
    // SAFETY: in a transaction; the name is palloc'd or null.
    unsafe { crate::pg::fmgr::str_of(sys::get_rel_name(index)) }
}

#[cold]
#[inline(never)]
fn raise_foreign(index: Oid, column: u8) -> ! {
    crate::stats::note_failure(index);
    pg_error!(DATA_CORRUPTED, "index \"{}\" contains a key that is not its own in column {column}", index_name(index);
        hint: ("Please REINDEX it."))
}

#[cold]
#[inline(never)]
fn raise_not_opened(index: Oid, column: u8, error: OpenError) -> ! {
    crate::stats::note_failure(index);
    let name = index_name(index);
    match error {
        OpenError::UnknownGeneration(byte) => {
            pg_error!(DATA_CORRUPTED, "could not decrypt a key of index \"{name}\", column {column}";
                detail: ("The data key of generation {byte} (modulo 256) is not in the key table."))
        }
        _ => pg_error!(DATA_CORRUPTED, "could not decrypt a key of index \"{name}\", column {column}";
            hint: ("If the table is sound, REINDEX mends the index.")),
    }
}
