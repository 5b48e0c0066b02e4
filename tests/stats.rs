//! The table of counters, without a server. `cargo test --test stats`

#![allow(dead_code)]

mod pg {
    pub type Oid = u32;
}
#[path = "../src/stats/table.rs"]
mod table;

use table::{Counts, Name, Table};

/// A table in memory of the test's own.
struct Memory(Vec<u64>);

impl Memory {
    fn new(capacity: u32) -> Self {
        let mut memory = vec![0u64; table::size(capacity).div_ceil(8)];
        // SAFETY: memory of that size, aligned to 8.
        unsafe { Table::init(memory.as_mut_ptr().cast(), capacity, 1) };
        Self(memory)
    }

    fn table(&mut self) -> Table {
        // SAFETY: `new` has initialised it, and nobody else uses it.
        unsafe { Table::at(self.0.as_mut_ptr().cast()) }
    }
}

fn name(database: u32, relation: u32) -> Name {
    Name { database, relation }
}

fn counted(encrypted: u64) -> Counts {
    Counts { encrypted, ..Counts::default() }
}

fn rows(table: &Table) -> Vec<(u32, u32, u64)> {
    let mut rows: Vec<_> = (0..table.info().capacity)
        .filter_map(|index| table.row(index))
        .map(|row| (row.name.database, row.name.relation, row.counts.encrypted))
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn counts_add_up_by_relation() {
    let mut memory = Memory::new(16);
    let mut table = memory.table();
    assert!(!table.add(name(1, 1), &counted(5)), "there is no entry yet");
    table.add_or_make(name(1, 1), &counted(5), 2);
    table.add_or_make(name(2, 1), &counted(7), 3);
    table.add_or_make(name(1, 1), &Counts { failures: 1, last_failure: 9, decrypted: 2, encrypted: 1 }, 4);
    assert!(table.add(name(1, 1), &Counts { failures: 1, last_failure: 8, ..Counts::default() }));
    assert_eq!(rows(&table), [(1, 1, 6), (2, 1, 7)]);
    let row = (0..16).filter_map(|index| table.row(index)).find(|row| row.name == name(1, 1)).expect("an entry");
    assert_eq!((row.counts.decrypted, row.counts.failures, row.counts.last_failure, row.reset), (2, 2, 9, 2));
}

#[test]
fn a_full_table_keeps_what_is_used_and_the_sum_of_the_rest() {
    for capacity in [1, 2, 3, 16, 100] {
        let mut memory = Memory::new(capacity);
        let mut table = memory.table();
        for relation in 1..=1000 {
            table.add_or_make(name(1, relation), &counted(1), 2);
            table.add_or_make(name(7, 7), &counted(1), 2);
        }
        let (kept, info) = (rows(&table), table.info());
        assert_eq!(info.entries, capacity, "all entries are in use");
        assert!(capacity < 3 || kept.contains(&(7, 7, 1000)), "one that is always used stays");
        assert_eq!(kept.iter().map(|row| row.2).sum::<u64>() + info.others.encrypted, 2000, "nothing is lost");
        assert!(capacity < 3 || info.dealloc == u64::from(1001 - capacity), "as few as possible had to go");
    }
}

#[test]
fn entries_go_with_their_relation_or_database() {
    let mut memory = Memory::new(16);
    let mut table = memory.table();
    for round in 0..10 {
        for relation in 1..=8 {
            table.add_or_make(name(1, relation), &counted(1), 2);
            table.add_or_make(name(2, relation), &counted(1), 2);
        }
        table.remove(name(1, 3 + round % 2));
        table.remove(name(1, 99));
        table.remove_database(2);
        assert_eq!(rows(&table).len(), 7);
        assert!(!table.has(name(1, 3 + round % 2)) && !table.has(name(2, 1)) && table.has(name(1, 1)));
        assert_eq!(table.info().entries, 7);
    }
    assert_eq!(table.info().dealloc, 0, "nothing had to make room");
}

#[test]
fn a_reset_is_of_a_relation_or_a_database() {
    let mut memory = Memory::new(16);
    let mut table = memory.table();
    for (database, relation) in [(1, 1), (1, 2), (2, 1)] {
        table.add_or_make(name(database, relation), &counted(3), 2);
    }
    table.reset(1, Some(2), 5);
    assert_eq!(rows(&table), [(1, 1, 3), (1, 2, 0), (2, 1, 3)]);
    table.reset(1, None, 6);
    assert_eq!(rows(&table), [(1, 1, 0), (1, 2, 0), (2, 1, 3)]);
}
