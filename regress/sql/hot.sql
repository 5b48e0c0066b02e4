-- HOT updates.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin hot

-- The steps as such, for a human to see that HOT happens at all and where it must not.
\! grep -hE '^ (not|in|key|only|that|without|too|before|with|after|the|another|included)' "$PG_ABS_BUILDDIR"/results/hot.encrypted
DROP SCHEMA encrypted, heap CASCADE;
