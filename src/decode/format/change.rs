//! Changes of rows, and TRUNCATE: which tables are asked for, and where plaintext is called for.

use core::mem::size_of_val;

use super::stream;
use super::transaction::begin_if_due;
use super::Streamed;
use crate::decode::session::Session;
use crate::decode::swap;
use crate::decode::txn::Txn;
use crate::pg::memory::slice;
use crate::pg::rel::Relation;
use crate::pg::sys::{self, ReorderBufferChange};

/// # Safety
/// The arguments must be those of `change`.
pub unsafe fn change(session: Session, txn: Txn, relation: Relation, change: *mut ReorderBufferChange) {
    let options = session.options();
    // SAFETY: the caller's promise.
    unsafe {
        if !options.tables.ask_for(relation) {
            return session.values().forget_table(txn, relation);
        }
        swap::with_plaintext(session, txn, relation, change, || {
            begin_if_due(session, txn);
            session.line(true, |out| options.lines().change(out, &options, txn, relation, change));
        });
    }
}

/// # Safety
/// The arguments must be those of `stream_change`.
pub unsafe fn stream_change(session: Session, txn: Txn, relation: Relation, change: *mut ReorderBufferChange) {
    let options = session.options();
    // SAFETY: the caller's promise.
    unsafe {
        if !options.tables.ask_for(relation) {
            return session.values().forget_table(txn, relation);
        }
        let send = || stream::line(session, txn, Streamed::Change(relation, change));
        match options.lines().shows_streamed() {
            true => swap::with_plaintext(session, txn, relation, change, send),
            // nothing to decrypt for it
            false => send(),
        }
    }
}

/// # Safety
/// The arguments must be those of `truncate`.
pub unsafe fn truncate(session: Session, txn: Txn, relations: &[Relation], change: *const ReorderBufferChange) {
    // SAFETY: the caller's promise.
    unsafe {
        let options = session.options();
        let relations = asked_for(session, relations);
        if !relations.is_empty() {
            begin_if_due(session, txn);
            session.line(true, |out| options.lines().truncate(out, &options, txn, relations, change));
        }
    }
}

/// # Safety
/// The arguments must be those of `stream_truncate`.
pub unsafe fn stream_truncate(session: Session, txn: Txn, relations: &[Relation], change: *const ReorderBufferChange) {
    // SAFETY: the caller's promise.
    unsafe {
        let relations = asked_for(session, relations);
        if !relations.is_empty() {
            stream::line(session, txn, Streamed::Truncate(relations, change));
        }
    }
}

/// Those of the relations that the options ask for, in memory of the callback.
unsafe fn asked_for(session: Session, relations: &[Relation]) -> &[Relation] {
    let tables = session.options().tables;
    // SAFETY: the block is as long as all of them; relations of a TRUNCATE are open.
    unsafe {
        let chosen: *mut Relation = sys::palloc(size_of_val(relations)).cast();
        let mut count = 0;
        for &relation in relations {
            if tables.ask_for(relation) {
                *chosen.add(count) = relation;
                count += 1;
            }
        }
        slice(chosen, count)
    }
}
