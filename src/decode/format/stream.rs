//! Transactions that are streamed before they end.

use super::transaction::write;
use super::{Mark, Streamed};
use crate::decode::session::Session;
use crate::decode::txn::Txn;
use crate::pg::sys::XLogRecPtr;

pub fn start(session: Session, txn: Txn) {
    txn.clear_stream();
    // a stream that may turn out empty starts with its first line
    if !session.options().skip_empty_xacts {
        write(session, txn, Mark::StreamStart);
    }
}

/// The start that was put off, before the first line of a stream that now is known not to be empty.
fn start_if_due(session: Session, txn: Txn) {
    let options = session.options();
    if options.skip_empty_xacts && !txn.stream_wrote() {
        session.line(false, |out| options.lines().mark(out, &options, txn, Mark::StreamStart));
    }
    txn.mark_stream_wrote();
}

pub fn stop(session: Session, txn: Txn) {
    if !session.options().skip_empty_xacts || txn.stream_wrote() {
        write(session, txn, Mark::StreamStop);
    }
}

/// Of the whole transaction or of a sub-transaction; what has been sent is known of the whole only.
pub fn abort(session: Session, txn: Txn, lsn: XLogRecPtr) {
    let options = session.options();
    let wrote = txn.top().wrote();
    if txn.is_top() {
        txn.clear();
    }
    if !options.skip_empty_xacts || wrote {
        session.line(true, |out| options.lines().stream_abort(out, &options, txn, lsn));
    }
}

pub fn prepare(session: Session, txn: Txn) {
    if !session.options().skip_empty_xacts || txn.wrote() {
        write(session, txn, Mark::StreamPrepare);
    }
}

pub fn commit(session: Session, txn: Txn) {
    let wrote = txn.wrote();
    txn.clear();
    if !session.options().skip_empty_xacts || wrote {
        write(session, txn, Mark::StreamCommit);
    }
}

/// A change, a TRUNCATE or a transactional message of a streamed transaction.
///
/// # Safety
/// As for [`super::Lines::streamed`].
pub unsafe fn line(session: Session, txn: Txn, what: Streamed<'_>) {
    start_if_due(session, txn);
    let options = session.options();
    // SAFETY: the caller's promise.
    session.line(true, |out| unsafe { options.lines().streamed(out, &options, txn, what) });
}
