//! Random IVs, drawn many at a time because the operating system's generator costs more than
//! encrypting a row.
//!
//! A batch belongs to the process that drew it. A forked child inherits a copy of its parent's
//! memory, unused IVs included, and two processes that encrypt under the same key with the same IV
//! break GCM. So the caller says which process it is, and a batch of another process is thrown
//! away.

use super::cipher::{Iv, IV_LEN};

/// IVs in a batch.
pub const BATCH: usize = 256;

/// Why there is no IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IvError {
    /// The source of random bytes failed.
    RandomSource,
}

/// A batch of unused random IVs. 3 KiB; made to be a static of a single-threaded process.
pub struct IvPool {
    batch: [Iv; BATCH],
    /// IVs handed out of the batch; `BATCH` when it is empty.
    used: usize,
    /// The process that drew the batch.
    pid: i32,
}

impl IvPool {
    /// An empty pool.
    pub const fn new() -> IvPool {
        IvPool { batch: [[0; IV_LEN]; BATCH], used: BATCH, pid: 0 }
    }

    /// Hands out an IV that was never handed out before, and forgets it.
    ///
    /// `pid` is the calling process (`MyProcPid`). `fill` fills its argument with random bytes and
    /// says whether it could (`pg_strong_random`); it is called once in [`BATCH`] calls. Errors:
    /// [`IvError::RandomSource`] when `fill` says no; the next call then asks it again.
    #[inline]
    pub fn next(&mut self, pid: i32, fill: impl FnOnce(&mut [u8]) -> bool) -> Result<Iv, IvError> {
        if self.pid != pid || self.used >= BATCH {
            self.refill(pid, fill)?;
        }
        let next = self.batch.get_mut(self.used).ok_or(IvError::RandomSource)?;
        self.used += 1;
        Ok(std::mem::replace(next, [0; IV_LEN]))
    }

    /// Draws a new batch for `pid`. Until `fill` has succeeded the pool counts as empty.
    #[cold]
    fn refill(&mut self, pid: i32, fill: impl FnOnce(&mut [u8]) -> bool) -> Result<(), IvError> {
        self.used = BATCH;
        if !fill(self.batch.as_flattened_mut()) {
            return Err(IvError::RandomSource);
        }
        self.used = 0;
        self.pid = pid;
        Ok(())
    }
}

impl Default for IvPool {
    fn default() -> IvPool {
        IvPool::new()
    }
}
