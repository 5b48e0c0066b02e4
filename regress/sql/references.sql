-- Foreign keys and other constraints.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin references
DROP SCHEMA encrypted, heap CASCADE;
