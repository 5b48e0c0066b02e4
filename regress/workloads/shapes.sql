-- Rows of unusual shape: no columns, only NULLs, very many columns, columns added and dropped later.
CREATE TABLE nothing ();
INSERT INTO nothing DEFAULT VALUES;
INSERT INTO nothing SELECT FROM generate_series(1, 5);
SELECT count(*) FROM nothing;
SELECT ctid, * FROM nothing;
DELETE FROM nothing WHERE ctid = '(0,2)';
UPDATE nothing SET ctid = ctid; -- an error: there is nothing to set
SELECT count(*), count(nothing) FROM nothing;
COPY nothing TO STDOUT;
ALTER TABLE nothing ADD COLUMN a int, ADD COLUMN b text DEFAULT 'b', ADD COLUMN c timestamptz DEFAULT clock_timestamp();
SELECT a, b, c IS NOT NULL FROM nothing;
UPDATE nothing SET c = 'epoch', a = 1 WHERE ctid = (SELECT min(ctid) FROM nothing);
ALTER TABLE nothing DROP COLUMN c;
SELECT * FROM nothing ORDER BY a;

-- Only NULLs, with null bitmaps of one byte and of several.
CREATE TABLE nulls8 (c1 int, c2 text, c3 int8, c4 bool, c5 numeric, c6 int2, c7 text, c8 timestamptz);
CREATE TABLE nulls9 (LIKE nulls8, c9 text);
CREATE TABLE nulls72 ();
DO $$
BEGIN
    FOR i IN 1..72 LOOP
        EXECUTE format('ALTER TABLE nulls72 ADD c%s %s', i, CASE i % 3 WHEN 0 THEN 'text' WHEN 1 THEN 'int' ELSE 'bool' END);
    END LOOP;
END $$;
INSERT INTO nulls8 DEFAULT VALUES;
INSERT INTO nulls9 DEFAULT VALUES;
INSERT INTO nulls72 DEFAULT VALUES;
INSERT INTO nulls8 (c8) VALUES ('epoch');
INSERT INTO nulls9 (c9) VALUES ('');
INSERT INTO nulls72 (c72, c64, c65) VALUES ('last', 64, true);
UPDATE nulls8 SET c1 = c1 WHERE c8 IS NULL;
UPDATE nulls8 SET c8 = NULL;
UPDATE nulls9 SET c1 = 1 WHERE c9 IS NOT NULL;
UPDATE nulls72 SET c72 = NULL RETURNING *;
SELECT count(*), count(nulls8), count(nulls8.*), bool_and(nulls8 IS NULL) FROM nulls8;
SELECT * FROM nulls9;

-- As many columns as a table may have, and the widest that needs no out-of-line storage.
CREATE TABLE columns1600 ();
CREATE TABLE columns1000 ();
DO $$
BEGIN
    EXECUTE 'ALTER TABLE columns1600 ' || (SELECT string_agg('ADD c' || i || ' bool', ', ' ORDER BY i) FROM generate_series(1, 1600) i);
    EXECUTE 'ALTER TABLE columns1000 ' || (SELECT string_agg('ADD c' || i || ' int8', ', ' ORDER BY i) FROM generate_series(1, 1000) i);
    EXECUTE 'INSERT INTO columns1600 SELECT ' || (SELECT string_agg((i % 3 = 0)::text, ', ' ORDER BY i) FROM generate_series(1, 1600) i);
    EXECUTE 'INSERT INTO columns1000 SELECT ' || (SELECT string_agg(i::text, ', ' ORDER BY i) FROM generate_series(1, 1000) i);
    EXECUTE 'INSERT INTO columns1000 SELECT ' || (SELECT string_agg(CASE WHEN i % 2 = 0 THEN i::text ELSE 'NULL' END, ', ' ORDER BY i) FROM generate_series(1, 1000) i);
END $$;
INSERT INTO columns1600 (c1600) VALUES (true);
INSERT INTO columns1000 (c500) VALUES (1);
UPDATE columns1600 SET c1 = NOT c1, c1599 = NULL;
UPDATE columns1000 SET c1000 = 0 WHERE c1 IS NULL;
SELECT c1, c2, c799, c800, c1599, c1600 FROM columns1600 ORDER BY c1600;
SELECT c1, c2, c500, c999, c1000 FROM columns1000 ORDER BY c1000, c500;
SELECT * FROM columns1000;

-- Columns added and dropped: rows that are shorter than the table says, and rows with columns that it no longer has.
CREATE TABLE evolving (id int PRIMARY KEY, a text, b int NOT NULL);
INSERT INTO evolving SELECT i, 'a' || i, i FROM generate_series(1, 4) i;
ALTER TABLE evolving ADD COLUMN c text;
ALTER TABLE evolving ADD COLUMN d text DEFAULT 'fast default', ADD COLUMN e numeric NOT NULL DEFAULT 1.5;
SELECT * FROM evolving ORDER BY id;
SELECT id, d FROM evolving WHERE d = 'fast default' AND e = 1.5 AND c IS NULL ORDER BY id;
UPDATE evolving SET c = 'set' WHERE id = 1;
UPDATE evolving SET d = NULL WHERE id = 2;
INSERT INTO evolving (id, b) VALUES (5, 5);
ALTER TABLE evolving ALTER COLUMN d SET DEFAULT 'another';
INSERT INTO evolving (id, b) VALUES (6, 6);
ALTER TABLE evolving DROP COLUMN a;
SELECT * FROM evolving ORDER BY id;
INSERT INTO evolving VALUES (7, 7, 'c7', 'd7', 7);
UPDATE evolving SET e = e + 1 WHERE id IN (1, 3, 7);
ALTER TABLE evolving DROP COLUMN c, ADD COLUMN a int DEFAULT 3;
SELECT * FROM evolving ORDER BY id;
ALTER TABLE evolving ALTER COLUMN b TYPE text USING 'b' || b; -- a rewrite
ALTER TABLE evolving ADD COLUMN f int DEFAULT floor(random() * 0) + 9; -- another: the default is volatile
SELECT * FROM evolving ORDER BY id;
ALTER TABLE evolving ALTER COLUMN d SET NOT NULL; -- an error: row 2
UPDATE evolving SET d = 'd' WHERE d IS NULL;
ALTER TABLE evolving ALTER COLUMN d SET NOT NULL, ADD CHECK (length(d) < 100);
BEGIN;
ALTER TABLE evolving ADD COLUMN undone text DEFAULT 'x';
UPDATE evolving SET undone = 'y' WHERE id = 1;
SELECT undone FROM evolving ORDER BY id;
ALTER TABLE evolving DROP COLUMN e;
INSERT INTO evolving (id, b) VALUES (8, '8') RETURNING *;
ROLLBACK;
SELECT * FROM evolving ORDER BY id;

-- Generated columns, identity, serial, collation.
CREATE TABLE generated (id int GENERATED ALWAYS AS IDENTITY, s serial, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,
    t text COLLATE "C" DEFAULT 'dflt', up text GENERATED ALWAYS AS (upper(t)) STORED);
INSERT INTO generated (a) VALUES (1), (2), (NULL);
INSERT INTO generated (a, t) VALUES (4, 'four') RETURNING *;
UPDATE generated SET a = a + 10, t = 'changed' WHERE a > 1 RETURNING twice, up;
UPDATE generated SET twice = 1; -- an error
ALTER TABLE generated ADD COLUMN thrice int GENERATED ALWAYS AS (a * 3) STORED;
ALTER TABLE generated ALTER COLUMN twice DROP EXPRESSION;
UPDATE generated SET twice = 1 WHERE a = 1;
SELECT * FROM generated ORDER BY id;
SELECT * FROM generated WHERE t COLLATE "C" > 'd' ORDER BY t, id;

-- Every length of a value that stays in line, one table for each alignment of what follows it.
CREATE TABLE lengths (n int, t text STORAGE PLAIN, i int8);
INSERT INTO lengths SELECT n, repeat('x', n), n FROM generate_series(0, 2000) n;
INSERT INTO lengths SELECT n, repeat('y', n), NULL FROM generate_series(2001, 8000, 7) n;
UPDATE lengths SET t = t || 'z' WHERE n % 10 = 0;
UPDATE lengths SET t = left(t, 5) WHERE n % 10 = 1;
SELECT count(*), sum(n), sum(length(t)), sum(i) FROM lengths;
SELECT count(*) FROM lengths WHERE length(t) <> CASE n % 10 WHEN 0 THEN n + 1 WHEN 1 THEN least(n, 5) ELSE n END;
