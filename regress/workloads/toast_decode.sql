-- Decoding of out-of-line values. All are far from the threshold: there the twins may differ in what is out of line.
\getenv source PG_ABS_SRCDIR
\getenv build PG_ABS_BUILDDIR
\set functions :source '/lib/toast.sql'
\set QUIET on
\i :functions
\set QUIET off

-- each replica identity
CREATE TABLE by_default (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text, n int);
CREATE TABLE by_index (id int, a text STORAGE EXTERNAL NOT NULL, b text, n int) WITH (toast_tuple_target = 128);
CREATE UNIQUE INDEX by_index_ab ON by_index (a, n, id);
ALTER TABLE by_index ALTER n SET NOT NULL, ALTER id SET NOT NULL;
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_ab; -- whose key is out of line
CREATE TABLE by_full (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text, n int);
ALTER TABLE by_full REPLICA IDENTITY FULL;
CREATE TABLE by_nothing (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text, n int);
ALTER TABLE by_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE by_none (id int, a text STORAGE EXTERNAL, b text, n int);
CREATE PROCEDURE each(command text) LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['by_default', 'by_index', 'by_full', 'by_nothing', 'by_none'] LOOP
        EXECUTE replace(command, 'T!', name);
        COMMIT;
    END LOOP;
END $$;
CALL each('INSERT INTO T! SELECT i, noise(1000 * i, i), noise(2500, -i), i FROM generate_series(1, 2) i');
CALL each('INSERT INTO T! SELECT i, pattern(1500, i), pattern(70000 * i, i), i FROM generate_series(3, 6) i');
-- values that stay and values that change, key and no key
CALL each('UPDATE T! SET n = n + 10');
CALL each('UPDATE T! SET b = noise(3000 + id, id)');
CALL each('UPDATE T! SET a = a || noise(1600, 7) WHERE id = 1'); -- near the limit of btree
CALL each('UPDATE T! SET b = b || a, id = id + 10 WHERE id IN (2, 3)');
CALL each('UPDATE T! SET id = id + 10 WHERE id IN (4)');
CALL each('UPDATE T! SET a = ''short'', n = 0 WHERE id = 5');
CALL each('UPDATE T! SET a = ''short'' WHERE id = 5');
CALL each('UPDATE T! SET a = substr(a, 1), b = substr(b, 1) WHERE id = 6'); -- equal, but new
CALL each('UPDATE T! SET a = left(b, 1999), b = a WHERE id = 6');
CALL each('UPDATE T! t SET a = o.a FROM T! o WHERE o.id = 6 AND t.id = 14');
CALL each('UPDATE T! SET b = ''short'', n = id, a = a WHERE id > 5');
CALL each('DELETE FROM T! WHERE id IN (5, 6)');
CALL each('DELETE FROM T! WHERE id = 14');
-- the identity changes
ALTER TABLE by_default REPLICA IDENTITY FULL;
ALTER TABLE by_full REPLICA IDENTITY DEFAULT;
ALTER TABLE by_nothing REPLICA IDENTITY FULL;
ALTER TABLE by_index REPLICA IDENTITY NOTHING;
CALL each('UPDATE T! SET n = n + 1, b = noise(5000, id)');
CALL each('DELETE FROM T! WHERE id = 12');
ALTER TABLE by_nothing REPLICA IDENTITY DEFAULT;
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_ab;
CALL each('UPDATE T! SET n = n + 1');

-- inserted and changed in one transaction, and often
BEGIN;
INSERT INTO by_default VALUES (30, noise(3000, 30), 'b', 0);
UPDATE by_default SET n = 1 WHERE id = 30;
UPDATE by_default SET a = a || '!' WHERE id = 30;
UPDATE by_default SET a = a || '!', b = a WHERE id = 30;
DELETE FROM by_default WHERE id = 30;
INSERT INTO by_default VALUES (30, noise(4000, 31), noise(4000, 32), 0);
COMMIT;

-- sub-transactions
BEGIN;
INSERT INTO by_full VALUES (40, noise(3000, 40), 'b', 0);
SAVEPOINT a;
INSERT INTO by_full VALUES (41, noise(3000, 41), 'b', 0);
UPDATE by_full SET a = noise(3000, 42) WHERE id = 40;
ROLLBACK TO a;
UPDATE by_full SET a = noise(3000, 43), n = 1 WHERE id = 40;
SAVEPOINT b;
UPDATE by_full SET b = noise(3000, 44) WHERE id = 40;
SAVEPOINT c;
INSERT INTO by_full VALUES (45, noise(3000, 45), noise(3000, 46), 0);
RELEASE c;
RELEASE b;
UPDATE by_full SET n = 2 WHERE id IN (40, 45);
COMMIT;
BEGIN;
INSERT INTO by_full VALUES (50, noise(300000, 50), 'never', 0);
ROLLBACK;
BEGIN;
SAVEPOINT a;
INSERT INTO by_full VALUES (51, noise(3000, 51), 'never', 0);
UPDATE by_full SET a = noise(3000, 52);
ROLLBACK TO a;
COMMIT;
DO $$
BEGIN
    FOR i IN 60..75 LOOP
        BEGIN
            INSERT INTO by_default VALUES (i, noise(2100 + i, i), noise(2100 + i, -i), i);
            UPDATE by_default SET a = a || 1 / (i % 3), b = DEFAULT WHERE id = i - 1;
            UPDATE by_full SET a = noise(2100 + i, i) || 1 / (i % 5) WHERE id = 40;
        EXCEPTION WHEN division_by_zero THEN
            INSERT INTO by_default VALUES (i, noise(2200 + i, i), 'instead', -i);
        END;
    END LOOP;
END $$;
-- values stored for a row that cannot be
INSERT INTO by_default VALUES (60, noise(3000, 1), NULL, 1); -- an error
INSERT INTO by_default VALUES (60, noise(3000, 1), NULL, 1) ON CONFLICT DO NOTHING;
INSERT INTO by_default VALUES (60, noise(3000, 1), NULL, 1), (80, noise(3000, 80), noise(3000, 81), 1) ON CONFLICT (id) DO UPDATE SET a = excluded.a || 'upsert';
MERGE INTO by_default t USING (SELECT i, noise(4000, i) FROM generate_series(79, 81) i) s (id, a) ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.a);
UPDATE by_default SET id = 60 WHERE id = 81; -- an error

-- COPY, which stores many rows at once, and many rows in one command
CREATE TABLE copied (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text);
\set file :build '/results/toast_decode.copy'
COPY (SELECT i, CASE WHEN i % 3 > 0 THEN noise(2500 + i, i) END, CASE i % 4 WHEN 0 THEN noise(2500 + i, -i) WHEN 1 THEN 'b' END FROM generate_series(1, 300) i) TO :'file';
COPY copied FROM :'file';
UPDATE copied SET b = noise(3000, id) WHERE id % 5 = 0;
UPDATE copied SET b = 'x' WHERE id % 25 = 0;
DELETE FROM copied WHERE id > 10;
INSERT INTO copied SELECT id + 100, a, b FROM copied;
CREATE TABLE as_select AS SELECT * FROM copied;
-- into partitions, by triggers
CREATE TABLE parted (id int, a text STORAGE EXTERNAL) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_2 PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT id, a FROM copied WHERE id % 3 > 0;
UPDATE parted SET id = id + 1000 WHERE id < 6;

-- other types
CREATE TABLE types (id int PRIMARY KEY, b bytea STORAGE EXTERNAL, j jsonb, t text[], n numeric, l text COMPRESSION lz4);
ALTER TABLE types REPLICA IDENTITY FULL, ALTER n SET STORAGE EXTERNAL;
INSERT INTO types SELECT i, noise(5000, i)::bytea, jsonb_build_object('a', noise(5000, i), 'b', pattern(100000, i)), ARRAY[noise(3000, i), NULL, pattern(5000, i)], repeat('1234567890', 800)::numeric, pattern(1000000, i) FROM generate_series(1, 2) i;
UPDATE types SET j = j || '{"c": 1}', n = n + 1 WHERE id = 1;
DELETE FROM types;

-- another access method, before and after
CREATE TABLE moving (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text) USING heap;
ALTER TABLE moving REPLICA IDENTITY FULL;
INSERT INTO moving SELECT i, noise(3000, i), noise(3000, -i) FROM generate_series(1, 5) i;
UPDATE moving SET a = noise(3004, 1) WHERE id = 1;
ALTER TABLE moving SET ACCESS METHOD :am;
UPDATE moving SET a = noise(3004, 2) WHERE id = 2;
DELETE FROM moving WHERE id = 4;
ALTER TABLE moving SET ACCESS METHOD heap;
UPDATE moving SET a = noise(3004, 3) WHERE id = 3;
ALTER TABLE moving SET ACCESS METHOD :am;
UPDATE moving SET id = 50 WHERE id = 5;
