-- Out-of-line values: the life of rows.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin toast_rows

-- In this workload all values that no row points to are of columns that were dropped.
\! awk '/^ unused . lost . broken/ { getline; getline; print }' "$PG_ABS_BUILDDIR"/results/toast_rows.encrypted | sort | uniq -c
DROP SCHEMA encrypted, heap CASCADE;
