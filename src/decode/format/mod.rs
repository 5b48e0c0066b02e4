//! Our own output formats, for sessions without an inner plugin: when a line is due. What is in it, the format says: `text`
//! (test_decoding's) or `json`.

pub mod change;
pub mod stream;
pub mod transaction;

use core::ffi::c_char;

use super::json::Json;
use super::options::Options;
use super::out::Out;
use super::text::Text;
use super::txn::Txn;
use crate::pg::rel::Relation;
use crate::pg::sys::{ReorderBufferChange, XLogRecPtr};

/// `format`
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

impl Format {
    /// The value of the option; `None` if there is no such format.
    pub fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"text" => Some(Self::Text),
            b"json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Who writes the lines.
    #[inline]
    pub fn lines(self) -> &'static dyn Lines {
        match self {
            Self::Text => &Text,
            Self::Json => &Json,
        }
    }
}

/// A logical message.
#[derive(Clone, Copy)]
pub struct Message {
    pub prefix: *const c_char,
    pub content: *const c_char,
    pub len: usize,
    pub lsn: XLogRecPtr,
}

/// What ends or begins a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Commit,
    Prepare,
    CommitPrepared,
    RollbackPrepared,
    StreamStart,
    StreamStop,
    StreamPrepare,
    StreamCommit,
}

/// The lines of one format. Each function writes one line to `out`, in the memory of the callback, and may raise an ERROR.
/// All of them are called by the callbacks of this name, with their arguments.
pub trait Lines {
    /// Also of a transaction that is decoded when it is prepared, which then has a name.
    fn begin(&self, out: Out, options: &Options, txn: Txn);

    fn mark(&self, out: Out, options: &Options, txn: Txn, mark: Mark);

    /// Of a streamed transaction or of a sub-transaction of it.
    fn stream_abort(&self, out: Out, options: &Options, txn: Txn, lsn: XLogRecPtr);

    /// # Safety
    /// `change` must hold plaintext tuples of `relation`, unless it is streamed and `shows_streamed` is false.
    unsafe fn change(
        &self,
        out: Out,
        options: &Options,
        txn: Txn,
        relation: Relation,
        change: *const ReorderBufferChange,
    );

    /// # Safety
    /// `relations` must be those that remain of the change's.
    unsafe fn truncate(
        &self,
        out: Out,
        options: &Options,
        txn: Txn,
        relations: &[Relation],
        change: *const ReorderBufferChange,
    );

    /// `txn` is the transaction of one that is transactional.
    ///
    /// # Safety
    /// The message must be that of the callback.
    unsafe fn message(&self, out: Out, options: &Options, txn: Option<Txn>, message: Message);

    /// Whether lines of a transaction in progress show what has changed, or only that something has.
    fn shows_streamed(&self) -> bool;

    /// What [`Lines::change`], [`Lines::truncate`] and [`Lines::message`] are for streamed transactions.
    ///
    /// # Safety
    /// As for those.
    unsafe fn streamed(&self, out: Out, options: &Options, txn: Txn, what: Streamed<'_>);
}

/// A line within a streamed block.
#[derive(Clone, Copy)]
pub enum Streamed<'a> {
    Change(Relation, *const ReorderBufferChange),
    Truncate(&'a [Relation], *const ReorderBufferChange),
    Message(Message),
}
