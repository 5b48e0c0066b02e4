-- Decoding: two-phase commit, with slots that decode PREPARE and with slots that do not.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/decode prepared "" skip-empty-xacts=1
\setenv TWO_PHASE true
\! "$PG_ABS_SRCDIR"/lib/decode prepared "" skip-empty-xacts=1 include-xids=0 include-timestamp=1
\setenv PGOPTIONS '-c debug_logical_replication_streaming=immediate'
\! "$PG_ABS_SRCDIR"/lib/decode prepared "stream-changes=1 skip-empty-xacts=1"
DROP SCHEMA encrypted, heap CASCADE;
