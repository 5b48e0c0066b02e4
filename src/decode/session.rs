//! What one decoding session keeps, and the memory of one callback.

use core::ffi::c_void;
use core::mem::size_of;

use super::options::Options;
use super::text::Out;
use super::values::Values;
use crate::pg::memory::{self, MemoryContext};
use crate::pg::sys::{self, LogicalDecodingContext};
use crate::pg_callback;

/// `ctx->output_plugin_private`, in `ctx->context`. Nothing of it needs dropping: the context goes when the session
/// ends, by `shutdown` or by an ERROR.
///
/// Still to come here: the inner plugin's
/// table of callbacks and its own `output_plugin_private`, exchanged around every call of it; and what tells the table
/// access method's guard that this slot is being decoded by us (set in [`Session::start`], taken back in
/// [`Session::end`] and [`lost`]).
struct State {
    /// Everything that a callback allocates.
    scratch: MemoryContext,
    options: Options,
    /// Out-of-line values for rows to come.
    values: Values,
    /// The extension was found in this database; asked once a session.
    extension_seen: bool,
    /// Calls [`lost`] when `ctx->context` goes without `shutdown`.
    on_loss: sys::MemoryContextCallback,
}

/// The session whose callback is running.
#[derive(Clone, Copy)]
pub struct Session(*mut LogicalDecodingContext);

impl Session {
    /// Sets the session up: called by `startup` and by nothing else.
    ///
    /// # Safety
    /// `ctx` must be the context that `startup` was called with.
    pub unsafe fn start(ctx: *mut LogicalDecodingContext, options: Options) {
        // SAFETY: the caller's promise; the block is big enough, MAXALIGNed, and lives as long as `ctx`.
        unsafe {
            let state: *mut State = sys::MemoryContextAllocZero((*ctx).context, size_of::<State>()).cast();
            let scratch = memory::new_context((*ctx).context, c"pg_vault_tde change");
            let on_loss = sys::MemoryContextCallback { func: Some(lost), arg: ctx.cast(), next: core::ptr::null_mut() };
            let values = Values::new(memory::new_context((*ctx).context, c"pg_vault_tde values"));
            state.write(State { scratch, options, values, extension_seen: false, on_loss });
            sys::MemoryContextRegisterResetCallback((*ctx).context, &raw mut (*state).on_loss);
            (*ctx).output_plugin_private = state.cast();
        }
    }

    /// # Safety
    /// `ctx` must be the context that a callback later than `startup` was called with; the value must not outlive that
    /// callback.
    #[inline]
    pub unsafe fn of(ctx: *mut LogicalDecodingContext) -> Self {
        Self(ctx)
    }

    #[inline]
    fn state(self) -> *mut State {
        // SAFETY: `of` was promised a session that `start` has set up.
        unsafe { (*self.0).output_plugin_private.cast() }
    }

    #[inline]
    pub fn options(self) -> Options {
        // SAFETY: the state lives as long as the session.
        unsafe { (*self.state()).options }
    }

    /// The out-of-line values that wait for their rows.
    #[inline]
    pub fn values(self) -> Values {
        // SAFETY: as for `options`.
        unsafe { (*self.state()).values }
    }

    /// Whether the rows of rewritten tables are sent.
    pub fn wants_rewrites(self) -> bool {
        // SAFETY: a decoding context has a reorder buffer.
        unsafe { (*(*self.0).reorder).output_rewrites }
    }

    /// Whether the extension has been found; [`Session::extension_is_there`] notes that.
    #[inline]
    pub fn extension_seen(self) -> bool {
        // SAFETY: as for `options`.
        unsafe { (*self.state()).extension_seen }
    }

    pub fn extension_is_there(self) {
        // SAFETY: as for `options`.
        unsafe { (*self.state()).extension_seen = true }
    }

    /// Runs the work of one callback with the scratch context current. The context is empty at the start, whatever the
    /// callback before this one came to, and again at the end. Never nested.
    pub fn run(self, body: impl FnOnce()) {
        // SAFETY: the scratch context lives as long as the session, and nobody keeps memory of it between callbacks.
        unsafe {
            let scratch = (*self.state()).scratch;
            sys::MemoryContextReset(scratch);
            memory::within(scratch, body);
            sys::MemoryContextReset(scratch);
        }
    }

    /// Sends one line. `last_write` is false for a line that another one of the same callback follows.
    pub fn line(self, last_write: bool, write: impl FnOnce(Out)) {
        // SAFETY: in a callback that may write, `ctx->out` is there, and ready after OutputPluginPrepareWrite.
        unsafe {
            sys::OutputPluginPrepareWrite(self.0, last_write);
            write(Out::to((*self.0).out));
            sys::OutputPluginWrite(self.0, last_write);
        }
    }

    /// The session ends as it should: for `shutdown`, the last callback.
    pub fn end(self) {
        // SAFETY: no callback follows, so nothing uses the scratch context any more.
        unsafe {
            (*self.state()).on_loss.arg = core::ptr::null_mut();
            sys::MemoryContextDelete((*self.state()).scratch);
        }
    }
}

pg_callback! {
    /// The session's context goes although `shutdown` was not called: an ERROR has ended the session.
    ///
    /// The SQL functions then leave the WAL segment that they were reading open, for as long as the connection lasts:
    /// that is so in core, whatever the plugin. Errors are common here - the key server is away, and a consumer asks
    /// again every second - and a backend that has used its file descriptors up takes the server down with a PANIC. So
    /// the segment is closed here. (A walsender has done that itself by now.)
    fn lost(ctx: *mut c_void) {
        let ctx: *mut LogicalDecodingContext = ctx.cast();
        if ctx.is_null() {
            return;
        }
        // SAFETY: the context's memory, and in it the WAL reader, is there until its reset callbacks have run; the
        // reader is freed early only after `shutdown`, which takes `ctx` away from here.
        unsafe {
            let reader = (*ctx).reader;
            if !reader.is_null() && (*reader).seg.ws_file >= 0 {
                if let Some(close) = (*reader).routine.segment_close {
                    close(reader);
                }
            }
        }
    }
}
