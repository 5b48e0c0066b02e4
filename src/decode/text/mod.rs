//! The text format: test_decoding's, byte for byte, so that its expected files check ours, and an encrypted table
//! decodes as its heap twin does. (`include-lsn` adds what test_decoding has not.)
//!
//! Values are shown by their types' output functions under the session's settings (DateStyle, TimeZone, …), as
//! test_decoding does. Streamed transactions are not shown: they may still abort.

mod row;

use super::format::{Lines, Mark, Message, Streamed};
use super::options::Options;
use super::out::Out;
use super::txn::Txn;
use crate::pg::rel::Relation;
use crate::pg::sys::{ReorderBufferChange, XLogRecPtr};

pub struct Text;

impl Lines for Text {
    fn begin(&self, out: Out, options: &Options, txn: Txn) {
        out.str("BEGIN");
        if options.include_xids {
            out.fmt(format_args!(" {}", txn.xid()));
        }
        lsn(out, options, txn.final_lsn());
    }

    fn mark(&self, out: Out, options: &Options, txn: Txn, mark: Mark) {
        let time = match mark {
            Mark::Commit => {
                out.str("COMMIT");
                if options.include_xids {
                    out.fmt(format_args!(" {}", txn.xid()));
                }
                Some(txn.commit_time())
            }
            Mark::Prepare => prepared(out, options, txn, "PREPARE TRANSACTION ", txn.prepare_time()),
            Mark::CommitPrepared => prepared(out, options, txn, "COMMIT PREPARED ", txn.commit_time()),
            Mark::RollbackPrepared => prepared(out, options, txn, "ROLLBACK PREPARED ", txn.commit_time()),
            Mark::StreamStart => {
                out.str("opening a streamed block for transaction");
                return xid(out, options, txn);
            }
            Mark::StreamStop => {
                out.str("closing a streamed block for transaction");
                return xid(out, options, txn);
            }
            Mark::StreamPrepare => {
                let what = if options.include_xids { "TXN " } else { "" };
                out.str("preparing streamed transaction ");
                prepared(out, options, txn, what, txn.prepare_time())
            }
            Mark::StreamCommit => {
                out.str("committing streamed transaction");
                xid(out, options, txn);
                Some(txn.commit_time())
            }
        };
        if let (Some(time), true) = (time, options.include_timestamp) {
            out.time(time);
        }
        lsn(out, options, txn.final_lsn());
    }

    fn stream_abort(&self, out: Out, options: &Options, txn: Txn, at: XLogRecPtr) {
        out.str("aborting streamed (sub)transaction");
        xid(out, options, txn);
        lsn(out, options, at);
    }

    unsafe fn change(
        &self,
        out: Out,
        options: &Options,
        _txn: Txn,
        relation: Relation,
        change: *const ReorderBufferChange,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            row::change(out, relation, change);
            lsn(out, options, (*change).lsn);
        }
    }

    unsafe fn truncate(
        &self,
        out: Out,
        options: &Options,
        _txn: Txn,
        relations: &[Relation],
        change: *const ReorderBufferChange,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            row::truncate(out, relations, change);
            lsn(out, options, (*change).lsn);
        }
    }

    unsafe fn message(&self, out: Out, options: &Options, txn: Option<Txn>, message: Message) {
        out.fmt(format_args!("message: transactional: {} prefix: ", u8::from(txn.is_some())));
        // SAFETY: the caller's promise.
        unsafe {
            prefix_and_size(out, options, &message);
            out.str(" content:");
            out.data(message.content, message.len);
        }
    }

    fn shows_streamed(&self) -> bool {
        false
    }

    unsafe fn streamed(&self, out: Out, options: &Options, txn: Txn, what: Streamed<'_>) {
        let (what, at) = match what {
            // SAFETY: the caller's promise.
            Streamed::Change(_, change) => ("streaming change for ", unsafe { (*change).lsn }),
            // SAFETY: the caller's promise.
            Streamed::Truncate(_, change) => ("streaming truncate for ", unsafe { (*change).lsn }),
            Streamed::Message(message) => {
                out.str("streaming message: transactional: 1 prefix: ");
                // SAFETY: the caller's promise.
                return unsafe { prefix_and_size(out, options, &message) };
            }
        };
        out.str(what);
        match options.include_xids {
            true => out.fmt(format_args!("TXN {}", txn.xid())),
            false => out.str("transaction"),
        }
        lsn(out, options, at);
    }
}

/// `PREPARE TRANSACTION 'name', txid …`; returns the time to show.
fn prepared(out: Out, options: &Options, txn: Txn, what: &str, time: i64) -> Option<i64> {
    out.str(what);
    // SAFETY: the callbacks of two-phase commit come with a name.
    unsafe { out.quoted(txn.gid()) };
    if options.include_xids {
        out.fmt(format_args!(", txid {}", txn.xid()));
    }
    Some(time)
}

/// ` TXN …`
fn xid(out: Out, options: &Options, txn: Txn) {
    if options.include_xids {
        out.fmt(format_args!(" TXN {}", txn.xid()));
    }
}

/// ` (lsn …)`
fn lsn(out: Out, options: &Options, lsn: XLogRecPtr) {
    if options.include_lsn {
        out.str(" (lsn ");
        out.lsn(lsn);
        out.str(")");
    }
}

/// The content, which may be anything, comes behind all else.
unsafe fn prefix_and_size(out: Out, options: &Options, message: &Message) {
    // SAFETY: the prefix of a message is NUL-terminated.
    unsafe { out.cstr(message.prefix) };
    if options.include_lsn {
        out.str(", lsn: ");
        out.lsn(message.lsn);
    }
    out.fmt(format_args!(", sz: {}", message.len));
}
