-- Savepoints, cursors, row locks, isolation levels, two-phase commit.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin transactions
DROP SCHEMA encrypted, heap CASCADE;
