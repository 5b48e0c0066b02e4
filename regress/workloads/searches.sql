-- Searches for keys that are numbers, in trees of some height: consecutive, far apart, crowded in one place, duplicates, NULLs; while
-- pages change between one row and the next.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET plan_cache_mode = force_generic_plan;
CREATE FUNCTION shuffled(i int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
    'SELECT (i * 7919 + 104729) % 1000003'; -- one to one below the modulus
CREATE TABLE n (
    id int NOT NULL,
    wide int8,
    crowded int8,
    few int2,
    day date,
    at timestamptz,
    token uuid,
    money_key money,
    o oid
) WITH (autovacuum_enabled = off);
INSERT INTO n SELECT i,
    shuffled(i) * 9223372036854 - 4611686018427387904,
    CASE WHEN i % 100 = 0 THEN shuffled(i) * 1000000000000 ELSE i % 977 END,
    CASE WHEN i % 11 <> 0 THEN i % 7 - 3 END,
    date '2000-01-01' + (shuffled(i) % 4000)::int,
    CASE WHEN i % 5 <> 0 THEN timestamptz 'epoch' + shuffled(i) * interval '1 millisecond' END,
    md5((i % 9000)::text)::uuid,
    (shuffled(i) % 500)::numeric::money,
    shuffled(i) * 4294
FROM generate_series(1, 20000) i;
-- (not unique, since 17 has btrees for those)
CREATE INDEX n_id ON n (id);
CREATE INDEX n_wide ON n (wide);
CREATE INDEX n_crowded ON n (crowded DESC);
CREATE INDEX n_few ON n (few DESC NULLS LAST, id);
CREATE INDEX n_day ON n (day, wide);
CREATE INDEX n_at ON n (at NULLS FIRST) INCLUDE (id);
CREATE INDEX n_token ON n (token);
CREATE INDEX n_money ON n (money_key DESC, o);
CREATE INDEX n_o ON n (o);
ANALYZE n;

-- Every value, and those beside it, once by a search of its own.
CREATE FUNCTION searched(keys text, condition text, OUT rows int8, OUT ids int8, OUT plan text) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    EXECUTE format('SELECT count(n.id), sum(n.id) FROM (%s) g (k) JOIN n ON %s', keys, condition) INTO rows, ids;
    FOR line IN EXECUTE format('EXPLAIN (COSTS off) SELECT count(n.id), sum(n.id) FROM (%s) g (k) JOIN n ON %s', keys, condition) LOOP
        plan := concat_ws(' ', plan, substring(line FROM '(Index (?:Only )?Scan .*using \w+|Seq Scan on n)'));
    END LOOP;
END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SELECT * FROM searched('SELECT generate_series(-5, 20005)', 'n.id = g.k');
SELECT * FROM searched('SELECT generate_series(-5, 20005)::int8', 'n.id = g.k');
SELECT * FROM searched('SELECT (generate_series(1, 20000) % 30000)::int2', 'n.id = g.k');
SELECT * FROM searched('SELECT shuffled(i) * 9223372036854 - 4611686018427387904 + d FROM generate_series(1, 20000) i, generate_series(-1, 1) d', 'n.wide = g.k');
SELECT * FROM searched('SELECT shuffled(i * 100) * 1000000000000 FROM generate_series(1, 200) i', 'n.crowded = g.k');
SELECT * FROM searched('SELECT generate_series(-2, 1000)', 'n.crowded = g.k');
SELECT * FROM searched('SELECT generate_series(-5, 5)::int2', 'n.few = g.k');
SELECT * FROM searched('SELECT date ''1999-12-25'' + generate_series(0, 4020)', 'n.day = g.k');
SELECT * FROM searched('SELECT timestamptz ''epoch'' + shuffled(i) * interval ''1 millisecond'' + d * interval ''1 microsecond'' FROM generate_series(1, 20000) i, generate_series(-1, 1) d', 'n.at = g.k');
SELECT * FROM searched('SELECT md5(i::text)::uuid FROM generate_series(-100, 9100) i', 'n.token = g.k');
SELECT * FROM searched('SELECT i::money FROM generate_series(-3, 503) i', 'n.money_key = g.k');
SELECT * FROM searched('SELECT (shuffled(i) * 4294)::oid FROM generate_series(1, 20000) i UNION ALL SELECT 4294967295', 'n.o = g.k');
SELECT * FROM searched('SELECT i * 400 FROM generate_series(0, 60) i', 'n.id BETWEEN g.k AND g.k + 300');
SELECT * FROM searched('SELECT i * 100000000000000000 FROM generate_series(-46, 46) i', 'n.wide > g.k AND n.wide <= g.k + 50000000000000000');
SELECT * FROM searched('SELECT i FROM generate_series(-4, 4) i', 'n.few < g.k AND n.id % 97 = 3');
SELECT * FROM searched('SELECT i FROM generate_series(-4, 4) i', '(n.few, n.id) >= (g.k, 15000)');

-- In both directions from any place, to the end.
SELECT count(*), sum(id), md5(string_agg(id::text, ',')) FROM (SELECT id FROM n WHERE id > 19700 ORDER BY id) s;
SELECT count(*), sum(id), md5(string_agg(id::text, ',')) FROM (SELECT id FROM n WHERE id < 300 ORDER BY id DESC) s;
SELECT md5(string_agg(at::text, ',')) FROM (SELECT at FROM n WHERE at > 'epoch' ORDER BY at DESC LIMIT 5000) s;
SELECT md5(string_agg(few::text, ',')) FROM (SELECT few FROM n WHERE few IS NOT NULL ORDER BY few DESC NULLS LAST, id LIMIT 15000) s;
SELECT md5(string_agg(token::text, ',')) FROM (SELECT token FROM n WHERE token >= md5('1')::uuid ORDER BY token LIMIT 3000) s;
SELECT count(*) FROM n WHERE id = ANY (ARRAY(SELECT generate_series(1, 30000, 3)));
SELECT count(*), sum(id) FROM n WHERE crowded = ANY (ARRAY(SELECT generate_series(1, 3000, 3)));

-- One search asks, and before it goes on the pages are others: splits, moved keys, keys removed, other generations.
CREATE FUNCTION changed_between(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    cursors refcursor[];
    c refcursor;
    found int;
    seen text := '';
BEGIN
    FOR i IN 0..15 LOOP
        OPEN c SCROLL FOR EXECUTE format('SELECT id FROM n WHERE id >= %s ORDER BY id', i * 1250);
        FETCH c INTO found;
        seen := seen || ' ' || coalesce(found, -1);
        cursors := cursors || c;
        c := NULL;
    END LOOP;
    EXECUTE change;
    FOREACH c IN ARRAY cursors LOOP
        MOVE FORWARD 300 IN c;
        FETCH c INTO found;
        seen := seen || ' ' || coalesce(found, -1);
        MOVE BACKWARD 299 IN c;
        FETCH BACKWARD FROM c INTO found;
        seen := seen || ' ' || coalesce(found, -1);
        CLOSE c;
    END LOOP;
    RETURN seen;
END $$;
SELECT changed_between('INSERT INTO n (id) SELECT -i FROM generate_series(1, 3000) i');
SELECT changed_between('UPDATE n SET id = id + 100000 WHERE id % 3 = 0');
SELECT changed_between('DELETE FROM n WHERE id % 2 = 1 AND id < 15000');
VACUUM n;
SELECT changed_between('INSERT INTO n (id) SELECT i * 2 + 1 FROM generate_series(0, 4000) i WHERE NOT EXISTS (SELECT FROM n WHERE id = i * 2 + 1)');
SELECT * FROM searched('SELECT generate_series(-3005, 20005)', 'n.id = g.k');

-- A statement prepared before, a session that goes on.
PREPARE one (int8) AS SELECT count(*), min(few), max(day) FROM n WHERE id = $1;
EXECUTE one (1251);
EXECUTE one (1252);
DELETE FROM n WHERE id = 1252;
EXECUTE one (1252);
INSERT INTO n (id, few) VALUES (1252, 5);
EXECUTE one (1252);
BEGIN;
UPDATE n SET id = 1253000 WHERE id = 1252;
EXECUTE one (1252);
SAVEPOINT s;
INSERT INTO n (id, few) VALUES (1252, 6);
EXECUTE one (1252);
ROLLBACK TO s;
EXECUTE one (1252);
ROLLBACK;
EXECUTE one (1252);
REINDEX INDEX n_id;
EXECUTE one (1252);
BEGIN;
DECLARE before CURSOR FOR SELECT id FROM n WHERE id > 10000 ORDER BY id;
FETCH before;
SET pg_vault_tde.plaintext_cache = 0; -- all is forgotten, and nothing is kept
FETCH 3 FROM before;
EXECUTE one (1252);
SET pg_vault_tde.plaintext_cache = '1MB';
MOVE FORWARD 2000 IN before;
FETCH 3 FROM before;
EXECUTE one (1252);
COMMIT;

-- Tables whose pages have no LSNs.
CREATE UNLOGGED TABLE u (id int, v int);
CREATE INDEX u_id ON u (id);
CREATE TEMP TABLE t (id int, v int);
CREATE INDEX t_id ON t (id);
INSERT INTO u SELECT i * 3, i FROM generate_series(1, 3000) i;
INSERT INTO t SELECT i * 3, i FROM generate_series(1, 3000) i;
SELECT count(*), sum(v) FROM generate_series(-3, 9003) g JOIN u ON u.id = g;
SELECT count(*), sum(v) FROM generate_series(-3, 9003) g JOIN t ON t.id = g;
DELETE FROM u WHERE id % 2 = 0;
INSERT INTO u SELECT i * 2, i FROM generate_series(1, 2000) i WHERE NOT EXISTS (SELECT FROM u WHERE id = i * 2);
SELECT count(*), sum(v) FROM generate_series(-3, 9003) g JOIN u ON u.id = g;
