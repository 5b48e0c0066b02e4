//! What the tuples of an encrypted relation hold: rows, or chunks of out-of-line values.

use core::slice;

use crate::crypto::row as format;
use crate::keys::{self, OpenError, Opened};
use crate::pg::memory::{self, Scratch};
use crate::pg::page::PAGE_SIZE;
use crate::pg::tuple::{self, HeapTuple};
use crate::pg::varlena::Varlena;
use crate::pg::{rel as relation, sys, BackendCell, Oid};
use crate::{heap, stats, toast};

/// Where plaintext is while a form is looked at or sealed again; one at a time.
static PLAIN: BackendCell<Scratch> = BackendCell::new(Scratch::new());

/// Cleanses what an ERROR has left behind.
pub fn forget() {
    // SAFETY: nothing uses the block when a transaction aborts.
    unsafe { (*PLAIN.as_ptr()).release() }
}

fn plain_block() -> *mut u8 {
    // SAFETY: TopMemoryContext lives as long as the backend. No stored form is longer than a page, nor its plaintext.
    unsafe { (*PLAIN.as_ptr()).reserve(sys::TopMemoryContext, PAGE_SIZE) }
}

/// What a relation's tuples hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of a table: each tuple is a row.
    Rows,
    /// Of a TOAST table: each tuple has a chunk in its third column.
    Chunks,
}

/// An open encrypted relation, and the OID that its key is bound to.
#[derive(Clone, Copy)]
pub struct Target {
    pub rel: sys::Relation,
    pub kind: Kind,
    key_oid: Oid,
}

/// The ciphertext within a tuple.
#[derive(Clone, Copy)]
pub struct Stored {
    at: *mut u8,
    len: usize,
    /// How many of those bytes are not ciphertext and stay as they are: a row's header up to G.
    fixed: usize,
    /// Value id and number of a chunk.
    pub chunk: (u32, u32),
}

impl Target {
    /// Of an open relation; None if it is not encrypted.
    ///
    /// # Safety
    /// `rel` must be an open relation, and stay open while the result is used.
    pub unsafe fn of(rel: sys::Relation) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            if heap::is_encrypted(rel) {
                Some(Self { rel, kind: Kind::Rows, key_oid: relation::key_oid(rel) })
            } else if core::ptr::eq((*rel).rd_tableam, toast::routine::routine()) {
                Some(Self { rel, kind: Kind::Chunks, key_oid: relation::oid(rel) })
            } else {
                None
            }
        }
    }

    /// The ciphertext in a tuple; None if the tuple does not have the form that it should have.
    ///
    /// # Safety
    /// `tuple` must be a tuple of the relation.
    pub unsafe fn locate(&self, tuple: HeapTuple) -> Option<Stored> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.kind {
                Kind::Rows => Some(Stored {
                    at: (*tuple).t_data.cast(),
                    len: (*tuple).t_len as usize,
                    fixed: format::GENERATION_OFFSET,
                    chunk: (0, 0),
                }),
                Kind::Chunks => chunk_of(tuple, (*self.rel).rd_att),
            }
        }
    }

    /// The low byte of the generation; None if the bytes are not of an encrypted form.
    pub fn generation_byte(&self, stored: &Stored) -> Option<u8> {
        match self.kind {
            Kind::Rows => format::generation_byte(stored.bytes()),
            Kind::Chunks => {
                crate::crypto::chunk::plain_len(stored.len)?;
                crate::crypto::chunk::generation_byte(stored.bytes())
            }
        }
    }

    /// Decrypts to the block that [`Target::seal`] takes from, and that [`cleanse`] cleanses. May raise the errors of the
    /// key provider.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn open(&self, stored: &Stored) -> Result<Opened, OpenError> {
        // SAFETY: the block takes any plaintext, which is shorter than a page.
        unsafe {
            match self.kind {
                Kind::Rows => keys::open_row_of_generation(self.key_oid, stored.bytes(), plain_block()),
                Kind::Chunks => {
                    keys::open_chunk_of_generation(self.key_oid, stored.chunk, stored.bytes(), plain_block())
                }
            }
        }
    }

    /// Counts a tuple that [`Target::open`] could not open, if that is to be reported.
    pub fn note_failure(&self) {
        stats::note_failure(self.key_oid);
    }

    /// What [`Target::open`] has decrypted.
    pub fn plain(&self, opened: &Opened) -> *mut u8 {
        debug_assert!(opened.len <= PAGE_SIZE);
        plain_block()
    }

    /// Encrypts what [`Target::open`] has decrypted, `opened.len` bytes, under the current generation to `out`, which has
    /// room for a page. It has the length that `stored` has. May raise the errors of the key provider.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn seal(&self, stored: &Stored, opened: &Opened, out: *mut u8) {
        // SAFETY: `opened.len` bytes of the block are plaintext; a stored form is not longer than the page it came from.
        unsafe {
            let plain = slice::from_raw_parts(plain_block(), opened.len);
            match self.kind {
                Kind::Rows => keys::seal_row(self.key_oid, format::has_external(stored.bytes()), plain, out),
                Kind::Chunks => keys::seal_chunk(self.key_oid, stored.chunk, plain, out),
            }
        }
    }
}

/// Cleanses the plaintext of the last [`Target::open`], which said that it is `len` bytes long.
pub fn cleanse(len: usize) {
    // SAFETY: the block is at least a page long.
    unsafe { memory::cleanse(plain_block().cast(), len.min(PAGE_SIZE)) }
}

impl Stored {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `locate` has found these bytes in a tuple that stays in place while this is used.
        unsafe { slice::from_raw_parts(self.at, self.len) }
    }

    /// The ciphertext with its generation byte: what re-encryption exchanges.
    pub fn cipher(&self) -> &[u8] {
        &self.bytes()[self.fixed..]
    }

    /// Where that begins in a form sealed again.
    pub fn fixed(&self) -> usize {
        self.fixed
    }

    /// Overwrites it.
    ///
    /// # Safety
    /// The tuple must be writable, and `cipher` as long as [`Stored::cipher`].
    pub unsafe fn set_cipher(&self, cipher: &[u8]) {
        debug_assert_eq!(cipher.len(), self.len - self.fixed);
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(cipher.as_ptr(), self.at.add(self.fixed), self.len - self.fixed) }
    }
}

/// The chunk of a TOAST tuple: columns chunk_id, chunk_seq, chunk_data.
unsafe fn chunk_of(tuple: HeapTuple, columns: sys::TupleDesc) -> Option<Stored> {
    // SAFETY: the caller's promise: a tuple of a TOAST table. A damaged one is looked at with care: no attribute is read
    // that its header does not promise, and the chunk must end within the tuple.
    unsafe {
        let header = (*tuple).t_data;
        let natts = (*header).t_infomask2 & sys::HEAP_NATTS_MASK as u16;
        let hoff = usize::from((*header).t_hoff);
        let fixed = hoff + 2 * size_of::<u32>();
        if natts != 3 || (*header).t_infomask & sys::HEAP_HASNULL as u16 != 0 || fixed + 4 >= (*tuple).t_len as usize {
            return None;
        }
        let mut isnull = false;
        let value_id = sys::heap_getattr(tuple, 1, columns, &mut isnull) as u32;
        let seq = sys::heap_getattr(tuple, 2, columns, &mut isnull) as u32;
        let data = Varlena::of(sys::heap_getattr(tuple, 3, columns, &mut isnull));
        if data.is_external() {
            return None;
        }
        let payload = data.payload();
        let end = tuple::bytes(tuple).as_ptr_range().end;
        let fits = payload.data < end && payload.len <= end.offset_from(payload.data) as usize;
        fits.then_some(Stored { at: payload.data.cast_mut(), len: payload.len, fixed: 0, chunk: (value_id, seq) })
    }
}
