//! PG_FINALLY for Rust: clean up after an ERROR on its way through.

use core::ffi::c_void;

use super::error::fence;
use super::sys;

struct Bodies<B, C> {
    body: Option<B>,
    cleanup: Option<C>,
}

unsafe extern "C-unwind" fn run_body<B: FnOnce(), C>(arg: *mut c_void) {
    // SAFETY: `arg` is the Bodies that the caller below keeps on its stack for the whole call.
    let bodies = unsafe { &mut *arg.cast::<Bodies<B, C>>() };
    if let Some(body) = bodies.body.take() {
        fence(body);
    }
}

unsafe extern "C-unwind" fn run_cleanup<B, C: FnOnce()>(arg: *mut c_void) {
    // SAFETY: as in run_body; the body has ended when this runs.
    let bodies = unsafe { &mut *arg.cast::<Bodies<B, C>>() };
    if let Some(cleanup) = bodies.cleanup.take() {
        fence(cleanup);
    }
}

/// Runs `body`, then `cleanup`, also when the body raised an ERROR, which then goes on (`PG_FINALLY`). Both closures
/// may capture only plain values: their frames may be jumped over.
pub fn finally<B: FnOnce(), C: FnOnce()>(body: B, cleanup: C) {
    let mut bodies = Bodies { body: Some(body), cleanup: Some(cleanup) };
    let arg = (&raw mut bodies).cast();
    // SAFETY: the trampolines fence panics, and `bodies` outlives the call.
    unsafe { sys::pgv_finally(Some(run_body::<B, C>), Some(run_cleanup::<B, C>), arg) };
}
