/*
 * layout.c - sizes, offsets and constants as the C compiler sees them, for tests/layout.rs to compare with what Rust
 * reads and builds.
 */
#include "shim.h"

#include <stddef.h>

#include "access/amapi.h"
#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/tableam.h"
#include "access/toast_helper.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "replication/reorderbuffer.h"
#include "utils/rel.h"

#define SIZE(type) {#type, sizeof(type)}
#define OFFSET(type, member) {#type "." #member, offsetof(type, member)}
#define CONSTANT(name) {#name, (name)}

extern const pgv_layout_entry pgv_layout[];

const pgv_layout_entry pgv_layout[] = {
	SIZE(RelationData),
	OFFSET(RelationData, rd_smgr),
	OFFSET(RelationData, rd_refcnt),
	OFFSET(RelationData, rd_createSubid),
	OFFSET(RelationData, rd_rel),
	OFFSET(RelationData, rd_att),
	OFFSET(RelationData, rd_attrsvalid),
	OFFSET(RelationData, rd_keyattr),
	OFFSET(RelationData, rd_idattr),
	OFFSET(RelationData, rd_hotblockingattr),
	OFFSET(RelationData, rd_summarizedattr),
	OFFSET(RelationData, rd_options),
	OFFSET(RelationData, rd_tableam),
	OFFSET(RelationData, rd_indam),
	OFFSET(RelationData, rd_toastoid),
	OFFSET(RelationData, pgstat_enabled),
	OFFSET(RelationData, pgstat_info),
	SIZE(FormData_pg_class),
	OFFSET(FormData_pg_class, reltoastrelid),
	OFFSET(FormData_pg_class, relkind),
	OFFSET(FormData_pg_class, relreplident),
	OFFSET(FormData_pg_class, relrewrite),
	SIZE(TupleTableSlotOps),
	SIZE(TupleTableSlot),
	OFFSET(TupleTableSlot, tts_ops),
	OFFSET(TupleTableSlot, tts_tid),
	SIZE(HeapTupleTableSlot),
	SIZE(BufferHeapTupleTableSlot),
	SIZE(TableAmRoutine),
	OFFSET(TableAmRoutine, tuple_update),
	OFFSET(TableAmRoutine, relation_fetch_toast_slice),
	OFFSET(TableAmRoutine, scan_sample_next_tuple),
	SIZE(IndexAmRoutine),
	OFFSET(IndexAmRoutine, aminsert),
	SIZE(IndexInfo),
	SIZE(HeapTupleData),
	SIZE(HeapTupleHeaderData),
	SIZE(TableScanDescData),
	OFFSET(HeapScanDescData, rs_cbuf),
	SIZE(ToastTupleContext),
	SIZE(ToastAttrInfo),
	SIZE(TM_FailureData),
	SIZE(ReorderBufferChange),
	OFFSET(ReorderBufferChange, data),
	SIZE(ReorderBufferTXN),
	OFFSET(ReorderBufferTXN, toptxn),
	OFFSET(ReorderBufferTXN, output_plugin_private),
	SIZE(OutputPluginCallbacks),
	SIZE(LogicalDecodingContext),
	OFFSET(LogicalDecodingContext, output_plugin_private),
	CONSTANT(SizeofHeapTupleHeader),
	CONSTANT(TOAST_TUPLE_THRESHOLD),
	CONSTANT(TOAST_TUPLE_TARGET),
	CONSTANT(TOAST_TUPLE_TARGET_MAIN),
	CONSTANT(TOAST_MAX_CHUNK_SIZE),
	CONSTANT(HEAP_XACT_MASK),
	CONSTANT(HEAP2_XACT_MASK),
	CONSTANT(HEAP_NATTS_MASK),
	CONSTANT(HEAP_HASVARWIDTH),
	{NULL, 0}
};
