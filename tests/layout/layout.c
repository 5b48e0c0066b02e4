/* filled in below */
#include "shim.h"
#include <stddef.h>
#include "access/heapam.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "utils/rel.h"
#define SIZE(t) { "sizeof " #t, sizeof(t) }
#define OFFSET(t, m) { #t "." #m, offsetof(t, m) }
const pgv_layout_entry pgv_layout[] = {
	SIZE(RelationData),
	{NULL, 0}
};
