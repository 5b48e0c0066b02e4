//! Plaintext of values that a build's sort has in memory: for types that are not passed by value, the word that stands
//! for a key is the address of a copy here. Emptied when the sort has written what it had to a temporary file.

use core::ptr;

use crate::pg::memory::cleanse;
use crate::pg::tuple::maxalign;
use crate::pg::{sys, BackendCell};

const BLOCK: usize = 1 << 20;
const HEAD: usize = maxalign(size_of::<Block>());

struct Block {
    next: *mut Block,
    /// the arena that it belongs to
    owner: usize,
    capacity: usize,
    used: usize,
}

/// All blocks of this backend, in TopMemoryContext.
static BLOCKS: BackendCell<*mut Block> = BackendCell::new(ptr::null_mut());

/// The values of one sort: a build of a unique index has two.
pub struct Arena {
    /// the block that is being filled
    block: *mut Block,
}

impl Arena {
    pub const fn new() -> Arena {
        Arena { block: ptr::null_mut() }
    }

    /// `len` bytes, MAXALIGNed, that stay until [`Arena::release`]. May raise an ERROR when out of memory.
    ///
    /// # Safety
    /// The arena must not have moved since the first call.
    #[inline]
    pub unsafe fn reserve(&mut self, len: usize) -> *mut u8 {
        let need = maxalign(len);
        // SAFETY: a block's data lie behind its head, up to its capacity.
        unsafe {
            if self.block.is_null() || (*self.block).capacity - (*self.block).used < need {
                self.block = add(need, ptr::from_mut(self) as usize);
            }
            let to = self.block.cast::<u8>().add(HEAD + (*self.block).used);
            (*self.block).used += need;
            to
        }
    }

    /// Cleanses and frees what was copied.
    pub fn release(&mut self) {
        let me = ptr::from_mut(self) as usize;
        self.block = ptr::null_mut();
        free(|owner| owner == me);
    }
}

/// Cleanses and frees what builds that have failed have left.
pub fn release_all() {
    free(|_| true);
}

#[cold]
unsafe fn add(need: usize, owner: usize) -> *mut Block {
    let capacity = need.max(BLOCK - HEAD);
    // SAFETY: TopMemoryContext lives as long as the backend.
    unsafe {
        let block: *mut Block = sys::MemoryContextAllocHuge(sys::TopMemoryContext, HEAD + capacity).cast();
        block.write(Block { next: BLOCKS.get(), owner, capacity, used: 0 });
        BLOCKS.set(block);
        block
    }
}

fn free(which: impl Fn(usize) -> bool) {
    let mut block = BLOCKS.get();
    let mut kept = ptr::null_mut();
    while !block.is_null() {
        // SAFETY: made by `add`; the list has no other owner.
        unsafe {
            let next = (*block).next;
            if which((*block).owner) {
                cleanse(block.cast(), HEAD + (*block).used);
                sys::pfree(block.cast());
            } else {
                (*block).next = kept;
                kept = block;
            }
            block = next;
        }
    }
    BLOCKS.set(kept);
}
