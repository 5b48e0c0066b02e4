//! The logical messages that carry out-of-line values to decoders: their form, and their sending.
//!
//! A decoder never sees the TOAST table's chunks (they are inserted with `HEAP_INSERT_NO_LOGICAL`). What it needs comes
//! as transactional logical messages with the prefix `pg_vault_tde`, before the row that points to the value: a header,
//! then stored chunks one after the other, up to [`SEGMENT_SIZE`] bytes a message. They are ciphertext as in the table. A value
//! that no row needs after all is taken back by a message with a seal instead of chunks.

use core::mem::size_of;
use core::ptr;

use super::piece_len;
use crate::crypto::chunk::CHUNK_OVERHEAD;
use crate::keys;
use crate::pg::sizes::TOAST_MAX_CHUNK_SIZE;
use crate::pg::{majors, rel as relation, sys, Oid};

/// The prefix of the messages; never passed on to consumers.
pub const PREFIX: &core::ffi::CStr = c"pg_vault_tde";

/// The largest message: one chunk. A reorder buffer that has spilled a transaction brings changes back by number (4096 at
/// a time), not by size, so larger messages would be more memory than heap's chunks take. It costs about 4 % more WAL a
/// value than messages of many chunks would.
pub const SEGMENT_SIZE: usize = TOAST_MAX_CHUNK_SIZE;

/// The version of the form below.
const VERSION: u8 = 1;

/// Bytes of [`Header`] in a message.
pub const HEADER_SIZE: usize = 24;

/// Written for a row of the transient table of a rewrite.
const FLAG_REWRITE: u8 = 0x01;

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that the next row of its table points to.
    New,
    /// A value that the old image of the next UPDATE or DELETE points to.
    Old,
    /// The row that should have pointed to the value was not stored after all.
    Cancelled,
}

/// What stands at the beginning of a message, in little-endian order.
#[derive(Clone, Copy)]
pub struct Header {
    pub kind: Kind,
    pub rewrite: bool,
    /// the OID that the pointers to the value carry
    pub toast_oid: Oid,
    pub value_id: Oid,
    /// bytes of the value (`VARATT_EXTERNAL_GET_EXTSIZE`)
    pub size: u32,
    /// the first piece in this message
    pub first_seq: u32,
    /// the (sub)transaction that wrote the value
    pub xid: sys::TransactionId,
}

impl Header {
    /// The header as it is sent.
    pub fn to_bytes(self) -> [u8; HEADER_SIZE] {
        let kind = match self.kind {
            Kind::New => b'N',
            Kind::Old => b'O',
            Kind::Cancelled => b'X',
        };
        let mut bytes = [0; HEADER_SIZE];
        bytes[..4].copy_from_slice(&[VERSION, kind, if self.rewrite { FLAG_REWRITE } else { 0 }, 0]);
        let words = [self.toast_oid, self.value_id, self.size, self.first_seq, self.xid];
        for (to, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The header of a message and the chunks behind it; `None` if the message is not of this form.
    pub fn parse(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, chunks) = message.split_at_checked(HEADER_SIZE)?;
        if head[0] != VERSION {
            return None;
        }
        let kind = match head[1] {
            b'N' => Kind::New,
            b'O' => Kind::Old,
            b'X' => Kind::Cancelled,
            _ => return None,
        };
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let header = Self {
            kind,
            rewrite: head[2] & FLAG_REWRITE != 0,
            toast_oid: word(4),
            value_id: word(8),
            size: word(12),
            first_seq: word(16),
            xid: word(20),
        };
        Some((header, chunks))
    }

    /// The stored chunks of a message, as (sequence number, chunk); `None` at the place where they do not fit the
    /// value's size.
    pub fn chunks<'a>(&self, mut chunks: &'a [u8]) -> impl Iterator<Item = Option<(u32, &'a [u8])>> + use<'a> {
        let Self { size, first_seq, .. } = *self;
        let total = super::pieces(size);
        let mut seq = first_seq;
        core::iter::from_fn(move || {
            if chunks.is_empty() {
                return None;
            }
            let item = if seq < total {
                chunks.split_at_checked(piece_len(size, seq) + CHUNK_OVERHEAD).map(|(chunk, rest)| {
                    chunks = rest;
                    (seq, chunk)
                })
            } else {
                None
            };
            if item.is_none() {
                chunks = &[];
            }
            seq += 1;
            Some(item)
        })
    }
}

/// Sends the chunks of one value, if its table's changes are decoded at all. Its memory is of the context in which it
/// was made.
pub struct Sender {
    header: Header,
    /// header and chunks of the next message; null when nothing is to be sent
    buffer: *mut u8,
    used: usize,
}

impl Sender {
    /// For a value of `size` bytes of the encrypted table `rel`, inserted with `options` of heap_insert.
    ///
    /// # Safety
    /// `rel` must be open.
    pub unsafe fn new(
        rel: sys::Relation,
        kind: Kind,
        toast_oid: Oid,
        value_id: Oid,
        size: u32,
        options: majors::Options,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let logged =
                relation::is_logically_logged(rel) && options & sys::HEAP_INSERT_NO_LOGICAL as majors::Options == 0;
            let rewrite = (*(*rel).rd_rel).relrewrite != 0;
            let header = Header { kind, rewrite, toast_oid, value_id, size, first_seq: 0, xid: 0 };
            let chunks = super::pieces(size) as usize;
            let wanted = HEADER_SIZE + (size as usize + chunks * CHUNK_OVERHEAD).min(SEGMENT_SIZE);
            let buffer = if logged { sys::palloc(wanted).cast() } else { ptr::null_mut() };
            Self { header, buffer, used: HEADER_SIZE }
        }
    }

    /// Adds the stored chunk of piece `seq`; chunks come in order.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn add(&mut self, seq: u32, chunk: &[u8]) {
        if self.buffer.is_null() {
            return;
        }
        // SAFETY: a message is sent as soon as another chunk would not fit.
        unsafe {
            if self.used + TOAST_MAX_CHUNK_SIZE > HEADER_SIZE + SEGMENT_SIZE {
                self.send();
            }
            if self.used == HEADER_SIZE {
                self.header.first_seq = seq;
            }
            ptr::copy_nonoverlapping(chunk.as_ptr(), self.buffer.add(self.used), chunk.len());
        }
        self.used += chunk.len();
    }

    /// Sends what has not been sent and frees the memory.
    ///
    /// # Safety
    /// In a transaction.
    pub unsafe fn finish(mut self) {
        if self.buffer.is_null() {
            return;
        }
        // SAFETY: the buffer was palloc'd by `new`.
        unsafe {
            if self.used > HEADER_SIZE {
                self.send();
            }
            sys::pfree(self.buffer.cast());
        }
    }

    unsafe fn send(&mut self) {
        // SAFETY: `used` bytes of the buffer are filled once the header is.
        unsafe {
            self.header.xid = sys::GetCurrentTransactionId();
            let header = self.header.to_bytes();
            ptr::copy_nonoverlapping(header.as_ptr(), self.buffer, HEADER_SIZE);
            sys::LogLogicalMessage(PREFIX.as_ptr(), self.buffer.cast(), self.used, true, false);
        }
        self.used = HEADER_SIZE;
    }
}

/// The number under which a cancellation is sealed; no value has so many pieces.
const CANCEL_SEQ: u32 = u32::MAX;
/// What is sealed: the writer's (sub)transaction.
const CANCEL_LEN: usize = size_of::<sys::TransactionId>();

/// Tells decoders that no row points to the value after all, so that they need not hold it until the transaction ends. The
/// message is sealed like a chunk: any user may send messages of any prefix, and a forged one would make a row undecodable.
/// Raises the errors of the key provider.
///
/// # Safety
/// `rel` must be open, in a transaction.
pub unsafe fn cancel(rel: sys::Relation, toast_oid: Oid, value_id: Oid) {
    // SAFETY: the caller's promise; the message has room for the header and the seal.
    unsafe {
        if relation::is_logically_logged(rel) {
            let xid = sys::GetCurrentTransactionId();
            let rewrite = (*(*rel).rd_rel).relrewrite != 0;
            let header = Header { kind: Kind::Cancelled, rewrite, toast_oid, value_id, size: 0, first_seq: 0, xid };
            let mut message = [0u8; HEADER_SIZE + CANCEL_LEN + CHUNK_OVERHEAD];
            message[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
            let seal = message.as_mut_ptr().add(HEADER_SIZE);
            keys::seal_chunk(toast_oid, (value_id, CANCEL_SEQ), &xid.to_le_bytes(), seal);
            sys::LogLogicalMessage(PREFIX.as_ptr(), message.as_ptr().cast(), message.len(), true, false);
        }
    }
}

/// Whether a cancellation was sent by [`cancel`] in the (sub)transaction that its header names.
///
/// # Safety
/// In a transaction; `seal` must be what is behind the header.
pub unsafe fn is_authentic_cancel(header: &Header, seal: &[u8]) -> bool {
    let mut xid = [0u8; CANCEL_LEN];
    // SAFETY: the seal is as long as one of CANCEL_LEN bytes.
    seal.len() == CANCEL_LEN + CHUNK_OVERHEAD
        && unsafe { keys::open_chunk(header.toast_oid, (header.value_id, CANCEL_SEQ), seal, xid.as_mut_ptr()) }.is_ok()
        && xid == header.xid.to_le_bytes()
}
