//! How many rows were encrypted for a relation. Initialisation vectors are random, so one key must not encrypt more than
//! 2^32 rows (NIST SP 800-38D); a key is one relation's and one generation's.
//!
//! The count is the statistics system's: rows inserted and updated since the relation's counters were last reset. It is an
//! estimate. It knows nothing of generations, so after a rotation its counters are reset by hand.

use crate::keys::settings;
use crate::pg::error::{Report, PROGRAM_LIMIT_EXCEEDED};
use crate::pg::{heapam, majors, rel as relation, sys, Oid};
use crate::pg_callback;

/// Rows, or chunks, that were encrypted for the relation, as far as the statistics know.
pub fn rows_encrypted(oid: Oid) -> u64 {
    // SAFETY: null, or an entry in this backend's memory.
    unsafe {
        let entry = sys::pgstat_fetch_stat_tabentry(oid);
        entry.as_ref().map_or(0, |e| (e.tuples_inserted + e.tuples_updated).max(0) as u64)
    }
}

/// Whether that is more than `pg_vault_tde.rows_per_key_warning`.
pub fn is_near_limit(rows: u64) -> bool {
    rows > settings::rows_per_key_warning()
}

pg_callback! {
    /// The table AM callback: heapam's, and a look at the number of rows, which autovacuum so takes now and then.
    pub fn relation_vacuum(rel: sys::Relation, params: majors::VacuumParams, strategy: sys::BufferAccessStrategy) {
        // SAFETY: the contract of the callback.
        unsafe {
            warn_if_near(rel);
            heapam().relation_vacuum.unwrap_unchecked()(rel, params, strategy);
        }
    }
}

/// Says in the server's log that a relation needs a new key.
unsafe fn warn_if_near(rel: sys::Relation) {
    // SAFETY: the caller's promise.
    let (oid, name) = unsafe { (relation::oid(rel), relation::name(rel)) };
    let rows = rows_encrypted(oid);
    if is_near_limit(rows) {
        Report::new(
            PROGRAM_LIMIT_EXCEEDED,
            format_args!("about {rows} rows of relation \"{name}\" have been encrypted, perhaps under one key"),
        )
        .detail(format_args!("A key should not encrypt more than 4294967296 rows of a relation."))
        .hint(format_args!(
            "Make a new key with vault_tde.rotate_key(), then call pg_stat_reset_single_table_counters({oid})."
        ))
        .log(sys::WARNING);
    }
}
