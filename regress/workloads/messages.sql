-- Logical messages, TRUNCATE, origins, and relations that are not decoded.
CREATE TABLE t (id int PRIMARY KEY, x text);
CREATE TABLE u (id serial PRIMARY KEY, t int REFERENCES t);
SELECT pg_logical_emit_message(false, 'prefix', 'not transactional') IS NOT NULL;
BEGIN;
INSERT INTO t VALUES (1, 'one');
SELECT pg_logical_emit_message(true, 'prefix', 'transactional') IS NOT NULL;
SELECT pg_logical_emit_message(false, 'prefix', 'not transactional, in a transaction') IS NOT NULL;
SELECT pg_logical_emit_message(true, '', '') IS NOT NULL;
SELECT pg_logical_emit_message(true, 'bytes', '\x616200ff6364'::bytea) IS NOT NULL; -- with a NUL in it
UPDATE t SET id = 2;
COMMIT;
BEGIN;
SELECT pg_logical_emit_message(true, 'prefix', 'undone') IS NOT NULL;
SELECT pg_logical_emit_message(false, 'prefix', 'not undone') IS NOT NULL;
ROLLBACK;
BEGIN;
SELECT pg_logical_emit_message(true, 'prefix', 'alone') IS NOT NULL;
COMMIT;

INSERT INTO u (t) VALUES (2), (2);
TRUNCATE u;
TRUNCATE u RESTART IDENTITY;
TRUNCATE t, u;
INSERT INTO t VALUES (1, 'x');
INSERT INTO u (t) VALUES (1);
TRUNCATE t CASCADE;
BEGIN;
INSERT INTO t VALUES (1, 'x');
TRUNCATE ONLY u;
SAVEPOINT s;
TRUNCATE t RESTART IDENTITY CASCADE;
ROLLBACK TO s;
COMMIT;

-- changes that came from elsewhere
SELECT pg_replication_origin_create('regress_vault_origin') > 0;
SELECT pg_replication_origin_session_setup('regress_vault_origin');
INSERT INTO t VALUES (2, 'from elsewhere');
BEGIN;
SELECT pg_replication_origin_xact_setup('0/1234', '2024-01-01 00:00+00');
DELETE FROM t WHERE id = 2;
COMMIT;
SELECT pg_replication_origin_session_reset();
INSERT INTO t VALUES (3, 'from here');
SELECT pg_replication_origin_drop('regress_vault_origin');

-- nothing of these is decoded
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE TEMP TABLE temporary (id int PRIMARY KEY);
INSERT INTO unlogged VALUES (1);
INSERT INTO temporary VALUES (1);
UPDATE unlogged SET id = 2;
DELETE FROM temporary;
TRUNCATE unlogged;
-- of this, what it was refreshed to, if rewrites are asked for
CREATE MATERIALIZED VIEW m AS SELECT id FROM t;
REFRESH MATERIALIZED VIEW m;
ALTER TABLE t ALTER COLUMN x TYPE varchar(30), ADD COLUMN y int DEFAULT 5;
UPDATE t SET y = 6;
