-- What came with PostgreSQL 19. REPACK is as on heap; but not CONCURRENTLY, which would write rows to temporary files in the clear.
SET client_min_messages = warning;
SELECT current_setting('server_version_num')::int >= 190000 AS has_repack \gset
\if :has_repack
\setenv PGDATABASE :DBNAME
\! "$PG_ABS_SRCDIR"/lib/twin commands_19
\! "$PG_ABS_SRCDIR"/lib/twin repack
SELECT c.oid::regclass AS "table", problem FROM pg_class c, vault_tde.verify(c.oid) WHERE relnamespace = 'encrypted'::regnamespace AND relkind IN ('r', 'm');
REPACK (CONCURRENTLY) encrypted.t;
REPACK (CONCURRENTLY, VERBOSE) encrypted.t USING INDEX t_a;
REPACK (CONCURRENTLY) encrypted.parts_1;
SELECT count(*) FROM encrypted.t;
-- an ordinary table, and one with an encrypted index
CREATE TABLE plain (id int PRIMARY KEY, x text) USING heap;
INSERT INTO plain SELECT i, 'plain' FROM generate_series(1, 100) i;
DELETE FROM plain WHERE id > 10;
REPACK (CONCURRENTLY) plain;
SELECT count(*), pg_relation_size('plain') FROM plain;
CREATE INDEX plain_x ON plain USING encrypted_btree (x);
REPACK (CONCURRENTLY) plain;
REPACK plain;
SET enable_seqscan = off;
SELECT count(*) FROM plain WHERE x = 'plain';
SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE '%repack%';
DROP TABLE plain;
DROP SCHEMA encrypted, heap CASCADE;
\else
\echo There is none before PostgreSQL 19.
\endif
