--
-- Re-encryption, verification and retirement of keys: reencrypt(), verify(), generations_in_use(), retire_key()
--
CREATE DATABASE regress_reencrypt;
\c regress_reencrypt
SET client_min_messages = error;
CREATE EXTENSION pg_vault_tde;
RESET client_min_messages;
SET pg_vault_tde.plaintext_indexes = allow;
SET pg_vault_tde.encrypt_indexes = off; -- index_features.sql has encrypted ones
-- every kind of storage, and a heap twin of each
CREATE TABLE plain (id int PRIMARY KEY, x text, big text, dropped text) USING encrypted_heap;
ALTER TABLE plain ALTER big SET STORAGE EXTERNAL, ALTER dropped SET STORAGE EXTERNAL;
CREATE INDEX ON plain (x);
INSERT INTO plain SELECT i, 'row ' || i, CASE WHEN i % 40 = 0 THEN repeat(md5(i::text), 200) END, repeat('d', i % 3000)
	FROM generate_series(1, 1000) i;
ALTER TABLE plain DROP dropped;
UPDATE plain SET x = 'changed' WHERE id % 10 = 0;
DELETE FROM plain WHERE id % 17 = 0;
CREATE UNLOGGED TABLE unlogged USING encrypted_heap AS SELECT i, 'unlogged ' || i AS x FROM generate_series(1, 500) i;
CREATE TEMPORARY TABLE temporary USING encrypted_heap AS SELECT i, repeat('temporary ', 500) || i AS x FROM generate_series(1, 50) i;
CREATE MATERIALIZED VIEW matview USING encrypted_heap AS SELECT * FROM plain;
CREATE TABLE parts (id int, x text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (100) USING encrypted_heap;
CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (100) TO (200) USING heap;
CREATE TABLE part_3 PARTITION OF parts FOR VALUES FROM (200) TO (300) PARTITION BY RANGE (id);
CREATE TABLE part_31 PARTITION OF part_3 FOR VALUES FROM (200) TO (300) USING encrypted_heap;
INSERT INTO parts SELECT i, 'part ' || i FROM generate_series(0, 299) i;
CREATE TABLE narrow () USING encrypted_heap;
INSERT INTO narrow DEFAULT VALUES;
CREATE TABLE empty (x text) USING encrypted_heap;

CREATE TABLE before USING heap AS
	SELECT 'plain' AS rel, ctid AS place, xmin::text AS made, xmax::text AS ended, x || coalesce(big, '-') AS x FROM plain UNION ALL
	SELECT 'unlogged', ctid, xmin::text, xmax::text, x FROM unlogged UNION ALL
	SELECT 'temporary', ctid, xmin::text, xmax::text, x FROM temporary UNION ALL
	SELECT 'matview', ctid, xmin::text, xmax::text, x || coalesce(big, '-') FROM matview UNION ALL
	SELECT 'parts', ctid, xmin::text, xmax::text, x FROM parts UNION ALL
	SELECT 'narrow', ctid, xmin::text, xmax::text, '' FROM narrow;
CREATE VIEW changed AS
	SELECT * FROM before EXCEPT (
	SELECT 'plain' AS rel, ctid AS place, xmin::text AS made, xmax::text AS ended, x || coalesce(big, '-') AS x FROM plain UNION ALL
	SELECT 'unlogged', ctid, xmin::text, xmax::text, x FROM unlogged UNION ALL
	SELECT 'matview', ctid, xmin::text, xmax::text, x || coalesce(big, '-') FROM matview UNION ALL
	SELECT 'parts', ctid, xmin::text, xmax::text, x FROM parts UNION ALL
	SELECT 'narrow', ctid, xmin::text, xmax::text, '' FROM narrow);
CREATE VIEW in_use AS
	SELECT relation::text LIKE 'pg_toast%' AS toast, generation, count(*) AS relations, sum(tuples) AS tuples
	FROM vault_tde.generations_in_use() GROUP BY 1, 2 ORDER BY 1, 2;
SELECT sum(pg_relation_size(oid)) AS size FROM pg_class WHERE vault_tde.is_encrypted(oid) \gset
SELECT * FROM in_use;

-- a slot that sees all that happens from here on
SELECT 'ready' FROM pg_create_logical_replication_slot('reencrypt', 'pg_vault_tde');

-- who may, and how
CREATE ROLE regress_keys;
SET ROLE regress_keys;
CALL vault_tde.reencrypt('plain');
SELECT * FROM vault_tde.verify('plain');
SELECT vault_tde.retire_key(1);
SELECT * FROM vault_tde.generations_in_use();
RESET ROLE;
GRANT EXECUTE ON PROCEDURE vault_tde.reencrypt TO regress_keys;
GRANT EXECUTE ON FUNCTION vault_tde.verify, vault_tde.retire_key TO regress_keys;
SET ROLE regress_keys;
CALL vault_tde.reencrypt('plain');
SELECT * FROM vault_tde.verify('plain');
RESET ROLE;
GRANT SELECT, MAINTAIN ON plain TO regress_keys;
SET ROLE regress_keys;
CALL vault_tde.reencrypt('plain');
SELECT * FROM vault_tde.verify('plain');
RESET ROLE;
REVOKE ALL ON plain FROM regress_keys;
REVOKE ALL ON PROCEDURE vault_tde.reencrypt FROM regress_keys;
REVOKE ALL ON FUNCTION vault_tde.verify, vault_tde.retire_key FROM regress_keys;
DROP ROLE regress_keys;
CALL vault_tde.reencrypt(NULL);
CALL vault_tde.reencrypt('plain', NULL);
CALL vault_tde.reencrypt('plain', 0);
CALL vault_tde.reencrypt('before');
CALL vault_tde.reencrypt('changed');
CALL vault_tde.reencrypt('plain_pkey');
CALL vault_tde.reencrypt(0);
SELECT * FROM vault_tde.verify(0);
SELECT * FROM vault_tde.verify('before');
SELECT * FROM vault_tde.verify('parts');
BEGIN;
CALL vault_tde.reencrypt('plain');
ROLLBACK;
CREATE FUNCTION caller() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL vault_tde.reencrypt('plain'); END $$;
SELECT caller();
CREATE MATERIALIZED VIEW restricted AS SELECT problem FROM vault_tde.verify('plain');
CREATE MATERIALIZED VIEW restricted AS SELECT vault_tde.rotate_key();

-- a rotation that is not committed is not used: the procedure commits first
DO $$
BEGIN
	PERFORM vault_tde.rotate_key();
	CALL vault_tde.reencrypt('plain');
	ROLLBACK;
END $$;
SELECT generation, is_current, relations FROM vault_tde.keys ORDER BY 1;
SELECT generation, is_current FROM vault_tde.keys ORDER BY 1;
SELECT vault_tde.retire_key(1);
SELECT vault_tde.retire_key(2);
SELECT vault_tde.retire_key(3);

CALL vault_tde.reencrypt('plain', 10);
CALL vault_tde.reencrypt('unlogged');
CALL vault_tde.reencrypt('temporary');
CALL vault_tde.reencrypt('matview', 1);
CALL vault_tde.reencrypt('parts');
CALL vault_tde.reencrypt('narrow');
CALL vault_tde.reencrypt('empty');
SELECT * FROM in_use;
-- no row has moved, been locked or changed its transaction, nor has any file grown; the temporary one is in its session
SELECT count(*) FROM changed WHERE rel <> 'temporary';
SELECT count(*) AS temporary FROM temporary t JOIN before b ON b.rel = 'temporary' AND b.place = t.ctid AND b.x = t.x;
SELECT sum(pg_relation_size(oid)) - :size AS grown FROM pg_class WHERE vault_tde.is_encrypted(oid);
SELECT count(*) FROM plain CROSS JOIN LATERAL (SELECT FROM vault_tde.verify('plain') LIMIT 1);
SELECT * FROM vault_tde.verify('plain') UNION ALL SELECT * FROM vault_tde.verify('unlogged')
	UNION ALL SELECT * FROM vault_tde.verify('temporary') UNION ALL SELECT * FROM vault_tde.verify('matview')
	UNION ALL SELECT * FROM vault_tde.verify('part_31') UNION ALL SELECT * FROM vault_tde.verify('empty');
SET enable_seqscan = off;
SELECT id, length(big) FROM plain WHERE x = 'row 3';
RESET enable_seqscan;

-- the slot is at WAL from before; when it has got past it, the key can go
\set VERBOSITY terse
SELECT vault_tde.retire_key(1);
\set VERBOSITY default
SELECT data FROM pg_logical_slot_get_changes('reencrypt', NULL, NULL) WHERE data NOT LIKE 'BEGIN%' AND data NOT LIKE 'COMMIT%';
SELECT 'dropped' FROM pg_drop_replication_slot('reencrypt');
BEGIN;
SELECT vault_tde.retire_key(1);
SELECT generation, is_current FROM vault_tde.keys;
ROLLBACK;
SELECT count(*), sum(length(big)) FROM plain;
SELECT vault_tde.retire_key(1);
SELECT generation, is_current FROM vault_tde.keys;
\c
SELECT count(*), sum(length(big)) FROM plain;
INSERT INTO plain VALUES (5000, 'after');
SELECT * FROM vault_tde.verify('plain');

-- generations that have the same low byte: only opening a row tells which it is of
CREATE TABLE bytes (id int, x text) USING encrypted_heap;
INSERT INTO bytes SELECT i, repeat('b', 3000) FROM generate_series(1, 10) i;
ALTER TABLE bytes ALTER x SET STORAGE EXTERNAL;
INSERT INTO bytes SELECT i, repeat('e', 3000) FROM generate_series(1, 10) i;
SELECT count(vault_tde.rotate_key()) FROM generate_series(1, 256);
INSERT INTO bytes VALUES (258, repeat('n', 3000));
SELECT relation, generation, tuples FROM vault_tde.generations_in_use() WHERE relation = 'bytes'::regclass ORDER BY 1, 2;
SELECT vault_tde.retire_key(2);
CALL vault_tde.reencrypt('bytes', 3);
SELECT relation, generation, tuples FROM vault_tde.generations_in_use() WHERE relation = 'bytes'::regclass ORDER BY 1, 2;
SELECT count(*), sum(length(x)) FROM bytes;

-- rows of a rotation that was rolled back are nobody's; they are passed over, and are in the way of nothing when vacuumed
CREATE TABLE failed (x text) USING encrypted_heap;
INSERT INTO failed VALUES ('kept');
BEGIN;
SELECT vault_tde.rotate_key();
INSERT INTO failed VALUES ('never');
ROLLBACK;
SELECT vault_tde.rotate_key();
CALL vault_tde.reencrypt('failed');
SELECT * FROM failed;
SELECT * FROM vault_tde.verify('failed');

-- a prepared transaction may have written under any key
BEGIN;
INSERT INTO failed VALUES ('prepared');
PREPARE TRANSACTION 'regress';
SELECT vault_tde.retire_key(100);
ROLLBACK PREPARED 'regress';
SELECT vault_tde.retire_key(100);

-- how many rows one key has encrypted
SET pg_vault_tde.rows_per_key_warning = 10;
CREATE TABLE busy (x int) USING encrypted_heap;
INSERT INTO busy SELECT generate_series(1, 8);
UPDATE busy SET x = x + 1;
SELECT pg_stat_force_next_flush();
\set VERBOSITY terse
VACUUM busy;
SELECT value, ok FROM vault_tde.status() WHERE item = 'rows encrypted, near the limit' AND value LIKE '%busy';
\set VERBOSITY default
SELECT 'busy'::regclass::oid AS oid \gset
SELECT pg_stat_reset_single_table_counters(:oid);
VACUUM busy;
RESET pg_vault_tde.rows_per_key_warning;
\c contrib_regression
DROP DATABASE regress_reencrypt;
