//! `add-tables` and `filter-tables`: which tables' changes are sent. Patterns and their combination are wal2json's.
//!
//! A list has patterns `schema.table` between commas; blanks around a pattern do not count. `*` in place of a name stands for
//! every name. A backslash makes the character behind it an ordinary one: `, . * \` and blanks within names need it. Case
//! counts, and quotes are ordinary characters. What wal2json's rules leave open is refused here.

use core::ffi::CStr;
use core::mem::size_of;

use crate::pg::memory::slice;
use crate::pg::rel::{self, Relation};
use crate::pg::sys;

/// A name of a pattern; `None` for `*`. It begins in the list, with backslashes still in it.
type Name<'a> = Option<&'a [u8]>;

/// What is wrong with a list: the pattern, and why.
pub struct Problem<'a> {
    pub pattern: &'a [u8],
    pub reason: &'static str,
}

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

/// Calls `add` with each pattern of a list.
fn parse<'a>(list: &'a [u8], mut add: impl FnMut([Name<'a>; 2])) -> Result<(), Problem<'a>> {
    if trim(list).is_empty() {
        return Ok(());
    }
    let mut rest = Some(list);
    while let Some(part) = rest {
        let (pattern, others) = split(part, b',');
        let pattern = trim(pattern);
        let problem = |reason| Err(Problem { pattern, reason });
        if pattern.is_empty() {
            return problem("Between two commas there must be a pattern.");
        }
        let (schema, Some(table)) = split(pattern, b'.') else {
            return problem("A pattern has the form schema.table.");
        };
        if split(table, b'.').1.is_some() {
            return problem("A dot within a name needs a backslash in front of it.");
        }
        for name in [schema, table] {
            if name.is_empty() {
                return problem("A name is empty.");
            }
            if name != b"*" && unescaped(name).any(|(_, byte)| byte == b'*') {
                return problem("An asterisk within a name needs a backslash in front of it.");
            }
            if unescaped(name).any(|(_, byte)| is_blank(byte)) {
                return problem("A blank within a name needs a backslash in front of it.");
            }
        }
        if ends_within_escape(pattern) {
            return problem("A backslash must have a character behind it.");
        }
        add([schema, table].map(|name| (name != b"*").then_some(name)));
        rest = others;
    }
    Ok(())
}

/// What is in front of the first `separator` without a backslash, and what is behind it.
fn split(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let found = unescaped(text).find(|&(_, byte)| byte == separator);
    match found {
        Some((at, _)) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Positions and bytes that are neither a backslash nor behind one.
fn unescaped(text: &[u8]) -> impl Iterator<Item = (usize, u8)> + use<'_> {
    let mut escaped = false;
    text.iter().copied().enumerate().filter(move |&(_, byte)| {
        let ordinary = escaped || byte == b'\\';
        escaped = !escaped && byte == b'\\';
        !ordinary
    })
}

fn ends_within_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Without the blanks around it, as far as no backslash is in front of them.
fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| !is_blank(byte)).unwrap_or(text.len());
    let text = &text[start..];
    let end = text.iter().rposition(|&byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let kept = &text[..end];
    // the blank behind a backslash belongs to the name
    match ends_within_escape(kept) && end < text.len() {
        true => &text[..end + 1],
        false => kept,
    }
}

/// Whether a pattern's name stands for `name`.
fn is_for(pattern: Name<'_>, name: &[u8]) -> bool {
    let Some(pattern) = pattern else { return true };
    let mut escaped = false;
    let plain = pattern.iter().copied().filter(|&byte| {
        let skipped = !escaped && byte == b'\\';
        escaped = skipped;
        !skipped
    });
    plain.eq(name.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::{is_for, parse};

    fn reason(list: &str) -> Option<&'static str> {
        parse(list.as_bytes(), |_| ()).err().map(|problem| problem.reason)
    }

    fn matches(list: &str, schema: &str, table: &str) -> bool {
        let mut found = false;
        let read = parse(list.as_bytes(), |[s, t]| {
            found |= is_for(s, schema.as_bytes()) && is_for(t, table.as_bytes());
        });
        assert!(read.is_ok(), "{list}");
        found
    }

    #[test]
    fn patterns() {
        assert!(matches("a.b", "a", "b"));
        assert!(!matches("a.b", "a", "B"));
        assert!(matches("x.y, a.b ,z.z", "a", "b"));
        assert!(matches("*.b", "any", "b"));
        assert!(matches("a.*", "a", "any"));
        assert!(matches("*.*", "any", "any"));
        assert!(!matches(r"\*.b", "any", "b"));
        assert!(matches(r"\*.b", "*", "b"));
        assert!(matches(r"a.\*\.\,\ \\x", "a", r"*., \x"));
        assert!(matches(r" a.b\  ", "a", "b "));
        assert!(matches(r"a.b\\ ", "a", r"b\"));
        assert!(!matches("", "a", "b"));
        assert!(!matches("  ", "a", "b"));
    }

    #[test]
    fn ill_formed_lists() {
        for list in ["a", "a.b,", ",a.b", "a.b,,c.d", ".b", "a.", "a.b.c", "a.b*", "*a.b", "a.b c.d", "a.b\\", "**.b"] {
            assert!(reason(list).is_some(), "{list}");
        }
    }
}
