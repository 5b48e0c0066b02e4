-- Decoding of out-of-line values of tables that have changed since, and under several generations of the key. All are far from the threshold: there the twins may differ in what is out of line.
\getenv source PG_ABS_SRCDIR
\set functions :source '/lib/toast.sql'
\set QUIET on
\i :functions
\set QUIET off

-- tables that have changed since
CREATE TABLE changing (id int PRIMARY KEY, a text STORAGE EXTERNAL, b text STORAGE EXTERNAL);
ALTER TABLE changing REPLICA IDENTITY FULL;
INSERT INTO changing SELECT i, noise(3000, i), noise(3000, -i) FROM generate_series(1, 9) i;
UPDATE changing SET a = noise(3001, id) WHERE id = 1;
VACUUM FULL changing;
UPDATE changing SET a = noise(3001, id) WHERE id = 2;
CLUSTER changing USING changing_pkey;
UPDATE changing SET id = 30 WHERE id = 3;
ALTER TABLE changing ADD COLUMN c text DEFAULT noise(3000, 99);
INSERT INTO changing SELECT i, noise(3000, i), noise(3000, -i), 'c' FROM generate_series(10, 12) i;
UPDATE changing SET id = 40 WHERE id = 4;
ALTER TABLE changing ALTER COLUMN id TYPE bigint;
UPDATE changing SET a = 'x' WHERE id = 5;
ALTER TABLE changing DROP COLUMN b;
UPDATE changing SET a = noise(3002, 6) WHERE id = 6;
DELETE FROM changing WHERE id = 7;
BEGIN;
UPDATE changing SET a = noise(3003, 8) WHERE id = 8;
ALTER TABLE changing ALTER COLUMN c SET STORAGE EXTERNAL, ALTER COLUMN id TYPE int;
UPDATE changing SET c = noise(3003, 9) WHERE id = 9;
INSERT INTO changing SELECT i, noise(3000, i), noise(3000, -i) FROM generate_series(20, 22) i;
SAVEPOINT s;
TRUNCATE changing;
INSERT INTO changing SELECT i, noise(3000, i), noise(3000, -i) FROM generate_series(20, 22) i;
ROLLBACK TO s;
DELETE FROM changing WHERE id = 20;
COMMIT;
TRUNCATE changing;
INSERT INTO changing SELECT i, noise(3000, i), noise(3000, -i) FROM generate_series(30, 31) i;
ALTER TABLE changing RENAME a TO other;
DELETE FROM changing WHERE id = 30;
CREATE TABLE gone (a text STORAGE EXTERNAL);
INSERT INTO gone SELECT noise(4000, i) FROM generate_series(1, 3) i;
DROP TABLE gone;

-- values under several generations of the key
CREATE TABLE generations (id int PRIMARY KEY, a text STORAGE EXTERNAL);
ALTER TABLE generations REPLICA IDENTITY FULL;
INSERT INTO generations SELECT i, noise(4000, i) FROM generate_series(1, 4) i;
SELECT count(vault_tde.rotate_key());
UPDATE generations SET a = noise(4000, 9) WHERE id = 1;
BEGIN;
INSERT INTO generations VALUES (5, noise(4000, 5));
SELECT count(vault_tde.rotate_key());
INSERT INTO generations VALUES (6, noise(4000, 6));
UPDATE generations SET id = id + 10;
COMMIT;
SELECT count(vault_tde.rotate_key());
DELETE FROM generations;
