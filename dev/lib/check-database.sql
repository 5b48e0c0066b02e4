-- What the regression suite has left is re-encrypted under a new key; then vault_tde.verify() must read every row and every
-- out-of-line value, and amcheck must find each row in all btree indexes, which are in order and unique, as pg_amcheck
-- --heapallindexed --checkunique does. (pg_amcheck itself only looks at tables of heap.)
SET client_min_messages = warning;
SET search_path = pg_catalog;
CREATE SCHEMA IF NOT EXISTS core_suite;
CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA core_suite;
CREATE TEMP TABLE found (what text) USING heap;
CREATE VIEW core_suite.encrypted AS
	SELECT oid FROM pg_class WHERE relkind IN ('r', 'm') AND relpersistence <> 't' AND vault_tde.is_encrypted(oid);
SELECT vault_tde.rotate_key();
DO $$
DECLARE t oid;
BEGIN
	FOR t IN SELECT oid FROM core_suite.encrypted LOOP
		CALL vault_tde.reencrypt(t);
	END LOOP;
END $$;
DO $$
DECLARE t record; problem record;
BEGIN
	FOR t IN SELECT oid FROM core_suite.encrypted LOOP
		FOR problem IN SELECT * FROM vault_tde.verify(t.oid) LOOP
			RAISE WARNING 'row % of %: %', problem.ctid, t.oid::regclass, problem.problem;
		END LOOP;
		INSERT INTO pg_temp.found VALUES ('table');
	END LOOP;
	FOR t IN SELECT relation, generation FROM vault_tde.generations_in_use() WHERE generation IS DISTINCT FROM (SELECT max(generation) FROM vault_tde.keys) LOOP
		RAISE WARNING '% still has tuples of generation %', t.relation, t.generation;
	END LOOP;
END $$;
DO $$
DECLARE i record;
BEGIN
	FOR i IN SELECT x.indexrelid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence <> 't' AND x.indisready AND x.indisvalid
	LOOP
		BEGIN
			PERFORM core_suite.bt_index_check(i.indexrelid, true, true);
			INSERT INTO pg_temp.found VALUES ('index');
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING '%: %', i.indexrelid::regclass, SQLERRM;
		END;
	END LOOP;
END $$;
SELECT format('%s tables are readable, %s indexes are complete', count(*) FILTER (WHERE what = 'table'), count(*) FILTER (WHERE what = 'index'))
FROM pg_temp.found;
