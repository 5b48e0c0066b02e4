-- Indexes of constraints, which are encrypted ones where the major lets them: made, adopted, made anew by a change of type.
SET pg_vault_tde.encrypt_indexes = on;
CREATE TABLE t (i int, j int, u varchar(10), d date, n numeric);
INSERT INTO t SELECT g, g % 100, 'u' || g, '2000-01-01'::date + g, g / 4.0 FROM generate_series(1, 2000) g;

-- indexes that cannot be adopted
CREATE INDEX not_unique ON t (i);
CREATE UNIQUE INDEX an_expression ON t ((i + 1));
CREATE UNIQUE INDEX partial ON t (i) WHERE i > 5;
CREATE UNIQUE INDEX downwards ON t (i DESC);
CREATE UNIQUE INDEX nulls_first ON t (i NULLS FIRST);
CREATE UNIQUE INDEX other_collation ON t (u COLLATE "POSIX");
CREATE UNIQUE INDEX no_nulls ON t (d) NULLS NOT DISTINCT;
CREATE TABLE other (i int);
CREATE UNIQUE INDEX of_other ON other (i);
ALTER TABLE t ADD PRIMARY KEY USING INDEX not_unique;
ALTER TABLE t ADD UNIQUE USING INDEX an_expression;
ALTER TABLE t ADD UNIQUE USING INDEX partial;
ALTER TABLE t ADD PRIMARY KEY USING INDEX downwards;
ALTER TABLE t ADD UNIQUE USING INDEX nulls_first;
ALTER TABLE t ADD UNIQUE USING INDEX other_collation;
ALTER TABLE t ADD PRIMARY KEY USING INDEX no_nulls;
ALTER TABLE t ADD UNIQUE USING INDEX of_other;
ALTER TABLE t ADD UNIQUE USING INDEX there_is_none;
ALTER TABLE IF EXISTS there_is_none ADD UNIQUE USING INDEX of_other;
DROP INDEX not_unique, an_expression, partial, downwards, nulls_first, other_collation;
-- nor by somebody else, nor where a NULL is
CREATE UNIQUE INDEX t_i ON t (i);
CREATE ROLE twin_other;
SET ROLE twin_other;
ALTER TABLE t ADD PRIMARY KEY USING INDEX t_i;
RESET ROLE;
DROP ROLE twin_other;
INSERT INTO t (j) VALUES (0);
ALTER TABLE t ADD PRIMARY KEY USING INDEX t_i;
DELETE FROM t WHERE i IS NULL;

-- adopted, several at once, with names of their own
CREATE UNIQUE INDEX t_u ON t (u) INCLUDE (j);
CREATE UNIQUE INDEX t_n ON t (n);
ALTER TABLE t ADD CONSTRAINT t_key PRIMARY KEY USING INDEX t_i, ADD UNIQUE USING INDEX t_u, ADD COLUMN added int DEFAULT 7,
    ADD CONSTRAINT later UNIQUE USING INDEX t_n DEFERRABLE INITIALLY DEFERRED, ADD UNIQUE USING INDEX no_nulls;
ALTER TABLE t ADD UNIQUE USING INDEX t_u;
ALTER TABLE t ADD PRIMARY KEY (j);
SELECT conname, contype, condeferrable, condeferred, conkey, conindid::regclass FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1;
SELECT attname, attnotnull FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum;
INSERT INTO t VALUES (5);
INSERT INTO t VALUES (NULL);
INSERT INTO t VALUES (5000, 1, 'u7');
INSERT INTO t VALUES (5, 1, 'upserted', NULL, 2000) ON CONFLICT (i) DO UPDATE SET u = excluded.u || t.u RETURNING *;
INSERT INTO t VALUES (9001, 1, 'u7', NULL, 2000) ON CONFLICT ON CONSTRAINT t_u DO UPDATE SET added = t.added + 1 RETURNING *;
BEGIN;
UPDATE t SET n = 501.75 - n WHERE n < 501;
SELECT count(*) FROM t WHERE n = 77.25;
COMMIT;
BEGIN;
UPDATE t SET n = 5 WHERE i IN (1, 2);
COMMIT;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_u;
ALTER TABLE t ALTER u SET NOT NULL;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_u;
CREATE TABLE refers (i int REFERENCES t ON UPDATE CASCADE, u varchar(10) REFERENCES t (u));
INSERT INTO refers SELECT g, 'u' || g FROM generate_series(10, 50) g;
INSERT INTO refers VALUES (9999, 'u9');
DELETE FROM t WHERE i = 12;
UPDATE t SET i = 100000 WHERE i = 12;
SELECT count(*) FROM refers WHERE i = 100000;
ALTER TABLE t DROP CONSTRAINT t_u;
ALTER TABLE t DROP CONSTRAINT t_u CASCADE;
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.t (i int);
CREATE UNIQUE INDEX t_there ON elsewhere.t (i);
ALTER TABLE elsewhere.t ADD PRIMARY KEY USING INDEX t_there;
DROP SCHEMA elsewhere CASCADE;
CREATE TEMP TABLE temporary (i int, u text);
CREATE UNIQUE INDEX temporary_i ON temporary (i);
ALTER TABLE temporary ADD PRIMARY KEY USING INDEX temporary_i, ALTER i TYPE bigint;
INSERT INTO temporary VALUES (1), (1);
DROP TABLE temporary;
-- in a transaction that is rolled back in part
BEGIN;
CREATE UNIQUE INDEX t_j ON t (added, i, j);
SAVEPOINT s;
ALTER TABLE t ADD CONSTRAINT renamed UNIQUE USING INDEX t_j;
ROLLBACK TO s;
ALTER TABLE t ADD UNIQUE USING INDEX t_j;
COMMIT;

-- a change of type makes the constraint anew: with the table rewritten, and without
ALTER TABLE t ADD UNIQUE (u), ADD CONSTRAINT several UNIQUE (d, i) INCLUDE (u);
ALTER TABLE t ALTER i TYPE bigint;
ALTER TABLE t ALTER u TYPE varchar(20), ALTER d TYPE timestamp USING d + interval '1 hour';
ALTER TABLE t ALTER i TYPE text; -- there is a foreign key to an integer
ALTER TABLE refers ALTER i TYPE bigint, ALTER u TYPE text;
ALTER TABLE t ALTER u TYPE text COLLATE "C";
ALTER TABLE t ALTER n TYPE int USING n::int; -- not unique any more
ALTER TABLE t ALTER n TYPE float8;
ALTER TABLE t ALTER added TYPE circle USING NULL; -- cannot be ordered
SELECT conname, conkey, conindid::regclass FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1;
SET enable_seqscan = off;
SELECT i, u FROM t WHERE i BETWEEN 100 AND 103 ORDER BY i;
SELECT i, u FROM t WHERE u = 'u77';
SELECT i, d FROM t WHERE d = '2000-02-20 01:00';
RESET enable_seqscan;
INSERT INTO t VALUES (100, 1, 'another');
INSERT INTO t VALUES (123456, 1, 'u90');
INSERT INTO refers VALUES (987654);
BEGIN;
ALTER TABLE t ALTER i TYPE numeric;
INSERT INTO t VALUES (7.5, 1, 'seven and a half');
INSERT INTO t VALUES (8.0, 1, 'eight');
ROLLBACK;
SELECT pg_typeof(i) FROM t WHERE i = 8;
BEGIN;
CREATE TABLE young (i int PRIMARY KEY, j int UNIQUE);
INSERT INTO young SELECT g, g FROM generate_series(1, 300) g;
ALTER TABLE young ALTER i TYPE numeric, ALTER j TYPE text;
INSERT INTO young VALUES (300.5, 'x');
COMMIT;
INSERT INTO young VALUES (300.50, 'y');
VACUUM FULL young;
REINDEX TABLE young;
SELECT count(*) FROM young WHERE i > 299;

-- partitions, inheritance
CREATE TABLE parted (i int, k int, t text, PRIMARY KEY (i, k), UNIQUE (k, t)) PARTITION BY LIST (k);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 (t text NOT NULL, k int NOT NULL, i int NOT NULL, UNIQUE (k, t));
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2);
INSERT INTO parted SELECT g, 1 + g % 2, 't' || g FROM generate_series(1, 400) g;
ALTER TABLE parted ALTER i TYPE bigint, ALTER t TYPE varchar(50);
ALTER TABLE parted_1 ALTER i TYPE numeric;
CREATE UNIQUE INDEX parted_it ON parted (i, k, t);
ALTER TABLE parted ADD UNIQUE USING INDEX parted_it;
CREATE UNIQUE INDEX parted_1_it ON parted_1 (t, i);
ALTER TABLE parted_1 ADD UNIQUE USING INDEX parted_1_it;
INSERT INTO parted VALUES (7, 2, 'seven');
INSERT INTO parted VALUES (70001, 2, 't7');
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES IN (3);
INSERT INTO parted VALUES (7, 3, 't7'), (7, 3, 't8');
SELECT conrelid::regclass, conname, conislocal, coninhcount FROM pg_constraint WHERE conrelid::regclass::text ~ '^parted' AND contype IN ('p', 'u') ORDER BY 1, 2;
CREATE TABLE ancestor (i int, t text);
CREATE TABLE descendant (i int UNIQUE) INHERITS (ancestor);
CREATE UNIQUE INDEX descendant_t ON descendant (t);
ALTER TABLE descendant ADD PRIMARY KEY USING INDEX descendant_t;
ALTER TABLE ancestor ALTER i TYPE bigint;
ALTER TABLE ancestor ALTER t TYPE varchar;
INSERT INTO descendant VALUES (1, 'one'), (2, 'two');
INSERT INTO descendant VALUES (1, 'eins');
INSERT INTO descendant VALUES (3, 'one');
