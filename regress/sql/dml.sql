-- INSERT, UPDATE, DELETE, MERGE, COPY.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin dml
DROP SCHEMA encrypted, heap CASCADE;
