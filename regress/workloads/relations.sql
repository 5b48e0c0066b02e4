-- Relations of other kinds than the plain permanent table, and changes of a table's access method.
-- temporary tables
CREATE TEMP TABLE temporary (id int PRIMARY KEY, t text);
INSERT INTO temporary SELECT i, 't' || i FROM generate_series(1, 100) i;
UPDATE temporary SET t = 'changed' WHERE id < 10;
DELETE FROM temporary WHERE id > 50;
SELECT count(*), count(DISTINCT t) FROM temporary;
CREATE INDEX ON temporary (t);
SET enable_seqscan = off;
SELECT * FROM temporary WHERE t = 't20';
RESET enable_seqscan;
BEGIN;
CREATE TEMP TABLE dropped (id int) ON COMMIT DROP;
INSERT INTO dropped VALUES (1);
SELECT * FROM dropped;
COMMIT;
SELECT * FROM dropped; -- an error
CREATE TEMP TABLE emptied (id int) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO emptied VALUES (1);
SELECT * FROM emptied;
COMMIT;
SELECT * FROM emptied;
CREATE TEMP TABLE selected ON COMMIT PRESERVE ROWS AS SELECT * FROM temporary WHERE id < 5;
SELECT * FROM selected ORDER BY id;

-- unlogged tables
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, t text);
INSERT INTO unlogged VALUES (1, 'one'), (2, 'two');
UPDATE unlogged SET t = 'zwei' WHERE id = 2;
ALTER TABLE unlogged SET LOGGED;
INSERT INTO unlogged VALUES (3, 'three');
ALTER TABLE unlogged SET UNLOGGED;
UPDATE unlogged SET t = t || '!';
SELECT * FROM unlogged ORDER BY id;

-- views, rules, row-level security
CREATE TABLE t (id int PRIMARY KEY, owner name, t text);
INSERT INTO t SELECT i, CASE WHEN i % 2 = 0 THEN current_user ELSE 'somebody' END, 't' || i FROM generate_series(1, 10) i;
CREATE VIEW v AS SELECT id, t FROM t WHERE id < 6 WITH CHECK OPTION;
INSERT INTO v VALUES (0, 'through view');
INSERT INTO v VALUES (11, 'outside'); -- an error
UPDATE v SET t = t || ' v' WHERE id < 3 RETURNING *;
DELETE FROM v WHERE id = 5;
SELECT * FROM v ORDER BY id;
CREATE TABLE redirected (LIKE t);
CREATE RULE redirect AS ON INSERT TO redirected DO INSTEAD INSERT INTO t VALUES (NEW.id + 100, NEW.owner, NEW.t) RETURNING *;
CREATE RULE also AS ON UPDATE TO t WHERE NEW.t = 'also' DO ALSO INSERT INTO t VALUES (OLD.id + 200, NEW.owner, 'by rule');
INSERT INTO redirected VALUES (1, 'x', 'redirected') RETURNING *;
UPDATE t SET t = 'also' WHERE id IN (3, 4);
SELECT * FROM t ORDER BY id;
DROP RULE also ON t;
CREATE ROLE regress_vault_reader;
GRANT USAGE ON SCHEMA twin TO regress_vault_reader;
GRANT ALL ON t TO regress_vault_reader;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON t USING (id % 2 = 0) WITH CHECK (id < 1000);
SET ROLE regress_vault_reader;
SELECT * FROM t ORDER BY id;
UPDATE t SET t = t || ' rls' RETURNING id;
INSERT INTO t VALUES (1000, 'x', 'too high'); -- an error
DELETE FROM t WHERE id IN (7, 8);
SELECT owner FROM t WHERE t = 't7';
RESET ROLE;
REVOKE ALL ON t FROM regress_vault_reader;
GRANT SELECT (id) ON t TO regress_vault_reader;
SET ROLE regress_vault_reader;
SELECT t FROM t; -- an error
SELECT id FROM t ORDER BY id;
RESET ROLE;
DROP OWNED BY regress_vault_reader;
DROP ROLE regress_vault_reader;
SELECT * FROM t ORDER BY id;

-- materialised views
CREATE MATERIALIZED VIEW m AS SELECT id, t FROM t WHERE id > 3;
CREATE UNIQUE INDEX ON m (id);
SELECT * FROM m ORDER BY id;
UPDATE t SET t = 'refreshed' WHERE id % 3 = 0;
INSERT INTO t VALUES (12, 'new', 'new');
DELETE FROM t WHERE id = 4;
REFRESH MATERIALIZED VIEW m;
SELECT * FROM m ORDER BY id;
UPDATE t SET t = 'again' WHERE id = 9;
DELETE FROM t WHERE id = 12;
INSERT INTO t VALUES (13, 'x', NULL);
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
SELECT * FROM m ORDER BY id;
REFRESH MATERIALIZED VIEW m WITH NO DATA;
SELECT * FROM m; -- an error
REFRESH MATERIALIZED VIEW m;
CREATE MATERIALIZED VIEW empty USING :am AS SELECT * FROM t WITH NO DATA;
REFRESH MATERIALIZED VIEW empty;
SELECT count(*) FROM empty;

-- another access method, and back
CREATE TABLE moving (id int PRIMARY KEY, t text, dropped int, n int DEFAULT 1) USING heap;
INSERT INTO moving SELECT i, repeat('t', i % 50), 0, CASE WHEN i % 3 = 0 THEN i END FROM generate_series(1, 300) i;
ALTER TABLE moving DROP COLUMN dropped;
DELETE FROM moving WHERE id % 5 = 0;
CREATE INDEX moving_t ON moving (t) WHERE id > 10;
ALTER TABLE moving SET ACCESS METHOD :am;
SELECT count(*), sum(n), sum(length(t)) FROM moving;
UPDATE moving SET n = 0 WHERE id % 7 = 0;
ALTER TABLE moving SET ACCESS METHOD heap, ADD COLUMN added text DEFAULT 'a';
SELECT count(*), sum(n), sum(length(t)), min(added) FROM moving;
DELETE FROM moving WHERE id % 11 = 0;
ALTER TABLE moving SET ACCESS METHOD DEFAULT;
BEGIN;
UPDATE moving SET t = 'in transaction' WHERE id = 1;
ALTER TABLE moving SET ACCESS METHOD heap, ALTER COLUMN n TYPE text;
INSERT INTO moving VALUES (1001, 'in transaction', 'text');
ROLLBACK;
SET enable_seqscan = off;
SELECT id, n FROM moving WHERE t = repeat('t', 49) ORDER BY id;
SELECT * FROM moving WHERE id = 1;
RESET enable_seqscan;
CREATE TABLE like_it (LIKE moving INCLUDING ALL);
INSERT INTO like_it SELECT * FROM moving;
ALTER MATERIALIZED VIEW m SET ACCESS METHOD heap;
ALTER MATERIALIZED VIEW m SET ACCESS METHOD :am;
SELECT count(*) FROM m;
