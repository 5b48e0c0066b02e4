-- CLUSTER and VACUUM FULL: the order of rows, what becomes of dead ones, and of everything that is said about the rows.
CREATE TABLE t (id int PRIMARY KEY, k int, x text, dropped text);
INSERT INTO t SELECT i, (i * 7919) % 1000, 'x' || i, 'dropped' FROM generate_series(1, 1000) i;
CREATE INDEX t_k ON t (k);
CREATE INDEX t_down ON t (k DESC, id);
CREATE INDEX t_partial ON t (k) WHERE k > 5;
CREATE INDEX t_expression ON t (lower(x));
ALTER TABLE t DROP COLUMN dropped;
ALTER TABLE t ADD COLUMN late int DEFAULT 5; -- which the rows do not have
-- dead rows, HOT chains, NULLs
UPDATE t SET x = x || '!' WHERE id % 3 = 0;
UPDATE t SET k = NULL WHERE id % 100 = 1;
DELETE FROM t WHERE id % 10 = 5;

-- By an index scan, and by sorting a sequential scan.
SET enable_sort = off;
CLUSTER t USING t_k;
SELECT count(*), count(*) FILTER (WHERE k < before) AS out_of_order FROM (SELECT k, lag(k) OVER () AS before FROM t) x;
SELECT id, k FROM t LIMIT 3;
SET enable_sort = on;
SET enable_indexscan = off;
SET enable_seqscan = on;
CLUSTER t USING t_down;
SELECT count(*), count(*) FILTER (WHERE k > before) AS out_of_order FROM (SELECT k, lag(k) OVER () AS before FROM t) x;
SELECT id, k FROM t LIMIT 3;
RESET enable_indexscan;
CLUSTER t; -- by the same again
SELECT indexrelid::regclass FROM pg_index WHERE indisclustered AND indrelid = 't'::regclass;
CLUSTER t USING t_partial; -- an error
CLUSTER t USING t_expression;
SELECT count(*) FILTER (WHERE lower(x) < before) AS out_of_order FROM (SELECT x, lag(lower(x)) OVER () AS before FROM t) x;
VACUUM FULL t;
VACUUM (FULL, FREEZE, ANALYZE) t;
SELECT count(*), sum(k), sum(late), md5(string_agg(t::text, ',' ORDER BY id)) FROM t;
SELECT count(*) FROM pg_class WHERE oid = 't'::regclass AND relfrozenxid::text::bigint > 3 AND reltuples = 900;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM t WHERE k BETWEEN 0 AND 1000;
SELECT id FROM t WHERE lower(x) = 'x333!';
RESET enable_seqscan;

-- The rows' transactions and their places' order stay; what a transaction changed before it rewrites the table counts.
CREATE TABLE xmins AS SELECT id, xmin::text AS x FROM t;
BEGIN;
UPDATE t SET k = -1 WHERE id = 7;
DELETE FROM t WHERE id = 8;
INSERT INTO t VALUES (2000, -2, 'new');
SAVEPOINT s;
DELETE FROM t WHERE id < 500;
ROLLBACK TO s;
CLUSTER t USING t_k;
SELECT id, k, x FROM t LIMIT 3;
UPDATE t SET k = -3 WHERE id = 9;
SELECT count(*) FROM t;
COMMIT;
SELECT id, k FROM t ORDER BY k LIMIT 4;
SELECT count(*) FROM t JOIN xmins USING (id) WHERE t.xmin::text <> xmins.x;
DROP TABLE xmins;
BEGIN;
CLUSTER t USING t_pkey;
INSERT INTO t VALUES (3000);
ROLLBACK;
SELECT count(*) FROM t;

-- tables without rows, only with dead ones, with nothing but NULLs; partitions; materialised views; temporary tables
CREATE TABLE empty (id int PRIMARY KEY, x text);
CLUSTER empty USING empty_pkey;
VACUUM FULL empty;
INSERT INTO empty SELECT i, 'x' FROM generate_series(1, 500) i;
DELETE FROM empty;
VACUUM FULL empty;
SELECT pg_relation_size('empty'), count(*) FROM empty;
INSERT INTO empty SELECT i, NULL FROM generate_series(1, 500) i;
VACUUM FULL empty;
SELECT count(*), count(x) FROM empty;
CREATE TABLE parted (id int, x text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200) USING heap;
INSERT INTO parted SELECT 199 - i, 'x' FROM generate_series(0, 199) i;
CLUSTER parted USING parted_pkey;
VACUUM FULL parted;
SELECT tableoid::regclass, count(*), min(id) FROM parted GROUP BY 1 ORDER BY 1;
SELECT * FROM parted_1 LIMIT 2;
CREATE MATERIALIZED VIEW m AS SELECT id, k FROM t ORDER BY k DESC;
CREATE INDEX m_id ON m (id);
CLUSTER m USING m_id;
VACUUM FULL m;
SELECT * FROM m LIMIT 2;
CREATE TEMP TABLE temporary AS SELECT * FROM t;
CREATE INDEX temporary_id ON temporary (id);
DELETE FROM temporary WHERE id % 2 = 0;
CLUSTER temporary USING temporary_id;
SELECT count(*), min(id) FROM temporary;

-- other tablespaces
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_vault_space LOCATION '';
CREATE TABLE elsewhere (id int PRIMARY KEY USING INDEX TABLESPACE regress_vault_space, x text) TABLESPACE regress_vault_space;
INSERT INTO elsewhere SELECT i, 'x' || i FROM generate_series(1, 300) i;
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (200) TO (300) TABLESPACE regress_vault_space;
INSERT INTO parted VALUES (250, 'in another tablespace');
ALTER TABLE t SET TABLESPACE regress_vault_space;
ALTER INDEX t_pkey SET TABLESPACE regress_vault_space;
UPDATE t SET x = 'moved' WHERE id = 1;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM t;
VACUUM FULL elsewhere;
SELECT count(*), sum(length(x)) FROM elsewhere;
SELECT * FROM parted WHERE id = 250;
ALTER TABLE ALL IN TABLESPACE regress_vault_space SET TABLESPACE pg_default;
ALTER INDEX ALL IN TABLESPACE regress_vault_space SET TABLESPACE pg_default;
SELECT count(*), sum(length(x)) FROM elsewhere;
SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM t;
DROP TABLESPACE regress_vault_space;
