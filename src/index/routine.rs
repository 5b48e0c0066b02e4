//! The callback table of `encrypted_btree`: nbtree's own, in its order, with those replaced that meet a key or hand nbtree
//! the index.

use super::inner::nbtree;
use super::{build, scan, vacuum};
use crate::pg::majors;

/// What the handler returns.
pub fn routine() -> majors::IndexRoutine {
    majors::index_routine(|| {
        // SAFETY: nbtree's table is a plain struct.
        let mut table = unsafe { core::ptr::read(nbtree()) };

        table.amstorage = true;
        table.amcanbuildparallel = false;

        table.ambuild = Some(build::build);
        table.ambuildempty = Some(build::build_empty);
        table.aminsert = Some(build::insert);
        table.ambulkdelete = Some(vacuum::bulk_delete);
        table.amvacuumcleanup = Some(vacuum::cleanup);
        table.amadjustmembers = None;
        table.ambeginscan = Some(scan::begin);
        table.amrescan = Some(scan::rescan);
        table.amgettuple = Some(scan::get_tuple);
        table.amgetbitmap = Some(scan::get_bitmap);
        table.amendscan = Some(scan::end);
        table.ammarkpos = Some(scan::mark);
        table.amrestrpos = Some(scan::restore);
        table.amestimateparallelscan = Some(scan::estimate_parallel);
        table.amparallelrescan = Some(scan::parallel_rescan);
        majors::set_tree_height(&mut table, super::tree_height);
        table
    })
}
