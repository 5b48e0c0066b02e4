//! Writing JSON.

use crate::decode::out::Out;
use crate::pg::sys::{TimestampTz, XLogRecPtr};

/// An object on its way to the line.
pub struct Object {
    out: Out,
    empty: bool,
}

impl Object {
    pub fn start(out: Out) -> Self {
        out.str("{");
        Self { out, empty: true }
    }

    pub fn end(self) {
        self.out.str("}");
    }

    /// A member's name, which has nothing to be escaped; its value has to follow.
    pub fn name(&mut self, name: &str) {
        self.separate();
        self.out.str("\"");
        self.out.str(name);
        self.out.str("\":");
    }

    /// A name that comes from the database.
    pub fn foreign_name(&mut self, name: &[u8]) {
        self.separate();
        string(self.out, name);
        self.out.str(":");
    }

    fn separate(&mut self) {
        if !self.empty {
            self.out.str(",");
        }
        self.empty = false;
    }

    pub fn null(&self) {
        self.out.str("null");
    }

    pub fn string(&self, text: &[u8]) {
        string(self.out, text);
    }

    pub fn number(&mut self, name: &str, number: u32) {
        self.name(name);
        self.out.fmt(format_args!("{number}"));
    }

    pub fn switch(&mut self, name: &str, value: bool) {
        self.name(name);
        self.out.str(if value { "true" } else { "false" });
    }

    pub fn lsn(&mut self, name: &str, lsn: XLogRecPtr) {
        self.name(name);
        self.out.str("\"");
        self.out.lsn(lsn);
        self.out.str("\"");
    }

    /// A time as a timestamptz column shows it.
    pub fn time(&mut self, name: &str, time: TimestampTz) {
        self.name(name);
        self.out.str("\"");
        let utc = Utc::of(time);
        self.out.fmt(format_args!("{:04}-{:02}-{:02} ", utc.year, utc.month, utc.day));
        self.out.fmt(format_args!("{:02}:{:02}:{:02}.{:06}+00", utc.hour, utc.minute, utc.second, utc.microsecond));
        self.out.str("\"");
    }

    pub fn hex(&self, bytes: &[u8]) {
        self.out.str("\"");
        for byte in bytes {
            self.out.fmt(format_args!("{byte:02x}"));
        }
        self.out.str("\"");
    }
}

/// A string, in the database's encoding: in none is the second byte of a character an ASCII one.
pub fn string(out: Out, text: &[u8]) {
    out.str("\"");
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.bytes(&rest[..at]);
        match rest[at] {
            b'"' => out.str("\\\""),
            b'\\' => out.str("\\\\"),
            b'\n' => out.str("\\n"),
            b'\r' => out.str("\\r"),
            b'\t' => out.str("\\t"),
            0x08 => out.str("\\b"),
            0x0c => out.str("\\f"),
            other => out.fmt(format_args!("\\u{other:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.bytes(rest);
    out.str("\"");
}

/// A point in time, taken apart. Not done by the server's functions, which ask for the session's time zone.
struct Utc {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    microsecond: i64,
}

impl Utc {
    /// Of microseconds since 2000; of the Gregorian calendar, which repeats itself every 400 years of 146,097 days.
    fn of(time: TimestampTz) -> Self {
        const SECOND: i64 = 1_000_000;
        const DAY: i64 = 86_400 * SECOND;
        let (days, time) = (time.div_euclid(DAY), time.rem_euclid(DAY));
        // counted from a 1 March, so that the leap day is a year's last
        let days = days + 730_425;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let january_or_february = month >= 10;
        Self {
            year: 400 * era + year + i64::from(january_or_february),
            month: if january_or_february { month - 9 } else { month + 3 },
            day: day - (153 * month + 2) / 5 + 1,
            hour: time / (3_600 * SECOND),
            minute: time / (60 * SECOND) % 60,
            second: time / SECOND % 60,
            microsecond: time % SECOND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Utc;

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
}
