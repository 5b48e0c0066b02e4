-- Partitions and inheritance.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin partitions
DROP SCHEMA encrypted, heap CASCADE;
