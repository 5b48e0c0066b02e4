//! The table of counters: entries by database and relation, found by hashing. It is plain memory without a PostgreSQL call.
//!
//! Counters are atomic, so who finds an entry adds to it under a shared lock. The exclusive lock is for making and removing
//! entries. When all entries are in use, one that was not used lately makes room (the clock sweep of bufmgr.c), and what it
//! had counted is kept in a sum.

use core::mem::size_of;
use core::ptr;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::pg::Oid;

/// A relation, or everything of a database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    pub database: Oid,
    pub relation: Oid,
}

impl Name {
    fn hash(self) -> u64 {
        let both = u64::from(self.database) << 32 | u64::from(self.relation);
        both.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }
}

/// Counts to add, or as they were read.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub encrypted: u64,
    pub decrypted: u64,
    /// Stored forms that did not authenticate.
    pub failures: u64,
    /// When that last happened; 0 for never. Times are those of PostgreSQL, microseconds.
    pub last_failure: i64,
}

#[derive(Default)]
struct Counters {
    encrypted: AtomicU64,
    decrypted: AtomicU64,
    failures: AtomicU64,
    last_failure: AtomicI64,
}

impl Counters {
    fn add(&self, counts: &Counts) {
        self.encrypted.fetch_add(counts.encrypted, Relaxed);
        self.decrypted.fetch_add(counts.decrypted, Relaxed);
        if counts.failures != 0 {
            self.failures.fetch_add(counts.failures, Relaxed);
            self.last_failure.fetch_max(counts.last_failure, Relaxed);
        }
    }

    fn read(&self) -> Counts {
        Counts {
            encrypted: self.encrypted.load(Relaxed),
            decrypted: self.decrypted.load(Relaxed),
            failures: self.failures.load(Relaxed),
            last_failure: self.last_failure.load(Relaxed),
        }
    }
}

/// No entry.
const NONE: u32 = u32::MAX;

struct Entry {
    name: Name,
    /// The next entry of the same bucket, or of the free ones.
    next: u32,
    /// Set by use, cleared by the sweep.
    used: AtomicU32,
    counters: Counters,
    /// Since when it counts.
    reset: i64,
}

/// What precedes the buckets and the entries in memory.
struct Header {
    capacity: u32,
    /// A power of two.
    buckets: u32,
    entries: u32,
    free: u32,
    hand: u32,
    /// Entries that had to make room.
    dealloc: u64,
    /// What these had counted.
    others: Counters,
    /// Since when those two count.
    reset: i64,
}

/// The table in its memory. Methods that take `&self` are for who has a shared lock, the others for an exclusive one.
pub struct Table(*mut Header);

/// An entry's content.
pub struct Row {
    pub name: Name,
    pub counts: Counts,
    pub reset: i64,
}

/// What is to be said of the table itself.
pub struct Info {
    pub entries: u32,
    pub capacity: u32,
    pub dealloc: u64,
    pub others: Counts,
    pub reset: i64,
}

const fn buckets_for(capacity: u32) -> u32 {
    capacity.next_power_of_two()
}

/// Bytes of a table with so many entries.
pub const fn size(capacity: u32) -> usize {
    size_of::<Header>()
        + (buckets_for(capacity) as usize * size_of::<u32>()).next_multiple_of(8)
        + capacity as usize * size_of::<Entry>()
}

impl Table {
    /// Makes an empty table.
    ///
    /// # Safety
    /// `place` must be new memory of [`size`]`(capacity)` bytes, aligned to 8; `capacity` at least 1.
    pub unsafe fn init(place: *mut u8, capacity: u32, now: i64) {
        let header = Header {
            capacity,
            buckets: buckets_for(capacity),
            entries: 0,
            free: 0,
            hand: 0,
            dealloc: 0,
            others: Counters::default(),
            reset: now,
        };
        // SAFETY: the caller's promise: header, buckets and entries fit.
        unsafe {
            place.cast::<Header>().write(header);
            let table = Self::at(place);
            for bucket in 0..(*table.0).buckets {
                table.bucket(bucket).write(NONE);
            }
            for index in 0..capacity {
                let next = if index + 1 == capacity { NONE } else { index + 1 };
                let name = Name { database: 0, relation: 0 };
                let counters = Counters::default();
                table.place(index).write(Entry { name, next, used: AtomicU32::new(0), counters, reset: now });
            }
        }
    }

    /// The table in memory that [`Table::init`] has made one.
    ///
    /// # Safety
    /// The lock must be held as long as the result is used.
    pub unsafe fn at(place: *mut u8) -> Self {
        Self(place.cast())
    }

    fn header(&self) -> &Header {
        // SAFETY: as `at` was promised.
        unsafe { &*self.0 }
    }

    fn bucket(&self, bucket: u32) -> *mut u32 {
        // SAFETY: `bucket` is below their number.
        unsafe { self.0.add(1).cast::<u32>().add(bucket as usize) }
    }

    fn place(&self, index: u32) -> *mut Entry {
        let buckets = (self.header().buckets as usize * size_of::<u32>()).next_multiple_of(8);
        // SAFETY: `index` is below the capacity.
        unsafe { self.0.add(1).cast::<u8>().add(buckets).cast::<Entry>().add(index as usize) }
    }

    fn entry(&self, index: u32) -> &Entry {
        // SAFETY: all entries were initialised.
        unsafe { &*self.place(index) }
    }

    fn bucket_of(&self, name: Name) -> *mut u32 {
        self.bucket(name.hash() as u32 & (self.header().buckets - 1))
    }

    fn find(&self, name: Name) -> Option<u32> {
        // SAFETY: a bucket or an entry's link holds an index or NONE.
        let mut index = unsafe { *self.bucket_of(name) };
        while index != NONE && self.entry(index).name != name {
            index = self.entry(index).next;
        }
        (index != NONE).then_some(index)
    }

    /// Adds to the counters of `name`. False if it has no entry.
    pub fn add(&self, name: Name, counts: &Counts) -> bool {
        let Some(index) = self.find(name) else { return false };
        let entry = self.entry(index);
        entry.counters.add(counts);
        entry.used.store(1, Relaxed);
        true
    }

    /// Adds to the counters of `name`, for which an entry is made if there is none.
    pub fn add_or_make(&mut self, name: Name, counts: &Counts, now: i64) {
        if self.add(name, counts) {
            return;
        }
        if self.header().free == NONE {
            self.evict();
        }
        // SAFETY: the free list holds an entry now; the lock is an exclusive one.
        unsafe {
            let index = (*self.0).free;
            let entry = self.place(index);
            (*self.0).free = (*entry).next;
            (*self.0).entries += 1;
            let bucket = self.bucket_of(name);
            let counters = Counters::default();
            counters.add(counts);
            entry.write(Entry { name, next: *bucket, used: AtomicU32::new(1), counters, reset: now });
            *bucket = index;
        }
    }

    /// Removes the entry that the sweep meets first which was not used since its last round. All entries are in use.
    fn evict(&mut self) {
        loop {
            // SAFETY: the lock is an exclusive one.
            let index = unsafe {
                let hand = (*self.0).hand;
                (*self.0).hand = (hand + 1) % (*self.0).capacity;
                hand
            };
            if self.entry(index).used.swap(0, Relaxed) == 0 {
                self.header().others.add(&self.entry(index).counters.read());
                // SAFETY: as above.
                unsafe { (*self.0).dealloc += 1 };
                self.unlink(index);
                return;
            }
        }
    }

    /// Puts the entry among the free ones.
    fn unlink(&mut self, index: u32) {
        // SAFETY: the entry is in the list of its bucket; the lock is an exclusive one.
        unsafe {
            let entry = self.place(index);
            let mut link = self.bucket_of((*entry).name);
            while *link != index {
                link = &raw mut (*self.place(*link)).next;
            }
            *link = (*entry).next;
            ptr::write(
                entry,
                Entry {
                    name: Name { database: 0, relation: 0 },
                    next: (*self.0).free,
                    used: AtomicU32::new(0),
                    counters: Counters::default(),
                    reset: 0,
                },
            );
            (*self.0).free = index;
            (*self.0).entries -= 1;
        }
    }

    pub fn has(&self, name: Name) -> bool {
        self.find(name).is_some()
    }

    /// Forgets a relation.
    pub fn remove(&mut self, name: Name) {
        if let Some(index) = self.find(name) {
            self.unlink(index);
        }
    }

    /// Forgets all relations of a database.
    pub fn remove_database(&mut self, database: Oid) {
        for index in 0..self.header().capacity {
            if database != 0 && self.entry(index).name.database == database {
                self.unlink(index);
            }
        }
    }

    /// Sets the counters of a database to zero, or those of one relation of it; the former the sum of evicted ones, too.
    pub fn reset(&mut self, database: Oid, relation: Option<Oid>, now: i64) {
        for index in 0..self.header().capacity {
            let name = self.entry(index).name;
            if name.database == database && relation.is_none_or(|relation| relation == name.relation) {
                // SAFETY: the lock is an exclusive one.
                unsafe {
                    (*self.place(index)).counters = Counters::default();
                    (*self.place(index)).reset = now;
                }
            }
        }
        if relation.is_none() {
            // SAFETY: as above.
            unsafe {
                (*self.0).dealloc = 0;
                (*self.0).others = Counters::default();
                (*self.0).reset = now;
            }
        }
    }

    /// The content of entry `index`, if it is in use.
    pub fn row(&self, index: u32) -> Option<Row> {
        let entry = self.entry(index);
        (entry.name.relation != 0).then(|| Row { name: entry.name, counts: entry.counters.read(), reset: entry.reset })
    }

    pub fn info(&self) -> Info {
        let header = self.header();
        Info {
            entries: header.entries,
            capacity: header.capacity,
            dealloc: header.dealloc,
            others: header.others.read(),
            reset: header.reset,
        }
    }
}
