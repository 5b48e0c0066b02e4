-- Decoding: the replica identities.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/decode identities
DROP SCHEMA encrypted, heap CASCADE;
