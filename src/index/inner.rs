//! The inner index: the relation that nbtree is given. It is a copy of the index's relcache entry whose columns all are of
//! type `encrypted_key`, with that type's ordinary btree operator class. It shares the storage, the locks, the statistics.
//!
//! There is one for each index that this backend has worked with; it is never freed, so that pointers to it and to its
//! columns stay good whatever the relcache does. [`enter`] brings it up to date from the real entry, which the caller
//! holds open and locked. What the relcache may free while nbtree runs is not shared but its own: the cached metapage,
//! the parsed options, the descriptor.

use core::mem::size_of;
use core::ptr;
use std::collections::BTreeMap;

use super::column::{Column, ValueType};
use super::ordinal::Ordinal;
use crate::pg::error::{INTERNAL_ERROR, WRONG_OBJECT_TYPE};
use crate::pg::memory::{self, slice, MemoryContext};
use crate::pg::{majors, rel, sys, tuple, varlena, BackendCell, Oid};
use crate::{keys, pg_error};

/// Room for `rd_options` of a btree.
const OPTIONS_LEN: usize = 64;

/// The inner index of one index.
pub struct Index {
    rel: sys::RelationData,
    class: sys::FormData_pg_class,
    options: [u64; OPTIONS_LEN / 8],
    context: MemoryContext,
    /// all columns, the included ones last
    columns: *mut Column,
    ncolumns: usize,
    nkeys: usize,
    /// as nbtree stores rows, and as the user sees them
    stored_desc: sys::TupleDesc,
    plain_desc: sys::TupleDesc,
    opcintype: *mut Oid,
    opfamily: *mut Oid,
    support: *mut sys::RegProcedure,
    support_info: *mut sys::FmgrInfo,
    opcoptions: *mut *mut sys::bytea,
    /// `vault_tde.encrypted_key` and its btree operator family
    pub key_type: Oid,
    pub key_family: Oid,
    /// its operators by strategy number; first its comparison
    functions: [sys::FmgrInfo; 1 + sys::BTMaxStrategyNumber as usize],
    /// used in this transaction, and so in the list of `USED`
    used: bool,
    next_used: *mut Index,
}

/// What `rd_amcache` of the real entry points to: the relcache frees it when the entry changes.
struct Attached {
    index: *mut Index,
}

static ALL: BackendCell<BTreeMap<Oid, *mut Index>> = BackendCell::new(BTreeMap::new());
static USED: BackendCell<*mut Index> = BackendCell::new(ptr::null_mut());
/// The index that nbtree is working on: the one that keys to be compared belong to.
static CURRENT: BackendCell<*mut Index> = BackendCell::new(ptr::null_mut());
static NBTREE: BackendCell<majors::IndexRoutine> = BackendCell::new(0 as majors::IndexRoutine);

/// nbtree's callback table.
#[inline]
pub fn nbtree() -> &'static sys::IndexAmRoutine {
    if NBTREE.get().is_null() {
        fetch_nbtree();
    }
    // SAFETY: made in TopMemoryContext and never freed.
    unsafe { &*NBTREE.get() }
}

#[cold]
fn fetch_nbtree() {
    // SAFETY: bthandler needs no argument; what it returns lives in the context that is current.
    memory::within(unsafe { sys::TopMemoryContext }, || unsafe {
        NBTREE.set(sys::OidFunctionCall0Coll(sys::F_BTHANDLER, 0) as majors::IndexRoutine);
    });
}

/// From [`enter`] to `leave`, the index is the one that keys belong to.
#[must_use]
#[derive(Clone, Copy)]
pub struct Entered {
    pub index: *mut Index,
    before: *mut Index,
}

impl Entered {
    /// The relation for nbtree.
    #[inline]
    pub fn rel(self) -> sys::Relation {
        // SAFETY: never freed.
        unsafe { &raw mut (*self.index).rel }
    }

    #[inline]
    pub fn leave(self) {
        CURRENT.set(self.before);
    }
}

/// The index that keys belong to; null outside.
#[inline]
pub fn current() -> *mut Index {
    CURRENT.get()
}

/// Says again which index keys belong to: after code that may have worked with others and failed.
#[inline]
pub fn set_current(index: *mut Index) {
    CURRENT.set(index);
}

/// Brings the inner index of `outer` up to date and makes it the current one. An ERROR that passes needs no `leave`.
///
/// # Safety
/// In a transaction; `outer` must be an open, locked index of `encrypted_btree`. May raise an ERROR.
#[inline]
pub unsafe fn enter(outer: sys::Relation) -> Entered {
    crate::require_preloaded();
    keys::prepare_to_open();
    // SAFETY: rd_amcache of our indexes is made by `attach` alone.
    unsafe {
        let attached: *mut Attached = (*outer).rd_amcache.cast();
        let index = if attached.is_null() { attach(outer) } else { (*attached).index };
        (*index).refresh(outer);
        if !(*index).used {
            (*index).used = true;
            (*index).next_used = USED.get();
            USED.set(index);
        }
        let before = CURRENT.get();
        CURRENT.set(index);
        Entered { index, before }
    }
}

/// At the end of a transaction: cleanses all plaintext in columns.
pub fn forget() {
    CURRENT.set(ptr::null_mut());
    let mut at = USED.get();
    USED.set(ptr::null_mut());
    while !at.is_null() {
        // SAFETY: indexes are never freed.
        unsafe {
            (*at).used = false;
            for i in 0..(*at).ncolumns {
                (*(*at).columns.add(i)).forget();
            }
            at = core::mem::replace(&mut (*at).next_used, ptr::null_mut());
        }
    }
}

/// Finds or makes the inner index, after the relcache entry was made or has changed.
#[cold]
#[inline(never)]
unsafe fn attach(outer: sys::Relation) -> *mut Index {
    // SAFETY: the caller's promise; the map is borrowed for single statements.
    unsafe {
        let known = (*ALL.as_ptr()).get(&(*outer).rd_id).copied();
        let index = match known.filter(|&index| (*index).fits(outer)) {
            Some(index) => {
                // what is cached of the metapage may be out of date
                let metapage = core::mem::replace(&mut (*index).rel.rd_amcache, ptr::null_mut());
                if !metapage.is_null() {
                    sys::pfree(metapage);
                }
                index
            }
            None => {
                let index = Index::make(outer);
                (*ALL.as_ptr()).insert((*outer).rd_id, index);
                index
            }
        };
        // making it may have processed invalidations, after which there is none again: the next call looks once more
        let attached: *mut Attached = sys::MemoryContextAlloc((*outer).rd_indexcxt, size_of::<Attached>()).cast();
        (*attached).index = index;
        (*outer).rd_amcache = attached.cast();
        index
    }
}

impl Index {
    #[inline]
    pub fn column(&self, i: usize) -> *mut Column {
        debug_assert!(i < self.ncolumns);
        // SAFETY: an array of that many.
        unsafe { self.columns.add(i) }
    }

    #[inline]
    pub fn ncolumns(&self) -> usize {
        self.ncolumns
    }

    #[inline]
    pub fn nkeys(&self) -> usize {
        self.nkeys
    }

    /// The descriptor of rows as the user sees them.
    pub fn plain_desc(&self) -> sys::TupleDesc {
        self.plain_desc
    }

    /// The descriptor of rows as nbtree stores them.
    pub fn stored_desc(&self) -> sys::TupleDesc {
        self.stored_desc
    }

    /// The operator of `encrypted_key` of a btree strategy.
    pub fn operator(&mut self, strategy: sys::StrategyNumber) -> *mut sys::FmgrInfo {
        &mut self.functions[usize::from(strategy)]
    }

    /// The comparison of `encrypted_key`.
    pub fn comparison(&mut self) -> *mut sys::FmgrInfo {
        &mut self.functions[0]
    }

    /// Whether each change of its pages gives them another LSN: of a permanent relation, and also while it is new, for which
    /// `wal_level = minimal` writes no WAL. Of the relation that was entered last.
    pub fn changes_lsns(&self) -> bool {
        // SAFETY: a variable that is set when the server starts.
        let level = unsafe { sys::wal_level };
        self.class.relpersistence as u8 == sys::RELPERSISTENCE_PERMANENT && level > sys::WAL_LEVEL_MINIMAL as i32
    }

    /// Takes over what is in the real entry.
    #[inline]
    unsafe fn refresh(&mut self, outer: sys::Relation) {
        // SAFETY: `outer` is open; what is opened lazily is opened on it first, or it would not know.
        unsafe {
            sys::RelationGetSmgr(outer);
            if (*outer).pgstat_info.is_null() && (*outer).pgstat_enabled {
                sys::pgstat_assoc_relation(outer);
            }
            let metapage = self.rel.rd_amcache;
            ptr::copy_nonoverlapping(outer, &mut self.rel, 1);
            ptr::copy_nonoverlapping((*outer).rd_rel, &mut self.class, 1);
            self.class.relam = sys::BTREE_AM_OID;
            self.rel.rd_rel = &mut self.class;
            self.rel.rd_indam = NBTREE.get();
            self.rel.rd_amcache = metapage;
            self.rel.rd_indexcxt = self.context;
            self.rel.rd_att = self.stored_desc;
            self.rel.rd_opcintype = self.opcintype;
            self.rel.rd_opfamily = self.opfamily;
            self.rel.rd_support = self.support;
            self.rel.rd_supportinfo = self.support_info;
            self.rel.rd_opcoptions = self.opcoptions;
            if !self.rel.rd_options.is_null() {
                let len = varlena::size_any(self.rel.rd_options.cast()).min(OPTIONS_LEN);
                let own: *mut u8 = self.options.as_mut_ptr().cast();
                ptr::copy_nonoverlapping(self.rel.rd_options.cast(), own, len);
                self.rel.rd_options = own.cast();
            }
        }
    }

    /// Whether this was made of the same definition: an OID may be used again.
    unsafe fn fits(&self, outer: sys::Relation) -> bool {
        // SAFETY: `outer` is an open index.
        unsafe {
            let (nkeys, ncolumns) = sizes(outer);
            nkeys == self.nkeys
                && ncolumns == self.ncolumns
                && (0..ncolumns).all(|i| {
                    let column = &*self.column(i);
                    let found = Definition::of(outer, i);
                    found.input_type == column.input_type
                        && found.family == column.family
                        && found.collation == column.collation
                        && found.compare == column.compare.fn_oid
                        && found.descending == column.descending
                        && (found.compressible || !column.compressible)
                })
        }
    }

    unsafe fn make(outer: sys::Relation) -> *mut Index {
        // SAFETY: `outer` is an open index; an ERROR on the way leaves a context that nobody knows.
        unsafe {
            let nbtree = nbtree();
            let (nkeys, ncolumns) = sizes(outer);
            let context = memory::new_context(sys::TopMemoryContext, c"pg_vault_tde index");
            let index: *mut Index = sys::MemoryContextAllocZero(context, size_of::<Index>()).cast();
            let caller = memory::switch_to(context);
            (*index).context = context;
            (*index).nkeys = nkeys;
            (*index).ncolumns = ncolumns;
            (*index).key_type = (*majors::attribute((*outer).rd_att, 0)).atttypid;
            (*index).find_operator_class();
            (*index).make_columns(outer);
            (*index).make_descriptors();
            (*index).make_support(nbtree);
            memory::switch_to(caller);
            index
        }
    }

    unsafe fn find_operator_class(&mut self) {
        // SAFETY: syscache look-ups.
        unsafe {
            let class = sys::GetDefaultOpClass(self.key_type, sys::BTREE_AM_OID);
            if class == 0 {
                pg_error!(INTERNAL_ERROR, "type vault_tde.encrypted_key has no operator class for btree");
            }
            self.key_family = sys::get_opclass_family(class);
            let (family, key_type) = (self.key_family, self.key_type);
            for (strategy, function) in (0..).zip(&mut self.functions) {
                let oid = match strategy {
                    0 => sys::get_opfamily_proc(family, key_type, key_type, sys::BTORDER_PROC as i16),
                    _ => sys::get_opcode(sys::get_opfamily_member(family, key_type, key_type, strategy)),
                };
                sys::fmgr_info_cxt(oid, function, self.context);
            }
        }
    }

    unsafe fn make_columns(&mut self, outer: sys::Relation) {
        // SAFETY: as for `make`.
        unsafe {
            self.columns = sys::palloc0(self.ncolumns * size_of::<Column>()).cast();
            for i in 0..self.ncolumns {
                let definition = Definition::of(outer, i);
                let column = self.columns.add(i);
                let mut value = value_type(definition.input_type);
                value.compressible &= definition.compressible;
                column.write(Column::new((*outer).rd_id, i as u8 + 1, self.context, value));
                (*column).family = definition.family;
                (*column).collation = definition.collation;
                (*column).sort_support = definition.sort_support;
                (*column).ordinal = Ordinal::of(definition.compare);
                (*column).descending = definition.descending;
                if definition.compare != 0 {
                    sys::fmgr_info_cxt(definition.compare, &mut (*column).compare, self.context);
                }
            }
        }
    }

    unsafe fn make_descriptors(&mut self) {
        // SAFETY: descriptors of the index's columns, in its memory.
        unsafe {
            self.stored_desc = sys::CreateTemplateTupleDesc(self.ncolumns as i32);
            self.plain_desc = sys::CreateTemplateTupleDesc(self.ncolumns as i32);
            for i in 0..self.ncolumns {
                let number = (i + 1) as i16;
                sys::TupleDescInitEntry(self.stored_desc, number, ptr::null(), self.key_type, -1, 0);
                let value_type = (*self.column(i)).input_type;
                sys::TupleDescInitEntry(self.plain_desc, number, ptr::null(), value_type, -1, 0);
                // rows in memory: nothing to be made short, nothing to be compressed
                (*majors::attribute(self.plain_desc, i)).attstorage = sys::TYPSTORAGE_PLAIN as i8;
                majors::attribute_changed(self.plain_desc, i);
            }
            majors::descriptor_done(self.stored_desc);
            majors::descriptor_done(self.plain_desc);
        }
    }

    unsafe fn make_support(&mut self, nbtree: &sys::IndexAmRoutine) {
        let nprocs = usize::from(nbtree.amsupport);
        // SAFETY: arrays as relcache.c makes them, in the index's memory.
        unsafe {
            self.opcintype = sys::palloc0(self.ncolumns * size_of::<Oid>()).cast();
            self.opfamily = sys::palloc0(self.ncolumns * size_of::<Oid>()).cast();
            self.support = sys::palloc0(self.ncolumns * nprocs * size_of::<sys::RegProcedure>()).cast();
            self.support_info = sys::palloc0(self.ncolumns * nprocs * size_of::<sys::FmgrInfo>()).cast();
            self.opcoptions = sys::palloc0(self.ncolumns * size_of::<*mut sys::bytea>()).cast();
            let compare = self.functions[0].fn_oid;
            for i in 0..self.nkeys {
                *self.opcintype.add(i) = self.key_type;
                *self.opfamily.add(i) = self.key_family;
                *self.support.add(i * nprocs + sys::BTORDER_PROC as usize - 1) = compare;
            }
        }
    }
}

/// Key columns, and all columns.
unsafe fn sizes(outer: sys::Relation) -> (usize, usize) {
    // SAFETY: an open index.
    unsafe { ((*(*outer).rd_index).indnkeyatts as usize, (*(*outer).rd_index).indnatts as usize) }
}

/// A column as the catalogs define it.
struct Definition {
    input_type: Oid,
    family: Oid,
    collation: Oid,
    compare: Oid,
    sort_support: Oid,
    descending: bool,
    /// the table's column may be compressed, as an index does then, too
    compressible: bool,
}

impl Definition {
    unsafe fn of(outer: sys::Relation, i: usize) -> Definition {
        // SAFETY: an open index with more than `i` columns.
        unsafe {
            let (nkeys, _) = sizes(outer);
            let compressible = is_compressible(outer, i);
            if i >= nkeys {
                let input_type = (*majors::attribute((*outer).rd_att, i)).atttypid;
                return Definition {
                    input_type,
                    family: 0,
                    collation: 0,
                    compare: 0,
                    sort_support: 0,
                    descending: false,
                    compressible,
                };
            }
            let nprocs = usize::from((*(*outer).rd_indam).amsupport);
            let support = slice((*outer).rd_support.cast_const(), nkeys * nprocs);
            let proc_of = |number: u32| support[i * nprocs + number as usize - 1];
            if proc_of(sys::BTORDER_PROC) == 0 {
                pg_error!(INTERNAL_ERROR, "index \"{}\" has an operator class without comparison", rel::name(outer));
            }
            Definition {
                input_type: *(*outer).rd_opcintype.add(i),
                family: *(*outer).rd_opfamily.add(i),
                collation: *(*outer).rd_indcollation.add(i),
                compare: proc_of(sys::BTORDER_PROC),
                sort_support: proc_of(sys::BTSORTSUPPORT_PROC),
                descending: *(*outer).rd_indoption.add(i) as u32 & sys::INDOPTION_DESC != 0,
                compressible,
            }
        }
    }
}

/// Whether the storage of the table's column lets values be compressed; true for an expression.
unsafe fn is_compressible(outer: sys::Relation, i: usize) -> bool {
    // SAFETY: an open index with more than `i` columns; the syscache row is read before it is released.
    unsafe {
        let form = (*outer).rd_index;
        let number = *(*form).indkey.values.as_ptr().add(i);
        if number == 0 {
            return true;
        }
        let (table, number) = ((*form).indrelid as crate::pg::Datum, number as crate::pg::Datum);
        let tuple = sys::SearchSysCache2(sys::ATTNUM as _, table, number);
        if tuple.is_null() {
            return true;
        }
        let storage = (*tuple::body::<sys::FormData_pg_attribute>(tuple)).attstorage as u8;
        sys::ReleaseSysCache(tuple);
        storage == sys::TYPSTORAGE_EXTENDED || storage == sys::TYPSTORAGE_MAIN
    }
}

unsafe fn value_type(oid: Oid) -> ValueType {
    // SAFETY: syscache look-ups.
    unsafe {
        let (mut len, mut by_value) = (0, false);
        sys::get_typlenbyval(oid, &mut len, &mut by_value);
        if len < -1 {
            pg_error!(
                WRONG_OBJECT_TYPE,
                "values of type {} cannot be kept in an encrypted index",
                crate::pg::fmgr::str_of(sys::format_type_be(oid))
            );
        }
        let compressible = len == -1 && sys::get_typstorage(oid) as u8 != sys::TYPSTORAGE_PLAIN;
        ValueType { oid, len, by_value, compressible }
    }
}
