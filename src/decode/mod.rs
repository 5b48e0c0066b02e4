//! The output plugin `pg_vault_tde`: what a decoder reads from WAL is ciphertext, and here each change is decrypted
//! just before it is sent.
//!
//! | file           | what it does                                                        | when it runs      |
//! |----------------|---------------------------------------------------------------------|-------------------|
//! | `callbacks.rs` | every function that logical decoding calls                          | always            |
//! | `session.rs`   | what a session keeps, and the memory context of one callback        | every callback    |
//! | `txn.rs`       | a transaction as core presents it                                   | every callback    |
//! | `inner.rs`     | which plugin formats the changes: pgoutput, ..., or one of our own   | once a session    |
//! | `options.rs`   | the options of our own formats                                      | once a session    |
//! | `tables.rs`    | which tables they ask for, by `patterns.rs`                         | every change      |
//! | `extension.rs` | is the extension there in this database?                            | first transaction |
//! | `swap.rs`      | plaintext tuples in place of the stored ones while a change is sent | encrypted changes |
//! | `identity.rs`  | the old row cut down to what heap would have logged                 | UPDATE, DELETE    |
//! | `values.rs`    | messages that carry out-of-line values                              | messages          |
//! | `origin.rs`    | the replication origin of a stream that begins with our messages    | streams           |
//! | `format/`      | when a line is due, if there is no inner plugin                     | every callback    |
//! | `text/`        | test_decoding's output format, byte for byte                        | every line sent   |
//! | `json/`        | a JSON object for each change                                       | every line sent   |
//! | `out.rs`       | the line being written                                              | every line sent   |
//! | `guard.rs`     | no encrypted table is decoded by a plugin that is not ours          | relcache builds   |
//!
//! **Memory.** A callback allocates in the session's one scratch context, which is reset when the callback starts (an
//! ERROR may have skipped the reset that was due) and when it ends. So a decoder's memory stays flat however many
//! changes it sends. The reorder buffer's own tuples are never changed or freed.
//!
//! **Snapshots.** Catalog look-ups in here see the historic catalog of the change, which is what naming and reading its
//! columns calls for. What must be seen as it is today (the extension, wrapped keys) is read under an explicit
//! snapshot.

mod callbacks;
mod extension;
mod format;
pub mod guard;
mod identity;
pub mod inner;
mod json;
mod options;
mod origin;
mod out;
mod patterns;
mod session;
mod swap;
mod tables;
mod text;
mod txn;
mod values;

use crate::pg::sys;

/// Fills the table of callbacks; called once for each decoding session, before `startup`.
///
/// # Safety
/// `table` must be the table that logical decoding passes to `_PG_output_plugin_init`.
pub unsafe fn init(table: *mut sys::OutputPluginCallbacks) {
    // SAFETY: the caller's promise; every member is set, so nothing of the table's former content stays.
    unsafe {
        *table = sys::OutputPluginCallbacks {
            startup_cb: Some(callbacks::startup),
            begin_cb: Some(callbacks::begin),
            change_cb: Some(callbacks::change),
            truncate_cb: Some(callbacks::truncate),
            commit_cb: Some(callbacks::commit),
            message_cb: Some(callbacks::message),
            filter_by_origin_cb: Some(callbacks::filter_by_origin),
            shutdown_cb: Some(callbacks::shutdown),

            filter_prepare_cb: Some(callbacks::filter_prepare),
            begin_prepare_cb: Some(callbacks::begin_prepare),
            prepare_cb: Some(callbacks::prepare),
            commit_prepared_cb: Some(callbacks::commit_prepared),
            rollback_prepared_cb: Some(callbacks::rollback_prepared),

            stream_start_cb: Some(callbacks::stream_start),
            stream_stop_cb: Some(callbacks::stream_stop),
            stream_abort_cb: Some(callbacks::stream_abort),
            stream_prepare_cb: Some(callbacks::stream_prepare),
            stream_commit_cb: Some(callbacks::stream_commit),
            stream_change_cb: Some(callbacks::stream_change),
            stream_message_cb: Some(callbacks::stream_message),
            stream_truncate_cb: Some(callbacks::stream_truncate),
        };
    }
}
