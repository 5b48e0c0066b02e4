-- Decoding: transactions that do not fit into memory, spilled to disk or streamed while they are in progress.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\setenv PGOPTIONS '-c logical_decoding_work_mem=64kB'
\! "$PG_ABS_SRCDIR"/lib/decode volume
\! UNBLOCKED=true "$PG_ABS_SRCDIR"/lib/decode volume "stream-changes=1 skip-empty-xacts=1" "stream-changes=1 include-xids=0"
\setenv PGOPTIONS '-c debug_logical_replication_streaming=immediate'
\! "$PG_ABS_SRCDIR"/lib/decode volume skip-empty-xacts=1 "stream-changes=1 skip-empty-xacts=1"
\! "$PG_ABS_SRCDIR"/lib/decode subtransactions skip-empty-xacts=1 "stream-changes=1 skip-empty-xacts=1" "stream-changes=1 include-xids=0"
\! "$PG_ABS_SRCDIR"/lib/decode messages "stream-changes=1 skip-empty-xacts=1"
\! "$PG_ABS_SRCDIR"/lib/decode history "stream-changes=1 skip-empty-xacts=1"
\! "$PG_ABS_SRCDIR"/lib/decode rewrites "stream-changes=1 skip-empty-xacts=1 include-rewrites=1"
DROP SCHEMA encrypted, heap CASCADE;
