//! Every function that logical decoding calls. Each one hands the work to the inner plugin's function of the same name or,
//! without an inner plugin, to a format of our own.
//!
//! Our formats run in the memory of one callback (`Session::run`). An inner plugin runs in the memory context that
//! core has called us in, as it would without us. A callback that it lacks does nothing, or raises an ERROR, as core does
//! then.

use core::ffi::{c_char, c_int, CStr};

use super::format::{Message, Streamed};
use super::inner::{required, Choice, Inner};
use super::options::Options;
use super::session::Session;
use super::txn::Txn;
use super::{extension, format, origin, swap, values};
use crate::keys;
use crate::pg::majors;
use crate::pg::memory::{self, slice};
use crate::pg::rel::Relation;
use crate::pg::sys::{
    self, LogicalDecodingContext, OutputPluginOptions, ReorderBufferChange, ReorderBufferTXN, Size, TimestampTz,
    TransactionId, XLogRecPtr,
};
use crate::pg_callback;

/// The common beginning of transactions and streams.
unsafe fn session_with_extension(ctx: *mut LogicalDecodingContext) -> Session {
    // SAFETY: the callers are callbacks in which a transaction is open.
    unsafe {
        let session = Session::of(ctx);
        session.run(|| extension::require(session));
        session
    }
}

/// Calls an inner plugin's `change_cb` or `stream_change_cb` with the plaintext of the change.
unsafe fn delegate_change(
    callback: sys::LogicalDecodeChangeCB,
    ctx: *mut LogicalDecodingContext,
    txn: *mut ReorderBufferTXN,
    relation: Relation,
    change: *mut ReorderBufferChange,
) {
    // SAFETY: the arguments are those of the callback that the caller is.
    unsafe {
        let session = Session::of(ctx);
        let callback = required(callback, "change");
        let callers = memory::current();
        session.run(|| {
            swap::with_plaintext(session, Txn::of(txn), relation, change, || {
                memory::within(callers, || callback(ctx, txn, relation, change));
            });
        });
    }
}

/// Takes in a message under our own prefix, which is passed on to nobody. The values that it brings are collected also
/// for tables that nobody asks for: which those are, only the inner plugin knows.
unsafe fn collect(
    session: Session,
    txn: *mut ReorderBufferTXN,
    transactional: bool,
    content: *const c_char,
    size: Size,
) {
    if !transactional {
        return;
    }
    // SAFETY: the arguments are those of the callback that the caller is.
    unsafe {
        let content = slice(content.cast::<u8>(), size);
        session.run(|| session.values().collect(session, Txn::of(txn), content));
    }
}

pg_callback! {
    /// No catalog look-ups in here: for START_REPLICATION no transaction is open yet. An ERROR leaves nothing behind.
    pub fn startup(ctx: *mut LogicalDecodingContext, core: *mut OutputPluginOptions, is_init: bool) {
        // SAFETY: the arguments of startup.
        unsafe {
            let Choice { inner, in_anothers_place } = Inner::choose(ctx);
            let Some(inner) = inner else {
                return Session::start(ctx, Options::read(ctx, core), None, in_anothers_place);
            };
            // core has set these for our callbacks; the plugin is to see, and may change, what its own come to
            (*ctx).streaming = inner.streams();
            (*ctx).twophase = inner.decodes_prepared();
            Session::start(ctx, Options::UNUSED, Some(inner), in_anothers_place);
            if let Some(startup) = inner.callbacks.startup_cb {
                startup(ctx, core, is_init);
            }
        }
    }

    pub fn begin(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback; a transaction is open.
        unsafe {
            let session = session_with_extension(ctx);
            match session.inner() {
                Some(inner) => required(inner.begin_cb, "begin")(ctx, txn),
                None => session.run(|| format::transaction::begin(session, Txn::of(txn))),
            }
        }
    }

    pub fn change(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        relation: Relation,
        change: *mut ReorderBufferChange,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            if keys::is_key_table(relation) {
                return; // a rewrapping: nobody's business
            }
            let session = Session::of(ctx);
            if let Some(inner) = session.inner() {
                return delegate_change(inner.change_cb, ctx, txn, relation, change);
            }
            session.run(|| format::change::change(session, Txn::of(txn), relation, change));
        }
    }

    pub fn truncate(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        nrelations: c_int,
        relations: *mut Relation,
        change: *mut ReorderBufferChange,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            let Some(inner) = session.inner() else {
                let relations = slice(relations, nrelations as usize);
                return session.run(|| format::change::truncate(session, Txn::of(txn), relations, change));
            };
            if let Some(truncate) = inner.truncate_cb {
                truncate(ctx, txn, nrelations, relations, change);
            }
        }
    }

    pub fn commit(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.commit_cb, "commit")(ctx, txn, lsn),
                None => session.run(|| format::transaction::commit(session, Txn::of(txn))),
            }
            session.values().forget(Txn::of(txn));
        }
    }

    /// One that is not transactional comes as soon as it is read, without an open transaction.
    pub fn message(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        lsn: XLogRecPtr,
        transactional: bool,
        prefix: *const c_char,
        size: Size,
        content: *const c_char,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            if values::is_ours(prefix) {
                return collect(session, txn, transactional, content, size);
            }
            let Some(inner) = session.inner() else {
                let txn = transactional.then(|| Txn::of(txn));
                let message = Message { prefix, content, len: size, lsn };
                return session.run(|| format::transaction::message(session, txn, message));
            };
            if let Some(message) = inner.message_cb {
                message(ctx, txn, lsn, transactional, prefix, size, content);
            }
        }
    }

    pub fn filter_by_origin(ctx: *mut LogicalDecodingContext, origin: majors::OriginId) -> bool {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => inner.filter_by_origin_cb.is_some_and(|filter| filter(ctx, origin)),
                None => session.options().only_local && u32::from(origin) != majors::NO_ORIGIN,
            }
        }
    }

    /// Not called when an ERROR ends the session: what it frees goes with `ctx->context` all the same.
    pub fn shutdown(ctx: *mut LogicalDecodingContext) {
        // SAFETY: the argument of the callback.
        unsafe {
            let session = Session::of(ctx);
            if let Some(shutdown) = session.inner().and_then(|inner| inner.shutdown_cb) {
                shutdown(ctx);
            }
            session.end();
        }
    }
}

// Decoding at PREPARE.
pg_callback! {
    /// test_decoding's rule: a transaction whose name contains `_nodecode` is decoded when it commits.
    pub fn filter_prepare(ctx: *mut LogicalDecodingContext, xid: TransactionId, gid: *const c_char) -> bool {
        const MARK: &[u8] = b"_nodecode";
        // SAFETY: the arguments of the callback.
        if let Some(inner) = unsafe { Session::of(ctx) }.inner() {
            // SAFETY: as above.
            return inner.filter_prepare_cb.is_some_and(|filter| unsafe { filter(ctx, xid, gid) });
        }
        // SAFETY: a prepared transaction has a name.
        let gid = unsafe { CStr::from_ptr(gid) }.to_bytes();
        gid.windows(MARK.len()).any(|part| part == MARK)
    }

    pub fn begin_prepare(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback; a transaction is open.
        unsafe {
            let session = session_with_extension(ctx);
            match session.inner() {
                Some(inner) => required(inner.begin_prepare_cb, "begin_prepare")(ctx, txn),
                None => session.run(|| format::transaction::begin(session, Txn::of(txn))),
            }
        }
    }

    /// After a concurrent abort it comes without an open transaction.
    pub fn prepare(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.prepare_cb, "prepare")(ctx, txn, lsn),
                None => session.run(|| format::transaction::prepare(session, Txn::of(txn))),
            }
            session.values().forget(Txn::of(txn));
        }
    }

    /// May be the first callback of a session, without an open transaction.
    pub fn commit_prepared(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.commit_prepared_cb, "commit_prepared")(ctx, txn, lsn),
                None => session.run(|| format::transaction::commit_prepared(session, Txn::of(txn))),
            }
        }
    }

    /// May be the first callback of a session, without an open transaction.
    pub fn rollback_prepared(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        prepare_end_lsn: XLogRecPtr,
        prepare_time: TimestampTz,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.rollback_prepared_cb, "rollback_prepared")(ctx, txn, prepare_end_lsn, prepare_time),
                None => session.run(|| format::transaction::rollback_prepared(session, Txn::of(txn))),
            }
        }
    }
}

// Streaming of transactions in progress.
pg_callback! {
    pub fn stream_start(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback; a transaction is open.
        unsafe {
            let session = session_with_extension(ctx);
            match session.inner() {
                Some(inner) => {
                    origin::complete(ctx, txn);
                    required(inner.stream_start_cb, "stream_start")(ctx, txn);
                }
                None => session.run(|| format::stream::start(session, Txn::of(txn))),
            }
        }
    }

    pub fn stream_stop(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.stream_stop_cb, "stream_stop")(ctx, txn),
                None => session.run(|| format::stream::stop(session, Txn::of(txn))),
            }
        }
    }

    /// Of a transaction or a sub-transaction that this session has streamed; no transaction is open.
    pub fn stream_abort(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.stream_abort_cb, "stream_abort")(ctx, txn, lsn),
                None => session.run(|| format::stream::abort(session, Txn::of(txn), lsn)),
            }
            session.values().forget(Txn::of(txn));
        }
    }

    pub fn stream_prepare(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.stream_prepare_cb, "stream_prepare")(ctx, txn, lsn),
                None => session.run(|| format::stream::prepare(session, Txn::of(txn))),
            }
            session.values().forget(Txn::of(txn));
        }
    }

    pub fn stream_commit(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            match session.inner() {
                Some(inner) => required(inner.stream_commit_cb, "stream_commit")(ctx, txn, lsn),
                None => session.run(|| format::stream::commit(session, Txn::of(txn))),
            }
            session.values().forget(Txn::of(txn));
        }
    }

    pub fn stream_change(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        relation: Relation,
        change: *mut ReorderBufferChange,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            if keys::is_key_table(relation) {
                return;
            }
            let session = Session::of(ctx);
            if let Some(inner) = session.inner() {
                return delegate_change(inner.stream_change_cb, ctx, txn, relation, change);
            }
            session.run(|| format::change::stream_change(session, Txn::of(txn), relation, change));
        }
    }

    pub fn stream_message(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        lsn: XLogRecPtr,
        transactional: bool,
        prefix: *const c_char,
        size: Size,
        content: *const c_char,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            if values::is_ours(prefix) {
                if session.inner().is_some() || session.options().lines().shows_streamed() {
                    collect(session, txn, transactional, content, size);
                }
                return;
            }
            let Some(inner) = session.inner() else {
                let message = Message { prefix, content, len: size, lsn };
                return session.run(|| match transactional {
                    true => format::stream::line(session, Txn::of(txn), Streamed::Message(message)),
                    false => format::transaction::message(session, None, message),
                });
            };
            if let Some(message) = inner.stream_message_cb {
                message(ctx, txn, lsn, transactional, prefix, size, content);
            }
        }
    }

    pub fn stream_truncate(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        nrelations: c_int,
        relations: *mut Relation,
        change: *mut ReorderBufferChange,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            let Some(inner) = session.inner() else {
                let relations = slice(relations, nrelations as usize);
                return session.run(|| format::change::stream_truncate(session, Txn::of(txn), relations, change));
            };
            if let Some(truncate) = inner.stream_truncate_cb {
                truncate(ctx, txn, nrelations, relations, change);
            }
        }
    }
}
