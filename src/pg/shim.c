/*
 * shim.c - see shim.h. Compiled by cc, linked into the library.
 */
#include "shim.h"

#include "miscadmin.h"
#include "varatt.h"

const Pg_magic_struct *
pgv_magic(void)
{
#if PG_VERSION_NUM >= 180000
	static const Pg_magic_struct magic = PG_MODULE_MAGIC_DATA(.name = "pg_vault_tde", .version = "1.1");
#else
	static const Pg_magic_struct magic = PG_MODULE_MAGIC_DATA;
#endif

	return &magic;
}

void
pgv_finally(pgv_body body, pgv_body cleanup, void *arg)
{
	PG_TRY();
	{
		body(arg);
	}
	PG_FINALLY();
	{
		cleanup(arg);
	}
	PG_END_TRY();
}

void
pgv_check_for_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
}

LWLock *
pgv_addin_shmem_init_lock(void)
{
	return AddinShmemInitLock;
}

const char *
pgv_vardata_any(Datum value, size_t *len)
{
	void	   *varlena = DatumGetPointer(value);

	*len = VARSIZE_ANY_EXHDR(varlena);
	return VARDATA_ANY(varlena);
}
