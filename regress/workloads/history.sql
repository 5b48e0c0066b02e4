-- Tables that have changed by the time their changes are decoded: what is decoded must be what was true then.
CREATE TABLE t (id int PRIMARY KEY, a text, b int);
INSERT INTO t VALUES (1, 'a1', 1), (2, 'a2', 2), (3, 'a3', 3);
UPDATE t SET id = 11 WHERE id = 1;

-- columns added, with and without a default that older rows do not hold
ALTER TABLE t ADD COLUMN c text;
ALTER TABLE t ADD COLUMN d int DEFAULT 42, ADD COLUMN e text DEFAULT 'fast';
ALTER TABLE t REPLICA IDENTITY FULL;
UPDATE t SET b = b + 1;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (4, 'a4');
INSERT INTO t VALUES (5, 'a5', 5, 'c5', 5, 'e5');
ALTER TABLE t ALTER COLUMN d SET DEFAULT 43;
UPDATE t SET a = 'again' WHERE id = 11;

-- columns dropped, and added again under the same name
ALTER TABLE t DROP COLUMN b;
INSERT INTO t VALUES (6, 'a6', 'c6', 6, 'e6');
UPDATE t SET a = a || '!';
ALTER TABLE t ADD COLUMN b text DEFAULT 'another type';
UPDATE t SET c = 'c' WHERE c IS NULL;
DELETE FROM t WHERE id = 5;
ALTER TABLE t DROP COLUMN id; -- with the primary key
ALTER TABLE t REPLICA IDENTITY DEFAULT;
UPDATE t SET c = 'keyless';
DELETE FROM t WHERE a = 'a6!';

-- columns and table renamed, types changed (which writes all rows anew), type labels added and renamed
ALTER TABLE t RENAME COLUMN a TO "A b";
INSERT INTO t VALUES ('quoted');
ALTER TABLE t RENAME TO "T t";
INSERT INTO "T t" VALUES ('renamed');
CREATE TYPE mood AS ENUM ('sad', 'ok');
ALTER TABLE "T t" ALTER COLUMN d TYPE numeric(10, 2), ADD COLUMN m mood DEFAULT 'ok';
INSERT INTO "T t" VALUES ('rewritten', NULL, 1.5);
ALTER TYPE mood ADD VALUE 'happy' BEFORE 'ok';
UPDATE "T t" SET m = 'happy' WHERE d = 1.5;
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
ALTER TABLE "T t" ALTER COLUMN "A b" TYPE int USING length("A b");
UPDATE "T t" SET d = 0;

-- gone when it is decoded
CREATE TABLE gone (id int PRIMARY KEY, t text);
INSERT INTO gone VALUES (1, 'one'), (2, 'two');
UPDATE gone SET id = 3 WHERE id = 2;
DELETE FROM gone WHERE id = 1;
DROP TABLE gone;
CREATE TABLE gone (other text);
INSERT INTO gone VALUES ('another table of that name');
BEGIN;
CREATE TABLE brief (id int);
INSERT INTO brief VALUES (1);
DROP TABLE brief;
COMMIT;
BEGIN;
CREATE TABLE undone (id int);
INSERT INTO undone VALUES (1);
ROLLBACK;

-- another access method, before and after
CREATE TABLE moving (id int PRIMARY KEY, t text) USING heap;
INSERT INTO moving VALUES (1, 'on heap'), (2, 'on heap');
ALTER TABLE moving SET ACCESS METHOD :am;
UPDATE moving SET id = id + 10, t = 'elsewhere';
DELETE FROM moving WHERE id = 11;
ALTER TABLE moving SET ACCESS METHOD heap;
UPDATE moving SET id = 22;
ALTER TABLE moving SET ACCESS METHOD :am;
DROP TABLE moving;

-- rows of several generations of the key, of which some were made since
CREATE TABLE generations (id int PRIMARY KEY, t text);
INSERT INTO generations SELECT i, 'first' FROM generate_series(1, 6) i;
SELECT count(vault_tde.rotate_key());
UPDATE generations SET t = 'second' WHERE id > 3;
DELETE FROM generations WHERE id IN (1, 4);
BEGIN;
INSERT INTO generations VALUES (7, 'before rotation, in its transaction');
SELECT count(vault_tde.rotate_key());
INSERT INTO generations VALUES (8, 'after rotation, in its transaction');
UPDATE generations SET id = id + 100 WHERE id IN (2, 5);
SAVEPOINT s;
SELECT count(vault_tde.rotate_key());
INSERT INTO generations VALUES (9, 'never');
ROLLBACK TO s;
INSERT INTO generations VALUES (10, 'after a rotation that was undone');
COMMIT;
BEGIN;
SELECT count(vault_tde.rotate_key());
INSERT INTO generations VALUES (11, 'never');
ROLLBACK;
DELETE FROM generations;
