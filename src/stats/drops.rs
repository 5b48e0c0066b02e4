//! Counters go with their relation, or database, when the transaction that drops it commits.

use super::shared;
use crate::pg::{sys, BackendCell, Oid};
use crate::pg_callback;

/// What this transaction has dropped so far.
struct Drop {
    class: Oid,
    object: Oid,
    /// Nesting level of the subtransaction that did it, or of the one that this has been committed to.
    level: i32,
}

/// Nothing of PostgreSQL runs while it is borrowed.
static DROPS: BackendCell<Vec<Drop>> = BackendCell::new(Vec::new());
static NEXT: BackendCell<sys::object_access_hook_type> = BackendCell::new(None);

/// What `_PG_init` does for the counters.
pub fn register() {
    // SAFETY: _PG_init runs in the postmaster, before any command does.
    unsafe {
        NEXT.set(sys::object_access_hook);
        sys::object_access_hook = Some(on_object_access);
        sys::RegisterSubXactCallback(Some(at_subxact_event), core::ptr::null_mut());
    }
}

fn with_drops<R>(body: impl FnOnce(&mut Vec<Drop>) -> R) -> R {
    // SAFETY: `body` does not come back here.
    body(unsafe { &mut *DROPS.as_ptr() })
}

fn level() -> i32 {
    // SAFETY: reads the state of the transaction.
    unsafe { sys::GetCurrentTransactionNestLevel() }
}

/// Forgets what the transaction has dropped, if it has committed. After [`super::add`] of what it had counted.
pub fn at_transaction_end(committed: bool) {
    with_drops(|drops| {
        if committed && !drops.is_empty() {
            let of = |class| drops.iter().filter(move |drop| drop.class == class).map(|drop| &drop.object);
            shared::forget(of(sys::RelationRelationId), of(sys::DatabaseRelationId));
        }
        drops.clear();
    });
}

pg_callback! {
    fn on_object_access(
        access: sys::ObjectAccessType,
        class: Oid,
        object: Oid,
        part: i32,
        arg: *mut core::ffi::c_void,
    ) {
        // SAFETY: the arguments of the hook, handed on as they came.
        unsafe {
            if let Some(next) = NEXT.get() {
                next(access, class, object, part, arg);
            }
        }
        let is_ours = class == sys::RelationRelationId || class == sys::DatabaseRelationId;
        if access == sys::OAT_DROP && is_ours && part == 0 {
            let level = level();
            with_drops(|drops| drops.push(Drop { class, object, level }));
        }
    }

    fn at_subxact_event(
        event: sys::SubXactEvent,
        _subid: sys::SubTransactionId,
        _parent: sys::SubTransactionId,
        _arg: *mut core::ffi::c_void,
    ) {
        // the level is still that of the subtransaction which ends
        let level = level();
        match event {
            sys::SUBXACT_EVENT_ABORT_SUB => with_drops(|drops| drops.retain(|drop| drop.level < level)),
            sys::SUBXACT_EVENT_COMMIT_SUB => with_drops(|drops| {
                drops.iter_mut().filter(|drop| drop.level >= level).for_each(|drop| drop.level = level - 1);
            }),
            _ => (),
        }
    }
}
