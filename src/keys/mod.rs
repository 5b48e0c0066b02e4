//! stub
use crate::pg::{Oid, BackendCell, sys};
use crate::crypto::{self, Cipher, IvPool};
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError { NotEncrypted, UnknownGeneration(u8), Authentication }
static C: BackendCell<Option<Cipher>> = BackendCell::new(None);
static P: BackendCell<IvPool> = BackendCell::new(IvPool::new());
fn c() -> &'static mut Cipher { unsafe { (*C.as_ptr()).get_or_insert_with(|| Cipher::new(&[7;32]).unwrap()) } }
pub unsafe fn open_row(_oid: Oid, stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    let n = crypto::row::plain_len(stored.len()).ok_or(OpenError::NotEncrypted)?;
    crypto::row::open(c(), stored, unsafe{core::slice::from_raw_parts_mut(out.cast(), n)}).map_err(|e| match e {crypto::RowError::NotEncrypted=>OpenError::NotEncrypted,_=>OpenError::Authentication})?;
    Ok(n)
}
pub unsafe fn seal_row(_oid: Oid, ext: bool, plain: &[u8], out: *mut u8) {
    let iv = unsafe { (*P.as_ptr()).next(sys::MyProcPid, |b| sys::pg_strong_random(b.as_mut_ptr().cast(), b.len())).unwrap() };
    crypto::row::seal(c(), &iv, 1, ext, plain, unsafe{core::slice::from_raw_parts_mut(out.cast(), crypto::row::stored_len(plain.len()))}).unwrap()
}
pub fn ensure_first_generation() {}

pub unsafe fn seal_chunk(_oid: Oid, at: (u32,u32), plain: &[u8], out: *mut u8) {
    let iv = unsafe { (*P.as_ptr()).next(sys::MyProcPid, |b| sys::pg_strong_random(b.as_mut_ptr().cast(), b.len())).unwrap() };
    crypto::chunk::seal(c(), &iv, 1, at, plain, unsafe{core::slice::from_raw_parts_mut(out.cast(), plain.len()+crypto::chunk::CHUNK_OVERHEAD)}).unwrap()
}
pub unsafe fn open_chunk(_oid: Oid, at:(u32,u32), stored: &[u8], out: *mut u8) -> Result<usize, OpenError> {
    let n = crypto::chunk::plain_len(stored.len()).ok_or(OpenError::NotEncrypted)?;
    crypto::chunk::open(c(), at, stored, unsafe{core::slice::from_raw_parts_mut(out.cast(), n)}).map_err(|_| OpenError::Authentication)?;
    Ok(n)
}
