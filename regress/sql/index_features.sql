-- Encrypted indexes: what they can do, which indexes become encrypted ones, and what is said of those that do not.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;
CREATE SCHEMA index_features;
SET search_path = index_features, public;
SET pg_vault_tde.plaintext_indexes = allow;
SELECT current_setting('server_version_num')::int >= 180000 AS unique_too \gset

-- A value of its type is nothing outside of an index.
SELECT 'x'::vault_tde.encrypted_key;
SELECT amname, amtype FROM pg_am WHERE amname = 'encrypted_btree';

-- Unique, NULLS NOT DISTINCT, expressions, partial, INCLUDE; on a table of heap as well.
CREATE TABLE t (id int, a text, b int, c numeric) USING encrypted_heap;
INSERT INTO t SELECT i, 'a' || i % 100, CASE WHEN i % 7 > 0 THEN i END, i / 3.0 FROM generate_series(1, 3000) i;
CREATE UNIQUE INDEX t_id ON t USING encrypted_btree (id) INCLUDE (b, c);
CREATE INDEX t_expression ON t USING encrypted_btree (upper(a), (b % 10) DESC NULLS FIRST) WHERE id > 1000;
CREATE UNIQUE INDEX CONCURRENTLY t_nulls ON t USING encrypted_btree (a, b, c) NULLS NOT DISTINCT;
INSERT INTO t VALUES (77, 'dup', 1, 1);
INSERT INTO t VALUES (9001, 'a5', NULL, 35.0);
INSERT INTO t VALUES (9001, 'new', NULL, NULL), (9002, 'new', NULL, NULL);
CREATE UNIQUE INDEX twice ON t USING encrypted_btree (upper(a)) WHERE upper(a) = 'A26';
CREATE UNIQUE INDEX CONCURRENTLY twice ON t USING encrypted_btree ((id / 2));
DROP INDEX twice;
INSERT INTO t VALUES (9003, repeat('long', 700), 0, 0) RETURNING id; -- compressed
INSERT INTO t SELECT 9004, string_agg(md5(i::text), ''), 0, 0 FROM generate_series(1, 100) i; -- too long, as for btree
CREATE TYPE in_use AS (id int, a text);
CREATE INDEX rows ON t USING encrypted_btree ((ROW(id, a)::in_use));
CREATE INDEX rows ON t USING encrypted_btree ((ARRAY[ROW(id, a)::in_use]));
CREATE TABLE on_heap (id int) USING heap;
INSERT INTO on_heap SELECT generate_series(1, 1000);
CREATE UNIQUE INDEX ON on_heap USING encrypted_btree (id);
INSERT INTO on_heap VALUES (5);
SELECT * FROM vault_tde.verify('t');
SELECT * FROM vault_tde.verify('on_heap_id_idx');

SET jit = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
VACUUM t;
EXPLAIN (COSTS OFF) SELECT id, b, c FROM t WHERE id BETWEEN 10 AND 12;
SELECT id, b, c FROM t WHERE id BETWEEN 10 AND 15;
SELECT id, upper(a) FROM t WHERE upper(a) = 'A7' AND id > 1000 AND b % 10 >= 7 ORDER BY upper(a), b % 10 DESC NULLS FIRST, id LIMIT 4;
SELECT min(id), max(id) FROM t;
SELECT left(a, 8), length(a) FROM t WHERE a > 'l' AND a < 'm';
CREATE INDEX t_prefix ON t USING encrypted_btree (a COLLATE "C");
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE a LIKE 'a9%' AND a <> 'a9';
SELECT count(*) FROM t WHERE a LIKE 'a9%' AND a <> 'a9';
DROP INDEX t_prefix;
-- one plan for many values; a nested loop; an array that is a parameter
SET plan_cache_mode = force_generic_plan;
PREPARE by_id (int) AS SELECT id, b FROM t WHERE id = $1;
EXECUTE by_id (8);
EXECUTE by_id (9000);
EXECUTE by_id (NULL);
PREPARE by_ids (int[]) AS SELECT id FROM t WHERE id = ANY ($1) ORDER BY id DESC;
EXECUTE by_ids ('{5,4,NULL,5,3001,2}');
EXECUTE by_ids ('{}');
EXECUTE by_ids (NULL);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*), sum(x.id) FROM generate_series(1, 500) g, t x WHERE x.id = g * 3;
-- a merge join goes back to where it was
RESET enable_mergejoin;
SET enable_nestloop = off;
CREATE TABLE left_side (k int) USING encrypted_heap;
INSERT INTO left_side SELECT i % 20 FROM generate_series(1, 200) i;
CREATE INDEX ON left_side USING encrypted_btree (k);
CREATE TABLE right_side (LIKE left_side INCLUDING INDEXES) USING encrypted_heap;
INSERT INTO right_side SELECT i % 30 FROM generate_series(1, 300) i;
ANALYZE left_side, right_side;
EXPLAIN (COSTS OFF) SELECT count(*), sum(l.k) FROM left_side l JOIN right_side r USING (k);
SELECT count(*), sum(l.k) FROM left_side l JOIN right_side r USING (k);
RESET enable_nestloop;
RESET enable_hashjoin;
-- a cursor in both directions
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE id < 100 ORDER BY id;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
COMMIT;
-- in parallel
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(*), sum(id) FROM t WHERE id > 100 AND id IN (SELECT generate_series(50, 2000));
SELECT sum(b) FROM t WHERE id BETWEEN 500 AND 2500;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;

-- A comparison that runs queries, which use encrypted indexes themselves.
CREATE TYPE odd AS (n int);
CREATE FUNCTION odd_cmp(a odd, b odd) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN sign((SELECT id FROM index_features.t WHERE id = a.n) - (SELECT id FROM index_features.t WHERE id = b.n));
END $$;
CREATE FUNCTION odd_lt(odd, odd) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT index_features.odd_cmp($1, $2) < 0';
CREATE FUNCTION odd_le(odd, odd) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT index_features.odd_cmp($1, $2) <= 0';
CREATE FUNCTION odd_eq(odd, odd) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT index_features.odd_cmp($1, $2) = 0';
CREATE FUNCTION odd_ge(odd, odd) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT index_features.odd_cmp($1, $2) >= 0';
CREATE FUNCTION odd_gt(odd, odd) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT index_features.odd_cmp($1, $2) > 0';
CREATE OPERATOR <<< (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_lt);
CREATE OPERATOR <<= (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_le);
CREATE OPERATOR === (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_eq);
CREATE OPERATOR >>= (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_ge);
CREATE OPERATOR >>> (LEFTARG = odd, RIGHTARG = odd, FUNCTION = odd_gt);
CREATE OPERATOR CLASS odd_ops FOR TYPE odd USING encrypted_btree AS OPERATOR 1 <<<, OPERATOR 2 <<=, OPERATOR 3 ===, OPERATOR 4 >>=,
    OPERATOR 5 >>>, FUNCTION 1 odd_cmp(odd, odd), STORAGE vault_tde.encrypted_key;
CREATE TABLE odds (o odd) USING encrypted_heap;
INSERT INTO odds SELECT ROW(i)::odd FROM generate_series(1, 60) i ORDER BY md5(i::text);
CREATE UNIQUE INDEX odds_o ON odds USING encrypted_btree (o odd_ops);
INSERT INTO odds SELECT ROW(i)::odd FROM generate_series(61, 90) i;
INSERT INTO odds VALUES (ROW(13)::odd);
SELECT array_agg((o).n) FROM (SELECT o FROM odds WHERE o >>> ROW(80)::odd) q;
SELECT count(*) FROM odds WHERE o <<< ROW(13)::odd;
DROP TABLE odds;

-- Sorts that do not fit into memory, unique ones with dead rows, and many equal keys.
SET maintenance_work_mem = '1MB';
CREATE TABLE big (i int, t text, u text COLLATE "C", n numeric, f text) USING encrypted_heap;
INSERT INTO big SELECT i, md5(i::text), md5((i + 1)::text), i % 1000, 'few ' || i % 3 FROM generate_series(1, 30000) i;
DELETE FROM big WHERE i % 5 = 0;
UPDATE big SET t = t || '!' WHERE i % 3 = 0;
CREATE UNIQUE INDEX ON big USING encrypted_btree (i);
CREATE UNIQUE INDEX ON big USING encrypted_btree (t);
CREATE INDEX ON big USING encrypted_btree (u DESC, n);
CREATE INDEX ON big USING encrypted_btree (n, t);
CREATE INDEX ON big USING encrypted_btree (f);
CREATE UNIQUE INDEX ON big USING encrypted_btree (f) WHERE f = 'few 1';
SELECT * FROM vault_tde.verify('big') LIMIT 3;
RESET maintenance_work_mem;

-- Keys of older generations are read, re-encrypted in place, and then not needed any more.
SELECT vault_tde.rotate_key() AS generation \gset
SELECT max(generation) < :generation AS older FROM vault_tde.generations_in_use() WHERE relation = 't_id'::regclass;
INSERT INTO t SELECT i, 'later', i, i FROM generate_series(4000, 5000) i;
SELECT count(*), min(id), max(id) FROM t WHERE id > 2000;
CALL vault_tde.reencrypt('t', 100);
CALL vault_tde.reencrypt('big');
SELECT bool_and(generation = :generation) AS current, count(*) FROM vault_tde.generations_in_use()
WHERE relation IN ('t'::regclass, 't_id', 't_expression', 't_nulls', 'big', 'big_t_idx');
SELECT count(*), min(id), max(id) FROM t WHERE id > 2000;
SELECT * FROM vault_tde.verify('t');
SELECT * FROM vault_tde.verify('big');
REINDEX TABLE CONCURRENTLY t;
SELECT * FROM vault_tde.verify('t');

-- Temporary and unlogged tables.
CREATE TEMP TABLE temporary (id int) USING encrypted_heap ON COMMIT DELETE ROWS;
CREATE INDEX ON temporary USING encrypted_btree (id);
BEGIN;
INSERT INTO temporary SELECT generate_series(1, 100);
SELECT count(*) FROM temporary WHERE id > 50;
COMMIT;
SELECT count(*) FROM temporary WHERE id > 0;
CREATE UNLOGGED TABLE unlogged (id int) USING encrypted_heap;
CREATE UNIQUE INDEX unlogged_id ON unlogged USING encrypted_btree (id);
INSERT INTO unlogged SELECT generate_series(1, 100);
ALTER TABLE unlogged SET LOGGED;
SELECT id FROM unlogged WHERE id IN (7, 99, 101) ORDER BY id;

-- Which indexes become encrypted ones.
SET pg_vault_tde.encrypt_indexes = on;
SET default_table_access_method = encrypted_heap;
CREATE TABLE auto (id serial PRIMARY KEY, u text UNIQUE, v int, w int,
    CONSTRAINT late UNIQUE (v) DEFERRABLE INITIALLY DEFERRED, EXCLUDE USING gist (int4range(w, w + 1) WITH &&) WHERE (w IS NOT NULL));
CREATE INDEX auto_v ON auto (v);
CREATE INDEX auto_pattern ON auto (u text_pattern_ops);
CREATE INDEX auto_hash ON auto USING hash (v);
CREATE INDEX auto_expression ON auto ((v + w), lower(u));
CREATE INDEX auto_row ON auto ((ROW(v, u)::in_use)); -- btree: no encrypted index on rows
CREATE INDEX auto_point ON auto ((point(v, w)));
\set VERBOSITY sqlstate
CREATE INDEX auto_wrong ON auto ((no_such_function(v)));
\set VERBOSITY default
ALTER TABLE auto ADD COLUMN x int UNIQUE, ADD COLUMN y int, ADD UNIQUE (y, v);
CREATE TABLE liked (LIKE auto INCLUDING ALL);
CREATE TABLE plain (id int PRIMARY KEY) USING heap;
CREATE TABLE parent (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE child PARTITION OF parent FOR VALUES IN (1);
CREATE INDEX ON parent (k);
CREATE FUNCTION methods(tables regclass[]) RETURNS TABLE (index regclass, method name, is_unique bool) LANGUAGE sql AS $$
    SELECT i.oid, a.amname, x.indisunique FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam
    WHERE x.indrelid = ANY (tables) ORDER BY i.relname COLLATE "C" $$;
SELECT index, CASE WHEN method = 'btree' AND is_unique AND NOT :'unique_too' AND index <> 'plain_pkey'::regclass THEN 'encrypted_btree' ELSE method END AS method
FROM methods('{auto,liked,plain,parent,child}');
SELECT coalesce(bool_and(method = 'btree'), :'unique_too') AS unique_ones_too_or_none FROM methods('{auto,liked,parent,child}') WHERE is_unique AND NOT :'unique_too';
-- a deferred constraint, an upsert, a foreign key
BEGIN;
INSERT INTO auto (v) VALUES (1), (2);
UPDATE auto SET v = 3 - v;
COMMIT;
BEGIN;
INSERT INTO auto (u, v) VALUES ('x', 1);
COMMIT;
INSERT INTO auto (id, u, v) VALUES (1, 'upserted', 5) ON CONFLICT (id) DO UPDATE SET u = excluded.u RETURNING id, u, v;
CREATE TABLE refers (id int REFERENCES auto ON DELETE CASCADE);
INSERT INTO refers VALUES (1), (99);
INSERT INTO refers VALUES (1);
DELETE FROM auto WHERE id = 1;
SELECT count(*) FROM refers;
INSERT INTO parent SELECT i, 1 FROM generate_series(1, 100) i;
INSERT INTO parent VALUES (5, 1);

-- What stays readable is said, or forbidden, and listed.
SET client_min_messages = notice;
SET pg_vault_tde.plaintext_indexes = notice;
CREATE INDEX said ON auto USING brin (v);
SET pg_vault_tde.plaintext_indexes = error;
CREATE INDEX refused ON auto USING hash (w);
SET pg_vault_tde.encrypt_indexes = off;
CREATE TABLE refused (id int PRIMARY KEY);
CREATE TABLE not_concerned (id int PRIMARY KEY) USING heap;
CREATE INDEX fine ON auto USING encrypted_btree (w);
SET client_min_messages = warning;
ANALYZE auto;
SELECT "column", place, object FROM vault_tde.exposed_columns
WHERE relation = 'auto'::regclass AND object IS DISTINCT FROM 'auto_pkey' AND object !~ 'key|late' ORDER BY object COLLATE "C", "column" COLLATE "C";
RESET pg_vault_tde.plaintext_indexes;

-- Types of other extensions.
SELECT count(*) > 0 AS has_citext FROM pg_available_extensions WHERE name = 'citext' \gset
\if :has_citext
CREATE EXTENSION citext;
CREATE TABLE words (w citext) USING encrypted_heap;
CREATE INDEX ON words USING encrypted_btree (w);
SET pg_vault_tde.encrypt_indexes = on;
CREATE TABLE words_too (w citext PRIMARY KEY, v int); -- btree
INSERT INTO words_too VALUES ('a'), ('A');
RESET pg_vault_tde.encrypt_indexes;
SELECT vault_tde.add_operator_class('citext');
SELECT vault_tde.add_operator_class('citext');
SELECT vault_tde.add_operator_class('point');
CREATE UNIQUE INDEX ON words USING encrypted_btree (w);
INSERT INTO words SELECT chr(96 + i) || chr(64 + i) FROM generate_series(1, 26) i;
INSERT INTO words VALUES ('Cc');
SELECT w FROM words WHERE w > 'wW' ORDER BY w DESC;
SELECT w FROM words WHERE w = 'EE';
DROP TABLE words, words_too;
DROP OPERATOR FAMILY vault_tde.citext_ops USING encrypted_btree;
DROP EXTENSION citext;
\endif
DROP SCHEMA index_features CASCADE;
