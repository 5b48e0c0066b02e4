//! PostgreSQL as Rust sees it: the bindings, the error guard, memory contexts, fmgr, and all differences between majors.
//! Nothing in here knows the rooms above (keys, heap, decode, sql).

mod cell;
pub mod error;
pub mod fmgr;
pub mod guard;
pub mod hidden;
pub mod majors;
pub mod memory;
pub mod page;
pub mod rel;
pub mod shadow;
pub mod shmem;
pub mod sizes;
pub mod spi;
pub mod tuple;
pub mod varlena;

/// The server's own items, as bindgen found them in its headers (see `bindings.txt`).
#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    unsafe_op_in_unsafe_fn,
    improper_ctypes,
    unknown_lints,
    unnecessary_transmutes,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
pub mod sys {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use cell::BackendCell;
pub use sys::{Datum, Oid};

/// `InvalidOid`
pub const INVALID_OID: Oid = 0;

/// heapam's callback table.
#[inline]
pub fn heapam() -> &'static sys::TableAmRoutine {
    // SAFETY: a constant of the server.
    unsafe { &*sys::GetHeapamTableAmRoutine() }
}

/// `CHECK_FOR_INTERRUPTS()`: may raise an ERROR, so nothing that needs dropping may be live in the caller.
#[inline]
pub fn check_for_interrupts() {
    // SAFETY: reads a flag that signal handlers set; the shim does the rest.
    unsafe {
        if core::ptr::addr_of!(sys::InterruptPending).read_volatile() != 0 {
            sys::pgv_check_for_interrupts();
        }
    }
}
