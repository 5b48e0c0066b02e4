-- CLUSTER, VACUUM FULL, tablespaces.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin clusters
DROP SCHEMA encrypted, heap CASCADE;
