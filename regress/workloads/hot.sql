-- Which UPDATEs are HOT. Few rows on a page with room for many versions, so that only the columns decide. Every step says
-- how many updates there were, how many were HOT, and how many went to another page; sql/hot.sql shows the totals. (What a session
-- has counted is taken away once a second, between transactions, so each transaction begins by asking for that.)
CREATE FUNCTION updates(OUT upd bigint, OUT hot bigint, OUT newpage bigint) LANGUAGE sql AS $$
    SELECT sum(n_tup_upd), sum(n_tup_hot_upd), sum(n_tup_newpage_upd) FROM pg_stat_xact_user_tables WHERE schemaname = 'twin'
$$;

-- the columns of a btree index, of which one lies behind a variable-length column
CREATE TABLE plain (v text, id int PRIMARY KEY, a int, b text, c int);
CREATE INDEX ON plain (a, b);
INSERT INTO plain SELECT repeat('v', i), i, i, 'b' || i, i FROM generate_series(1, 5) i;
DO 'BEGIN PERFORM pg_stat_force_next_flush(); END';
BEGIN;
UPDATE plain SET c = c + 1;
SELECT 'not indexed', * FROM updates();
UPDATE plain SET v = 'shorter' || id;
SELECT 'not indexed, moves what follows', * FROM updates();
UPDATE plain SET v = v || v, c = NULL;
SELECT 'not indexed, longer, a new NULL', * FROM updates();
UPDATE plain SET a = a, b = b, id = id;
SELECT 'indexed, the same values', * FROM updates();
UPDATE plain SET b = b || '!' WHERE id = 1;
SELECT 'indexed, of variable length', * FROM updates();
UPDATE plain SET a = a + 1 WHERE id = 2;
SELECT 'indexed', * FROM updates();
UPDATE plain SET id = 10 * id WHERE id = 3;
SELECT 'key', * FROM updates();
UPDATE plain SET a = NULL WHERE id = 4;
SELECT 'indexed, to NULL', * FROM updates();
UPDATE plain SET a = NULL, c = 0 WHERE id = 4;
SELECT 'indexed, NULL still', * FROM updates();
UPDATE plain SET a = 4 WHERE id = 4;
SELECT 'indexed, from NULL', * FROM updates();
COMMIT;

-- an index on an expression, a partial one, one with included columns
CREATE TABLE special (id int, e text, p int, q int, i int, n int);
CREATE INDEX ON special (lower(e));
CREATE INDEX ON special (q) WHERE p > 2;
CREATE UNIQUE INDEX ON special (id) INCLUDE (i);
INSERT INTO special SELECT i, 'E' || i, i, i, i, i FROM generate_series(1, 5) i;
DO 'BEGIN PERFORM pg_stat_force_next_flush(); END';
BEGIN;
UPDATE special SET n = n + 1;
SELECT 'in no index', * FROM updates();
UPDATE special SET e = lower(e) WHERE id = 1;
SELECT 'in an expression that stays equal', * FROM updates();
UPDATE special SET e = e || '!' WHERE id = 2;
SELECT 'in an expression', * FROM updates();
UPDATE special SET q = q + 1 WHERE id = 1;
SELECT 'in a partial index without the row', * FROM updates();
UPDATE special SET p = 2 WHERE id = 5;
SELECT 'in a predicate', * FROM updates();
UPDATE special SET i = i + 1 WHERE id = 3;
SELECT 'included', * FROM updates();
COMMIT;

-- a summarising index does not prevent HOT, but is told
CREATE TABLE summarized (id int PRIMARY KEY, b int, c int);
CREATE INDEX ON summarized USING brin (b);
INSERT INTO summarized SELECT i, i, i FROM generate_series(1, 5) i;
SELECT brin_summarize_new_values('summarized_b_idx');
DO 'BEGIN PERFORM pg_stat_force_next_flush(); END';
BEGIN;
UPDATE summarized SET b = b + 1000;
SELECT 'only in a summarising index', * FROM updates();
UPDATE summarized SET b = b + 1000, c = c + 1;
SELECT 'that, and another', * FROM updates();
COMMIT;
SET enable_seqscan = off;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM summarized WHERE b = 2003;
SELECT id FROM summarized WHERE b = 2003;
DO 'BEGIN PERFORM pg_stat_force_next_flush(); END';
BEGIN;
UPDATE summarized SET id = id + 1000, b = 0;
SELECT 'that, and the key', * FROM updates();
COMMIT;
SELECT id FROM summarized WHERE b = 0 ORDER BY id;
RESET enable_seqscan;
RESET enable_indexscan;

-- no index at all; a temporary table; a page without room
CREATE TABLE bare (id int, t text STORAGE PLAIN);
INSERT INTO bare SELECT i, 'x' FROM generate_series(1, 5) i;
DO 'BEGIN PERFORM pg_stat_force_next_flush(); END';
BEGIN;
UPDATE bare SET id = id + 1;
SELECT 'without an index', * FROM updates();
UPDATE bare SET t = repeat('y', 5000);
SELECT 'too long for the page', * FROM updates();
COMMIT;

-- system columns and whole rows in an index; an index made and dropped in between; columns added and dropped
CREATE TABLE changing (id int PRIMARY KEY, a int, b int, c int);
INSERT INTO changing SELECT i, i, i, i FROM generate_series(1, 5) i;
DO 'BEGIN PERFORM pg_stat_force_next_flush(); END';
BEGIN;
UPDATE changing SET a = a + 1;
SELECT 'before the index', * FROM updates();
CREATE INDEX changing_a ON changing (a);
UPDATE changing SET a = a + 1;
SELECT 'with the index', * FROM updates();
DROP INDEX changing_a;
UPDATE changing SET a = a + 1;
SELECT 'after the index', * FROM updates();
ALTER TABLE changing DROP COLUMN b, ADD COLUMN d int DEFAULT 5;
CREATE INDEX ON changing (d);
UPDATE changing SET c = c + 1;
SELECT 'with a column that old rows lack in an index', * FROM updates();
UPDATE changing SET d = 5 WHERE id < 4;
SELECT 'the default given explicitly', * FROM updates();
UPDATE changing SET d = 6 WHERE id < 3;
SELECT 'another value', * FROM updates();
ROLLBACK;

-- False HOT would leave an index without the new value, so that it is not found, or is stored twice.
CREATE TABLE exact (id int PRIMARY KEY, v text, u int UNIQUE);
INSERT INTO exact SELECT i, repeat('x', i * 10), i FROM generate_series(1, 5) i;
UPDATE exact SET u = u + 10;
INSERT INTO exact VALUES (6, 'x', 13); -- an error
UPDATE exact SET v = '', u = u + 10;
INSERT INTO exact VALUES (6, 'x', 23); -- an error
INSERT INTO exact VALUES (6, 'x', 3);
UPDATE exact SET id = id + 100, v = 'y';
INSERT INTO exact VALUES (101, 'x', 500); -- an error
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT u, id FROM exact WHERE u > 0 ORDER BY u;
SELECT u, id FROM exact WHERE id > 0 ORDER BY id;
RESET enable_seqscan;

-- chains grow, are pruned, and are still found by every index
CREATE TABLE chain (id int PRIMARY KEY, a int, t text) WITH (fillfactor = 50);
CREATE INDEX ON chain (a);
INSERT INTO chain SELECT i, i, 't' FROM generate_series(1, 100) i;
DO $$
BEGIN
    FOR i IN 1..40 LOOP
        UPDATE chain SET t = 't' || i WHERE id <= 50;
        UPDATE chain SET a = a + 1000 WHERE id = i;
        COMMIT;
    END LOOP;
END $$;
SET enable_seqscan = off;
SELECT count(*), count(DISTINCT id), min(t), max(t) FROM chain WHERE id > 0;
SELECT count(*), count(DISTINCT id), sum(a) FROM chain WHERE a > 0;
SELECT a, id, t FROM chain WHERE a > 1000 ORDER BY a;
VACUUM chain;
SELECT count(*), count(DISTINCT id), sum(a) FROM chain WHERE a > 0;
RESET enable_seqscan;
SELECT count(*), count(DISTINCT id), sum(a) FROM chain;
