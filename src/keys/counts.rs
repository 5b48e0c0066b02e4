//! When a transaction ends, what it has counted beside its ciphers goes to the statistics.

use super::tally::Tally;
use super::BACKEND;
use crate::pg::sys;
use crate::pg_callback;
use crate::stats::{self, Counts};

/// Called once, by `_PG_init`; backends inherit the registration.
pub fn register() {
    // SAFETY: the callback takes the arguments that xact.c passes, and raises nothing.
    unsafe { sys::RegisterXactCallback(Some(at_xact_event), core::ptr::null_mut()) }
}

pg_callback! {
    fn at_xact_event(event: sys::XactEvent, _arg: *mut core::ffi::c_void) {
        let is_end = matches!(
            event,
            sys::XACT_EVENT_COMMIT
                | sys::XACT_EVENT_PREPARE
                | sys::XACT_EVENT_ABORT
                | sys::XACT_EVENT_PARALLEL_COMMIT
                | sys::XACT_EVENT_PARALLEL_ABORT
        );
        if is_end {
            give();
            stats::at_transaction_end(event == sys::XACT_EVENT_COMMIT);
        }
    }
}

fn give() {
    // SAFETY: nothing in here comes back to the backend's state.
    let ciphers = unsafe { &mut (*BACKEND.as_ptr()).ciphers };
    if ciphers.has_counts() {
        stats::add(|take| ciphers.give_counts(|oid, tally| take(oid, &counts(tally))));
    }
}

fn counts(tally: &Tally) -> Counts {
    Counts { encrypted: tally.sealed.get(), decrypted: tally.opened.get(), ..Counts::default() }
}
