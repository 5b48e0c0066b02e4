//! Writing JSON.

use super::utc::Utc;
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
