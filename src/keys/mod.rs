//! The keys of a database: the ring of data keys, the map that backends share, and the providers that unwrap them.
//! `README.md` beside this file says how they work together.
//!
//! | file             | what it does                                                    | when it runs             |
//! |------------------|-----------------------------------------------------------------|--------------------------|
//! | `rows.rs`        | seals and opens rows and chunks                                 | every row                |
//! | `cache.rs`       | ciphers by relation, purpose and data key                       | every row                |
//! | `plaintext_cache.rs` | what is likely to be opened again              | rows of small tables; index descents |
//! | `tally.rs`       | counts what each cipher has done                                | every row                |
//! | `ring.rs`        | this backend's copy of the key table                            | every row                |
//! | `counts.rs`      | hands these counts to the statistics                            | each transaction's end   |
//! | `load.rs`        | reads the key table into the ring; when that is due             | after a rotation         |
//! | `generations.rs` | the current generation; makes the first and the next            | each statement; seldom   |
//! | `table.rs`       | `vault_tde.data_keys`: finds, reads and writes its rows         | after a rotation         |
//! | `shared.rs`      | unwrapped data keys in shared memory                            | a backend's first access |
//! | `rewrap.rs`      | wraps all data keys anew                                        | when a KEK has changed   |
//! | `survey.rs`      | what `vault_tde.status()` says of the keys                      | when asked               |
//! | `provider.rs`    | wraps and unwraps data keys, by `file.rs` or `vault/`           | once a data key          |
//! | `secret_file.rs` | reads files that hold a secret                                  | once a data key          |
//! | `settings.rs`    | the variables of the configuration parameters                   |                          |

mod cache;
mod counts;
mod file;
mod generations;
mod load;
mod plaintext_cache;
pub mod provider;
mod rewrap;
mod ring;
mod rows;
mod secret_file;
pub mod settings;
pub mod shared;
mod survey;
mod table;
mod tally;
mod vault;

use crate::crypto::IvPool;
use crate::pg::BackendCell;

pub use generations::{
    copy_rows, current_generation, delete, ensure_first_generation, key_id_of, lock_table, only_generation, prepare,
    prepare_to_open, refresh, rotate,
};
pub use plaintext_cache::{forget as forget_plaintext, Need};
pub use rewrap::rewrap;
pub use rows::{
    find_or_open_row, keep_row, open_chunk, open_chunk_of_generation, open_key, open_key_again, open_key_of_generation,
    open_row, open_row_again, open_row_of_generation, seal_chunk, seal_key, seal_row, OpenError, Opened,
};
pub use survey::{survey, Survey};
pub use table::is_key_table;

/// What this backend holds of the keys.
struct Backend {
    ring: ring::Ring,
    ciphers: cache::CipherCache,
    ivs: IvPool,
}

/// No reference into it lives across a call of PostgreSQL that may process invalidations or raise.
static BACKEND: BackendCell<Backend> =
    BackendCell::new(Backend { ring: ring::Ring::new(), ciphers: cache::CipherCache::new(), ivs: IvPool::new() });

/// What `_PG_init` does for the keys.
pub fn register() {
    load::register();
    counts::register();
}
