-- Decoding: tables that have changed since, and tables whose storage was exchanged.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/decode history
\! "$PG_ABS_SRCDIR"/lib/decode rewrites skip-empty-xacts=1 "skip-empty-xacts=1 include-rewrites=1"
DROP SCHEMA encrypted, heap CASCADE;
