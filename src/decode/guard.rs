//! Nobody decodes an encrypted table without us.
//!
//! Another output plugin sees rows without a single column, and would send NULLs for all of them. There is no hook where
//! a plugin is called. But a decoder opens each table that it reads a change of, and when the relation cache builds the
//! table's entry, our table access method's handler runs: there [`check`] raises an ERROR when what is being decoded is
//! not decoded by us. An entry must then not have been built before. The three ways in which it might have been:
//!
//! - In a session that calls the SQL functions: these empty the caches before they decode. What stays is a table that
//!   the running query itself holds open. It is rebuilt, outside the historic snapshot; [`at_invalidation`] is called right
//!   afterwards, and raises the ERROR.
//! - On a walsender that has run SQL before START_REPLICATION, as each table synchronisation does: the caches are emptied
//!   at the end of a transaction that has built an entry ([`at_transaction_end`]).
//! - On a walsender that has decoded with us, until an ERROR, and goes on with another plugin: the caches are emptied at
//!   the end of our session ([`session_ends`]).

use core::ffi::{c_char, c_void, CStr};
use core::ptr;

use super::session;
use crate::pg::error::{Report, OBJECT_NOT_IN_PREREQUISITE_STATE};
use crate::pg::fmgr::str_of;
use crate::pg::{sys, tuple, BackendCell, Datum, Oid, INVALID_OID};
use crate::pg_callback;

/// A walsender has built an entry of an encrypted table outside decoding, or must not trust those it has.
static STALE: BackendCell<bool> = BackendCell::new(false);
/// An entry was built while a slot was in use, but outside decoding.
static REBUILT: BackendCell<bool> = BackendCell::new(false);
/// The ERROR about that was raised; the clean-up after it must not raise it again.
static RAISED: BackendCell<bool> = BackendCell::new(false);

/// Called once, by `_PG_init`.
pub fn register() {
    // SAFETY: called in the postmaster, so that all backends have the callbacks.
    unsafe {
        sys::CacheRegisterRelcacheCallback(Some(at_invalidation), 0);
        sys::RegisterResourceReleaseCallback(Some(at_transaction_end), ptr::null_mut());
    }
}

/// Called by the access method's handler, that is when the relation cache builds the entry of an encrypted table.
pub fn check() {
    // SAFETY: plain variables of the backend.
    unsafe {
        if !sys::HistoricSnapshotActive() {
            if sys::am_walsender {
                STALE.set(true);
            }
            if !sys::MyReplicationSlot.is_null() {
                REBUILT.set(true);
            }
        } else if !sys::MyReplicationSlot.is_null() && !session::is_ours(sys::MyReplicationSlot) {
            // the search for the table's name leaves things in the caches that would mislead the next one
            STALE.set(true);
            raise(table_being_opened());
        }
    }
}

/// A session of ours ends on its slot, whether well or by an ERROR.
pub fn session_ends() {
    // SAFETY: only marks or drops cache entries.
    unsafe {
        if sys::am_walsender {
            sys::InvalidateSystemCaches();
        }
    }
}

pg_callback! {
    /// Also called, without a relation, whenever all caches are emptied.
    fn at_invalidation(_arg: Datum, relation: Oid) {
        if relation != INVALID_OID || !REBUILT.get() {
            return;
        }
        REBUILT.set(false);
        // SAFETY: plain variables of the backend; a slot in use stays in place.
        unsafe {
            let slot = sys::MyReplicationSlot;
            if slot.is_null() || (*slot).data.database == INVALID_OID || RAISED.get() || session::is_ours(slot) {
                return;
            }
            if CStr::from_ptr(plugin_of(slot)) != c"pg_vault_tde" && !is_our_library(plugin_of(slot)) {
                RAISED.set(true);
                raise_held();
            }
        }
    }

    /// After all else has been done at the end of a transaction, so that the entries of new tables go as well.
    fn at_transaction_end(phase: sys::ResourceReleasePhase, _commit: bool, top_level: bool, _arg: *mut c_void) {
        if phase != sys::RESOURCE_RELEASE_AFTER_LOCKS || !top_level {
            return;
        }
        REBUILT.set(false);
        RAISED.set(false);
        // SAFETY: only marks or drops cache entries.
        unsafe {
            if STALE.get() && sys::am_walsender {
                sys::InvalidateSystemCaches();
            }
        }
        STALE.set(false);
    }
}

unsafe fn plugin_of(slot: *const sys::ReplicationSlot) -> *const c_char {
    // SAFETY: the caller's slot is in use by this backend.
    unsafe { (&raw const (*slot).data.plugin.data).cast() }
}

/// Whether the name leads to us by `dynamic_library_path`.
unsafe fn is_our_library(plugin: *const c_char) -> bool {
    // SAFETY: the server loads the same library for the same slot.
    unsafe {
        let init = sys::load_external_function(plugin, c"_PG_output_plugin_init".as_ptr(), false, ptr::null_mut());
        let ours: unsafe extern "C-unwind" fn(*mut sys::OutputPluginCallbacks) = crate::_PG_output_plugin_init;
        ptr::eq(init.cast_const(), ours as *const c_void)
    }
}

/// The table whose entry is being built: schema and name, quoted; null if it cannot be told. The handler is not told, but
/// the decoder has just looked the table up by its file, and `RelidByRelfilenumber()` remembers that: for this one among
/// the encrypted tables it answers without reading anything. (For TRUNCATE there was no such look-up.)
unsafe fn table_being_opened() -> *const c_char {
    // SAFETY: a transaction and a historic snapshot are there, under which catalogs can be read; what is opened here is
    // closed here, or by the transaction's end after an ERROR.
    unsafe {
        let access_method = sys::get_table_am_oid(c"encrypted_heap".as_ptr(), true);
        let lock = sys::AccessShareLock as sys::LOCKMODE;
        let catalog = sys::table_open(sys::RelationRelationId, lock);
        let mut key: sys::ScanKeyData = core::mem::zeroed();
        sys::ScanKeyInit(
            &mut key,
            sys::Anum_pg_class_relam as sys::AttrNumber,
            sys::BTEqualStrategyNumber as sys::StrategyNumber,
            sys::F_OIDEQ,
            access_method as Datum,
        );
        let scan = sys::systable_beginscan(catalog, INVALID_OID, false, ptr::null_mut(), 1, &mut key);
        let mut name: *const c_char = ptr::null();
        while name.is_null() {
            let row = sys::systable_getnext(scan);
            if row.is_null() {
                break;
            }
            let class: sys::Form_pg_class = tuple::body(row);
            if (*class).relfilenode != INVALID_OID && is_remembered((*class).reltablespace, (*class).relfilenode) {
                let schema = sys::get_namespace_name((*class).relnamespace);
                name = sys::quote_qualified_identifier(schema, (&raw const (*class).relname.data).cast());
            }
        }
        sys::systable_endscan(scan);
        sys::table_close(catalog, lock);
        name
    }
}

/// Whether the table of a file has been looked up before.
unsafe fn is_remembered(tablespace: Oid, file: sys::RelFileNumber) -> bool {
    // SAFETY: as for `table_being_opened`; the counters are plain variables of the backend.
    unsafe {
        let read = || sys::pgBufferUsage.shared_blks_hit + sys::pgBufferUsage.shared_blks_read;
        let before = read();
        sys::RelidByRelfilenumber(tablespace, file) != INVALID_OID && read() == before
    }
}

fn remedy(report: Report, plugin: &str) -> ! {
    report
        .hint(format_args!(
            "Use the output plugin \"pg_vault_tde\" with the option plugin = '{plugin}'; or, for subscribers, set \
             dynamic_library_path = '$libdir/pg_vault_tde:$libdir' on this server, reload, and start replication again."
        ))
        .raise()
}

#[cold]
unsafe fn raise(table: *const c_char) -> ! {
    // SAFETY: a slot is in use; the name is NUL-terminated or null.
    unsafe {
        let plugin = str_of(plugin_of(sys::MyReplicationSlot));
        let report = match table.is_null() {
            true => Report::new(
                OBJECT_NOT_IN_PREREQUISITE_STATE,
                format_args!("output plugin \"{plugin}\" cannot decode encrypted tables"),
            ),
            false => Report::new(
                OBJECT_NOT_IN_PREREQUISITE_STATE,
                format_args!("output plugin \"{plugin}\" cannot decode encrypted table {}", str_of(table)),
            ),
        };
        remedy(report.detail(format_args!("It would send NULL for every column.")), plugin)
    }
}

#[cold]
unsafe fn raise_held() -> ! {
    // SAFETY: a slot is in use.
    unsafe {
        let plugin = str_of(plugin_of(sys::MyReplicationSlot));
        let report = Report::new(
            OBJECT_NOT_IN_PREREQUISITE_STATE,
            format_args!("output plugin \"{plugin}\" cannot be used while this session uses an encrypted table"),
        );
        let detail = "It could send NULL for every column of that table, without anybody noticing.";
        remedy(report.detail(format_args!("{detail}")), plugin)
    }
}
