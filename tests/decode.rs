//! Tests of what in `src/decode` needs no server: the modules are included by path.

#[path = "../src/decode/patterns.rs"]
mod patterns;
#[path = "../src/decode/json/utc.rs"]
mod utc;

use patterns::{is_for, parse};
use utc::Utc;

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
    let problem = parse(b"a.b, c ,d.e", |_| ()).err();
    assert!(problem.is_some_and(|problem| problem.pattern == b"c"));
    for list in ["a", "a.b,", ",a.b", "a.b,,c.d", ".b", "a.", "a.b.c", "a.b*", "*a.b", "a.b c.d", "a.b\\", "**.b"] {
        assert!(reason(list).is_some(), "{list}");
    }
}

#[test]
fn times() {
    const DAY: i64 = 86_400_000_000;
    let parts = |time: i64| {
        let t = Utc::of(time);
        [t.year, t.month, t.day, t.hour, t.minute, t.second, t.microsecond]
    };
    assert_eq!(parts(0), [2000, 1, 1, 0, 0, 0, 0]);
    assert_eq!(parts(-1), [1999, 12, 31, 23, 59, 59, 999_999]);
    assert_eq!(parts(59 * DAY + 3_723_000_004), [2000, 2, 29, 1, 2, 3, 4]);
    assert_eq!(parts(60 * DAY), [2000, 3, 1, 0, 0, 0, 0]);
    assert_eq!(parts(366 * DAY), [2001, 1, 1, 0, 0, 0, 0]);
    assert_eq!(parts(36_525 * DAY), [2100, 1, 1, 0, 0, 0, 0]);
    assert_eq!(parts((36_525 + 59) * DAY), [2100, 3, 1, 0, 0, 0, 0]);
    assert_eq!(parts(9_831 * DAY), [2026, 12, 1, 0, 0, 0, 0]);
}
