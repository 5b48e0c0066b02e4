//! What was encrypted and decrypted, and what did not authenticate, by relation: `vault_tde.stat_relations`.
//!
//! A row costs one addition to a number beside the cipher (`keys/tally.rs`). When a transaction ends, well or badly, in a
//! session, a parallel worker, a walsender or a worker of autovacuum, its sums go to a table in shared memory (`table.rs`)
//! of fixed size. A failure goes there at once, since an ERROR follows it; that may be with a page's content lock held, and nothing
//! is waited for under the table's own lock. The table is lost when the server stops.
//!
//! A relation is named by the OID that its key is bound to (`pg::rel::key_oid`): so what a rewrite writes counts for the
//! table that is rewritten, a chunk for its TOAST table, an index's key for the index.

mod drops;
mod shared;
mod table;

pub use drops::{at_transaction_end, register};
pub use shared::{add, info, note_failure, reset, rows, MAX_DEFAULT, MAX_MAX, MAX_MIN, MAX_RELATIONS, SEGMENT};
pub use table::Counts;
