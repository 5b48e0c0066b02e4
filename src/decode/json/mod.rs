//! The json format: one object a change, and a line for all that begins, ends or interrupts a transaction. The form is
//! described in docs/logical-replication.md, and is a promise: keys, their order and the form of values stay.
//!
//! The session's settings do not matter (`settings.rs`). Streamed transactions are shown as they come, with the transaction
//! ids that a consumer needs to take back what is undone.

mod row;
mod settings;
mod utc;
mod write;

use core::ffi::CStr;

use self::write::Object;
use super::format::{Lines, Mark, Message, Streamed};
use super::options::Options;
use super::out::Out;
use super::txn::Txn;
use crate::pg::memory::slice;
use crate::pg::rel::{self, Relation};
use crate::pg::sys::{self, ReorderBufferChange, XLogRecPtr};

pub struct Json;

impl Lines for Json {
    fn begin(&self, out: Out, options: &Options, txn: Txn) {
        let mut line = start(out, options, "begin", Some(txn), txn);
        ends(&mut line, options, txn);
        if options.include_timestamp {
            // of a prepared one that of PREPARE
            line.time("timestamp", txn.commit_time());
        }
        line.end();
    }

    fn mark(&self, out: Out, options: &Options, txn: Txn, mark: Mark) {
        let (action, time) = match mark {
            Mark::Commit => ("commit", Some(txn.commit_time())),
            Mark::Prepare => ("prepare", Some(txn.prepare_time())),
            Mark::CommitPrepared => ("commit_prepared", Some(txn.commit_time())),
            Mark::RollbackPrepared => ("rollback_prepared", Some(txn.commit_time())),
            Mark::StreamStart => ("stream_start", None),
            Mark::StreamStop => ("stream_stop", None),
            Mark::StreamPrepare => ("stream_prepare", Some(txn.prepare_time())),
            Mark::StreamCommit => ("stream_commit", Some(txn.commit_time())),
        };
        let mut line = start(out, options, action, Some(txn), txn);
        if let Some(time) = time {
            ends(&mut line, options, txn);
            if options.include_timestamp {
                line.time("timestamp", time);
            }
        }
        line.end();
    }

    fn stream_abort(&self, out: Out, options: &Options, txn: Txn, lsn: XLogRecPtr) {
        let mut line = start(out, options, "stream_abort", Some(txn.top()), txn);
        at(&mut line, options, lsn);
        line.end();
    }

    unsafe fn change(
        &self,
        out: Out,
        options: &Options,
        txn: Txn,
        relation: Relation,
        change: *const ReorderBufferChange,
    ) {
        // SAFETY: the caller's promise.
        unsafe { row::change(out, options, (txn, txn), relation, change) }
    }

    unsafe fn truncate(
        &self,
        out: Out,
        options: &Options,
        txn: Txn,
        relations: &[Relation],
        change: *const ReorderBufferChange,
    ) {
        // SAFETY: the caller's promise.
        unsafe { truncate(out, options, (txn, txn), relations, change) }
    }

    unsafe fn message(&self, out: Out, options: &Options, txn: Option<Txn>, content: Message) {
        // SAFETY: the caller's promise.
        unsafe { message(out, options, txn, content) }
    }

    fn shows_streamed(&self) -> bool {
        true
    }

    unsafe fn streamed(&self, out: Out, options: &Options, txn: Txn, what: Streamed<'_>) {
        // SAFETY: the caller's promise; a change in a transaction knows the sub-transaction that has made it.
        unsafe {
            match what {
                Streamed::Change(relation, change) => {
                    row::change(out, options, (txn, Txn::of((*change).txn)), relation, change);
                }
                Streamed::Truncate(relations, change) => {
                    truncate(out, options, (txn, Txn::of((*change).txn)), relations, change);
                }
                Streamed::Message(content) => message(out, options, Some(txn), content),
            }
        }
    }
}

/// The beginning of a line: what happened, and in which transaction; `part` is the (sub)transaction itself.
fn start(out: Out, options: &Options, action: &str, txn: Option<Txn>, part: Txn) -> Object {
    let mut line = Object::start(out);
    line.name("action");
    line.string(action.as_bytes());
    if let (Some(txn), true) = (txn, options.include_xids) {
        line.number("xid", txn.xid());
        if part.xid() != txn.xid() {
            line.number("subxid", part.xid());
        }
    }
    if txn.is_some() && !part.gid().is_null() {
        line.name("gid");
        // SAFETY: a prepared transaction's name is NUL-terminated.
        line.string(unsafe { CStr::from_ptr(part.gid()) }.to_bytes());
    }
    line
}

/// Where in WAL.
fn at(line: &mut Object, options: &Options, lsn: XLogRecPtr) {
    if options.include_lsn {
        line.lsn("lsn", lsn);
    }
}

/// Where the transaction's end is, and the record behind it.
fn ends(line: &mut Object, options: &Options, txn: Txn) {
    if options.include_lsn {
        line.lsn("lsn", txn.final_lsn());
        line.lsn("nextlsn", txn.end_lsn());
    }
}

unsafe fn truncate(
    out: Out,
    options: &Options,
    (txn, part): (Txn, Txn),
    relations: &[Relation],
    change: *const ReorderBufferChange,
) {
    // SAFETY: called with the change of a TRUNCATE, whose relations are open.
    unsafe {
        let mut line = start(out, options, "truncate", Some(txn), part);
        at(&mut line, options, (*change).lsn);
        line.name("tables");
        out.str("[");
        for (i, &relation) in relations.iter().enumerate() {
            if i > 0 {
                out.str(",");
            }
            let mut table = Object::start(out);
            name(&mut table, relation);
            table.end();
        }
        out.str("]");
        let flags = (*change).data.truncate;
        line.switch("restart_seqs", flags.restart_seqs);
        line.switch("cascade", flags.cascade);
        line.end();
    }
}

/// `"schema":…,"table":…`
unsafe fn name(line: &mut Object, relation: Relation) {
    // SAFETY: the relation is open; a schema that is not found is null.
    unsafe {
        let (schema, table) = rel::shown_name(relation);
        line.name("schema");
        match schema.is_null() {
            true => line.null(),
            false => line.string(CStr::from_ptr(schema).to_bytes()),
        }
        line.name("table");
        match table.is_null() {
            true => line.null(),
            false => line.string(CStr::from_ptr(table).to_bytes()),
        }
    }
}

/// A message of a streamed transaction does not tell its sub-transaction.
unsafe fn message(out: Out, options: &Options, txn: Option<Txn>, message: Message) {
    // SAFETY: the prefix is NUL-terminated, and the content as long as it says.
    unsafe {
        let mut line = Object::start(out);
        line.name("action");
        line.string(b"message");
        if let (Some(txn), true) = (txn, options.include_xids) {
            line.number("xid", txn.xid());
        }
        at(&mut line, options, message.lsn);
        line.switch("transactional", txn.is_some());
        line.name("prefix");
        line.string(CStr::from_ptr(message.prefix).to_bytes());
        let content = slice(message.content.cast::<u8>(), message.len);
        // anything may be in it
        if content.is_empty() || sys::pg_verifymbstr(message.content, message.len as i32, true) {
            line.name("content");
            line.string(content);
        } else {
            line.name("content_hex");
            line.hex(content);
        }
        line.end();
    }
}
