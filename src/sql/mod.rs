//! What SQL sees: the functions of schema `vault_tde` and the configuration parameters.

pub mod guc;
mod encrypted_indexes;
mod indexes;
mod keys;
pub mod plaintext_indexes;
pub mod maintenance;
mod relation;
mod speed;
mod status;
pub mod utility;
