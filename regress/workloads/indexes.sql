-- Indexes built on rows that are there already.
CREATE TABLE t (id int, k int, v text, n numeric, dropped int, p point, r int4range, a int[], j jsonb, w text)
    WITH (autovacuum_enabled = off); -- which could change plans in one of the two runs only
INSERT INTO t SELECT i, i % 50, 'v' || i % 997, CASE WHEN i % 10 <> 0 THEN i / 3.0 END, i, point(i % 40, i / 40),
    int4range(i, i + 5), ARRAY[i % 10, i % 7], jsonb_build_object('k', i % 5), repeat('w', i % 20)
FROM generate_series(1, 2000) i;
ALTER TABLE t DROP COLUMN dropped;
ALTER TABLE t ADD COLUMN late int DEFAULT 5; -- which the rows do not have
-- dead rows, HOT chains, and a row of an aborted transaction
UPDATE t SET w = w || '!' WHERE id % 5 = 0;
DELETE FROM t WHERE id % 13 = 0;
BEGIN;
INSERT INTO t (id) VALUES (5000);
ROLLBACK;

CREATE UNIQUE INDEX t_id ON t (id);
CREATE INDEX t_kv ON t (k, v DESC NULLS FIRST);
CREATE INDEX t_include ON t (k) INCLUDE (n, late);
CREATE INDEX t_partial ON t (n) WHERE k < 5 AND v LIKE 'v1%';
CREATE INDEX t_expression ON t ((k * 2), lower(v)) WHERE late = 5;
CREATE INDEX t_late ON t (late, id);
CREATE INDEX t_hash ON t USING hash (v);
CREATE INDEX t_gin ON t USING gin (a, j jsonb_path_ops) WITH (fastupdate = off);
CREATE INDEX t_gist ON t USING gist (p, r);
CREATE INDEX t_spgist ON t USING spgist (r);
CREATE INDEX t_brin ON t USING brin (id, k) WITH (pages_per_range = 2);
CREATE INDEX t_brin_bloom ON t USING brin (v text_bloom_ops) WITH (pages_per_range = 2, autosummarize = on);
CREATE INDEX t_collate ON t (w COLLATE "C" text_pattern_ops);

-- Each index, asked where the sequential scan below is the only other way.
CREATE FUNCTION ways(query text, OUT by_index text, OUT by_table text, OUT plan text) LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL enable_seqscan = off;
    EXECUTE 'SELECT count(*) || '' '' || coalesce(sum(id), 0) || '' '' || coalesce(max(w), ''-'') FROM t WHERE ' || query INTO by_index;
    EXECUTE 'EXPLAIN (FORMAT json, COSTS off) SELECT id, w FROM t WHERE ' || query INTO plan;
    plan := coalesce(substring(plan FROM '"Index Name": "([^"]*)"'), 'no index');
    SET LOCAL enable_seqscan = on;
    SET LOCAL enable_indexscan = off;
    SET LOCAL enable_indexonlyscan = off;
    SET LOCAL enable_bitmapscan = off;
    EXECUTE 'SELECT count(*) || '' '' || coalesce(sum(id), 0) || '' '' || coalesce(max(w), ''-'') FROM t WHERE ' || query INTO by_table;
    RESET enable_seqscan;
    RESET enable_indexscan;
    RESET enable_indexonlyscan;
    RESET enable_bitmapscan;
END $$;
CREATE TABLE queries (n serial, query text);
INSERT INTO queries (query) VALUES ('id = 77'), ('id BETWEEN 100 AND 200'), ('k = 3 AND v > ''v5'''), ('k = 7 AND n > 100'),
    ('n < 300 AND k < 5 AND v LIKE ''v1%'''), ('k * 2 = 20 AND lower(v) = ''v10'' AND late = 5'), ('late = 5 AND id < 10'),
    ('v = ''v500'''), ('a @> ''{3,5}'''), ('j @> ''{"k": 2}'' AND a @> ''{1}'''), ('p <@ box ''(10,10),(3,3)'''), ('r && ''[100,110)'''),
    ('r @> 500'), ('w COLLATE "C" LIKE ''wwwwwwwwwwwwwwwwww%''');
SELECT query, w.* FROM queries, ways(query) w ORDER BY n;
SELECT query FROM queries, ways(query) WHERE by_index <> by_table;

-- the same after changes, and after every index was made anew
UPDATE t SET k = k + 1, w = w || '?' WHERE id % 3 = 0;
UPDATE t SET v = upper(v), late = 6 WHERE id % 7 = 0;
DELETE FROM t WHERE id % 11 = 0;
INSERT INTO t SELECT i, 3, 'v500', i, point(5, 5), int4range(100, 200), '{3,5}', '{"k": 2}', repeat('w', 18) FROM generate_series(3000, 3100) i;
SELECT query, w.* FROM queries, ways(query) w ORDER BY n;
SELECT query FROM queries, ways(query) WHERE by_index <> by_table;
VACUUM t;
SELECT query FROM queries, ways(query) WHERE by_index <> by_table;
REINDEX TABLE t;
SELECT query FROM queries, ways(query) WHERE by_index <> by_table;
REINDEX TABLE CONCURRENTLY t;
SELECT query FROM queries, ways(query) WHERE by_index <> by_table;
SELECT query, w.* FROM queries, ways(query) w ORDER BY n;

-- concurrently
DROP INDEX t_id, t_partial, t_expression, t_hash, t_gist;
CREATE UNIQUE INDEX CONCURRENTLY t_id ON t (id);
CREATE INDEX CONCURRENTLY t_partial ON t (n) WHERE k < 5 AND v LIKE 'v1%';
CREATE INDEX CONCURRENTLY t_expression ON t ((k * 2), lower(v)) WHERE late = 5;
CREATE INDEX CONCURRENTLY t_hash ON t USING hash (v);
CREATE INDEX CONCURRENTLY t_gist ON t USING gist (p, r);
SELECT query FROM queries, ways(query) WHERE by_index <> by_table;
SELECT query, w.* FROM queries, ways(query) w ORDER BY n;
SELECT indexrelid::regclass, indisvalid, indcheckxmin FROM pg_index WHERE indrelid = 't'::regclass ORDER BY indexrelid::regclass::text;

-- errors in the middle of a build
-- (only one value is there twice: which of several is reported first depends on the row's place)
UPDATE t SET n = -id WHERE n IS NULL OR n < 0;
UPDATE t SET n = id / 3.0 WHERE id > 3000;
UPDATE t SET n = 500 WHERE id IN (15, 1600);
CREATE UNIQUE INDEX violated ON t (n); -- an error
CREATE UNIQUE INDEX violated ON t (late, (n * 2)) WHERE late >= 5; -- an error
CREATE UNIQUE INDEX violated ON t (n) WHERE id < 1000;
DROP INDEX violated;
CREATE UNIQUE INDEX CONCURRENTLY violated ON t (n); -- an error
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE NOT indisvalid;
DROP INDEX violated;
CREATE FUNCTION fails(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF i = 1500 THEN RAISE 'failed at %', i; END IF; RETURN i; END $$;
CREATE INDEX failing ON t (fails(id)); -- an error
CREATE INDEX failing ON t (k) WHERE fails(id) > 5; -- an error
CREATE INDEX failing ON t (fails(id)) WHERE id <> 1500;
UPDATE t SET n = NULL WHERE id = 15;
ALTER TABLE t ADD PRIMARY KEY (n); -- an error
ALTER TABLE t ADD PRIMARY KEY (id);
ALTER TABLE t ADD CONSTRAINT apart EXCLUDE USING gist (r WITH &&); -- an error
ALTER TABLE t ADD CONSTRAINT apart EXCLUDE USING gist (r WITH =) WHERE (id < 500);
INSERT INTO t (id, n, r) VALUES (499, 0, '[499,504)'); -- an error
INSERT INTO t (id, n, r) VALUES (1, 0, NULL); -- an error
INSERT INTO t (id, n, r) VALUES (77777, 0, '[1,6)');

-- large values in an index, many equal ones, and none
CREATE TABLE odd (id int, t text STORAGE PLAIN);
INSERT INTO odd SELECT i, repeat(chr(64 + i % 20), 1000) FROM generate_series(1, 100) i;
CREATE INDEX ON odd (t);
\set VERBOSITY sqlstate
INSERT INTO odd VALUES (101, repeat('too long', 1000)); -- an error, whose message says how long the encrypted key is
\set VERBOSITY default
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM odd WHERE t = repeat('B', 1000);
SELECT count(*) FROM odd WHERE t IS NULL;
RESET enable_seqscan;
CREATE TABLE none (id int, t text);
CREATE INDEX none_t ON none (t);
CREATE INDEX CONCURRENTLY none_id ON none (id);
REINDEX TABLE none;
SELECT * FROM none WHERE t = '';

-- a HOT chain that does not agree with a new index: old snapshots must not use it
CREATE TABLE broken (id int PRIMARY KEY, a int);
INSERT INTO broken SELECT i, i FROM generate_series(1, 10) i;
BEGIN;
UPDATE broken SET a = a + 100;
CREATE INDEX broken_a ON broken (a);
COMMIT;
CREATE INDEX unbroken_a ON broken (a);
SELECT indexrelid::regclass, indcheckxmin, indisvalid FROM pg_index WHERE indrelid = 'broken'::regclass ORDER BY indexrelid::regclass::text;
SET enable_seqscan = off;
SELECT * FROM broken WHERE a > 105 ORDER BY a;
RESET enable_seqscan;
-- rows that this very transaction inserts, changes and deletes
BEGIN;
INSERT INTO broken SELECT i, i FROM generate_series(11, 20) i;
DELETE FROM broken WHERE id IN (1, 11);
UPDATE broken SET id = id + 1000 WHERE id IN (2, 12);
CREATE UNIQUE INDEX own ON broken (id);
SAVEPOINT s;
DELETE FROM broken WHERE id > 15;
ROLLBACK TO s;
CREATE UNIQUE INDEX own2 ON broken (a, id);
SET LOCAL enable_seqscan = off;
SELECT id FROM broken WHERE id > 0 ORDER BY id;
COMMIT;

-- in parallel, which encrypted indexes cannot
SET pg_vault_tde.encrypt_indexes = off;
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
SET maintenance_work_mem = '128MB';
CREATE TABLE parallel (id int, k int, v text) WITH (parallel_workers = 2, autovacuum_enabled = off);
INSERT INTO parallel SELECT i, i % 1000, 'v' || i FROM generate_series(1, 50000) i;
UPDATE parallel SET v = v || '!' WHERE id % 10 = 0;
DELETE FROM parallel WHERE id % 7 = 0;
SET client_min_messages = debug1; -- says how many workers are asked for
CREATE INDEX parallel_id ON parallel (id);
SET client_min_messages = warning;
CREATE INDEX parallel_partial ON parallel (lower(v)) WHERE k < 500;
CREATE INDEX parallel_brin ON parallel USING brin (id);
INSERT INTO parallel VALUES (20001, 0, 'twice');
\set SHOW_CONTEXT never
CREATE UNIQUE INDEX parallel_violated ON parallel (id); -- an error, of the leader or of a worker
CREATE INDEX CONCURRENTLY parallel_concurrently ON parallel (k, id);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(id) FROM parallel WHERE id > 0;
SELECT count(*), sum(id) FROM parallel WHERE id > 0;
SELECT count(*), sum(id) FROM parallel WHERE k = 17 AND id > 1000;
SELECT count(*), sum(id) FROM parallel WHERE lower(v) > '' AND k < 500;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SELECT count(*), sum(id) FROM parallel WHERE id BETWEEN 1000 AND 2000;
