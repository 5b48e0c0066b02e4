-- The workloads of other tests once more, with encrypted indexes on the encrypted tables.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv PGOPTIONS '-c pg_vault_tde.encrypt_indexes=on'
\! "$PG_ABS_SRCDIR"/lib/twin indexes
\! "$PG_ABS_SRCDIR"/lib/twin references
\! "$PG_ABS_SRCDIR"/lib/twin partitions
\! "$PG_ABS_SRCDIR"/lib/twin dml
\! "$PG_ABS_SRCDIR"/lib/twin hot
\! "$PG_ABS_SRCDIR"/lib/twin scans
\! "$PG_ABS_SRCDIR"/lib/twin transactions
\! "$PG_ABS_SRCDIR"/lib/twin triggers
\! "$PG_ABS_SRCDIR"/lib/twin types
\! "$PG_ABS_SRCDIR"/lib/twin clusters
\! "$PG_ABS_SRCDIR"/lib/twin relations
\! "$PG_ABS_SRCDIR"/lib/twin shapes
\! "$PG_ABS_SRCDIR"/lib/decode identities
\! "$PG_ABS_SRCDIR"/lib/decode history
DROP SCHEMA encrypted, heap CASCADE;
