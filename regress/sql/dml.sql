-- INSERT, UPDATE, DELETE, MERGE, COPY.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin dml

-- What COPY FREEZE and VACUUM said about pages in the visibility map is true, as far as pg_visibility, where installed, can tell.
SELECT count(*) > 0 AS has_visibility FROM pg_available_extensions WHERE name = 'pg_visibility' \gset
\if :has_visibility
CREATE EXTENSION pg_visibility;
DO $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'encrypted'::regnamespace AND relkind = 'r' LOOP
        ASSERT NOT EXISTS (SELECT FROM pg_check_frozen(t)) AND NOT EXISTS (SELECT FROM pg_check_visible(t)), t;
    END LOOP;
    ASSERT (SELECT all_frozen > 0 FROM pg_visibility_map_summary('encrypted.many'));
END $$;
DROP EXTENSION pg_visibility;
\endif
\echo nothing wrong
DROP SCHEMA encrypted, heap CASCADE;
