-- Temporary and unlogged tables, views, materialised views, changes of the access method.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin relations
DROP SCHEMA encrypted, heap CASCADE;
