-- Triggers.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin triggers
DROP SCHEMA encrypted, heap CASCADE;
