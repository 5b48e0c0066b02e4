/*
 * shim.h - what only C can do for the Rust side: the module's magic block, PG_TRY, and the macros that bindgen cannot see.
 */
#ifndef PG_VAULT_TDE_SHIM_H
#define PG_VAULT_TDE_SHIM_H

#include "postgres.h"
#include "fmgr.h"
#include "storage/lwlock.h"
#include "utils/elog.h"

/* A body to run under PG_TRY. It may raise an ERROR; it never lets a Rust panic out. */
typedef void (*pgv_body) (void *arg);

/* The module's magic block, filled by the headers of the server that this is built for. */
extern const Pg_magic_struct *pgv_magic(void);

/* Runs body(arg), then cleanup(arg), also when body raised an ERROR, which goes on afterwards (PG_FINALLY). */
extern void pgv_finally(pgv_body body, pgv_body cleanup, void *arg);

/* CHECK_FOR_INTERRUPTS() */
extern void pgv_check_for_interrupts(void);

/* AddinShmemInitLock */
extern LWLock *pgv_addin_shmem_init_lock(void);

/* VARDATA_ANY() and VARSIZE_ANY_EXHDR() of a varlena that is not compressed and not out of line. */
extern const char *pgv_vardata_any(Datum value, size_t *len);

/* A struct's size, or the offset of a member, as the C compiler of the shim sees it (tests/layout.rs). */
typedef struct pgv_layout_entry
{
	const char *name;
	size_t		value;
} pgv_layout_entry;

#endif
