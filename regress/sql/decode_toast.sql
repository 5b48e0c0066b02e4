-- Decoding: values out of line.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! SORTED=true "$PG_ABS_SRCDIR"/lib/decode toast
\! "$PG_ABS_SRCDIR"/lib/decode values
\setenv PGOPTIONS '-c logical_decoding_work_mem=64kB'
\! "$PG_ABS_SRCDIR"/lib/decode values
\! UNBLOCKED=true "$PG_ABS_SRCDIR"/lib/decode values 'stream-changes=1 skip-empty-xacts=1'
\setenv PGOPTIONS '-c debug_logical_replication_streaming=immediate'
\! UNBLOCKED=true "$PG_ABS_SRCDIR"/lib/decode values skip-empty-xacts=1 'stream-changes=1 skip-empty-xacts=1'
\setenv TWO_PHASE true
\! "$PG_ABS_SRCDIR"/lib/decode values
DROP SCHEMA encrypted, heap CASCADE;
