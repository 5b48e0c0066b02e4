//! Out-of-line values on their way to the row that points to them.
//!
//! The writer sends each value, as stored, in transactional messages of our prefix before the row (`toast/message.rs`).
//! They are decrypted as they come and kept until the row takes them, the writer takes them back, or their transaction
//! ends. The row gets them as in-memory indirect datums, the form in which core's own reassembly hands values over.

use core::ffi::{c_char, c_void, CStr};
use core::mem::{size_of, zeroed};
use core::ptr;

use super::session::Session;
use super::txn::Txn;
use crate::keys;
use crate::pg::error::DATA_CORRUPTED;
use crate::pg::memory::{cleanse, MemoryContext};
use crate::pg::rel::{self, Relation};
use crate::pg::sys;
use crate::pg::tuple::{self, HeapTuple};
use crate::pg::varlena::{self, Varlena};
use crate::pg::{majors, Datum, Oid};
use crate::pg_error;
use crate::toast::message::{self, Header, Kind, PREFIX};
use crate::toast::{pieces, PIECE_SIZE};

/// The largest value that a varlena can hold.
const MAX_VALUE_SIZE: u32 = (1 << 30) - 1;

/// What a value is found by.
#[repr(C)]
#[derive(Clone, Copy)]
struct Key {
    /// the top-level transaction, since streams of several may alternate
    top_xid: sys::TransactionId,
    toast_oid: Oid,
    value_id: Oid,
    /// 1 for the value of an old row
    old: u32,
}

/// A value, complete or on its way.
#[repr(C)]
struct Value {
    key: Key,
    /// the (sub)transaction that wrote it
    xid: sys::TransactionId,
    /// bytes as stored out of line
    size: u32,
    /// the piece that has to come next
    next_seq: u32,
    /// a varlena of header and `size` bytes
    data: *mut u8,
}

impl Value {
    /// Cleanses and frees the plaintext.
    unsafe fn release(&mut self) {
        // SAFETY: `data` was allocated by `collect`, with room for the header.
        unsafe {
            cleanse(self.data.cast(), varlena::HEADER + self.size as usize);
            sys::pfree(self.data.cast());
        }
        self.data = ptr::null_mut();
    }
}

/// The values that a session holds. In `ctx->context`, so nothing needs dropping.
#[derive(Clone, Copy)]
pub struct Values {
    context: MemoryContext,
    table: *mut sys::HTAB,
}

/// Whether a message is ours, and so is not to be passed on.
///
/// # Safety
/// `prefix` must be a message's prefix.
pub unsafe fn is_ours(prefix: *const c_char) -> bool {
    // SAFETY: the caller's promise: a NUL-terminated string.
    unsafe { CStr::from_ptr(prefix) == PREFIX }
}

impl Values {
    /// An empty collection that allocates in `context`.
    ///
    /// # Safety
    /// `context` must live as long as the collection.
    pub unsafe fn new(context: MemoryContext) -> Self {
        // SAFETY: hash_create copies the name and fills the table; the flags say which members are set.
        unsafe {
            let mut control: sys::HASHCTL = zeroed();
            control.keysize = size_of::<Key>();
            control.entrysize = size_of::<Value>();
            control.hcxt = context;
            let flags = sys::HASH_ELEM | sys::HASH_BLOBS | sys::HASH_CONTEXT;
            let table = sys::hash_create(c"pg_vault_tde values".as_ptr(), 64, &control, flags as i32);
            Self { context, table }
        }
    }

    unsafe fn search(self, key: &Key, action: sys::HASHACTION) -> (*mut Value, bool) {
        let mut found = false;
        // SAFETY: the table's keys and entries are of these types.
        unsafe {
            let entry = sys::hash_search(self.table, (&raw const *key).cast::<c_void>(), action, &mut found);
            (entry.cast(), found)
        }
    }

    /// Takes in a message under our prefix. One that is not well formed, or that does not authenticate, is ignored: any
    /// user may send such messages, and none may bring decoding to a halt. (A row that misses its value does: see
    /// [`Values::give`].) Raises the errors of the key provider.
    ///
    /// # Safety
    /// In the message callback of transaction `txn` of `session`, with `content` the message.
    pub unsafe fn collect(self, session: Session, txn: Txn, content: &[u8]) {
        let Some((header, chunks)) = Header::parse(content) else {
            return;
        };
        if header.rewrite && !session.wants_rewrites() {
            return;
        }
        let key = |old| Key { top_xid: txn.top().xid(), toast_oid: header.toast_oid, value_id: header.value_id, old };
        // SAFETY: the caller's promise.
        unsafe {
            match header.kind {
                Kind::New => self.append(key(0), &header, chunks),
                Kind::Old => self.append(key(1), &header, chunks),
                Kind::Cancelled if message::is_authentic_cancel(&header, chunks) => {
                    for key in [key(0), key(1)] {
                        let (value, found) = self.search(&key, sys::HASH_FIND);
                        if found && (*value).xid == header.xid {
                            self.remove(&key);
                        }
                    }
                }
                Kind::Cancelled => {}
            }
        }
    }

    /// Adds the pieces of one message to their value. A message that does not fit, or is not authentic, leaves the value as it
    /// was: it is not the writer's.
    unsafe fn append(self, key: Key, header: &Header, chunks: &[u8]) {
        // SAFETY: a piece is decrypted to its place in the value, against whose size the chunks are checked.
        unsafe {
            if header.first_seq == 0 {
                if !is_authentic(header, chunks) {
                    return;
                }
                // it may be sent again: an UPDATE that has to be tried again sends its old values anew
                self.remove(&key);
                let len = varlena::HEADER + header.size as usize;
                let data: *mut u8 = sys::MemoryContextAllocHuge(self.context, len).cast();
                let (value, _) = self.search(&key, sys::HASH_ENTER);
                *value = Value { key, xid: header.xid, size: header.size, next_seq: 0, data };
            }
            let (value, found) = self.search(&key, sys::HASH_FIND);
            if !found || (*value).size != header.size || (*value).next_seq != header.first_seq {
                return;
            }
            for item in header.chunks(chunks) {
                let opened = item.is_some_and(|(seq, stored)| {
                    let to = (*value).data.add(varlena::HEADER + seq as usize * PIECE_SIZE);
                    keys::open_chunk(header.toast_oid, (header.value_id, seq), stored, to).is_ok()
                });
                if !opened {
                    return;
                }
                (*value).next_seq += 1;
            }
        }
    }

    /// Forgets a value, if it is there.
    unsafe fn remove(self, key: &Key) {
        // SAFETY: as for `search`; a removed entry may be read until the next call of dynahash.
        unsafe {
            let (value, found) = self.search(key, sys::HASH_FIND);
            if found {
                (*value).release();
                self.search(key, sys::HASH_REMOVE);
            }
        }
    }

    /// Forgets what a transaction (or, of a streamed one, a sub-transaction) has left: its end makes rows to come
    /// impossible.
    ///
    /// # Safety
    /// In a callback that ends `txn`.
    pub unsafe fn forget(self, txn: Txn) {
        // SAFETY: the caller's promise.
        unsafe {
            let top = txn.is_top();
            self.forget_if(|value| (if top { value.key.top_xid } else { value.xid }) == txn.xid());
        }
    }

    unsafe fn forget_if(self, over: impl Fn(&Value) -> bool) {
        // SAFETY: dynahash allows to remove the entry that a sequential search has just returned.
        unsafe {
            if sys::hash_get_num_entries(self.table) == 0 {
                return;
            }
            let mut status = zeroed();
            sys::hash_seq_init(&mut status, self.table);
            loop {
                let value: *mut Value = sys::hash_seq_search(&mut status).cast();
                if value.is_null() {
                    break;
                }
                if over(&*value) {
                    let key = (*value).key;
                    self.remove(&key);
                }
            }
        }
    }

    /// Forgets the values that have come for a table whose changes nobody asks for: they came right before the row that was to
    /// have them.
    ///
    /// # Safety
    /// In `change`, with the relation it was called for.
    pub unsafe fn forget_table(self, txn: Txn, relation: Relation) {
        // SAFETY: rd_rel of an open relation is set.
        unsafe {
            let toast_oid = (*(*relation).rd_rel).reltoastrelid;
            self.forget_if(|value| value.key.top_xid == txn.top().xid() && value.key.toast_oid == toast_oid);
        }
    }

    /// Forgets the values that the plaintext row `row` has been given, now that it has been sent.
    ///
    /// # Safety
    /// In `change`, with a plaintext tuple of `relation` as it was before [`Values::give`].
    pub unsafe fn forget_row(self, txn: Txn, relation: Relation, row: HeapTuple, old: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if sys::hash_get_num_entries(self.table) == 0 {
                return;
            }
            for_each_pointer(relation, row, |_, pointer| {
                self.remove(&key_of(txn, &pointer, old));
            });
        }
    }

    /// The row `row` with its out-of-line values as indirect datums: a new tuple in the current memory context, or `row`
    /// itself if it has none. A pointer without a value stays as it is when `may_lack`: an unchanged value of an UPDATE.
    /// Raises ERRCODE_DATA_CORRUPTED otherwise.
    ///
    /// # Safety
    /// In `change`, with a plaintext tuple of `relation`. The values must not be forgotten while the result is used.
    pub unsafe fn give(self, txn: Txn, relation: Relation, row: HeapTuple, old: bool, may_lack: bool) -> HeapTuple {
        // SAFETY: the caller's promise; the arrays are as long as the row type.
        unsafe {
            if !crate::toast::toaster::has_external(row) {
                return row;
            }
            let desc = (*relation).rd_att;
            let (values, nulls) = tuple::deform(row, desc);
            let mut any = false;
            for_each_pointer(relation, row, |i, pointer| {
                let (value, found) = self.search(&key_of(txn, &pointer, old), sys::HASH_FIND);
                if found && (*value).next_seq == pieces((*value).size) {
                    values[i] = indirect(value, &pointer) as Datum;
                    any = true;
                } else if !may_lack {
                    raise_missing(relation, &pointer);
                }
            });
            if !any {
                return row;
            }
            let given = sys::heap_form_tuple(desc, values.as_mut_ptr(), nulls.as_mut_ptr());
            (*given).t_self = (*row).t_self;
            (*given).t_tableOid = (*row).t_tableOid;
            given
        }
    }
}

fn key_of(txn: Txn, pointer: &sys::varatt_external, old: bool) -> Key {
    let (toast_oid, value_id) = (pointer.va_toastrelid, pointer.va_valueid);
    Key { top_xid: txn.top().xid(), toast_oid, value_id, old: old.into() }
}

/// Calls `body` with the index of each attribute that is an on-disk TOAST pointer, and the pointer.
unsafe fn for_each_pointer(relation: Relation, row: HeapTuple, mut body: impl FnMut(usize, sys::varatt_external)) {
    // SAFETY: a plaintext tuple of the relation's row type.
    unsafe {
        if !crate::toast::toaster::has_external(row) {
            return;
        }
        crate::toast::old::for_each_external(relation, row, |attnum, value| {
            if !(*majors::attribute((*relation).rd_att, attnum as usize - 1)).attisdropped {
                body(attnum as usize - 1, Varlena::of(value).pointer());
            }
        });
    }
}

/// An indirect datum to the collected value, in the current memory context.
unsafe fn indirect(value: *mut Value, pointer: &sys::varatt_external) -> *mut u8 {
    // SAFETY: the value is complete; header and tag are written as SET_VARSIZE and SET_VARTAG_EXTERNAL do.
    unsafe {
        let size = varlena::HEADER + (*value).size as usize;
        if varlena::external_is_compressed(pointer) {
            varlena::set_size_compressed((*value).data, size);
        } else {
            varlena::set_size((*value).data, size);
        }
        varlena::new_indirect((*value).data.cast())
    }
}

/// Whether the first piece authenticates: before that nothing is believed, least of all the size.
unsafe fn is_authentic(header: &Header, chunks: &[u8]) -> bool {
    let Some(Some((seq, stored))) = header.chunks(chunks).next() else {
        return false;
    };
    let mut piece = [0u8; PIECE_SIZE];
    // SAFETY: `chunks` gives chunks of PIECE_SIZE plaintext bytes at most.
    unsafe {
        let opened = keys::open_chunk(header.toast_oid, (header.value_id, seq), stored, piece.as_mut_ptr());
        cleanse(piece.as_mut_ptr().cast(), piece.len());
        header.size <= MAX_VALUE_SIZE && opened.is_ok()
    }
}

#[cold]
unsafe fn raise_missing(relation: Relation, pointer: &sys::varatt_external) -> ! {
    // SAFETY: the relation is open.
    let table = unsafe { rel::name(relation) };
    let value_id = pointer.va_valueid;
    pg_error!(
        DATA_CORRUPTED, "toast value {value_id} of a row of table \"{table}\" is missing in WAL";
        hint: ("Copy the table's content to the consumer anew, and advance the slot past this transaction.")
    )
}
