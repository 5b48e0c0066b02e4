//! What SQL sees: the functions of schema `vault_tde` and the configuration parameters.

mod adopted_indexes;
mod encrypted_indexes;
mod exchanged_indexes;
pub mod guc;
mod index_catalogs;
mod indexes;
mod keys;
pub mod maintenance;
mod moved_indexes;
pub mod plaintext_indexes;
mod relation;
pub mod reused_indexes;
mod speed;
mod stats;
mod status;
mod subcommands;
pub mod utility;
