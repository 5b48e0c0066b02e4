//! Counting what is sealed and opened, beside the cipher that does it: one addition a row. (`counts.rs` hands the counts over.)

/// A count that says when it is no longer zero. It is kept less one, so that the first addition carries over and no
/// comparison is needed for it.
#[derive(Clone, Copy)]
pub struct Counter(u64);

impl Counter {
    pub const ZERO: Counter = Counter(u64::MAX);

    /// Adds one. Returns whether the count was zero.
    #[inline]
    pub fn add_one(&mut self) -> bool {
        let (now, was_zero) = self.0.overflowing_add(1);
        self.0 = now;
        was_zero
    }

    pub fn get(self) -> u64 {
        self.0.wrapping_add(1)
    }
}

/// What was done with the rows, chunks or keys of a relation.
#[derive(Clone, Copy)]
pub struct Tally {
    pub sealed: Counter,
    pub opened: Counter,
}

impl Tally {
    pub const ZERO: Tally = Tally { sealed: Counter::ZERO, opened: Counter::ZERO };

    pub fn is_zero(&self) -> bool {
        self.sealed.get() == 0 && self.opened.get() == 0
    }
}
