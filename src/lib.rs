//! pg_vault_tde: encrypted tables on unpatched PostgreSQL, and the output plugin that decodes them.
//! This file holds the library's doors and nothing else.

mod crypto;
mod heap;
mod keys;
mod pg;
