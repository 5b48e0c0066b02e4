//! The table of counters in shared memory, and the lock around it.

use core::ffi::c_int;

use super::table::{self, Counts, Info, Name, Row, Table};
use crate::pg::shmem::Segment;
use crate::pg::{sys, BackendCell, Oid};

/// `pg_vault_tde.stat_relations_max`
pub static MAX_RELATIONS: BackendCell<c_int> = BackendCell::new(MAX_DEFAULT);
pub const MAX_DEFAULT: c_int = 5000;
pub const MAX_MIN: c_int = 16;
pub const MAX_MAX: c_int = 1 << 24;

/// To be registered by `_PG_init`.
pub static SEGMENT: Segment = Segment::new(c"pg_vault_tde statistics", size, init);

fn capacity() -> u32 {
    MAX_RELATIONS.get() as u32
}

fn size() -> usize {
    table::size(capacity())
}

unsafe fn init(place: *mut u8) {
    // SAFETY: new memory of that size; shared memory is aligned to cache lines.
    unsafe { Table::init(place, capacity(), now()) }
}

fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { sys::GetCurrentTimestamp() }
}

fn with_table<R>(mode: sys::LWLockMode, body: impl FnOnce(Table) -> R) -> Option<R> {
    // SAFETY: the table does not get out of the lock.
    SEGMENT.with_lock(mode, |place| body(unsafe { Table::at(place) }))
}

fn of_this_database(relation: Oid) -> Name {
    // SAFETY: a variable that is set once when the process starts.
    Name { database: unsafe { sys::MyDatabaseId }, relation }
}

/// Adds what `give` gives: it calls its argument for each relation, and again later for those for which that returned false.
/// Raises nothing.
pub fn add(mut give: impl FnMut(&mut dyn FnMut(Oid, &Counts) -> bool)) {
    let mut all_known = true;
    with_table(sys::LW_SHARED, |table| {
        give(&mut |relation, counts| {
            let known = table.add(of_this_database(relation), counts);
            all_known &= known;
            known
        });
    });
    if !all_known {
        let now = now();
        with_table(sys::LW_EXCLUSIVE, |mut table| {
            give(&mut |relation, counts| {
                table.add_or_make(of_this_database(relation), counts, now);
                true
            });
        });
    }
}

/// Counts a row, chunk or key of `relation` that does not authenticate, or has no encrypted form. At once: an ERROR is to follow.
#[cold]
pub fn note_failure(relation: Oid) {
    let failure = Counts { failures: 1, last_failure: now(), ..Counts::default() };
    let mut given = false;
    add(|take| {
        if !given {
            given = take(relation, &failure);
        }
    });
}

/// Sets counters of this database to zero: of one relation, or all.
pub fn reset(relation: Option<Oid>) {
    let database = of_this_database(0).database;
    with_table(sys::LW_EXCLUSIVE, |mut table| table.reset(database, relation, now()));
}

/// Calls `body`, which may raise, for each entry of this database.
pub fn rows(mut body: impl FnMut(&Row)) {
    let database = of_this_database(0).database;
    let capacity = info().map_or(0, |info| info.capacity);
    for first in (0..capacity).step_by(BATCH) {
        let mut batch = [const { None }; BATCH];
        with_table(sys::LW_SHARED, |table| {
            for (index, row) in (first..capacity).zip(&mut batch) {
                *row = table.row(index).filter(|row| row.name.database == database);
            }
        });
        batch.iter().flatten().for_each(&mut body);
    }
}

/// Entries that are read at a time.
const BATCH: usize = 256;

/// The state of the table itself; None if there is no shared memory.
pub fn info() -> Option<Info> {
    with_table(sys::LW_SHARED, |table| table.info())
}

/// Forgets relations of this database, and databases.
pub fn forget<'a>(relations: impl Iterator<Item = &'a Oid> + Clone, databases: impl Iterator<Item = &'a Oid> + Clone) {
    let known = with_table(sys::LW_SHARED, |table| relations.clone().any(|&oid| table.has(of_this_database(oid))));
    if known == Some(true) || databases.clone().next().is_some() {
        with_table(sys::LW_EXCLUSIVE, |mut table| {
            relations.for_each(|&oid| table.remove(of_this_database(oid)));
            databases.for_each(|&oid| table.remove_database(oid));
        });
    }
}
