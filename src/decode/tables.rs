//! `add-tables` and `filter-tables`: which tables' changes are sent. How they are combined is wal2json's, too (`patterns.rs`).

use core::ffi::CStr;
use core::mem::size_of;

use super::patterns::{is_for, parse, Name, Problem};
use crate::pg::memory::slice;
use crate::pg::rel::{self, Relation};
use crate::pg::sys;

/// Both lists of a session.
#[derive(Clone, Copy)]
pub struct Tables {
    /// if it is given, only these
    pub add: Option<Patterns>,
    /// never these
    pub filter: Patterns,
}

/// The patterns of one list, in the session's memory.
#[derive(Clone, Copy)]
pub struct Patterns {
    patterns: *const [Name<'static>; 2],
    count: usize,
}

impl Tables {
    pub const ALL: Self = Self { add: None, filter: Patterns::NONE };

    /// Whether changes of the table are to be sent.
    ///
    /// # Safety
    /// `relation` must be open, in a transaction.
    #[inline]
    pub unsafe fn ask_for(&self, relation: Relation) -> bool {
        if self.add.is_none() && self.filter.count == 0 {
            return true;
        }
        // SAFETY: the caller's promise.
        let (schema, table) = unsafe { rel::shown_name(relation) };
        if schema.is_null() || table.is_null() {
            return self.add.is_none();
        }
        // SAFETY: NUL-terminated strings that are there for now.
        let name = unsafe { [CStr::from_ptr(schema).to_bytes(), CStr::from_ptr(table).to_bytes()] };
        !self.filter.hold(name) && self.add.is_none_or(|add| add.hold(name))
    }
}

impl Patterns {
    pub const NONE: Self = Self { patterns: core::ptr::null(), count: 0 };

    /// Reads a list; an empty one has no patterns.
    ///
    /// # Safety
    /// Called in the session's memory context, in which `list` is, too.
    pub unsafe fn read(list: &'static CStr) -> Result<Self, Problem<'static>> {
        let list = list.to_bytes();
        // SAFETY: there is a pattern more than there are commas, at most.
        unsafe {
            let most = 1 + list.iter().filter(|&&byte| byte == b',').count();
            let patterns: *mut [Name<'static>; 2] = sys::palloc(most * size_of::<[Name<'static>; 2]>()).cast();
            let mut count = 0;
            parse(list, |pattern| {
                *patterns.add(count) = pattern;
                count += 1;
            })?;
            Ok(Self { patterns, count })
        }
    }

    /// Whether a pattern of the list is for this table.
    fn hold(&self, [schema, table]: [&[u8]; 2]) -> bool {
        // SAFETY: `count` patterns were written by `read`, in memory that lives as long as the session.
        let patterns = unsafe { slice(self.patterns, self.count) };
        patterns.iter().any(|pattern| is_for(pattern[0], schema) && is_for(pattern[1], table))
    }
}
