-- Rows that a command meets more than once.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin revisits
DROP SCHEMA encrypted, heap CASCADE;
