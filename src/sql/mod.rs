//! What SQL sees: the functions of schema `vault_tde` and the configuration parameters.

pub mod guc;
mod indexes;
mod keys;
mod relation;
mod speed;
mod status;
pub mod utility;
