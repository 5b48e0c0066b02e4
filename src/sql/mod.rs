//! What SQL sees: the functions of schema `vault_tde` and the configuration parameters.

mod encrypted_indexes;
pub mod guc;
mod indexes;
mod keys;
pub mod maintenance;
pub mod plaintext_indexes;
mod relation;
mod speed;
mod stats;
mod status;
pub mod utility;
