//! What one decoding session keeps, and the memory of one callback.
//!
//! `ctx->output_plugin_private` belongs to the inner plugin, if there is one, so our state is found through a list of this
//! backend's sessions. That list has one member as a rule; more only while the remains of a session that an ERROR has
//! ended, inside a subtransaction, wait for their memory to go.

use core::ffi::c_void;
use core::mem::size_of;

use super::guard;
use super::inner::Inner;
use super::options::Options;
use super::out::Out;
use super::values::Values;
use crate::pg::error::INTERNAL_ERROR;
use crate::pg::memory::{self, MemoryContext};
use crate::pg::sys::{self, LogicalDecodingContext, OutputPluginCallbacks};
use crate::pg::BackendCell;
use crate::{pg_callback, pg_error};

/// The sessions of this backend, the newest first.
static SESSIONS: BackendCell<*mut State> = BackendCell::new(core::ptr::null_mut());

/// In `ctx->context`. Nothing of it needs dropping: the context goes when the session ends, by `shutdown` or by an ERROR.
struct State {
    /// The session that this is the state of, and the next one in [`SESSIONS`].
    ctx: *mut LogicalDecodingContext,
    next: *mut State,
    /// Everything that a callback allocates.
    scratch: MemoryContext,
    options: Options,
    /// What formats the decrypted changes; the text format of our own if there is none.
    inner: Option<Inner>,
    in_anothers_place: bool,
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
    pub unsafe fn start(
        ctx: *mut LogicalDecodingContext,
        options: Options,
        inner: Option<Inner>,
        in_anothers_place: bool,
    ) {
        // SAFETY: the caller's promise; the block is big enough, MAXALIGNed, and lives as long as `ctx`.
        unsafe {
            let state: *mut State = sys::MemoryContextAllocZero((*ctx).context, size_of::<State>()).cast();
            let scratch = memory::new_context((*ctx).context, c"pg_vault_tde change");
            let on_loss = sys::MemoryContextCallback { func: Some(lost), arg: ctx.cast(), next: core::ptr::null_mut() };
            let values = Values::new(memory::new_context((*ctx).context, c"pg_vault_tde values"));
            let next = SESSIONS.get();
            state.write(State {
                ctx,
                next,
                scratch,
                options,
                inner,
                in_anothers_place,
                values,
                extension_seen: false,
                on_loss,
            });
            sys::MemoryContextRegisterResetCallback((*ctx).context, &raw mut (*state).on_loss);
            SESSIONS.set(state);
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
        let mut state = SESSIONS.get();
        // SAFETY: a member of the list is in memory that is there until `leave` has taken it out.
        unsafe {
            while !state.is_null() && (*state).ctx != self.0 {
                state = (*state).next;
            }
        }
        if state.is_null() {
            pg_error!(INTERNAL_ERROR, "no decoding session of pg_vault_tde is active");
        }
        state
    }

    /// The callbacks of the inner plugin; `None` for the text format.
    #[inline]
    pub fn inner<'a>(self) -> Option<&'a OutputPluginCallbacks> {
        // SAFETY: the state lives as long as the session, and its table is not changed.
        unsafe { (*self.state()).inner.as_ref().map(|inner| &inner.callbacks) }
    }

    /// Whether we are in the place of another plugin, for users who may not know us.
    pub fn in_anothers_place(self) -> bool {
        // SAFETY: as for `inner`.
        unsafe { (*self.state()).in_anothers_place }
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
            let state = self.state();
            (*state).on_loss.arg = core::ptr::null_mut();
            leave(self.0);
            sys::MemoryContextDelete((*state).scratch);
        }
        guard::session_ends();
    }
}

/// Whether a session of ours is decoding on `slot`, which the backend has acquired.
pub fn is_ours(slot: *const sys::ReplicationSlot) -> bool {
    let mut state = SESSIONS.get();
    // SAFETY: as for `Session::state`.
    unsafe {
        while !state.is_null() {
            if core::ptr::eq((*(*state).ctx).slot, slot) {
                return true;
            }
            state = (*state).next;
        }
    }
    false
}

/// Takes a session out of the list.
unsafe fn leave(ctx: *mut LogicalDecodingContext) {
    let mut link = SESSIONS.as_ptr();
    // SAFETY: as for `Session::state`; links are in the list's members or its head.
    unsafe {
        while !(*link).is_null() {
            if (**link).ctx == ctx {
                *link = (**link).next;
                return;
            }
            link = &raw mut (**link).next;
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
        guard::session_ends();
        // SAFETY: the context's memory, and in it the WAL reader, is there until its reset callbacks have run; the
        // reader is freed early only after `shutdown`, which takes `ctx` away from here.
        unsafe {
            leave(ctx);
            let reader = (*ctx).reader;
            if !reader.is_null() && (*reader).seg.ws_file >= 0 {
                if let Some(close) = (*reader).routine.segment_close {
                    close(reader);
                }
            }
        }
    }
}
