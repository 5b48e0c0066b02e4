-- Decoding: every family of types, and the settings that their text depends on.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/decode types
\setenv PGOPTIONS '-c datestyle=ISO,DMY -c timezone=Asia/Kathmandu -c intervalstyle=iso_8601 -c extra_float_digits=0 -c bytea_output=escape -c lc_monetary=C'
\! "$PG_ABS_SRCDIR"/lib/decode types
DROP SCHEMA encrypted, heap CASCADE;
