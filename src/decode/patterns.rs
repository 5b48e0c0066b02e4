//! Patterns for tables, as wal2json reads them. Pure text: nothing here needs a server.
//!
//! A list has patterns `schema.table` between commas; blanks around a pattern do not count. `*` in place of a name stands for
//! every name. A backslash makes the character behind it an ordinary one: `, . * \` and blanks within names need it. Case
//! counts, and quotes are ordinary characters. What wal2json's rules leave open is refused here.

/// A name of a pattern; `None` for `*`. It begins in the list, with backslashes still in it.
pub type Name<'a> = Option<&'a [u8]>;

/// What is wrong with a list: the pattern, and why.
pub struct Problem<'a> {
    pub pattern: &'a [u8],
    pub reason: &'static str,
}

/// Calls `add` with each pattern of a list.
pub fn parse<'a>(list: &'a [u8], mut add: impl FnMut([Name<'a>; 2])) -> Result<(), Problem<'a>> {
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
pub fn is_for(pattern: Name<'_>, name: &[u8]) -> bool {
    let Some(pattern) = pattern else { return true };
    let mut escaped = false;
    let plain = pattern.iter().copied().filter(|&byte| {
        let skipped = !escaped && byte == b'\\';
        escaped = skipped;
        !skipped
    });
    plain.eq(name.iter().copied())
}
