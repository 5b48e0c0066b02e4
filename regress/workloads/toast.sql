-- Values out of line: every storage strategy, and every way to come, change and go. (Near the thresholds: lengths.sql.)
-- (md5 makes text that does not compress.)
CREATE FUNCTION noise(length int, seed text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
    $$ SELECT left(string_agg(md5(seed || i), ''), length) FROM generate_series(0, length / 32) i $$;

-- The strategies.
CREATE TABLE strategies (id int PRIMARY KEY, plain text STORAGE PLAIN, main text STORAGE MAIN, external text STORAGE EXTERNAL,
    extended text STORAGE EXTENDED, lz4 text COMPRESSION pglz, ba bytea, js jsonb, arr text[], n numeric);
INSERT INTO strategies (id, plain) VALUES (1, repeat('p', 1800)), (2, noise(7900, 'p')), (3, NULL);
INSERT INTO strategies (id, main) VALUES (4, repeat('m', 1800)), (5, repeat('m', 100000)), (6, noise(5000, 'm')), (7, noise(20000, 'm'));
INSERT INTO strategies (id, external) VALUES (8, repeat('e', 1800)), (9, repeat('e', 3000)), (10, repeat('e', 100000));
INSERT INTO strategies (id, extended) VALUES (11, repeat('x', 1800)), (12, repeat('x', 100000)), (13, noise(1900, 'x')), (14, noise(50000, 'x')), (15, '');
INSERT INTO strategies (id, ba, js, arr, n) VALUES (16, decode(noise(40000, 'b'), 'hex'), jsonb_build_object('key', noise(5000, 'j'), 'list', to_jsonb(ARRAY[1, 2, 3])),
    ARRAY[noise(3000, 'a'), NULL, repeat('a', 5000)], repeat('123456789', 1000)::numeric);
-- all at once: several values leave the row, the biggest first
INSERT INTO strategies SELECT 17, noise(500, '1'), noise(3000, '2'), noise(3000, '3'), noise(3000, '4'), noise(1000, '5'), decode(noise(1000, '6'), 'hex'), '{}', '{}', 1;
SELECT id, length(plain), length(main), length(external), length(extended), length(ba), length(js::text), array_length(arr, 1), length(n::text),
    md5(strategies::text) FROM strategies ORDER BY id;
SELECT id, substr(external, 5000, 10), substr(extended, 40000, 5), substring(ba FROM 10000 FOR 3), right(main, 4) FROM strategies WHERE id IN (7, 10, 12, 14, 16) ORDER BY id;
SELECT id, js->'list', length(js->>'key'), length(arr[3]) FROM strategies WHERE id = 16;
SELECT count(*) FROM strategies WHERE external LIKE '%e' OR extended > 'x';

-- UPDATE: values that stay are not stored again; ones that change, shrink, vanish, come back
UPDATE strategies SET id = id + 100 WHERE id IN (10, 14);
UPDATE strategies SET plain = 'small change' WHERE id IN (5, 12, 110, 114);
UPDATE strategies SET external = external || '!', extended = extended || '!' WHERE id IN (9, 110, 12, 114);
UPDATE strategies SET external = 'short now' WHERE id = 9;
UPDATE strategies SET extended = NULL WHERE id = 12;
UPDATE strategies SET extended = repeat('back', 10000) WHERE id = 12;
UPDATE strategies SET main = external, external = main WHERE id IN (7, 110);
UPDATE strategies a SET extended = b.extended FROM strategies b WHERE a.id = 3 AND b.id = 114;
UPDATE strategies SET external = external WHERE id = 110;
SELECT id, length(plain), length(main), length(external), length(extended), md5(strategies::text) FROM strategies ORDER BY id;
DELETE FROM strategies WHERE id IN (5, 114);
BEGIN;
UPDATE strategies SET extended = noise(9000, 'undone') WHERE id = 12;
SAVEPOINT s;
UPDATE strategies SET extended = noise(9000, 'undone too');
DELETE FROM strategies WHERE id = 110;
ROLLBACK TO s;
SELECT md5(extended) = md5(noise(9000, 'undone')) FROM strategies WHERE id = 12;
ROLLBACK;
-- twice in one transaction, and back in line
BEGIN;
UPDATE strategies SET extended = noise(9000, 'first') WHERE id = 12;
UPDATE strategies SET extended = noise(9000, 'second') WHERE id = 12;
UPDATE strategies SET extended = 'in line' WHERE id = 12;
UPDATE strategies SET extended = noise(9000, 'third') WHERE id = 12;
COMMIT;
INSERT INTO strategies (id, extended) VALUES (12, noise(8000, 'conflict')), (200, noise(8000, 'no conflict'))
    ON CONFLICT (id) DO UPDATE SET extended = excluded.extended || strategies.extended;
INSERT INTO strategies (id, extended) VALUES (12, noise(8000, 'ignored')) ON CONFLICT DO NOTHING;
SELECT id, length(plain), length(main), length(external), length(extended), md5(strategies::text) FROM strategies ORDER BY id;

-- Copies that must not keep pointers into the table they came from.
CREATE TABLE copied AS SELECT * FROM strategies;
INSERT INTO copied SELECT * FROM strategies;
CREATE TABLE copied_to_heap USING heap AS SELECT * FROM strategies;
CREATE TABLE source_on_heap USING heap AS SELECT * FROM strategies;
INSERT INTO copied SELECT * FROM source_on_heap;
CREATE TABLE composed AS SELECT id, s AS whole, ARRAY[s.external, s.extended] AS part FROM strategies s;
CREATE TEMP TABLE temporary AS SELECT * FROM strategies;
TRUNCATE strategies;
DROP TABLE source_on_heap;
SELECT count(*), md5(string_agg(md5(copied::text), '' ORDER BY id)) FROM copied;
SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY id)) FROM copied_to_heap t;
SELECT count(*), md5(string_agg(md5(composed::text), '' ORDER BY id)) FROM composed;
SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY id)) FROM temporary t;
SELECT (whole).id, length((whole).extended), length(part[1]) FROM composed WHERE id IN (12, 110) ORDER BY id;
CREATE INDEX ON copied (md5(extended));
CREATE INDEX ON copied (left(extended, 100)) WHERE length(external) > 10;
SELECT count(*) FROM copied WHERE extended = external;

-- Columns dropped, added, retyped; rewrites; other access methods.
ALTER TABLE copied DROP COLUMN external;
UPDATE copied SET plain = 'after the drop' WHERE id % 2 = 0;
DELETE FROM copied WHERE id = 110;
VACUUM FULL copied;
SELECT count(*), md5(string_agg(md5(copied::text), '' ORDER BY id)) FROM copied;
ALTER TABLE copied ADD COLUMN late text DEFAULT repeat('late', 1000);
SELECT count(*), md5(string_agg(md5(copied::text), '' ORDER BY id)) FROM copied;
UPDATE copied SET late = late || 'r' WHERE id < 10;
ALTER TABLE copied ALTER COLUMN ba TYPE text USING encode(ba, 'hex');
ALTER TABLE copied SET ACCESS METHOD heap;
SELECT count(*), md5(string_agg(md5(copied::text), '' ORDER BY id)) FROM copied;
ALTER TABLE copied SET ACCESS METHOD :am;
SELECT count(*), md5(string_agg(md5(copied::text), '' ORDER BY id)) FROM copied;
ALTER TABLE copied ALTER COLUMN main SET STORAGE EXTERNAL;
UPDATE copied SET main = main || 'x' WHERE main IS NOT NULL;
SELECT count(*), md5(string_agg(md5(copied::text), '' ORDER BY id)) FROM copied;

-- Cursors, triggers and foreign keys over values out of line.
CREATE TABLE parent (id text PRIMARY KEY, big text);
CREATE TABLE child (parent text REFERENCES parent ON UPDATE CASCADE, big text);
CREATE TABLE seen (old_big text, new_big text);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (OLD.big, NEW.big); NEW.big := NEW.big || 'trigger'; RETURN NEW; END $$;
CREATE TRIGGER see BEFORE UPDATE ON parent FOR EACH ROW EXECUTE FUNCTION see();
INSERT INTO parent SELECT 'key ' || i, noise(3000, i::text) FROM generate_series(1, 5) i;
INSERT INTO child SELECT id, big FROM parent;
UPDATE parent SET id = id || '!' WHERE id < 'key 3';
UPDATE parent SET big = noise(4000, 'new') WHERE id = 'key 4';
SELECT parent, md5(big) FROM child ORDER BY parent;
SELECT length(old_big), length(new_big), old_big = new_big FROM seen ORDER BY md5(new_big);
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT id, length(big), md5(big) FROM parent ORDER BY id;
DECLARE d CURSOR WITH HOLD FOR SELECT big FROM parent WHERE id = 'key 5';
FETCH 1 FROM c;
UPDATE parent SET big = 'gone';
FETCH 1 FROM c;
COMMIT;
DELETE FROM child;
DELETE FROM parent;
VACUUM parent;
FETCH ALL FROM c;
MOVE 0 IN d;
CLOSE c;
DO $$
DECLARE
    x text;
BEGIN
    INSERT INTO parent VALUES ('plpgsql', noise(10000, 'plpgsql'));
    SELECT big INTO x FROM parent;
    DELETE FROM parent;
    COMMIT;
    ASSERT x = noise(10000, 'plpgsql'), 'a value fetched before the row went';
END $$;

-- Nothing is left of rows that are gone: chunks are as many as the twin's rows would need, which is none.
CREATE FUNCTION chunks(t regclass) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM ' || (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = t) INTO n;
    RETURN n;
END $$;
CREATE TABLE leak (id int PRIMARY KEY, x text, y text);
INSERT INTO leak SELECT i, noise(5000, i::text), noise(5000, 'y' || i) FROM generate_series(1, 20) i;
SELECT chunks('leak') > 0;
UPDATE leak SET x = noise(6000, x);
UPDATE leak SET y = 'short';
UPDATE leak SET x = NULL WHERE id > 10;
INSERT INTO leak VALUES (1, noise(9000, 'conflict')) ON CONFLICT DO NOTHING;
INSERT INTO leak VALUES (1, noise(9000, 'conflict')); -- an error
ALTER TABLE leak DROP COLUMN y;
DELETE FROM leak;
SELECT chunks('leak');
INSERT INTO leak SELECT i, noise(5000, i::text) FROM generate_series(1, 20) i;
ALTER TABLE leak DROP COLUMN x;
DELETE FROM leak;
SELECT chunks('leak');
SELECT chunks('parent'), chunks('child');
