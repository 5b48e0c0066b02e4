-- Every way to read a table.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin scans
DROP SCHEMA encrypted, heap CASCADE;
