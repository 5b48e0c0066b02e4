-- Every family of types.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin types
DROP SCHEMA encrypted, heap CASCADE;
