-- Decoding of out-of-line values: whole, spilled, and streamed.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv SORTED true
-- keys are as long as an index takes them
\setenv PGOPTIONS '-c pg_vault_tde.encrypt_indexes=off'
\! "$PG_ABS_SRCDIR"/lib/decode toast_decode skip-empty-xacts=1
\! "$PG_ABS_SRCDIR"/lib/decode toast_rewrites skip-empty-xacts=1 "skip-empty-xacts=1 include-xids=0 include-rewrites=1"
\setenv PGOPTIONS '-c pg_vault_tde.encrypt_indexes=off -c logical_decoding_work_mem=64kB'
\! "$PG_ABS_SRCDIR"/lib/decode toast_decode skip-empty-xacts=1
\setenv PGOPTIONS '-c pg_vault_tde.encrypt_indexes=off -c debug_logical_replication_streaming=immediate'
\! UNBLOCKED=true "$PG_ABS_SRCDIR"/lib/decode toast_decode skip-empty-xacts=1 "stream-changes=1 skip-empty-xacts=1"
DROP SCHEMA encrypted, heap CASCADE;
