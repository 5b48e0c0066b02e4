-- Values of every length from 1 byte to 3 chunks, of every storage mode, compressible and not, stored in every way that there is.
\getenv source PG_ABS_SRCDIR
\getenv build PG_ABS_BUILDDIR
\set functions :source '/lib/toast.sql'
\set QUIET on
\i :functions
\set QUIET off

-- the lengths: in steps of 1 around the threshold and around multiples of a chunk's size (1,967 bytes when it is encrypted, else 1,996)
CREATE TABLE lengths AS
    SELECT DISTINCT n FROM (
        SELECT generate_series(1, 6100, 131) UNION ALL SELECT generate_series(1, 30) UNION ALL SELECT generate_series(120, 132)
        UNION ALL SELECT generate_series(1900, 2100)
        UNION ALL SELECT k * 1967 + d FROM generate_series(2, 3) k, generate_series(-12, 12) d
        UNION ALL SELECT k * 1996 + d FROM generate_series(2, 3) k, generate_series(-8, 4) d) x (n);
-- a row knows what its value should be
CREATE TABLE source AS
    SELECT row_number() OVER (ORDER BY n, f)::int AS id, md5(v) AS h, n, v
    FROM lengths, LATERAL (SELECT 'noise', noise(n, n) UNION ALL SELECT 'pattern', pattern(n, n) WHERE n % 4 = 0) x (f, v);

CREATE FUNCTION good(name regclass, OUT rows bigint, OUT bad bigint, OUT unused bigint, OUT lost bigint, OUT broken bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(*), count(*) FILTER (WHERE md5(v) <> h OR length(v) <> n) FROM %s', name) INTO rows, bad;
    SELECT * INTO unused, lost, broken FROM toasted(name);
END $$;
-- slices around the borders of chunks
CREATE FUNCTION bad_slices(name regclass, OUT bad bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format($q$
        SELECT count(*) FROM %s t JOIN source s USING (h), (VALUES (1, 1), (1, 1967), (1967, 1), (1967, 2), (1968, 1967), (1996, 2), (3934, 1), (3930, 10), (3000, 3000), (5901, 2)) x (o, l)
        WHERE substr(t.v, o, l) <> substr(s.v, o, l)$q$, name) INTO bad;
END $$;

CREATE TABLE plain (id int PRIMARY KEY, h text, n int, v text STORAGE PLAIN);
CREATE TABLE main (id int PRIMARY KEY, h text, n int, v text STORAGE MAIN);
CREATE TABLE extended (id int PRIMARY KEY, h text, n int, v text);
CREATE TABLE external (id int PRIMARY KEY, h text, n int, v text STORAGE EXTERNAL);
CREATE TABLE main_lz4 (id int PRIMARY KEY, h text, n int, v text STORAGE MAIN COMPRESSION lz4);
CREATE TABLE extended_lz4 (id int PRIMARY KEY, h text, n int, v text COMPRESSION lz4);
CREATE TABLE target_128 (id int PRIMARY KEY, h text, n int, v text) WITH (toast_tuple_target = 128);
CREATE TABLE target_8160 (id int PRIMARY KEY, h text, n int, v text STORAGE EXTERNAL) WITH (toast_tuple_target = 8160);
-- executes the command for each of them; returns those with which something is wrong
CREATE FUNCTION for_all(command text, OUT tables int, OUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
    name regclass;
    r record;
BEGIN
    tables := 0;
    FOR name IN SELECT c.oid FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attname = 'v'
            WHERE relkind = 'r' AND relnamespace = 'twin'::regnamespace AND relname <> 'source' ORDER BY c.oid LOOP
        EXECUTE replace(command, 'T!', name::text);
        r := good(name);
        IF r.rows = 0 AND command NOT LIKE 'DELETE%' OR (r.bad, r.unused, r.lost, r.broken) <> (0, 0, 0, 0) THEN
            wrong := concat_ws(' ', wrong, name, r);
        END IF;
        tables := tables + 1;
    END LOOP;
END $$;

-- INSERT
SELECT * FROM for_all('INSERT INTO T! SELECT id, h, n, v FROM source');
SELECT bad_slices('plain'), bad_slices('main'), bad_slices('extended'), bad_slices('external'), bad_slices('extended_lz4');
SELECT * FROM for_all('DELETE FROM T!');
SELECT * FROM for_all('DO $$ DECLARE r source; BEGIN FOR r IN TABLE source LOOP INSERT INTO T! VALUES (r.*); END LOOP; END $$');

-- UPDATE: each row gets the value of the next one, then a longer one
SELECT * FROM for_all('UPDATE T! t SET h = s.h, n = s.n, v = s.v FROM source s WHERE s.id = t.id + 1');
SELECT * FROM for_all($$UPDATE T! SET h = md5(v || 'x'), n = n + 1, v = v || 'x'$$);
-- of another column, when the value is in the old row
SELECT * FROM for_all('UPDATE T! SET id = -id');
-- between in line and out of line
SELECT * FROM for_all('UPDATE T! t SET h = s.h, n = s.n, v = s.v FROM source s WHERE s.id = (SELECT max(id) FROM source) + 1 + t.id');

-- upsert
SELECT * FROM for_all('INSERT INTO T! SELECT -id, h, n, v FROM source WHERE id % 2 = 0 ON CONFLICT (id) DO UPDATE SET h = excluded.h, n = excluded.n, v = excluded.v');
SELECT * FROM for_all('INSERT INTO T! SELECT CASE WHEN id % 3 = 0 THEN id ELSE -id END, h, n, v FROM source WHERE id % 7 <> 0 ON CONFLICT DO NOTHING');
SELECT * FROM for_all('DELETE FROM T! WHERE id > 0');
SELECT * FROM for_all('UPDATE T! SET id = -id');

-- COPY in text and binary format
\set file :build '/results/toast_lengths.copy'
COPY extended TO :'file';
CREATE TABLE copied (LIKE external INCLUDING ALL);
COPY copied FROM :'file';
COPY external TO :'file' (FORMAT binary);
CREATE TABLE copied_lz4 (LIKE extended_lz4 INCLUDING ALL);
COPY copied_lz4 FROM :'file' (FORMAT binary);
BEGIN;
CREATE TABLE copied_frozen (LIKE plain INCLUDING ALL);
ALTER TABLE copied_frozen ALTER v SET STORAGE EXTENDED;
COPY copied_frozen FROM :'file' (FORMAT binary, FREEZE);
COMMIT;
SELECT * FROM for_all('');

-- from one table to another: pointers must not come along
CREATE TABLE as_select AS SELECT * FROM external;
CREATE TABLE as_select_lz4 AS SELECT * FROM extended_lz4;
CREATE TABLE as_execute AS SELECT * FROM main_lz4 WHERE false;
INSERT INTO as_execute SELECT * FROM target_128;
CREATE MATERIALIZED VIEW materialized AS SELECT id, h, length(v) AS n, v FROM main;
UPDATE external t SET v = o.v, h = o.h, n = o.n FROM extended_lz4 o WHERE o.id = t.id + 1;
DELETE FROM extended_lz4 WHERE id % 5 = 0;
DELETE FROM external WHERE id % 7 = 0;
REFRESH MATERIALIZED VIEW materialized;
SELECT good('materialized');

-- rewrites
SELECT * FROM for_all('');
SELECT * FROM for_all('ALTER TABLE T! ADD r float8 DEFAULT random() * 0');
SELECT * FROM for_all('ALTER TABLE T! ALTER n TYPE bigint');
SELECT * FROM for_all('ALTER TABLE T! SET UNLOGGED');
SELECT * FROM for_all('ALTER TABLE T! SET LOGGED');
SELECT * FROM for_all('ALTER TABLE T! SET ACCESS METHOD heap');
\set QUIET on
SELECT 'ALTER TABLE T! SET ACCESS METHOD ' || :'am' AS back \gset
\set QUIET off
SELECT * FROM for_all(:'back');
CLUSTER plain USING plain_pkey;
CLUSTER main USING main_pkey;
CLUSTER extended USING extended_pkey;
CLUSTER external USING external_pkey;
VACUUM FULL main_lz4, extended_lz4, target_128, target_8160, copied, copied_lz4, materialized;
VACUUM FREEZE copied, copied_lz4, as_select, as_select_lz4;
SELECT * FROM for_all('');
SELECT good('materialized');
SELECT bad_slices('main_lz4'), bad_slices('extended_lz4'), bad_slices('external'), bad_slices('target_128'), bad_slices('as_select_lz4');
-- twice, in a transaction, and undone (dead rows are rewritten, too, and with them the values that they point to)
BEGIN;
UPDATE external SET v = v || 'y', h = md5(v || 'y'), n = n + 1 WHERE id % 3 = 0;
CLUSTER external;
UPDATE external SET v = v || 'z', h = md5(v || 'z'), n = n + 1 WHERE id % 2 = 0;
ALTER TABLE external ALTER n TYPE int;
SELECT rows, bad, lost, broken FROM good('external');
SAVEPOINT s;
CLUSTER external;
UPDATE external SET v = v || '!', h = md5(v || '!'), n = n + 1 WHERE id % 2 = 0;
ROLLBACK TO s;
SELECT rows, bad, lost, broken FROM good('external');
COMMIT;
SELECT rows, bad, lost, broken FROM good('external');
BEGIN;
UPDATE external SET v = v || 'y', h = md5(v || 'y'), n = n + 1 WHERE id % 3 = 0;
CLUSTER external;
ROLLBACK;
SELECT rows, bad, lost, broken FROM good('external');

-- slices that begin in any chunk (those of text begin in the first one, as far as storage is concerned)
CREATE TABLE bytes (id int, n int, v bytea STORAGE EXTERNAL);
INSERT INTO bytes SELECT id, n, v::bytea FROM source WHERE n > 1900;
SELECT count(*), count(*) FILTER (WHERE substr(t.v, o, l) <> substr(s.v, o, l)::bytea)
FROM bytes t JOIN source s USING (id), (VALUES (1, 1), (1, 1967), (1966, 1), (1967, 1), (1967, 2), (1968, 1), (1968, 1967), (1968, 1968), (1996, 2), (3934, 1), (3934, 2), (3935, 1), (3930, 10), (1900, 3000), (5901, 2), (5902, 300), (6000, 1)) x (o, l);

-- around the size of a page, where a row has to go out of line even against its settings
CREATE TABLE page_main (n int, v text STORAGE MAIN);
CREATE TABLE page_target (n int, v text STORAGE EXTERNAL) WITH (toast_tuple_target = 8160);
INSERT INTO page_main SELECT n, noise(n, n) FROM generate_series(8030, 8180) n;
INSERT INTO page_target SELECT n, noise(n, n) FROM generate_series(8030, 8180) n;
UPDATE page_main SET v = noise(16210 - n, -n);
UPDATE page_target SET v = noise(16210 - n, -n);
SELECT * FROM toasted('page_main');
SELECT * FROM toasted('page_target');
