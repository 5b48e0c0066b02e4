//! The toaster: makes a plaintext row short enough to be stored, as `heap_toast_insert_or_update` does, with every
//! threshold counted on the stored row, which is longer than the plaintext by `ROW_OVERHEAD`.
//!
//! It differs from core's in its order. There it runs inside heap_update, when the old row is already won; here it runs
//! before, so what it has stored may have to be killed ([`Toasted::undo`]), and the values that the update replaces are
//! deleted only when heap_update has answered TM_Ok ([`Toasted::done`]).

use core::mem::size_of;
use core::ptr;

use super::{remove, store};
use crate::crypto::row::{stored_len, ROW_OVERHEAD};
use crate::pg::memory::{self, MemoryContext};
use crate::pg::sizes::{TOAST_TUPLE_TARGET_MAIN, TOAST_TUPLE_THRESHOLD, TUPLE_HEADER};
use crate::pg::tuple::{maxalign, HeapTuple, HEAPTUPLESIZE};
use crate::pg::varlena::Varlena;
use crate::pg::{majors, sys, BackendCell, Datum};

/// Where rows are toasted: a context of the backend, emptied by [`reset`] when the rows have been stored.
static CONTEXT: BackendCell<MemoryContext> = BackendCell::new(ptr::null_mut());

fn context() -> MemoryContext {
    if CONTEXT.get().is_null() {
        // SAFETY: TopMemoryContext lives as long as the backend.
        CONTEXT.set(memory::new_context(unsafe { sys::TopMemoryContext }, c"pg_vault_tde toaster"));
    }
    CONTEXT.get()
}

/// Frees what toasting has allocated since the last call; also called when a (sub)transaction aborts.
pub fn reset() {
    if !CONTEXT.get().is_null() {
        // SAFETY: a context of ours; nothing in it is used after the rows have been stored.
        unsafe { sys::MemoryContextReset(CONTEXT.get()) }
    }
}

/// Whether a tuple has values that are not in line.
///
/// # Safety
/// `tuple` must be a valid plaintext tuple.
pub unsafe fn has_external(tuple: HeapTuple) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*(*tuple).t_data).t_infomask & sys::HEAP_HASEXTERNAL as u16 != 0 }
}

/// Whether the toaster has to look at a row before it is stored in place of `old` (null for an insertion).
///
/// # Safety
/// Both must be valid plaintext tuples, or null for `old`.
pub unsafe fn is_needed(new: HeapTuple, old: HeapTuple) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        has_external(new)
            || (!old.is_null() && has_external(old))
            || stored_len((*new).t_len as usize) > TOAST_TUPLE_THRESHOLD
    }
}

/// A row that can be stored, and what has to be done afterwards.
pub struct Toasted {
    /// The row to store; valid until [`reset`].
    pub tuple: HeapTuple,
    rel: sys::Relation,
    /// one entry an attribute; null when the row did not need the toaster
    attributes: *mut Attribute,
}

#[derive(Clone, Copy)]
struct Attribute {
    /// pointer to a value that was stored for this row, or 0
    stored: Datum,
    /// pointer to an old value that the row no longer needs, or 0
    obsolete: Datum,
}

impl Toasted {
    /// A row that is stored as it is.
    pub fn unchanged(rel: sys::Relation, tuple: HeapTuple) -> Self {
        Self { tuple, rel, attributes: ptr::null_mut() }
    }

    fn for_each(&self, mut body: impl FnMut(&Attribute)) {
        if !self.attributes.is_null() {
            // SAFETY: natts entries, made by `toast`.
            unsafe {
                for i in 0..(*(*self.rel).rd_att).natts as usize {
                    body(&*self.attributes.add(i));
                }
            }
        }
    }

    /// The row has been stored: deletes the old values that it replaces. They are in `old`, which must still be there.
    ///
    /// # Safety
    /// Called at most once, before [`reset`].
    pub unsafe fn done(&self) {
        self.for_each(|attribute| {
            if attribute.obsolete != 0 {
                // SAFETY: a pointer into the TOAST table of the relation, in the old row.
                unsafe { sys::toast_delete_datum(self.rel, attribute.obsolete, false) }
            }
        });
    }

    /// The row has not been stored: kills the values that were stored for it.
    ///
    /// # Safety
    /// As for [`Toasted::done`].
    pub unsafe fn undo(&self) {
        self.for_each(|attribute| {
            if attribute.stored != 0 {
                // SAFETY: a value that `toast` has stored in this command.
                unsafe { remove::kill(self.rel, attribute.stored) }
            }
        });
    }
}

/// Toasts the plaintext row `new` of `rel`, which replaces `old` (null for an insertion). `options` are those of
/// heap_insert. Raises the errors of detoasting, of the key provider and of heap_insert.
///
/// # Safety
/// `rel` must be an open encrypted table; both tuples plaintext of its row type that stay in place until the row is stored.
pub unsafe fn toast(rel: sys::Relation, new: HeapTuple, old: HeapTuple, options: majors::Options) -> Toasted {
    // SAFETY: the caller's promises.
    memory::within(context(), || unsafe { Work::begin(rel, new, old, options).run(new) })
}

/// The toaster's working state: core's ToastTupleContext and what it does not remember.
struct Work {
    ttc: sys::ToastTupleContext,
    attributes: *mut Attribute,
    options: majors::Options,
    has_toast_table: bool,
}

/// `palloc` of an array of `n` in the current context.
unsafe fn array<T>(n: usize) -> *mut T {
    // SAFETY: palloc raises an ERROR when out of memory; n may be 0 for a table without columns.
    unsafe { sys::palloc0(size_of::<T>() * n.max(1)).cast() }
}

impl Work {
    unsafe fn begin(rel: sys::Relation, new: HeapTuple, old: HeapTuple, options: majors::Options) -> Self {
        // SAFETY: as for `toast`; the arrays have natts entries each.
        unsafe {
            let desc = (*rel).rd_att;
            let natts = (*desc).natts as usize;
            let mut ttc = sys::ToastTupleContext {
                ttc_rel: rel,
                ttc_values: array(natts),
                ttc_isnull: array(natts),
                ttc_oldvalues: ptr::null_mut(),
                ttc_oldisnull: ptr::null_mut(),
                ttc_flags: 0,
                ttc_attr: array(natts),
            };
            sys::heap_deform_tuple(new, desc, ttc.ttc_values, ttc.ttc_isnull);
            if !old.is_null() {
                ttc.ttc_oldvalues = array(natts);
                ttc.ttc_oldisnull = array(natts);
                sys::heap_deform_tuple(old, desc, ttc.ttc_oldvalues, ttc.ttc_oldisnull);
            }
            sys::toast_tuple_init(&mut ttc);
            let has_toast_table = (*(*rel).rd_rel).reltoastrelid != 0;
            Self { ttc, attributes: array(natts), options, has_toast_table }
        }
    }

    /// Bytes of the row's data part as it stands.
    unsafe fn data_size(&self) -> usize {
        // SAFETY: the arrays describe a row of the relation's row type.
        unsafe { sys::heap_compute_data_size((*self.ttc.ttc_rel).rd_att, self.ttc.ttc_values, self.ttc.ttc_isnull) }
    }

    /// `t_hoff` of the row, as heap_form_tuple computes it.
    unsafe fn header_size(&self) -> usize {
        let bitmap = if self.ttc.ttc_flags & sys::TOAST_HAS_NULLS as u8 != 0 {
            // SAFETY: the relation is open.
            unsafe { ((*(*self.ttc.ttc_rel).rd_att).natts as usize).div_ceil(8) }
        } else {
            0
        };
        maxalign(TUPLE_HEADER + bitmap)
    }

    /// The largest attribute that may be compressed, or moved out of line; of storage MAIN, or EXTENDED and EXTERNAL.
    unsafe fn biggest(&mut self, for_compression: bool, main: bool) -> Option<usize> {
        // SAFETY: the context is complete after `begin`.
        let found = unsafe { sys::toast_tuple_find_biggest_attribute(&mut self.ttc, for_compression, main) };
        usize::try_from(found).ok()
    }

    /// Moves an attribute out of line (`toast_tuple_externalize`).
    unsafe fn externalize(&mut self, i: usize) {
        // SAFETY: `i` is an attribute that `biggest` found: an in-line varlena.
        unsafe {
            let info = &mut *self.ttc.ttc_attr.add(i);
            let value = &mut *self.ttc.ttc_values.add(i);
            *value = store::store(self.ttc.ttc_rel, *value, info.tai_oldexternal, self.options);
            info.tai_colflags |= sys::TOASTCOL_IGNORE as u8;
            self.ttc.ttc_flags |= sys::TOAST_NEEDS_CHANGE as u8;
            (*self.attributes.add(i)).stored = *value;
        }
    }

    /// The four rounds of heaptoast.c, then the row that comes of them.
    unsafe fn run(mut self, new: HeapTuple) -> Toasted {
        // SAFETY: as for `toast`.
        unsafe {
            let rel = self.ttc.ttc_rel;
            let fixed = self.header_size() + ROW_OVERHEAD;
            let target = toast_tuple_target(rel).saturating_sub(fixed);

            // 1: compress EXTENDED in line; what is too large on its own goes out of line at once
            while self.data_size() > target {
                let Some(i) = self.biggest(true, false) else { break };
                let storage = (*majors::attribute((*rel).rd_att, i)).attstorage as u8;
                if storage == sys::TYPSTORAGE_EXTENDED {
                    sys::toast_tuple_try_compression(&mut self.ttc, i as i32);
                } else {
                    (*self.ttc.ttc_attr.add(i)).tai_colflags |= sys::TOASTCOL_INCOMPRESSIBLE as u8;
                }
                if (*self.ttc.ttc_attr.add(i)).tai_size as usize > target && self.has_toast_table {
                    self.externalize(i);
                }
            }
            // 2: EXTENDED and EXTERNAL go out of line
            while self.has_toast_table && self.data_size() > target {
                let Some(i) = self.biggest(false, false) else { break };
                self.externalize(i);
            }
            // 3: compress MAIN in line
            while self.data_size() > target {
                let Some(i) = self.biggest(true, true) else { break };
                sys::toast_tuple_try_compression(&mut self.ttc, i as i32);
            }
            // 4: MAIN goes out of line only where the row would not fit a page otherwise
            let target = TOAST_TUPLE_TARGET_MAIN - fixed;
            while self.has_toast_table && self.data_size() > target {
                let Some(i) = self.biggest(false, true) else { break };
                self.externalize(i);
            }

            self.note_obsolete();
            let tuple = if self.ttc.ttc_flags & sys::TOAST_NEEDS_CHANGE as u8 != 0 { self.form(new) } else { new };
            Toasted { tuple, rel, attributes: self.attributes }
        }
    }

    /// Remembers the old values that toast_tuple_init found to be replaced.
    unsafe fn note_obsolete(&mut self) {
        if self.ttc.ttc_flags & sys::TOAST_NEEDS_DELETE_OLD as u8 == 0 {
            return;
        }
        // SAFETY: the flag says that there is an old row; its values are in ttc_oldvalues.
        unsafe {
            for i in 0..(*(*self.ttc.ttc_rel).rd_att).natts as usize {
                if (*self.ttc.ttc_attr.add(i)).tai_colflags & sys::TOASTCOL_NEEDS_DELETE_OLD as u8 != 0 {
                    let old = *self.ttc.ttc_oldvalues.add(i);
                    debug_assert!(Varlena::of(old).is_on_disk());
                    (*self.attributes.add(i)).obsolete = old;
                }
            }
        }
    }

    /// The row of the changed values, with the header of `new`.
    unsafe fn form(&mut self, new: HeapTuple) -> HeapTuple {
        // SAFETY: the block has room for header and data; heap_fill_tuple fills the data and the null bitmap.
        unsafe {
            let desc = (*self.ttc.ttc_rel).rd_att;
            let (header, data) = (self.header_size(), self.data_size());
            let tuple: HeapTuple = sys::palloc0(HEAPTUPLESIZE + header + data).cast();
            *tuple = *new;
            (*tuple).t_len = (header + data) as u32;
            (*tuple).t_data = tuple.cast::<u8>().add(HEAPTUPLESIZE).cast();
            let to = (*tuple).t_data;
            ptr::copy_nonoverlapping((*new).t_data.cast::<u8>(), to.cast::<u8>(), TUPLE_HEADER);
            // HeapTupleHeaderSetNatts()
            (*to).t_infomask2 = ((*to).t_infomask2 & !(sys::HEAP_NATTS_MASK as u16)) | (*desc).natts as u16;
            (*to).t_hoff = header as u8;
            let has_nulls = self.ttc.ttc_flags & sys::TOAST_HAS_NULLS as u8 != 0;
            let bits = if has_nulls { to.cast::<u8>().add(TUPLE_HEADER) } else { ptr::null_mut() };
            sys::heap_fill_tuple(
                desc,
                self.ttc.ttc_values,
                self.ttc.ttc_isnull,
                to.cast::<core::ffi::c_char>().add(header),
                data,
                &mut (*to).t_infomask,
                bits,
            );
            tuple
        }
    }
}

/// `RelationGetToastTupleTarget(rel, TOAST_TUPLE_TARGET)`
unsafe fn toast_tuple_target(rel: sys::Relation) -> usize {
    // SAFETY: rd_options of a table is a StdRdOptions, or null.
    unsafe {
        let options: *const sys::StdRdOptions = (*rel).rd_options.cast();
        if options.is_null() {
            TOAST_TUPLE_THRESHOLD
        } else {
            (*options).toast_tuple_target as usize
        }
    }
}
