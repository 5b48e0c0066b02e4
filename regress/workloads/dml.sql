-- INSERT, UPDATE, DELETE, MERGE, COPY and their clauses.
CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE, n numeric DEFAULT 0, note text);
CREATE TABLE log (id int, what text);

-- INSERT
INSERT INTO t VALUES (1, 'one', 1.1, 'first');
INSERT INTO t (id, name) VALUES (2, 'two'), (3, 'three');
INSERT INTO t SELECT i, 'generated ' || i, i * 1.5, repeat('note', i % 7) FROM generate_series(10, 60) i;
INSERT INTO t SELECT id + 100, name || ' again', n, note FROM t WHERE id < 30;
INSERT INTO t VALUES (4, 'four') RETURNING *, tableoid::regclass, ctid, xmin = pg_current_xact_id()::xid AS mine, xmax, cmin, cmax;
INSERT INTO t VALUES (1, 'dup'); -- an error
INSERT INTO t VALUES (5, 'one'); -- an error
INSERT INTO t VALUES (5, 'five'), (6, 'six'), (5, 'five again'); -- an error after rows were stored
SELECT count(*) FROM t WHERE id IN (5, 6);

-- UPDATE
UPDATE t SET n = n + 1;
UPDATE t SET note = 'short' WHERE id = 10;
UPDATE t SET note = repeat('much longer ', 50) WHERE id BETWEEN 10 AND 15;
UPDATE t SET id = id + 1000 WHERE id > 100;
UPDATE t SET (name, note) = (SELECT 'pair', 'of values') WHERE id = 20;
UPDATE t SET n = s.total FROM (SELECT sum(n) AS total FROM t) s WHERE id IN (1, 2) RETURNING id, n, ctid IS NULL AS no_ctid, xmin = pg_current_xact_id()::xid AS mine;
UPDATE t SET name = 'two' WHERE id = 1; -- an error
UPDATE t SET id = id WHERE id = 3;
UPDATE t SET note = note WHERE id = 3;
UPDATE t a SET note = b.name FROM t b WHERE b.id = a.id + 1 AND a.id < 15;
UPDATE t SET n = n * 2 WHERE ctid = (SELECT ctid FROM t WHERE id = 30);
UPDATE t SET note = 'nobody' WHERE false;

-- DELETE
DELETE FROM t WHERE id = 2;
DELETE FROM t USING (VALUES (40), (41)) v (id) WHERE t.id = v.id RETURNING t.*, t.tableoid::regclass;
DELETE FROM t WHERE id BETWEEN 50 AND 55;
DELETE FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 31);
INSERT INTO t VALUES (2, 'two', 2, 'is back');

-- ON CONFLICT
INSERT INTO t VALUES (1, 'new', 5), (7, 'seven', 7) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n, note = excluded.name
    RETURNING *, xmax <> 0 AS updated;
INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO t VALUES (8, 'seven') ON CONFLICT (name) DO UPDATE SET id = excluded.id, note = 'moved' WHERE t.n > 1;
INSERT INTO t VALUES (9, 'seven') ON CONFLICT (name) DO UPDATE SET id = excluded.id WHERE t.n > 100;
INSERT INTO t VALUES (9, 'nine'), (9, 'nine again') ON CONFLICT (id) DO UPDATE SET note = 'twice'; -- an error
INSERT INTO t SELECT id, name, 99 FROM t WHERE id < 20 ON CONFLICT (id) DO UPDATE SET n = excluded.n;
INSERT INTO t VALUES (9, 'two') ON CONFLICT (id) DO NOTHING; -- an error: of the other index
INSERT INTO t VALUES (1, 'whole row') ON CONFLICT (id) DO UPDATE SET note = t::text || excluded::text;
SELECT * FROM t ORDER BY id;

-- MERGE
MERGE INTO t USING (SELECT i AS id, 'merged ' || i AS name FROM generate_series(1, 20) i) s ON t.id = s.id
    WHEN MATCHED AND t.id % 3 = 0 THEN DELETE
    WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET name = s.name, n = t.n + 1
    WHEN MATCHED THEN DO NOTHING
    WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name);
WITH m AS (
    MERGE INTO t USING (VALUES (1), (2), (500)) s (id) ON t.id = s.id
        WHEN NOT MATCHED BY SOURCE AND t.id > 1000 THEN DELETE
        WHEN MATCHED THEN UPDATE SET note = 'by merge'
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'five hundred')
        RETURNING merge_action(), s.id AS source, t.*)
SELECT * FROM m ORDER BY id;
MERGE INTO t USING (VALUES (1), (1)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 0; -- an error
SELECT * FROM t ORDER BY id;

-- data-modifying WITH
WITH gone AS (DELETE FROM t WHERE id < 5 RETURNING *), kept AS (INSERT INTO log SELECT id, 'deleted ' || name FROM gone RETURNING what)
    SELECT * FROM kept ORDER BY what;
WITH new AS (INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2) RETURNING id), changed AS (UPDATE t SET n = 0 WHERE id = 20 RETURNING id)
    SELECT (SELECT count(*) FROM new), (SELECT count(*) FROM changed), (SELECT count(*) FROM t WHERE id < 5);

-- the same row several times in one transaction, seen from the commands in between
BEGIN;
INSERT INTO t VALUES (3, 'three', 0);
UPDATE t SET n = 1 WHERE id = 3;
UPDATE t SET n = 2, name = 'drei' WHERE id = 3;
SELECT *, cmin, cmax, xmax <> 0 AS locked FROM t WHERE id = 3 FOR UPDATE;
SELECT xmax <> 0 AS locked FROM t WHERE id = 3;
DELETE FROM t WHERE id = 3;
INSERT INTO t VALUES (3, 'three', 3);
SELECT count(*) FROM t WHERE id = 3;
COMMIT;
SELECT * FROM t WHERE id = 3;

-- a statement does not see its own changes
INSERT INTO t (id, name) SELECT id + 10000, name || '*' FROM t;
SELECT count(*) FROM t;
UPDATE t SET id = id + 100000 WHERE id > 10000;
CREATE FUNCTION others() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT count(*) FROM t';
INSERT INTO t SELECT 300000 + i, 'counted ' || i, others() FROM generate_series(1, 3) i RETURNING n - (SELECT count(*) FROM t);
DELETE FROM t WHERE id > 10000;

-- COPY
COPY t FROM STDIN;
600	six hundred	6.5	tab\tnewline\nbackslash\\
601	six hundred and one	\N	\N
602	€ 😀	0	
\.
COPY t (id, name) FROM STDIN WITH (FORMAT csv, HEADER);
id,name
603,"quoted, ""csv"""
604,
\.
COPY t FROM STDIN;
605	fine	1	x
606	not a number	x	x
\.
COPY t FROM STDIN;
605	fine	1	x
1	duplicate key	1	x
\.
COPY t (id, name) FROM STDIN WHERE id > 700;
700	left out
701	let in
\.
COPY t FROM STDIN WITH (ON_ERROR ignore);
702	fine	1	x
bad	id	1	x
703	fine too	2	x
\.
SELECT count(*) FROM t WHERE id = 605;
COPY log TO STDOUT;
COPY (TABLE t ORDER BY id) TO STDOUT;
COPY (SELECT id, name, n FROM t WHERE id > 500 ORDER BY id DESC) TO STDOUT WITH (FORMAT csv, HEADER, FORCE_QUOTE *);
COPY log (what) TO STDOUT;

-- many rows, so that pages fill up during multi-inserts
CREATE TABLE many (id int, t text);
INSERT INTO many SELECT i, repeat(chr(97 + i % 26), i % 300) FROM generate_series(1, 3000) i;
CREATE TABLE copied AS SELECT * FROM many;
INSERT INTO copied SELECT * FROM many;
INSERT INTO copied SELECT * FROM copied WHERE id % 2 = 0;
SELECT count(*), count(DISTINCT id), sum(length(t)) FROM copied;
SELECT * INTO intoed FROM copied WHERE id < 10;
UPDATE many SET t = t || '!' WHERE id % 2 = 0;
DELETE FROM many WHERE id % 3 = 0;
INSERT INTO many SELECT i, 'filled in' FROM generate_series(1, 500) i;
SELECT count(*), sum(id), sum(length(t)) FROM many;
TRUNCATE copied;
SELECT count(*) FROM copied;
BEGIN;
TRUNCATE many;
INSERT INTO many VALUES (1, 'after');
SELECT * FROM many;
ROLLBACK;
SELECT count(*) FROM many;
VACUUM many;
VACUUM (FREEZE, ANALYZE) many;
SELECT count(*), sum(id), sum(length(t)) FROM many;
INSERT INTO many SELECT i, 'into freed space' FROM generate_series(1, 100) i;

-- rows frozen by COPY
BEGIN;
CREATE TABLE frozen (id int, t text);
COPY frozen FROM STDIN WITH (FREEZE);
1	one
2	two
\.
SELECT xmin = pg_current_xact_id()::xid AS mine, * FROM frozen;
COMMIT;
UPDATE frozen SET t = 'zwei' WHERE id = 2;
SELECT * FROM frozen;

-- prepared statements, with generic and custom plans
PREPARE p (int, text) AS UPDATE t SET note = $2 WHERE id = $1 RETURNING id, note;
EXECUTE p (1, 'p1');
EXECUTE p (2, 'p2');
SET plan_cache_mode = force_generic_plan;
EXECUTE p (1, 'p3');
ALTER TABLE t ADD COLUMN late text DEFAULT 'late'; -- the plan is made anew
EXECUTE p (2, 'p4');
PREPARE q AS SELECT * FROM t WHERE id < 3 ORDER BY id;
EXECUTE q;
ALTER TABLE t DROP COLUMN note;
EXECUTE p (1, 'p5'); -- an error
RESET plan_cache_mode;

-- whole rows
SELECT t FROM t WHERE id < 3 ORDER BY id;
SELECT (t).name, row_to_json(t) FROM t WHERE id < 3 ORDER BY id;
SELECT count(*) FROM t a JOIN t b ON a = b;
SELECT a.id FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.n > a.n) AND a.id < 20 ORDER BY 1;
