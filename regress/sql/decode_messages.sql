-- Decoding: messages, TRUNCATE, origins, relations without logical changes.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/decode messages "" skip-empty-xacts=1 only-local=1 include-rewrites=1
DROP SCHEMA encrypted, heap CASCADE;
