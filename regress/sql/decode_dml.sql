-- Decoding: changes of every kind, through whatever path they come.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! SORTED=true "$PG_ABS_SRCDIR"/lib/decode dml
\! "$PG_ABS_SRCDIR"/lib/decode shapes
\! "$PG_ABS_SRCDIR"/lib/decode references
\! "$PG_ABS_SRCDIR"/lib/decode triggers
\! "$PG_ABS_SRCDIR"/lib/decode partitions
\! "$PG_ABS_SRCDIR"/lib/decode relations
\! "$PG_ABS_SRCDIR"/lib/decode transactions
\! "$PG_ABS_SRCDIR"/lib/decode subtransactions
DROP SCHEMA encrypted, heap CASCADE;
