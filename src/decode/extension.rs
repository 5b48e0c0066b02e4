//! Is the extension there? A database without it has neither encrypted tables nor their keys, and whoever decodes it
//! through us most likely forgot a step.

use core::ffi::CStr;

use super::session::Session;
use crate::pg::error::UNDEFINED_OBJECT;
use crate::pg::fmgr::str_of;
use crate::pg::{sys, Datum};
use crate::pg_error;

const NAME: &CStr = c"pg_vault_tde";

/// Raises an ERROR unless the extension exists in this database. The slot stays as it is, and works once the extension
/// is created.
///
/// Asked at the first begin, begin-prepare or stream-start of a session: a transaction is open in each of these, and no
/// change comes before one of them. Not asked in the callbacks that may run without a transaction: `startup`, a message
/// that is not transactional, and the end of a transaction that was prepared in an earlier session. None of these sends
/// anything of a row. Not asked either when we are in another plugin's place: a database without the extension is then
/// decoded as ever.
///
/// # Safety
/// A transaction must be open.
pub unsafe fn require(session: Session) {
    if session.extension_seen() || session.in_anothers_place() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !exists() {
            pg_error!(
                UNDEFINED_OBJECT,
                "extension \"pg_vault_tde\" is not installed in database \"{}\"",
                str_of(sys::get_database_name(sys::MyDatabaseId));
                hint: ("Run CREATE EXTENSION pg_vault_tde in that database; the replication slot can be used afterwards.")
            );
        }
    }
    session.extension_is_there();
}

/// Looks `pg_extension` up as it is today, not as it was at the change: a slot older than CREATE EXTENSION would else
/// never get past its first transaction.
unsafe fn exists() -> bool {
    // SAFETY: a transaction is open; what is opened here is closed here, or by the transaction's end after an ERROR.
    // Core points a catalog's relcache entry to its current file also while a historic snapshot is active.
    unsafe {
        let lock = sys::AccessShareLock as sys::LOCKMODE;
        let catalog = sys::table_open(sys::ExtensionRelationId, lock);
        let snapshot = sys::RegisterSnapshot(sys::GetNonHistoricCatalogSnapshot(sys::ExtensionRelationId));
        let mut key: sys::ScanKeyData = core::mem::zeroed();
        sys::ScanKeyInit(
            &mut key,
            sys::Anum_pg_extension_extname as sys::AttrNumber,
            sys::BTEqualStrategyNumber as sys::StrategyNumber,
            sys::F_NAMEEQ,
            NAME.as_ptr().expose_provenance() as Datum,
        );
        let scan = sys::systable_beginscan(catalog, sys::ExtensionNameIndexId, true, snapshot, 1, &mut key);
        let found = !sys::systable_getnext(scan).is_null();
        sys::systable_endscan(scan);
        sys::UnregisterSnapshot(snapshot);
        sys::table_close(catalog, lock);
        found
    }
}
