-- Checks all btree indexes of the database: order, uniqueness, and that each row of their tables is in them, as
-- pg_amcheck --heapallindexed --checkunique does.
-- (pg_amcheck itself only looks at tables of heap.)
SET client_min_messages = warning;
SET search_path = pg_catalog;
CREATE SCHEMA IF NOT EXISTS core_suite;
CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA core_suite;
CREATE TEMP TABLE found (checked bool);
DO $$
DECLARE i record;
BEGIN
	FOR i IN SELECT x.indexrelid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence <> 't' AND x.indisready AND x.indisvalid
	LOOP
		BEGIN
			PERFORM core_suite.bt_index_check(i.indexrelid, true, true);
			INSERT INTO pg_temp.found VALUES (true);
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING '%: %', i.indexrelid::regclass, SQLERRM;
		END;
	END LOOP;
END $$;
SELECT count(*) || ' indexes are complete' FROM pg_temp.found;
