//! Arguments of scan keys. nbtree compares stored keys with them, so they must pass for keys; but they are never stored, and
//! encrypting them, only to decrypt them at each comparison, would be waste. So an argument is a short varlena that points
//! to the plaintext in this backend's memory:
//!
//! ```text
//! | 0 in place of an index OID (4) | this backend's secret (16) | address (8) |
//! ```
//!
//! The secret keeps bytes that come from disk from ever being taken for an address.

use super::column::Column;
use super::search::Search;
use crate::pg::error::INTERNAL_ERROR;
use crate::pg::{sys, varlena, BackendCell, Datum, Oid};
use crate::pg_error;

const SECRET_LEN: usize = 16;
/// Behind the length word.
const LEN: usize = 4 + SECRET_LEN + size_of::<usize>();

/// What an argument points to, in the scan's memory.
pub struct Argument {
    pub value: Datum,
    /// the type of `value`
    pub type_oid: Oid,
    pub column: *mut Column,
    /// what comparisons with it have shown; null if the column is not searched so
    pub search: *mut Search,
}

/// The secret and the process that drew it: a forked child draws its own.
static SECRET: BackendCell<([u8; SECRET_LEN], i32)> = BackendCell::new(([0; SECRET_LEN], 0));

/// Called once, by `_PG_init`: nothing is drawn in the postmaster.
pub fn register() {
    SECRET.set(([0; SECRET_LEN], 0));
}

#[inline]
fn my_pid() -> i32 {
    // SAFETY: a variable that is set once when the process starts.
    unsafe { sys::MyProcPid }
}

fn secret() -> [u8; SECRET_LEN] {
    let (known, pid) = SECRET.get();
    let me = my_pid();
    if pid == me {
        return known;
    }
    let mut drawn = [0; SECRET_LEN];
    // SAFETY: pointer and length of an array.
    if !unsafe { sys::pg_strong_random(drawn.as_mut_ptr().cast(), SECRET_LEN) } {
        pg_error!(INTERNAL_ERROR, "could not generate a random number");
    }
    SECRET.set((drawn, me));
    drawn
}

/// Makes an argument in the current memory context, which must live as long as the scan uses it; so must what `value`
/// points to. `search` is null or in such memory, too.
///
/// # Safety
/// `column` must be a column of an index, `value` of type `type_oid`.
pub unsafe fn make(value: Datum, type_oid: Oid, column: *mut Column, search: *mut Search) -> Datum {
    let secret = secret();
    // SAFETY: palloc gives what is written.
    unsafe {
        let argument: *mut Argument = sys::palloc(size_of::<Argument>()).cast();
        argument.write(Argument { value, type_oid, column, search });
        let datum: *mut u8 = sys::palloc(varlena::HEADER + LEN).cast();
        varlena::set_size(datum, varlena::HEADER + LEN);
        let at = datum.add(varlena::HEADER);
        at.cast::<u32>().write_unaligned(0);
        at.add(4).cast::<[u8; SECRET_LEN]>().write_unaligned(secret);
        at.add(4 + SECRET_LEN).cast::<*mut Argument>().write_unaligned(argument);
        datum as Datum
    }
}

/// The argument, if `stored` is one.
#[inline]
pub fn of(stored: &[u8]) -> Option<*const Argument> {
    let stored: &[u8; LEN] = stored.try_into().ok()?;
    let (zeros, rest) = stored.split_first_chunk::<4>()?;
    let (found, address) = rest.split_first_chunk::<SECRET_LEN>()?;
    let (known, pid) = SECRET.get();
    // arrays, so that there is no call
    if *zeros != [0; 4] || *found != known || pid != my_pid() {
        return None;
    }
    // who knows the secret has written an address
    Some(usize::from_ne_bytes(*address.first_chunk()?) as *const Argument)
}
