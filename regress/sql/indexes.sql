-- Index builds.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv PGOPTIONS '-c pg_vault_tde.encrypt_indexes=off'
\! "$PG_ABS_SRCDIR"/lib/twin indexes
\setenv PGOPTIONS

-- amcheck, where it is installed, compares each btree index with all rows of the table.
SELECT count(*) > 0 AS has_amcheck FROM pg_available_extensions WHERE name = 'amcheck' \gset
\if :has_amcheck
CREATE EXTENSION amcheck;
DO $$
DECLARE
    i regclass;
    n int := 0;
BEGIN
    FOR i IN SELECT x.indexrelid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree'
             WHERE c.relnamespace = 'encrypted'::regnamespace AND x.indisvalid LOOP
        PERFORM bt_index_parent_check(i, heapallindexed => true, rootdescend => true);
        n := n + 1;
    END LOOP;
    ASSERT n >= 15;
END $$;
DROP EXTENSION amcheck;
\endif
DROP SCHEMA encrypted, heap CASCADE;
