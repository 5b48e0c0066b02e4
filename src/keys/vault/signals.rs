//! Signals while the HTTP client works, and what they have to say in between.

use core::mem::MaybeUninit;
use std::time::{Duration, Instant};

use crate::pg::{sys, BackendCell};

/// Signals that a program gets for its own faults; blocked, they would end the process.
const NEVER: [i32; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGCONT,
];

/// While it lives no signal handler runs in this thread, nor in one that a library may start.
pub struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub fn new() -> SignalsBlocked {
        let mut blocked = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: sigfillset initialises `blocked`, pthread_sigmask `before`; neither fails with these arguments.
        unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in NEVER {
                libc::sigdelset(blocked.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
            SignalsBlocked(before.assume_init())
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the mask that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, core::ptr::null_mut()) };
    }
}

/// Whether the statement or the session is to end. Signal handlers only set these flags; who calls us acts on them.
pub fn canceled() -> bool {
    // SAFETY: plain variables that signal handlers set.
    unsafe {
        (&raw const sys::QueryCancelPending).read_volatile() != 0
            || (&raw const sys::ProcDiePending).read_volatile() != 0
    }
}

/// Sleeps, but not on when the statement is to end. Returns whether it is.
pub fn pause(time: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(20);
    let end = Instant::now() + time;
    while !canceled() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(STEP));
    }
    true
}

/// The number of our wait event, once this process knows it.
static WAIT_EVENT: BackendCell<u32> = BackendCell::new(0);

/// Makes the wait event known to this process. May raise an ERROR, so it is done before a provider is called.
pub fn prepare_wait_event() {
    if WAIT_EVENT.get() == 0 {
        // SAFETY: in a backend; the name is a literal.
        WAIT_EVENT.set(unsafe { sys::WaitEventExtensionNew(c"PgVaultTdeKeyServer".as_ptr()) });
    }
}

/// While it lives `pg_stat_activity` shows that this process waits for the key server.
pub struct Waiting(());

impl Waiting {
    pub fn new() -> Waiting {
        report_wait(WAIT_EVENT.get());
        Waiting(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        report_wait(0);
    }
}

/// `pgstat_report_wait_start()`
fn report_wait(event: u32) {
    // SAFETY: the pointer is valid from the start of the process on.
    unsafe { sys::my_wait_event_info.write_volatile(event) }
}
