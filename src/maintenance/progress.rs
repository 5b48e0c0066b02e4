//! What running re-encryptions have done, and since when keys are not needed: in shared memory, lost at a restart.

use core::mem::size_of;

use crate::crypto::wrap::KeyId;
use crate::pg::fmgr::{put_row, text_datum, Call};
use crate::pg::shmem::Segment;
use crate::pg::{sys, BackendCell, Datum, Oid, INVALID_OID};

/// Re-encryptions that can be watched at a time.
const RUNS: usize = 64;
/// Keys of which it can be remembered since when they are not needed.
const MARKS: usize = 1024;

/// A phase of a re-encryption.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Phase {
    WaitingForWriters,
    Rows,
    Values,
    Indexes,
    WaitingForPages,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::WaitingForWriters => "waiting for writers",
            Phase::Rows => "re-encrypting rows",
            Phase::Values => "re-encrypting out-of-line values",
            Phase::Indexes => "re-encrypting indexes",
            Phase::WaitingForPages => "waiting for pages in use",
        }
    }
}

/// A running re-encryption.
#[derive(Clone, Copy)]
pub struct Run {
    pid: i32,
    database: Oid,
    pub relation: Oid,
    pub phase: Phase,
    /// Blocks of the relation, or TOAST table, that is being worked on.
    pub blocks_total: u32,
    pub blocks_done: u32,
    /// Rows and chunks that were re-encrypted so far.
    pub tuples_done: u64,
}

impl Run {
    const NONE: Run = Run {
        pid: 0,
        database: INVALID_OID,
        relation: INVALID_OID,
        phase: Phase::Rows,
        blocks_total: 0,
        blocks_done: 0,
        tuples_done: 0,
    };

    pub const fn of(relation: Oid) -> Run {
        Run { relation, ..Run::NONE }
    }
}

/// Since when a key is not needed.
#[derive(Clone, Copy)]
struct Mark {
    key_id: KeyId,
    /// 0 for a free entry.
    lsn: sys::XLogRecPtr,
}

struct Shared {
    runs: [Run; RUNS],
    marks: [Mark; MARKS],
}

/// To be registered by `_PG_init`.
pub static SEGMENT: Segment = Segment::new(c"pg_vault_tde maintenance", size_of::<Shared>, init);

unsafe fn init(place: *mut u8) {
    const NOTHING: Shared = Shared { runs: [Run::NONE; RUNS], marks: [Mark { key_id: [0; 16], lsn: 0 }; MARKS] };
    // SAFETY: new memory of that size.
    unsafe { place.cast::<Shared>().write(NOTHING) }
}

fn with_shared<R>(mode: sys::LWLockMode, body: impl FnOnce(&mut Shared) -> R) -> Option<R> {
    // SAFETY: the segment holds a Shared, and `body` does not get out of the lock. (Who only reads has a shared lock.)
    SEGMENT.with_lock(mode, |place| body(unsafe { &mut *place.cast() }))
}

/// This backend has a run in shared memory.
static SHOWN: BackendCell<bool> = BackendCell::new(false);

/// Shows this backend's run, in place of what it showed before.
pub fn show(run: &Run) {
    SHOWN.set(true);
    // SAFETY: variables that are set once when the process starts.
    let (pid, database) = unsafe { (sys::MyProcPid, sys::MyDatabaseId) };
    with_shared(sys::LW_EXCLUSIVE, |shared| {
        let place = shared.runs.iter().position(|r| r.pid == pid).or(shared.runs.iter().position(|r| r.pid == 0));
        if let Some(place) = place {
            shared.runs[place] = Run { pid, database, ..*run };
        }
    });
}

/// Ends this backend's run, if it has one.
pub fn end() {
    if !SHOWN.get() {
        return;
    }
    SHOWN.set(false);
    // SAFETY: a variable that is set once when the process starts.
    let pid = unsafe { sys::MyProcPid };
    with_shared(sys::LW_EXCLUSIVE, |shared| {
        for run in shared.runs.iter_mut().filter(|run| run.pid == pid) {
            *run = Run::NONE;
        }
    });
}

/// The rows of `vault_tde.stat_progress_reencrypt`.
///
/// # Safety
/// `call` must be that of the function, made ready by InitMaterializedSRF.
pub unsafe fn report(call: Call) {
    let Some(runs) = with_shared(sys::LW_SHARED, |shared| shared.runs) else { return };
    for run in runs.iter().filter(|run| run.pid != 0) {
        let values = &mut [
            run.pid as Datum,
            run.database as Datum,
            run.relation as Datum,
            text_datum(run.phase.name()),
            run.blocks_total as Datum,
            run.blocks_done as Datum,
            run.tuples_done as Datum,
        ];
        // SAFETY: the result has these columns.
        unsafe { put_row(call.0, values, &mut [false; 7]) }
    }
}

/// The end of WAL at the time when the key was first found not to be needed: now, `end_of_wal`, if it was not known. When
/// there is no room, what was found first is forgotten; asked for that key again, it will be now. What is known stays so when
/// the key is deleted: the deletion may be undone, and a key id never gets another key.
pub fn unneeded_since(key_id: &KeyId, end_of_wal: sys::XLogRecPtr) -> sys::XLogRecPtr {
    with_shared(sys::LW_EXCLUSIVE, |shared| {
        if let Some(known) = shared.marks.iter().find(|mark| mark.lsn != 0 && mark.key_id == *key_id) {
            return known.lsn;
        }
        // a free entry has 0 there
        if let Some(place) = shared.marks.iter_mut().min_by_key(|mark| mark.lsn) {
            *place = Mark { key_id: *key_id, lsn: end_of_wal };
        }
        end_of_wal
    })
    .unwrap_or(end_of_wal)
}
