-- Key generations: made, rotated, undone, and all of them readable.
SET client_min_messages = warning;
\set home :DBNAME
CREATE DATABASE regress_vault_keys;
\connect regress_vault_keys
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
CREATE EXTENSION pg_vault_tde;

-- the first one comes with the first encrypted table, and goes with it if that is undone
SELECT count(*) FROM vault_tde.keys;
CREATE TABLE plain (id int);
SELECT count(*) FROM vault_tde.keys;
BEGIN;
CREATE TABLE t (id int, x text) USING encrypted_heap;
INSERT INTO t VALUES (1, 'undone');
SELECT generation, is_current FROM vault_tde.keys;
ROLLBACK;
SELECT count(*) FROM vault_tde.keys;
CREATE TABLE t (id int, x text) USING encrypted_heap;
SELECT generation, is_current FROM vault_tde.keys;
INSERT INTO t VALUES (1, 'first');

-- each rotation makes another; the keys before it still decrypt
SELECT vault_tde.rotate_key();
INSERT INTO t VALUES (2, 'second');
SELECT vault_tde.rotate_key();
INSERT INTO t VALUES (3, 'third');
SELECT generation, is_current FROM vault_tde.keys ORDER BY generation;
SELECT count(DISTINCT key_id), count(DISTINCT wrapped) FROM vault_tde.data_keys;
SELECT * FROM t ORDER BY id;
UPDATE t SET x = x || ', updated by the third' WHERE id < 3;
SELECT * FROM t ORDER BY id;

-- in a transaction, at once for itself; undone with it, or with its savepoint
BEGIN;
SELECT vault_tde.rotate_key();
INSERT INTO t VALUES (4, 'fourth');
SELECT * FROM t ORDER BY id;
ROLLBACK;
INSERT INTO t VALUES (5, 'third again');
SELECT max(generation) FROM vault_tde.keys;
BEGIN;
SAVEPOINT s;
SELECT vault_tde.rotate_key();
INSERT INTO t VALUES (6, 'undone');
ROLLBACK TO s;
INSERT INTO t VALUES (7, 'third still');
SAVEPOINT r;
SELECT vault_tde.rotate_key();
RELEASE r;
SELECT vault_tde.rotate_key();
INSERT INTO t VALUES (8, 'fifth');
COMMIT;
SELECT * FROM t ORDER BY id;
SELECT generation, is_current FROM vault_tde.keys ORDER BY generation;
DO $$
BEGIN
    PERFORM vault_tde.rotate_key();
    INSERT INTO t VALUES (9, 'undone');
    RAISE 'undo';
EXCEPTION WHEN raise_exception THEN
    INSERT INTO t VALUES (9, 'fifth still');
END $$;
SELECT * FROM t WHERE id = 9;
BEGIN READ ONLY;
SELECT vault_tde.rotate_key();
ROLLBACK;

-- another session reads all of them, and writes under the newest
\! psql -X -q -c "SELECT * FROM t ORDER BY id" -c "INSERT INTO t VALUES (10, 'elsewhere')"
\! psql -X -q -c "SELECT vault_tde.rotate_key()"
INSERT INTO t VALUES (11, 'sixth');
SELECT * FROM t ORDER BY id;

-- Indexes, rewrites, and changes of old rows: what was of an old generation comes out under the newest.
CREATE INDEX ON t (x);
VACUUM FULL t;
SELECT * FROM t ORDER BY id;
ALTER TABLE t ALTER COLUMN id TYPE bigint;
CREATE TABLE copy (LIKE t) USING encrypted_heap;
INSERT INTO copy SELECT * FROM t;
SELECT count(*) FROM (TABLE copy EXCEPT TABLE t) x;

-- More generations than a byte can number, or the server's map of keys can hold. Generations that are the same in the byte
-- that a row keeps (1 and 257) must not be mixed up.
TRUNCATE t;
DO $$
BEGIN
    FOR i IN 1..600 LOOP
        PERFORM vault_tde.rotate_key();
        INSERT INTO t VALUES (i, 'generation ' || i);
    END LOOP;
END $$;
SELECT max(generation), count(*) FROM vault_tde.keys;
SELECT count(*), count(DISTINCT x), sum(id) FROM t WHERE x = 'generation ' || id;
\! psql -X -q -c "SELECT count(*), count(DISTINCT x), sum(id) FROM t WHERE x = 'generation ' || id"
SELECT count(*) FROM t WHERE id IN (1, 257, 513);

-- The key table's rows come and go by the functions only; REFRESH keeps them.
INSERT INTO vault_tde.data_keys SELECT * FROM vault_tde.data_keys;
UPDATE vault_tde.data_keys SET generation = 0;
DELETE FROM vault_tde.data_keys;
TRUNCATE vault_tde.data_keys;
REFRESH MATERIALIZED VIEW vault_tde.data_keys;
REFRESH MATERIALIZED VIEW vault_tde.data_keys WITH NO DATA;
DROP MATERIALIZED VIEW vault_tde.data_keys;
SELECT max(generation), count(*) FROM vault_tde.keys;
\! psql -X -q -c "SELECT count(*), count(DISTINCT x), sum(id) FROM t WHERE x = 'generation ' || id"
VACUUM FULL vault_tde.data_keys;
\! psql -X -q -c "SELECT count(*), count(DISTINCT x), sum(id) FROM t WHERE x = 'generation ' || id"
INSERT INTO t VALUES (601, 'generation 601');
SELECT * FROM t WHERE id > 600;
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT * FROM pg_publication_tables WHERE schemaname = 'vault_tde';
CREATE PUBLICATION keys FOR TABLE vault_tde.data_keys;
DROP PUBLICATION everything;

-- A database copied from another has its keys, and goes its own way: the same table, the same number of a generation, but
-- another key.
\connect :home
CREATE DATABASE regress_vault_copied TEMPLATE regress_vault_keys;
\! psql -X -q -d regress_vault_keys -c "SELECT vault_tde.rotate_key()" -c "INSERT INTO t VALUES (1000, 'original')"
\! psql -X -q -d regress_vault_copied -c "SELECT vault_tde.rotate_key()" -c "INSERT INTO t VALUES (1000, 'copy')"
\! psql -X -q -d regress_vault_keys -c "SELECT id, x FROM t WHERE id IN (1, 500, 1000) ORDER BY id"
\! psql -X -q -d regress_vault_copied -c "SELECT id, x FROM t WHERE id IN (1, 500, 1000) ORDER BY id"
DROP DATABASE regress_vault_keys;
\! psql -X -q -d regress_vault_copied -c "SELECT count(*) FROM t"
DROP DATABASE regress_vault_copied;
