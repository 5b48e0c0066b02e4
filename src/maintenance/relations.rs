//! Which relations of the database are encrypted, and waiting for those who may still write under an older key.

use core::ffi::CStr;
use core::ptr;

use crate::pg::{memory, sys, tuple, Oid, INVALID_OID};

/// The encrypted relations of this database, TOAST tables among them, as the catalogs say now: those of transactions that
/// have not committed are missing. In the current memory context.
///
/// # Safety
/// In a transaction.
pub unsafe fn all<'a>() -> &'a [Oid] {
    // SAFETY: in a transaction.
    unsafe {
        let method = |name: &CStr| sys::get_table_am_oid(name.as_ptr(), true);
        let methods = [method(c"encrypted_heap"), method(c"encrypted_toast")];
        let mut list: *mut sys::List = ptr::null_mut();
        for_each_class(|class| {
            let kind = class.relkind as u8;
            let has_rows = matches!(kind, sys::RELKIND_RELATION | sys::RELKIND_TOASTVALUE | sys::RELKIND_MATVIEW);
            if has_rows && methods.contains(&class.relam) {
                list = sys::lappend_oid(list, class.oid);
            }
        });
        oids(list)
    }
}

/// The table whose out-of-line values are in the TOAST table `toast`; InvalidOid if there is none.
///
/// # Safety
/// In a transaction.
pub unsafe fn table_of(toast: Oid) -> Oid {
    let mut table = INVALID_OID;
    // SAFETY: the caller's promise.
    unsafe {
        for_each_class(|class| {
            if class.reltoastrelid == toast {
                table = class.oid;
            }
        });
    }
    table
}

/// Calls `body` with each row of pg_class.
unsafe fn for_each_class(mut body: impl FnMut(&sys::FormData_pg_class)) {
    // SAFETY: a catalog scan under a snapshot of now; each tuple is a row of pg_class.
    unsafe {
        let classes = sys::table_open(sys::RelationRelationId, sys::AccessShareLock as i32);
        let scan = sys::systable_beginscan(classes, 0, false, ptr::null_mut(), 0, ptr::null_mut());
        loop {
            let tuple = sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let class: *const sys::FormData_pg_class = tuple::body(tuple);
            body(&*class);
        }
        sys::systable_endscan(scan);
        sys::table_close(classes, sys::AccessShareLock as i32);
    }
}

/// The encrypted indexes of this database, or those of one table, as the catalogs say now. In the current memory context.
///
/// # Safety
/// In a transaction.
pub unsafe fn indexes<'a>(of_table: Option<Oid>) -> &'a [Oid] {
    // SAFETY: a catalog scan under a snapshot of now; each tuple is a row of pg_index.
    unsafe {
        let method = crate::index::method_oid();
        let mut list: *mut sys::List = ptr::null_mut();
        let indexes = sys::table_open(sys::IndexRelationId, sys::AccessShareLock as i32);
        let scan = sys::systable_beginscan(indexes, 0, false, ptr::null_mut(), 0, ptr::null_mut());
        loop {
            let tuple = sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let index: *const sys::FormData_pg_index = tuple::body(tuple);
            let oid = (*index).indexrelid;
            let wanted = of_table.is_none_or(|table| (*index).indrelid == table);
            let is_stored = || sys::get_rel_relkind(oid) as u8 == sys::RELKIND_INDEX;
            if method != 0 && wanted && sys::get_rel_relam(oid) == method && is_stored() {
                list = sys::lappend_oid(list, oid);
            }
        }
        sys::systable_endscan(scan);
        sys::table_close(indexes, sys::AccessShareLock as i32);
        oids(list)
    }
}

/// The relation and, if it is partitioned or has children, all below it. In the current memory context.
///
/// # Safety
/// In a transaction.
pub unsafe fn with_children<'a>(oid: Oid) -> &'a [Oid] {
    // SAFETY: the caller's promise.
    unsafe { oids(sys::find_all_inheritors(oid, sys::AccessShareLock as i32, ptr::null_mut())) }
}

/// # Safety
/// `list` must be a list of OIDs, or null. The result is sorted.
unsafe fn oids<'a>(list: *mut sys::List) -> &'a [Oid] {
    // SAFETY: the caller's promise; a ListCell is as long as its largest member, so the cells are copied.
    unsafe {
        if list.is_null() {
            return &[];
        }
        let len = (*list).length as usize;
        let array: *mut Oid = sys::palloc(len * size_of::<Oid>()).cast();
        for i in 0..len {
            array.add(i).write((*(*list).elements.add(i)).oid_value);
        }
        core::slice::from_raw_parts_mut(array, len).sort_unstable();
        memory::slice(array, len)
    }
}

/// Waits until every transaction that may be writing to the relation now has ended. Whoever locks it later processes
/// invalidations first, and so knows of each generation that is committed now. May be interrupted.
///
/// # Safety
/// In a transaction, without a lock on the relation that one of those could wait for.
pub unsafe fn wait_for_writers(oid: Oid) {
    // SAFETY: the caller's promise.
    unsafe {
        let tag = sys::LOCKTAG {
            locktag_field1: sys::MyDatabaseId,
            locktag_field2: oid,
            locktag_field3: 0,
            locktag_field4: 0,
            locktag_type: sys::LOCKTAG_RELATION as u8,
            locktag_lockmethodid: sys::DEFAULT_LOCKMETHOD as u8,
        };
        sys::WaitForLockers(tag, sys::ShareLock as i32, false);
    }
}

/// Waits until every transaction of this database that is running now has ended, but for this one, decoders and vacuum,
/// which write no rows. Who begins later knows of each generation that is committed now, as beginning processes
/// invalidations. May be interrupted; `lock_timeout` applies.
///
/// # Safety
/// In a transaction.
pub unsafe fn wait_for_transactions() {
    // SAFETY: the caller's promise; the array has `count` entries.
    unsafe {
        let idle = sys::PROC_IN_LOGICAL_DECODING | sys::PROC_IS_AUTOVACUUM | sys::PROC_IN_VACUUM;
        let mut count = 0;
        let running = sys::GetCurrentVirtualXIDs(0, false, false, idle as i32, &mut count);
        for i in 0..count as usize {
            sys::VirtualXactLock(*running.add(i), true);
        }
        sys::pfree(running.cast());
    }
}
