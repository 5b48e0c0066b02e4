-- Out-of-line values: every length, storage mode, and way of storing.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin toast_lengths

-- how many tables each step of the workload has gone through, and the wrong ones among them
\! awk '/^ tables . wrong/ { getline; getline; print }' "$PG_ABS_BUILDDIR"/results/toast_lengths.encrypted | uniq -c
DROP SCHEMA encrypted, heap CASCADE;
