-- The life of rows with out-of-line values.
\getenv source PG_ABS_SRCDIR
\set functions :source '/lib/toast.sql'
\set QUIET on
\i :functions
\set QUIET off

-- Values that an UPDATE leaves alone keep their place. (Columns a and b; c is compressed in line.)
CREATE TABLE t (id int PRIMARY KEY, n int, a text STORAGE EXTERNAL, b text, c text);
INSERT INTO t SELECT i, 0, noise(3000 + i, i), noise(5000 + i, -i), pattern(4000, i) FROM generate_series(1, 6) i;
CREATE TEMP TABLE places AS SELECT id, pg_column_toast_chunk_id(a) AS a, pg_column_toast_chunk_id(b) AS b, pg_column_toast_chunk_id(c) AS c FROM t;
CREATE TEMP VIEW kept AS
    SELECT id, n, pg_column_toast_chunk_id(t.a) = p.a AS a, pg_column_toast_chunk_id(t.b) = p.b AS b, pg_column_toast_chunk_id(t.c) AS c, md5(t.a) AS ma, md5(t.b) AS mb
    FROM t LEFT JOIN places p USING (id) ORDER BY id;
SELECT count(DISTINCT a), count(DISTINCT b), count(c) FROM places;
UPDATE t SET n = n + 1;
UPDATE t SET n = n + 1, a = a, c = c || c WHERE id < 4;
UPDATE t SET b = b || '!' WHERE id = 2;
UPDATE t SET a = substr(a, 1) WHERE id = 3; -- the same bytes, anew
UPDATE t SET b = a WHERE id = 4; -- the pointer of another column
UPDATE t SET a = o.a, b = t.b FROM t o WHERE t.id = 5 AND o.id = 6; -- of another row
SELECT * FROM kept;
SELECT * FROM toasted('t');
-- in rewrites, too
VACUUM FULL t;
SELECT * FROM kept;
CLUSTER t USING t_pkey;
SELECT * FROM kept;
SELECT * FROM toasted('t');
-- several updates in a transaction, of which some are undone
BEGIN;
UPDATE t SET a = noise(2500, 11) WHERE id = 1;
UPDATE t SET n = 10 WHERE id = 1;
UPDATE t SET a = noise(2600, 12) WHERE id = 1;
SAVEPOINT s;
UPDATE t SET a = noise(2700, 13), b = 'short' WHERE id = 1;
SELECT * FROM kept WHERE id = 1;
SELECT * FROM toasted('t');
ROLLBACK TO s;
SELECT * FROM toasted('t');
UPDATE t SET a = 'in line' WHERE id = 2;
UPDATE t SET a = noise(9000, 14) WHERE id = 2;
DELETE FROM t WHERE id = 3;
COMMIT;
SELECT * FROM kept;
SELECT * FROM toasted('t');
BEGIN;
UPDATE t SET a = noise(2800, 15), b = NULL;
DELETE FROM t WHERE id > 3;
INSERT INTO t SELECT i, 0, noise(5000, i), noise(5000, i) FROM generate_series(20, 30) i;
ROLLBACK;
SELECT * FROM kept;
SELECT * FROM toasted('t');
-- out of line, in line, NULL, and back
UPDATE t SET a = left(a, 100) WHERE id = 1;
UPDATE t SET b = left(b, 100) WHERE id = 1;
UPDATE t SET a = NULL, b = '' WHERE id = 2;
SELECT * FROM kept;
UPDATE t SET a = noise(6000, id), b = noise(6000, -id) WHERE id < 3;
SELECT * FROM kept;
DELETE FROM t WHERE id IN (1, 5) RETURNING id, md5(a), md5(b);
SELECT * FROM toasted('t');
-- in a FOR UPDATE, by a cursor, by the triggers' OLD and NEW
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_ARGV[0] = 'keep' THEN
        NEW.a := OLD.a;
        NEW.n := length(OLD.b) + length(NEW.b);
    ELSIF TG_WHEN = 'AFTER' THEN
        RAISE WARNING '% % %', TG_OP, md5(OLD.a), md5(NEW.a);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.n < 0) EXECUTE FUNCTION f('keep');
CREATE TRIGGER a AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f();
UPDATE t SET n = -1, a = 'ignored', b = noise(7000, 7) WHERE id = 2;
UPDATE t SET a = noise(8000, 8) WHERE id = 2;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t WHERE id IN (2, 4) ORDER BY id FOR UPDATE;
FETCH 1 FROM c \gset
UPDATE t SET b = b || id WHERE CURRENT OF c;
MOVE c;
DELETE FROM t WHERE CURRENT OF c;
COMMIT;
SELECT length(:'a'), length(:'b');
SELECT * FROM kept;
SELECT * FROM toasted('t');

-- upserts and MERGE
CREATE TABLE u (id int PRIMARY KEY, k int UNIQUE, a text STORAGE EXTERNAL, n int DEFAULT 0);
INSERT INTO u SELECT i, i, noise(2500, i) FROM generate_series(1, 5) i;
INSERT INTO u VALUES (1, 1, noise(3000, 21)), (6, 6, noise(3000, 22)) ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (2, 2, noise(3000, 23)), (7, 7, noise(3000, 24)) ON CONFLICT (id) DO UPDATE SET a = excluded.a;
INSERT INTO u VALUES (3, 3, noise(3000, 25)), (8, 8, noise(3000, 26)) ON CONFLICT (k) DO UPDATE SET n = length(excluded.a);
INSERT INTO u VALUES (4, 4, noise(3000, 27)) ON CONFLICT (id) DO UPDATE SET a = u.a || excluded.a WHERE u.n > 0;
INSERT INTO u VALUES (9, 1, noise(3000, 28)); -- an error, when the value is already stored
INSERT INTO u VALUES (9, 9, noise(3000, 28)), (9, 10, noise(3000, 29)) ON CONFLICT (id) DO UPDATE SET a = excluded.a; -- an error
MERGE INTO u USING (SELECT i, noise(4000, i) FROM generate_series(4, 12, 2) i) s (id, a) ON u.id = s.id
    WHEN MATCHED AND s.id = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a || u.a WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.id, s.a);
SELECT id, k, n, length(a), md5(a) FROM u ORDER BY id;
SELECT * FROM toasted('u');
TRUNCATE u;
SELECT * FROM toasted('u');
BEGIN;
INSERT INTO u VALUES (1, 1, noise(3000, 31));
TRUNCATE u;
INSERT INTO u VALUES (2, 2, noise(3000, 32));
SAVEPOINT s;
TRUNCATE u;
INSERT INTO u VALUES (3, 3, noise(3000, 33));
ROLLBACK TO s;
SELECT id, md5(a) FROM u;
COMMIT;
SELECT * FROM toasted('u');

-- sub-transactions
CREATE TABLE s (id int PRIMARY KEY, a text STORAGE EXTERNAL);
DO $$
BEGIN
    FOR i IN 1..30 LOOP
        BEGIN
            INSERT INTO s VALUES (i, noise(2100 + i, i));
            UPDATE s SET a = a || 1 / (i % 3) WHERE id = i - i % 4;
        EXCEPTION WHEN division_by_zero THEN
            UPDATE s SET a = a || 'failed' WHERE id = i - 1;
        END;
    END LOOP;
END $$;
SELECT count(*), sum(length(a)), md5(string_agg(a, ' ' ORDER BY id)) FROM s;
SELECT * FROM toasted('s');

-- composite values, arrays, ranges and domains, whose elements are never pointers
CREATE TYPE pair AS (x text, y text);
CREATE DOMAIN long AS text CHECK (length(value) > 1000);
CREATE TABLE composite (id int PRIMARY KEY, p pair, ps pair[], ts text[], d long, j jsonb, b bytea, nested text[]);
ALTER TABLE composite ALTER p SET STORAGE EXTERNAL, ALTER ps SET STORAGE EXTERNAL;
INSERT INTO composite SELECT id, (a, b)::pair, ARRAY[(b, a)::pair, (a, NULL)::pair], ARRAY[a, b, 'x', NULL], a, jsonb_build_object('a', a, 'b', ARRAY[b, c]), a::bytea, ARRAY[[a, b], [b, a]] FROM t;
INSERT INTO composite (id, p, ts) SELECT 100 + id, ROW(a, 'of another table')::pair, array_agg(a) OVER (ORDER BY id) FROM s WHERE id < 5;
DELETE FROM s;
VACUUM s;
UPDATE composite SET p.x = 'short' WHERE id = 101;
UPDATE composite SET p.y = noise(4000, 41), ts[2] = (SELECT (p).x FROM composite WHERE id = 102) WHERE id = 101;
UPDATE composite SET p = ps[1], ts = ts || d::text WHERE id < 100;
SELECT id, length((p).x), md5((p).x), md5((p).y), md5(ps::text), md5(ts::text), md5(d), md5(j::text), md5(b), md5(nested::text), length(j ->> 'a') FROM composite ORDER BY id;
SELECT * FROM toasted('composite');

-- dropped columns: their values go with the row or with the next rewrite
CREATE TABLE dropped (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text STORAGE EXTERNAL);
INSERT INTO dropped SELECT i, noise(3000, i), noise(3000, -i) FROM generate_series(1, 9) i;
ALTER TABLE dropped DROP a;
SELECT unused FROM toasted('dropped'); -- all values of a
DELETE FROM dropped WHERE id < 4;
UPDATE dropped SET id = -id WHERE id < 7;
UPDATE dropped SET b = b || 'x' WHERE id = 7;
SELECT unused, lost, broken FROM toasted('dropped'); -- those of rows that were neither deleted nor updated
INSERT INTO dropped SELECT i, noise(3000, i) FROM generate_series(10, 12) i;
VACUUM FULL dropped;
SELECT unused, lost, broken FROM toasted('dropped');
SELECT id, md5(b) FROM dropped ORDER BY id;
ALTER TABLE dropped DROP b;
CLUSTER dropped USING dropped_pkey;
SELECT count(*) FROM dropped;
DO $$
BEGIN
    IF toast_table('dropped') <> 0 THEN
        EXECUTE format('DO $x$ BEGIN ASSERT (SELECT count(*) FROM %s) = 0; END $x$', toast_table('dropped'));
    END IF;
END $$;
ALTER TABLE dropped ADD a text DEFAULT noise(4000, 51); -- the same value in line for rows of before
INSERT INTO dropped VALUES (13);
UPDATE dropped SET id = 14 WHERE id = 12;
SELECT id, length(a), md5(a), pg_column_toast_chunk_id(a) IS NULL AS in_line FROM dropped ORDER BY id;
SELECT * FROM toasted('dropped');

-- tables of other persistence
CREATE TEMP TABLE temporary AS SELECT * FROM t;
UPDATE temporary SET a = a || b;
CREATE TEMP TABLE temporary2 (id int, a text) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO temporary2 SELECT id, a FROM temporary;
SELECT sum(length(a)) FROM temporary2;
COMMIT;
SELECT count(*) FROM temporary2;
SELECT id, md5(a), md5(b) FROM temporary ORDER BY id;
SELECT * FROM toasted('temporary');
VACUUM FULL temporary;
SELECT * FROM toasted('temporary');
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM temporary;
UPDATE unlogged SET a = b || a;
SELECT id, md5(a), md5(b) FROM unlogged ORDER BY id;
SELECT * FROM toasted('unlogged');
ALTER TABLE unlogged SET LOGGED;
SELECT * FROM toasted('unlogged');

-- partitions, into which rows with values move
CREATE TABLE p (id int, a text STORAGE EXTERNAL) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT i, noise(3000, i) FROM generate_series(1, 19, 2) i;
UPDATE p SET id = id + 10 WHERE id < 5;
SELECT tableoid::regclass, id, md5(a) FROM p ORDER BY id, 3;
SELECT * FROM toasted('p1');
SELECT * FROM toasted('p2');

-- indexes on large values, and expressions over them
CREATE TABLE indexed (id int PRIMARY KEY, a text STORAGE EXTERNAL) WITH (toast_tuple_target = 128);
INSERT INTO indexed SELECT i, noise(1000 + i, i) FROM generate_series(1, 40) i;
CREATE UNIQUE INDEX indexed_a ON indexed (a);
CREATE INDEX indexed_md5 ON indexed (md5(a)) WHERE length(a) > 1010;
CREATE INDEX CONCURRENTLY indexed_hash ON indexed USING hash (a);
INSERT INTO indexed VALUES (41, noise(1007, 7)); -- an error: a duplicate
UPDATE indexed SET a = a || 'x' WHERE id = 9;
SET enable_seqscan = off;
SELECT id FROM indexed WHERE a = noise(1005, 5);
SELECT id FROM indexed WHERE a = noise(1009, 9) || 'x';
SELECT id FROM indexed WHERE md5(a) = md5(noise(1033, 33)) AND length(a) > 1010;
RESET enable_seqscan;
SELECT * FROM toasted('indexed');

-- maintenance of the TOAST table itself
\set QUIET on
SELECT toast_table('s') AS toast, 'pg_toast.' || relname || '_index' AS index, relname || '_index' AS index_name FROM pg_class WHERE oid = toast_table('s') \gset
\set QUIET off
INSERT INTO s SELECT i, noise(100 * i, i) FROM generate_series(1, 50) i;
DELETE FROM s WHERE id % 3 = 0;
CREATE VIEW s_md5 AS SELECT md5(string_agg(a, ' ' ORDER BY id)) FROM s;
SELECT * FROM s_md5;
REINDEX INDEX :index;
SELECT * FROM s_md5;
REINDEX INDEX CONCURRENTLY :index;
SELECT * FROM s_md5;
REINDEX TABLE :toast;
REINDEX TABLE CONCURRENTLY s;
SELECT * FROM s_md5;
VACUUM FULL :toast;
SELECT * FROM s_md5;
CLUSTER :toast USING :index_name;
SELECT * FROM s_md5;
VACUUM (FREEZE) :toast;
VACUUM (PROCESS_MAIN false) s;
UPDATE s SET a = a || 'x';
REINDEX TABLE s;
SELECT * FROM s_md5;
SELECT * FROM toasted('s');
DELETE FROM s WHERE id < 40;
VACUUM s;
SELECT * FROM toasted('s');

-- large ones
CREATE TABLE large (id int PRIMARY KEY, a text);
ALTER TABLE large ALTER a SET STORAGE EXTERNAL;
INSERT INTO large VALUES (1, noise(1000000, 1));
INSERT INTO large SELECT 30, repeat(a, 30) FROM large;
ALTER TABLE large ALTER a SET STORAGE EXTENDED;
INSERT INTO large SELECT 2, a FROM large WHERE id = 1;
INSERT INTO large SELECT 31, repeat(a, 30) FROM large WHERE id = 1;
ALTER TABLE large ALTER a SET COMPRESSION lz4;
INSERT INTO large SELECT 32, repeat('compressible', 2500000);
SELECT id, length(a), md5(a), pg_column_compression(a), pg_column_size(a) FROM large ORDER BY id;
SELECT id, substr(a, 1, 10), md5(substr(a, 999990, 20)), md5(substr(a, 29000000, 3000)), substr(a, 29999995, 100) FROM large ORDER BY id;
UPDATE large SET a = a || 'end' WHERE id = 30;
SELECT substr(a, 29999995, 100) FROM large WHERE id = 30;
VACUUM FULL large;
SELECT id, length(a), md5(a) FROM large ORDER BY id;
SELECT * FROM toasted('large');
