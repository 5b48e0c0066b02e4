-- Rows that one command meets more than once, in several slots: what is remembered of them (src/heap/recent.rs) must be that
-- version, of that table, and must not outlive the slot.
CREATE TABLE t (id int PRIMARY KEY, a text, b text, n int);
CREATE TABLE other (id int PRIMARY KEY, a text, b text, n int);
INSERT INTO t SELECT i, 'a' || i, repeat('b', i % 50), i FROM generate_series(1, 500) i;
INSERT INTO other SELECT i, 'o' || i, repeat('o', i % 70), -i FROM generate_series(1, 500) i;

-- rows that grow and shrink in turn, by scan and by key
UPDATE t SET b = repeat(b, 1 + id % 3) || a WHERE n % 2 = 0;
UPDATE t SET b = left(b, id % 5), a = NULL WHERE id % 7 = 0;
UPDATE t SET n = n + 1 WHERE id = 77;
UPDATE t SET id = id + 1000 WHERE id BETWEEN 100 AND 110;

-- two tables with rows at the same places; the same table twice
UPDATE t SET a = other.a || t.id FROM other WHERE other.id = t.id AND other.n < -250;
UPDATE other SET b = t.b FROM t WHERE t.id = other.id AND t.n % 3 = 0;
UPDATE t SET n = x.n FROM t x WHERE x.id = t.id + 1 RETURNING t.id % 2 = 0 AND x.n > 490 AND t.a = x.a;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
UPDATE t SET n = x.n, b = x.b FROM t x, other o WHERE x.id = t.id + 2 AND o.id = x.id;
DELETE FROM t USING other o, t x WHERE o.id = t.id AND x.id = t.id AND x.n % 11 = 0;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*), sum(n), md5(string_agg(t::text, ' ' ORDER BY id)) FROM t;

-- nested commands: triggers that change the other table, or another row of the same, between the scan and the update
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE other SET a = OLD.a || NEW.n, n = n + 1 WHERE id = OLD.id;
    IF OLD.id % 10 = 0 THEN
        UPDATE t SET b = b || 'nested' WHERE id = OLD.id + 1;
    END IF;
    IF OLD.id % 13 = 0 THEN
        BEGIN
            UPDATE t SET n = n / (OLD.id % 13) WHERE id IN (SELECT id FROM other ORDER BY id LIMIT 3);
        EXCEPTION WHEN division_by_zero THEN
            NEW.a := 'caught';
        END;
    END IF;
    NEW.b := coalesce(OLD.b, '') || '/' || coalesce(NEW.a, 'null');
    RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION change();
UPDATE t SET n = n + 1 WHERE id % 10 <> 1;
UPDATE t SET a = a || '.' WHERE id % 13 = 0;
SELECT count(*), sum(n), md5(string_agg(t::text, ' ' ORDER BY id)) FROM t;
SELECT count(*), sum(n), md5(string_agg(o::text, ' ' ORDER BY id)) FROM other o;
DROP TRIGGER change ON t;

-- cursors: rows changed, and gone, where they stand; savepoints undone under them (by the index, as rows lie in other places)
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t WHERE id < 50 ORDER BY id FOR UPDATE;
FETCH 3 FROM c;
UPDATE t SET a = 'current' WHERE CURRENT OF c;
FETCH 2 FROM c;
SAVEPOINT s;
DELETE FROM t WHERE CURRENT OF c;
SELECT 1 / (n - n) FROM t LIMIT 1;
ROLLBACK TO s;
UPDATE t SET b = 'back again' WHERE CURRENT OF c;
FETCH 2 FROM c;
DECLARE held CURSOR WITH HOLD FOR SELECT id, a, b FROM t WHERE id < 20 ORDER BY id;
FETCH 2 FROM held;
UPDATE t SET b = 'while held' WHERE id < 10;
COMMIT;
FETCH ALL FROM held;
CLOSE held;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id;
FETCH 2 FROM c;
SAVEPOINT s;
DECLARE d CURSOR FOR SELECT * FROM other ORDER BY id;
FETCH 2 FROM d;
ROLLBACK TO s;
DELETE FROM t WHERE id IN (SELECT id FROM other WHERE id < 30);
FETCH 2 FROM c;
ROLLBACK;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;

-- upserts and MERGE lock a row before they change it
INSERT INTO t SELECT id, 'up', 'sert', 0 FROM other WHERE id < 60 ON CONFLICT (id) DO UPDATE SET a = t.a || excluded.a, n = t.n + 1;
MERGE INTO t USING other o ON o.id = t.id
    WHEN MATCHED AND o.id % 4 = 0 THEN DELETE
    WHEN MATCHED AND o.id % 4 = 1 THEN UPDATE SET a = o.a, b = t.b || o.b
    WHEN NOT MATCHED THEN INSERT VALUES (o.id, o.a, o.b, o.n);
SELECT count(*), sum(n), md5(string_agg(t::text, ' ' ORDER BY id)) FROM t;

-- ANALYZE copies the rows of its sample, here 300, from pages that it has locked
CREATE TABLE sampled AS SELECT i AS id, CASE WHEN i % 2 = 0 THEN repeat('s', i % 100) END AS s FROM generate_series(1, 3000) i;
SET default_statistics_target = 1;
ANALYZE sampled;
ANALYZE t;
RESET default_statistics_target;
SELECT relname, reltuples FROM pg_class WHERE relname IN ('sampled', 't') AND relnamespace = 'twin'::regnamespace ORDER BY relname;
SELECT tablename, attname, n_distinct FROM pg_stats WHERE schemaname = 'twin' AND tablename IN ('sampled', 't') AND attname = 'id' ORDER BY tablename;
SELECT null_frac BETWEEN 0.3 AND 0.7, avg_width BETWEEN 30 AND 70 FROM pg_stats WHERE schemaname = 'twin' AND tablename = 'sampled' AND attname = 's';

-- rows that move between partitions, and tables that share their slots
CREATE TABLE p (id int, part int, a text) PARTITION BY LIST (part);
CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p1 (a text, junk int, part int, id int);
ALTER TABLE p1 DROP COLUMN junk;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
INSERT INTO p SELECT i, i % 2, repeat('p', i % 30) || i FROM generate_series(1, 200) i;
UPDATE p SET part = 1 - part, a = a || 'm' WHERE id % 5 = 0;
UPDATE p SET a = p.a || p.part || x.id FROM p x WHERE x.id = p.id;
DELETE FROM p USING p x WHERE x.id = p.id AND x.id % 9 = 0;
SELECT tableoid::regclass, count(*), md5(string_agg(id || a, ' ' ORDER BY id)) FROM p GROUP BY 1 ORDER BY 1;

-- out-of-line values of rows that were just read, in line, long and again short
CREATE TABLE big (id int PRIMARY KEY, v text STORAGE EXTERNAL, n int);
INSERT INTO big SELECT i, repeat(i::text, 1000 * (i % 4)), i FROM generate_series(1, 40) i;
UPDATE big SET n = length(v) WHERE id % 3 = 0;
UPDATE big SET v = v || v WHERE n % 4 = 1;
UPDATE big SET v = 'short' WHERE id % 10 = 0;
DELETE FROM big WHERE id % 7 = 0 AND length(v) > 0;
-- the row last read is not the one that goes, but lies on the same page
SET enable_hashjoin = off;
SET enable_mergejoin = off;
INSERT INTO big SELECT i, repeat(i::text, CASE WHEN i % 2 = 0 THEN 2000 ELSE 1 END), i FROM generate_series(100, 140) i;
DELETE FROM big USING big x WHERE big.id BETWEEN 100 AND 120 AND x.id = big.id + 1;
DELETE FROM big USING big x WHERE big.id BETWEEN 130 AND 140 AND big.id % 3 = 0 AND x.id = big.id - 1 AND x.v <> '';
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*), sum(n), sum(length(v)), md5(string_agg(v, '' ORDER BY id)) FROM big;
VACUUM big;

-- TRUNCATE and a rewrite in a transaction that has read the rows before
BEGIN;
UPDATE t SET n = 1 WHERE id = 5;
ALTER TABLE t ALTER n TYPE bigint;
UPDATE t SET n = n + 1 WHERE id = 5 RETURNING *;
TRUNCATE t;
INSERT INTO t VALUES (5, 'new', 'new', 5);
UPDATE t SET n = n + 1 WHERE id = 5 RETURNING *;
DELETE FROM t RETURNING *;
COMMIT;
