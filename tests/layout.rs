//! The structs of the server that Rust reads or builds, as the C compiler sees them: the bindings are made by libclang,
//! but what counts is the compiler that compiles the shim, and the headers of the server that is installed.

use std::collections::BTreeMap;
use std::ffi::{c_char, CStr};
use std::mem::{offset_of, size_of};

#[allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, improper_ctypes, clippy::all)]
#[allow(unsafe_op_in_unsafe_fn, unnecessary_transmutes, clippy::undocumented_unsafe_blocks)]
mod sys {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
#[allow(dead_code, unused_imports)]
#[path = "../src/crypto/mod.rs"]
mod crypto;
#[path = "../src/pg/sizes.rs"]
mod sizes;

#[repr(C)]
struct Entry {
    name: *const c_char,
    value: usize,
}

#[link(name = "pgv_layout", kind = "static")]
extern "C" {
    static pgv_layout: [Entry; 0];
}

/// What the C compiler says, by name.
fn of_c() -> BTreeMap<&'static str, usize> {
    let mut entries = BTreeMap::new();
    let mut entry = (&raw const pgv_layout).cast::<Entry>();
    // SAFETY: the array ends with an entry whose name is null; the names are literals.
    unsafe {
        while !(*entry).name.is_null() {
            let name = CStr::from_ptr((*entry).name).to_str().expect("names are ASCII");
            assert!(entries.insert(name, (*entry).value).is_none(), "{name} is listed twice");
            entry = entry.add(1);
        }
    }
    entries
}

macro_rules! sizes {
    ($of_rust:ident, $($type:ident),* $(,)?) => {
        $($of_rust.insert(stringify!($type).to_owned(), size_of::<sys::$type>());)*
    };
}

macro_rules! offsets {
    ($of_rust:ident, $($type:ident { $($member:ident),* })*) => {
        $($($of_rust.insert(
            concat!(stringify!($type), ".", stringify!($member)).to_owned(),
            offset_of!(sys::$type, $member),
        );)*)*
    };
}

macro_rules! constants {
    ($of_rust:ident, $($name:literal = $value:expr),* $(,)?) => {
        $($of_rust.insert($name.to_owned(), usize::from($value));)*
    };
}

#[test]
fn rust_sees_what_c_sees() {
    let mut of_rust = BTreeMap::new();
    sizes!(
        of_rust,
        RelationData,
        FormData_pg_class,
        TupleTableSlotOps,
        TupleTableSlot,
        HeapTupleTableSlot,
        BufferHeapTupleTableSlot,
        TableAmRoutine,
        IndexAmRoutine,
        IndexInfo,
        HeapTupleData,
        HeapTupleHeaderData,
        TableScanDescData,
        ToastTupleContext,
        ToastAttrInfo,
        TM_FailureData,
        ReorderBufferChange,
        ReorderBufferTXN,
        OutputPluginCallbacks,
        LogicalDecodingContext,
    );
    offsets!(of_rust,
        RelationData {
            rd_smgr, rd_refcnt, rd_createSubid, rd_rel, rd_att, rd_attrsvalid, rd_keyattr, rd_idattr,
            rd_hotblockingattr, rd_summarizedattr, rd_options, rd_tableam, rd_indam, rd_toastoid, pgstat_enabled,
            pgstat_info
        }
        FormData_pg_class { reltoastrelid, relkind, relreplident, relrewrite }
        TupleTableSlot { tts_ops, tts_tid }
        TableAmRoutine { tuple_update, relation_fetch_toast_slice, scan_sample_next_tuple }
        IndexAmRoutine { aminsert }
        HeapScanDescData { rs_cbuf }
        ReorderBufferChange { data }
        ReorderBufferTXN { toptxn, output_plugin_private }
        LogicalDecodingContext { output_plugin_private }
    );
    constants!(
        of_rust,
        "SizeofHeapTupleHeader" = sizes::TUPLE_HEADER,
        "TOAST_TUPLE_THRESHOLD" = sizes::TOAST_TUPLE_THRESHOLD,
        "TOAST_TUPLE_TARGET" = sizes::TOAST_TUPLE_THRESHOLD,
        "TOAST_TUPLE_TARGET_MAIN" = sizes::TOAST_TUPLE_TARGET_MAIN,
        "TOAST_MAX_CHUNK_SIZE" = sizes::TOAST_MAX_CHUNK_SIZE,
        "HEAP_XACT_MASK" = crypto::row::HEAP_XACT_MASK,
        "HEAP2_XACT_MASK" = crypto::row::HEAP2_XACT_MASK,
        "HEAP_NATTS_MASK" = crypto::row::HEAP_NATTS_MASK,
        "HEAP_HASVARWIDTH" = crypto::row::HEAP_HASVARWIDTH,
    );
    let of_c = of_c();
    let different: Vec<String> = of_rust
        .iter()
        .filter(|(name, value)| of_c.get(name.as_str()) != Some(value))
        .map(|(name, value)| format!("{name}: Rust {value}, C {:?}", of_c.get(name.as_str())))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
    let unchecked: Vec<_> = of_c.keys().filter(|name| !of_rust.contains_key(**name)).collect();
    assert!(unchecked.is_empty(), "not compared with Rust: {unchecked:?}");
}

/// The offsets of the stored-row format are those of the server's tuple header.
#[test]
fn row_format_fits_the_tuple_header() {
    assert_eq!(crypto::row::INFOMASK2_OFFSET, offset_of!(sys::HeapTupleHeaderData, t_infomask2));
    assert_eq!(crypto::row::INFOMASK_OFFSET, offset_of!(sys::HeapTupleHeaderData, t_infomask));
    assert_eq!(crypto::row::HOFF_OFFSET, offset_of!(sys::HeapTupleHeaderData, t_hoff));
    assert_eq!(crypto::row::GENERATION_OFFSET, sizes::TUPLE_HEADER);
}
