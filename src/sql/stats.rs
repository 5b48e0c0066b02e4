//! The functions behind `vault_tde.stat_relations`.

use crate::pg::fmgr::{put_row, Call};
use crate::pg::{sys, Datum, Oid};
use crate::pg_function;
use crate::stats::{self, Counts};

/// A time, NULL for never.
fn time(time: i64) -> (Datum, bool) {
    (time as Datum, time == 0)
}

unsafe fn put_relations(call: Call) {
    stats::rows(|row| {
        let Counts { encrypted, decrypted, failures, last_failure } = row.counts;
        let ((last, never), (reset, unknown)) = (time(last_failure), time(row.reset));
        let values =
            &mut [row.name.relation as Datum, encrypted as Datum, decrypted as Datum, failures as Datum, last, reset];
        // SAFETY: the result has these columns.
        unsafe { put_row(call.0, values, &mut [false, false, false, false, never, unknown]) };
    });
}

unsafe fn info_row(call: Call) -> Datum {
    let Some(info) = stats::info() else { return call.null() };
    let Counts { encrypted, decrypted, failures, .. } = info.others;
    let values = &mut [
        info.entries as Datum,
        info.capacity as Datum,
        info.dealloc as Datum,
        encrypted as Datum,
        decrypted as Datum,
        failures as Datum,
        info.reset as Datum,
    ];
    // SAFETY: the function returns a row of these columns.
    unsafe {
        let mut desc = core::ptr::null_mut();
        sys::get_call_result_type(call.0, core::ptr::null_mut(), &mut desc);
        let tuple = sys::heap_form_tuple(sys::BlessTupleDesc(desc), values.as_mut_ptr(), [false; 7].as_mut_ptr());
        sys::HeapTupleHeaderGetDatum((*tuple).t_data)
    }
}

pg_function! {
    /// `vault_tde.relation_counters()`: the counters of this database's relations.
    fn vault_tde_relation_counters[pg_finfo_vault_tde_relation_counters](call) {
        // SAFETY: fcinfo of a set-returning function.
        unsafe {
            sys::InitMaterializedSRF(call.0, 0);
            put_relations(call);
        }
        0
    }

    /// `vault_tde.counters_info()`: how full the table of counters is.
    fn vault_tde_counters_info[pg_finfo_vault_tde_counters_info](call) {
        // SAFETY: a function that returns a row.
        unsafe { info_row(call) }
    }

    /// `vault_tde.stat_reset() returns void`
    fn vault_tde_stat_reset[pg_finfo_vault_tde_stat_reset](_call) {
        stats::reset(None);
        0
    }

    /// `vault_tde.stat_reset(regclass) returns void`
    fn vault_tde_stat_reset_relation[pg_finfo_vault_tde_stat_reset_relation](call) {
        stats::reset(Some(call.datum(0) as Oid));
        0
    }
}
