//! Begin, commit, two-phase commit, and messages.

use core::ffi::c_char;

use super::Out;
use crate::decode::session::Session;
use crate::decode::txn::Txn;

/// BEGIN, also of a transaction that is decoded when it is prepared.
pub fn begin(session: Session, txn: Txn) {
    txn.clear();
    // a transaction that may turn out empty begins with its first line
    if !session.options().skip_empty_xacts {
        write_begin(session, txn, true);
    }
}

/// The BEGIN that was put off, before the first line of a transaction that now is known not to be empty.
pub fn begin_if_due(session: Session, txn: Txn) {
    if session.options().skip_empty_xacts && !txn.wrote() {
        write_begin(session, txn, false);
    }
    txn.mark_wrote();
}

fn write_begin(session: Session, txn: Txn, last_write: bool) {
    session.line(last_write, |out| {
        out.str("BEGIN");
        if session.options().include_xids {
            out.fmt(format_args!(" {}", txn.xid()));
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
        out.str("COMMIT");
        if options.include_xids {
            out.fmt(format_args!(" {}", txn.xid()));
        }
        if options.include_timestamp {
            out.time(txn.commit_time());
        }
    });
}

pub fn prepare(session: Session, txn: Txn) {
    if session.options().skip_empty_xacts && !txn.wrote() {
        return;
    }
    session.line(true, |out| {
        prepared(session, txn, out, "PREPARE TRANSACTION ");
        if session.options().include_timestamp {
            out.time(txn.prepare_time());
        }
    });
}

/// Comes for every prepared transaction, also an empty one: it may have been decoded by an earlier session.
pub fn commit_prepared(session: Session, txn: Txn) {
    session.line(true, |out| {
        prepared(session, txn, out, "COMMIT PREPARED ");
        if session.options().include_timestamp {
            out.time(txn.commit_time());
        }
    });
}

/// As [`commit_prepared`].
pub fn rollback_prepared(session: Session, txn: Txn) {
    session.line(true, |out| {
        prepared(session, txn, out, "ROLLBACK PREPARED ");
        if session.options().include_timestamp {
            out.time(txn.commit_time());
        }
    });
}

fn prepared(session: Session, txn: Txn, out: Out, what: &str) {
    out.str(what);
    // SAFETY: the callbacks of two-phase commit come with a name.
    unsafe { out.quoted(txn.gid()) };
    if session.options().include_xids {
        out.fmt(format_args!(", txid {}", txn.xid()));
    }
}

/// A message; `txn` is the transaction of one that is transactional.
///
/// # Safety
/// `prefix` must be NUL-terminated, `content` point to `len` bytes.
pub unsafe fn message(session: Session, txn: Option<Txn>, prefix: *const c_char, content: *const c_char, len: usize) {
    if let Some(txn) = txn {
        begin_if_due(session, txn);
    }
    session.line(true, |out| {
        out.fmt(format_args!("message: transactional: {} prefix: ", u8::from(txn.is_some())));
        // SAFETY: the caller's promises.
        unsafe {
            out.cstr(prefix);
            out.fmt(format_args!(", sz: {len} content:"));
            out.data(content, len);
        }
    });
}
