//! Every function that logical decoding calls. Each one runs in the memory of one callback (`Session::run`) and hands
//! the work to the text format.
//!
//! An inner plugin will come in here: each function then calls either the format or the inner plugin's function of the
//! same name, that one in the caller's memory context and with its own `ctx->output_plugin_private`.

use core::ffi::{c_char, c_int, CStr};

use super::options::Options;
use super::session::Session;
use super::txn::Txn;
use super::{extension, swap, text, values};
use crate::pg::memory::slice;
use crate::pg::rel::Relation;
use crate::pg::sys::{
    self, LogicalDecodingContext, OutputPluginOptions, ReorderBufferChange, ReorderBufferTXN, RepOriginId, Size,
    TimestampTz, TransactionId, XLogRecPtr,
};
use crate::pg_callback;

pg_callback! {
    /// No catalog look-ups in here: for START_REPLICATION no transaction is open yet. An ERROR leaves nothing behind.
    pub fn startup(ctx: *mut LogicalDecodingContext, core: *mut OutputPluginOptions, _is_init: bool) {
        // SAFETY: the arguments of startup.
        unsafe { Session::start(ctx, Options::read(ctx, core)) }
    }

    pub fn begin(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback; a transaction is open.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| {
                extension::require(session);
                text::transaction::begin(session, txn);
            });
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
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| {
                swap::with_plaintext(session, txn, relation, change, || text::row::change(session, txn, relation, change));
            });
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
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            let relations = slice(relations, nrelations as usize);
            session.run(|| text::row::truncate(session, txn, relations, change));
        }
    }

    pub fn commit(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, _lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::transaction::commit(session, txn));
            session.values().forget(txn);
        }
    }

    /// One that is not transactional comes as soon as it is read, without an open transaction.
    pub fn message(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        _lsn: XLogRecPtr,
        transactional: bool,
        prefix: *const c_char,
        size: Size,
        content: *const c_char,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let session = Session::of(ctx);
            let txn = transactional.then(|| Txn::of(txn));
            if values::is_ours(prefix) {
                if let Some(txn) = txn {
                    let content = slice(content.cast::<u8>(), size as usize);
                    session.run(|| session.values().collect(session, txn, content));
                }
                return;
            }
            session.run(|| text::transaction::message(session, txn, prefix, content, size as usize));
        }
    }

    pub fn filter_by_origin(ctx: *mut LogicalDecodingContext, origin: RepOriginId) -> bool {
        // SAFETY: the arguments of the callback.
        let options = unsafe { Session::of(ctx) }.options();
        options.only_local && u32::from(origin) != sys::InvalidRepOriginId
    }

    /// Not called when an ERROR ends the session: what it frees goes with `ctx->context` all the same.
    pub fn shutdown(ctx: *mut LogicalDecodingContext) {
        // SAFETY: the argument of the callback.
        unsafe { Session::of(ctx) }.end();
    }
}

// Decoding at PREPARE.
pg_callback! {
    /// test_decoding's rule: a transaction whose name contains `_nodecode` is decoded when it commits.
    pub fn filter_prepare(_ctx: *mut LogicalDecodingContext, _xid: TransactionId, gid: *const c_char) -> bool {
        const MARK: &[u8] = b"_nodecode";
        // SAFETY: a prepared transaction has a name.
        let gid = unsafe { CStr::from_ptr(gid) }.to_bytes();
        gid.windows(MARK.len()).any(|part| part == MARK)
    }

    pub fn begin_prepare(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback; a transaction is open.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| {
                extension::require(session);
                text::transaction::begin(session, txn);
            });
        }
    }

    /// After a concurrent abort it comes without an open transaction.
    pub fn prepare(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, _lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::transaction::prepare(session, txn));
            session.values().forget(txn);
        }
    }

    /// May be the first callback of a session, without an open transaction.
    pub fn commit_prepared(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, _lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::transaction::commit_prepared(session, txn));
        }
    }

    /// May be the first callback of a session, without an open transaction.
    pub fn rollback_prepared(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        _prepare_end_lsn: XLogRecPtr,
        _prepare_time: TimestampTz,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::transaction::rollback_prepared(session, txn));
        }
    }
}

// Streaming of transactions in progress.
pg_callback! {
    pub fn stream_start(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback; a transaction is open.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| {
                extension::require(session);
                text::stream::start(session, txn);
            });
        }
    }

    pub fn stream_stop(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::stream::stop(session, txn));
        }
    }

    /// Of a transaction or a sub-transaction that this session has streamed; no transaction is open.
    pub fn stream_abort(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, _lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::stream::abort(session, txn));
        }
    }

    pub fn stream_prepare(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, _lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::stream::prepare(session, txn));
        }
    }

    pub fn stream_commit(ctx: *mut LogicalDecodingContext, txn: *mut ReorderBufferTXN, _lsn: XLogRecPtr) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::stream::commit(session, txn));
        }
    }

    /// The text format does not show the row, so there is nothing to decrypt; an inner plugin will get it through
    /// `swap::with_plaintext`, as in `change`.
    pub fn stream_change(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        _relation: Relation,
        _change: *mut ReorderBufferChange,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::stream::change(session, txn));
        }
    }

    pub fn stream_message(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        _lsn: XLogRecPtr,
        transactional: bool,
        prefix: *const c_char,
        size: Size,
        content: *const c_char,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            if values::is_ours(prefix) {
                // the text format does not show streamed rows, so there is nothing to collect for them
                return;
            }
            let session = Session::of(ctx);
            let txn = transactional.then(|| Txn::of(txn));
            session.run(|| text::stream::message(session, txn, prefix, content, size as usize));
        }
    }

    pub fn stream_truncate(
        ctx: *mut LogicalDecodingContext,
        txn: *mut ReorderBufferTXN,
        _nrelations: c_int,
        _relations: *mut Relation,
        _change: *mut ReorderBufferChange,
    ) {
        // SAFETY: the arguments of the callback.
        unsafe {
            let (session, txn) = (Session::of(ctx), Txn::of(txn));
            session.run(|| text::stream::truncate(session, txn));
        }
    }
}
