//! Begin, commit, two-phase commit, and messages.

use super::{Mark, Message};
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
    let options = session.options();
    session.line(last_write, |out| options.lines().begin(out, &options, txn));
}

pub fn commit(session: Session, txn: Txn) {
    let wrote = txn.wrote();
    txn.clear();
    if !session.options().skip_empty_xacts || wrote {
        write(session, txn, Mark::Commit);
    }
}

pub fn prepare(session: Session, txn: Txn) {
    if !session.options().skip_empty_xacts || txn.wrote() {
        write(session, txn, Mark::Prepare);
    }
}

/// Comes for every prepared transaction, also an empty one: it may have been decoded by an earlier session.
pub fn commit_prepared(session: Session, txn: Txn) {
    write(session, txn, Mark::CommitPrepared);
}

/// As [`commit_prepared`].
pub fn rollback_prepared(session: Session, txn: Txn) {
    write(session, txn, Mark::RollbackPrepared);
}

pub(super) fn write(session: Session, txn: Txn, mark: Mark) {
    let options = session.options();
    session.line(true, |out| options.lines().mark(out, &options, txn, mark));
}

/// A message; `txn` is the transaction of one that is transactional.
///
/// # Safety
/// The message must be that of the callback.
pub unsafe fn message(session: Session, txn: Option<Txn>, message: Message) {
    if let Some(txn) = txn {
        begin_if_due(session, txn);
    }
    let options = session.options();
    // SAFETY: the caller's promise.
    session.line(true, |out| unsafe { options.lines().message(out, &options, txn, message) });
}
