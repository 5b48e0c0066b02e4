-- Every way to read a table. Each plan is printed first, so that the intended scan is known to be the one that ran.
-- (Autovacuum must not change plans, nor statistics, in one of the two runs only.)
CREATE TABLE t (id int, k int, t text, n numeric) WITH (autovacuum_enabled = off);
-- many pages, holes in them, and some HOT chains
INSERT INTO t SELECT i, i % 100, 'text ' || i, CASE WHEN i % 10 <> 0 THEN i / 7.0 END FROM generate_series(1, 5000) i;
CREATE UNIQUE INDEX t_id ON t (id);
CREATE INDEX t_k ON t (k) INCLUDE (id);
CREATE INDEX t_lower ON t (lower(t));
CREATE INDEX t_part ON t (n) WHERE k < 10;
UPDATE t SET t = 'Updated ' || id WHERE id % 50 = 0;
DELETE FROM t WHERE id % 20 = 3;
VACUUM ANALYZE t;

-- sequential
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
SET enable_tidscan = off;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE n > 10;
SELECT count(*), sum(n), sum(length(t)) FROM t WHERE n > 10;
SELECT * FROM t WHERE id BETWEEN 100 AND 110;
SELECT count(*) FROM t;
SELECT sum(n) FROM t WHERE k = 5;
SELECT * FROM t LIMIT 3;
SELECT id FROM t WHERE t IS NULL OR n IS NULL ORDER BY id LIMIT 5;

-- index
SET enable_seqscan = off;
SET enable_indexscan = on;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 4711;
SELECT * FROM t WHERE id = 4711;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id > 4990 ORDER BY id DESC;
SELECT * FROM t WHERE id > 4990 ORDER BY id DESC;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE lower(t) = 'updated 50';
SELECT * FROM t WHERE lower(t) = 'updated 50';
SELECT * FROM t WHERE lower(t) = 'text 50';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE n BETWEEN 100 AND 110 AND k < 10;
SELECT * FROM t WHERE n BETWEEN 100 AND 110 AND k < 10 ORDER BY n;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE k = ANY ('{1,2,3}') AND t LIKE '%7%';
SELECT id FROM t WHERE k = ANY ('{1,2,3}') AND t LIKE '%7%' ORDER BY id;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM t WHERE id BETWEEN 100 AND 120 ORDER BY id;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
COMMIT;
EXPLAIN (COSTS OFF) SELECT a.id, b.t FROM t a JOIN t b ON b.id = a.k WHERE a.id < 6;
SELECT a.id, b.t FROM t a JOIN t b ON b.id = a.k WHERE a.id < 6 ORDER BY 1;

-- index-only, with and without an all-visible page
SET enable_indexonlyscan = on;
EXPLAIN (COSTS OFF) SELECT k, id FROM t WHERE k = 7;
SELECT k, id FROM t WHERE k = 7 AND id < 1000 ORDER BY id;
UPDATE t SET n = 0 WHERE id IN (7, 107);
UPDATE t SET k = 70 WHERE id = 207;
SELECT k, id FROM t WHERE k = 7 AND id < 1000 ORDER BY id;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE id < 100;
SELECT count(*) FROM t WHERE id < 100;
SELECT max(id), min(id) FROM t;

-- bitmap, exact and lossy
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = on;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 3 AND id < 1000;
SELECT * FROM t WHERE k = 3 AND id < 1000 ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE k = 3 OR lower(t) = 'updated 100';
SELECT id FROM t WHERE (k = 3 AND id < 500) OR lower(t) = 'updated 100' ORDER BY id;
SELECT count(*) FROM t WHERE k < 50;
SET work_mem = '64kB';
CREATE TABLE big (id int, k int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT i, i % 7 FROM generate_series(1, 200000) i;
CREATE INDEX ON big (k);
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM big WHERE k = 3;
SELECT count(*), sum(id) FROM big WHERE k = 3;
SELECT count(*) FROM big WHERE k = 3;
RESET work_mem;

-- TID and TID range
SET enable_tidscan = on;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE ctid = '(0,1)';
SELECT * FROM t WHERE ctid = '(0,1)';
SELECT id FROM t WHERE ctid = ANY ('{"(0,2)","(0,3)","(9999,1)","(0,9999)"}');
SELECT * FROM t WHERE ctid = '(0,0)';
SELECT a.id FROM t a, t b WHERE a.ctid = b.ctid AND b.id = 10;
UPDATE t SET n = -1 WHERE ctid = '(0,2)' RETURNING id;
SELECT id FROM t WHERE ctid = '(0,2)';
SELECT id, n FROM t WHERE currtid2('t', '(0,2)') = ctid;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE ctid < '(2,0)' AND ctid >= '(0,5)';
SELECT min(id) FROM t WHERE ctid < '(1,0)' AND ctid >= '(0,5)';
SELECT count(*) > 0, count(*) = count(t) FROM t WHERE ctid > '(3,0)';
SELECT count(*) FROM t WHERE ctid < '(0,0)';
BEGIN;
DECLARE r SCROLL CURSOR FOR SELECT id FROM t WHERE ctid < '(0,7)';
FETCH ALL FROM r;
FETCH BACKWARD ALL FROM r;
COMMIT;

-- samples; not which rows, as the two tables have different pages, but rows of the table and a plausible number of them
EXPLAIN (COSTS OFF) SELECT * FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1);
SELECT count(*) BETWEEN 1500 AND 3200, count(*) = count(DISTINCT id), bool_and(t ~ '^(text|Updated) \d+$') FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1);
SELECT count(*) > 0, bool_and(n IS NULL OR n = -1 OR n = 0 OR n = id / 7.0) FROM t TABLESAMPLE SYSTEM (50) REPEATABLE (2);
SELECT count(*), sum(n) FROM t TABLESAMPLE SYSTEM (100);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (0);

-- backwards
BEGIN;
SET LOCAL enable_seqscan = on;
DECLARE b SCROLL CURSOR FOR SELECT id, t FROM t WHERE k = 9;
MOVE ALL FROM b;
FETCH BACKWARD 3 FROM b;
FETCH FORWARD 2 FROM b;
MOVE ABSOLUTE 0 FROM b;
FETCH 2 FROM b;
COMMIT;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_bitmapscan;

-- in parallel
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET parallel_leader_participation = off;
ALTER TABLE t SET (parallel_workers = 2);
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n), sum(length(t)) FROM t;
SELECT count(*), sum(n), sum(length(t)) FROM t;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t a JOIN t b ON a.id = b.id + 1;
SELECT count(*) FROM t a JOIN t b ON a.id = b.id + 1;
SET enable_seqscan = off;
SET enable_bitmapscan = on;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM t WHERE k < 30;
SELECT count(*), sum(n) FROM t WHERE k < 30;
SET enable_bitmapscan = off;
SET enable_indexscan = on;
EXPLAIN (COSTS OFF) SELECT count(*), sum(n) FROM t WHERE id < 3000;
SELECT count(*), sum(n) FROM t WHERE id < 3000;
SET enable_indexonlyscan = on;
EXPLAIN (COSTS OFF) SELECT count(id) FROM t WHERE id < 3000;
SELECT count(id) FROM t WHERE id < 3000;
RESET ALL;
SET search_path = twin, public;
SET default_table_access_method = :am;
SET debug_parallel_query = on;
SELECT * FROM t WHERE id % 500 = 1 ORDER BY id;
SELECT t FROM t WHERE id = 1;
RESET debug_parallel_query;

-- empty tables, and tables whose rows are all gone
CREATE TABLE empty (id int PRIMARY KEY);
SELECT * FROM empty;
SELECT * FROM empty WHERE id = 1;
SELECT * FROM empty TABLESAMPLE SYSTEM (100);
SELECT * FROM empty WHERE ctid > '(0,0)';
INSERT INTO empty SELECT generate_series(1, 1000);
DELETE FROM empty;
SELECT * FROM empty;
VACUUM empty;
SELECT * FROM empty;
SELECT pg_relation_size('empty');

-- What ANALYZE finds: all rows are in the sample, and their order is the same, so it finds the same.
CREATE TABLE analyzed (id int, k int, t text, empty int) WITH (autovacuum_enabled = off);
INSERT INTO analyzed SELECT i, i % 10, CASE WHEN i % 4 <> 0 THEN 'text ' || i / 10 END FROM generate_series(1, 1000) i;
CREATE INDEX analyzed_expression ON analyzed ((k * 2));
CREATE STATISTICS s (ndistinct, dependencies, mcv) ON id, k, t FROM analyzed;
ANALYZE analyzed;
-- (19 shows OIDs, too)
SELECT to_jsonb(s) - '{tableid,attnum}'::text[] FROM pg_stats s WHERE schemaname = 'twin' AND tablename LIKE 'analyzed%' ORDER BY tablename, attname;
SELECT to_jsonb(s) - '{tableid,statistics_id}'::text[] FROM pg_stats_ext s WHERE schemaname = 'twin';
SELECT reltuples FROM pg_class WHERE oid = 'analyzed'::regclass;
