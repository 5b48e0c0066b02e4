//! Transactions that are streamed before they end. Like test_decoding, the lines say that there is a change, and do not
//! show what is in it: the transaction may still abort.

use core::ffi::c_char;

use super::Out;
use crate::decode::session::Session;
use crate::decode::txn::Txn;

pub fn start(session: Session, txn: Txn) {
    txn.clear_stream();
    // a stream that may turn out empty starts with its first line
    if !session.options().skip_empty_xacts {
        write_start(session, txn, true);
    }
}

/// The start that was put off, before the first line of a stream that now is known not to be empty.
fn start_if_due(session: Session, txn: Txn) {
    if session.options().skip_empty_xacts && !txn.stream_wrote() {
        write_start(session, txn, false);
    }
    txn.mark_stream_wrote();
}

fn write_start(session: Session, txn: Txn, last_write: bool) {
    session.line(last_write, |out| {
        out.str("opening a streamed block for transaction");
        xid(session, txn, out);
    });
}

pub fn stop(session: Session, txn: Txn) {
    if session.options().skip_empty_xacts && !txn.stream_wrote() {
        return;
    }
    session.line(true, |out| {
        out.str("closing a streamed block for transaction");
        xid(session, txn, out);
    });
}

/// Of the whole transaction or of a sub-transaction; what has been sent is known of the whole only.
pub fn abort(session: Session, txn: Txn) {
    let wrote = txn.top().wrote();
    if txn.is_top() {
        txn.clear();
    }
    if session.options().skip_empty_xacts && !wrote {
        return;
    }
    session.line(true, |out| {
        out.str("aborting streamed (sub)transaction");
        xid(session, txn, out);
    });
}

pub fn prepare(session: Session, txn: Txn) {
    let options = session.options();
    if options.skip_empty_xacts && !txn.wrote() {
        return;
    }
    session.line(true, |out| {
        out.str("preparing streamed transaction ");
        if options.include_xids {
            out.str("TXN ");
        }
        // SAFETY: a transaction that is prepared has a name.
        unsafe { out.quoted(txn.gid()) };
        if options.include_xids {
            out.fmt(format_args!(", txid {}", txn.xid()));
        }
        if options.include_timestamp {
            out.time(txn.prepare_time());
        }
    });
}

pub fn commit(session: Session, txn: Txn) {
    let options = session.options();
    let wrote = txn.wrote();
    txn.clear();
    if options.skip_empty_xacts && !wrote {
        return;
    }
    session.line(true, |out| {
        out.str("committing streamed transaction");
        xid(session, txn, out);
        if options.include_timestamp {
            out.time(txn.commit_time());
        }
    });
}

pub fn change(session: Session, txn: Txn) {
    change_of(session, txn, "streaming change for ");
}

pub fn truncate(session: Session, txn: Txn) {
    change_of(session, txn, "streaming truncate for ");
}

fn change_of(session: Session, txn: Txn, what: &str) {
    start_if_due(session, txn);
    session.line(true, |out| {
        out.str(what);
        match session.options().include_xids {
            true => out.fmt(format_args!("TXN {}", txn.xid())),
            false => out.str("transaction"),
        }
    });
}

/// A message; `txn` is the transaction of one that is transactional, whose content is not shown.
///
/// # Safety
/// `prefix` must be NUL-terminated, `content` point to `len` bytes.
pub unsafe fn message(session: Session, txn: Option<Txn>, prefix: *const c_char, content: *const c_char, len: usize) {
    if let Some(txn) = txn {
        start_if_due(session, txn);
    }
    session.line(true, |out| {
        out.fmt(format_args!("streaming message: transactional: {} prefix: ", u8::from(txn.is_some())));
        // SAFETY: the caller's promises.
        unsafe {
            out.cstr(prefix);
            out.fmt(format_args!(", sz: {len}"));
            if txn.is_none() {
                out.str(" content:");
                out.data(content, len);
            }
        }
    });
}

/// ` TXN …`
fn xid(session: Session, txn: Txn, out: Out) {
    if session.options().include_xids {
        out.fmt(format_args!(" TXN {}", txn.xid()));
    }
}
