//! `vault_tde.cipher_speed(payload int)`: what encryption costs on this machine.

use core::mem::MaybeUninit;
use core::ptr;
use std::time::{Duration, Instant};

use crate::crypto::row::{self, DATA_OFFSET, HOFF_OFFSET};
use crate::crypto::{Cipher, IvPool};
use crate::keys::provider;
use crate::pg::error::{Report, INTERNAL_ERROR, INVALID_PARAMETER_VALUE};
use crate::pg::{check_for_interrupts, guard, sys, Datum};
use crate::{pg_error, pg_function};

/// Largest payload that is measured: more than fits a page, so that chunks of out-of-line values can be judged, too.
const PAYLOAD_MAX: i32 = 65536;
/// How long each direction is measured for.
const TIME: Duration = Duration::from_millis(100);
/// Rows between two looks at the clock.
const BATCH: u32 = 64;

pg_function! {
    /// Nanoseconds that one row of `payload` bytes takes, by the code that tables use, under a key made for this call.
    fn vault_tde_cipher_speed[pg_finfo_vault_tde_cipher_speed](call) {
        let payload = call.int32(0);
        if !(0..=PAYLOAD_MAX).contains(&payload) {
            pg_error!(INVALID_PARAMETER_VALUE, "payload must be between 0 and {PAYLOAD_MAX} bytes");
        }
        // SAFETY: fcinfo of a set-returning function with two float8 columns.
        unsafe {
            let (encrypt, decrypt) = measure(payload as usize);
            sys::InitMaterializedSRF(call.0, 0);
            let mut values = [encrypt.to_bits() as Datum, decrypt.to_bits() as Datum];
            crate::pg::fmgr::put_row(call.0, &mut values, &mut [false; 2]);
        }
        0
    }
}

/// A row to seal and open again and again.
struct Bench {
    cipher: Cipher,
    ivs: IvPool,
    plain: Vec<u8>,
    stored: Vec<MaybeUninit<u8>>,
    out: Vec<MaybeUninit<u8>>,
}

/// Measures both directions. The bench is a raw pointer here, since interrupts may raise an ERROR.
fn measure(payload: usize) -> (f64, f64) {
    let bench = match Bench::new(payload) {
        Some(bench) => Box::into_raw(Box::new(bench)),
        None => pg_error!(INTERNAL_ERROR, "OpenSSL could not make a cipher"),
    };
    let mut result = (0.0, 0.0);
    let out = &raw mut result;
    guard::finally(
        move || {
            // SAFETY: the bench lives until the clean-up, `result` until the end of this function.
            unsafe { *out = (time(|| (*bench).seal()), time(|| (*bench).open())) }
        },
        // SAFETY: made by Box::into_raw above, and not used any more.
        move || drop(unsafe { Box::from_raw(bench) }),
    );
    result
}

/// Nanoseconds that one call of `step` takes on average.
fn time(mut step: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    let mut rows: u64 = 0;
    loop {
        for _ in 0..BATCH {
            if !step() {
                Report::new(INTERNAL_ERROR, format_args!("OpenSSL could not encrypt or decrypt a row")).raise();
            }
        }
        rows += u64::from(BATCH);
        let elapsed = start.elapsed();
        if elapsed >= TIME {
            return elapsed.as_nanos() as f64 / rows as f64;
        }
        check_for_interrupts();
    }
}

impl Bench {
    fn new(payload: usize) -> Option<Bench> {
        let key = provider::random_key().ok()?;
        let mut plain = vec![0; DATA_OFFSET + payload];
        plain[HOFF_OFFSET] = DATA_OFFSET as u8;
        let stored = vec![MaybeUninit::uninit(); row::stored_len(plain.len())];
        let out = vec![MaybeUninit::uninit(); plain.len()];
        Some(Bench { cipher: Cipher::new(&key).ok()?, ivs: IvPool::new(), plain, stored, out })
    }

    fn seal(&mut self) -> bool {
        // SAFETY: a variable that is set once when the process starts.
        let pid = unsafe { sys::MyProcPid };
        let Ok(iv) = self.ivs.next(pid, |bytes| provider::random(bytes).is_ok()) else {
            return false;
        };
        row::seal(&mut self.cipher, &iv, 1, false, &self.plain, &mut self.stored).is_ok()
    }

    /// Opens what `seal` has made.
    fn open(&mut self) -> bool {
        // SAFETY: seal has initialised all of it.
        let stored = unsafe { &*(ptr::from_ref(self.stored.as_slice()) as *const [u8]) };
        row::open(&mut self.cipher, stored, &mut self.out).is_ok()
    }
}
