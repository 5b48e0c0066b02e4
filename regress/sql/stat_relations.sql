-- vault_tde.stat_relations as SQL sees it; t/062_stat_relations.pl has the processes, failures and limits.
\set home :DBNAME
CREATE DATABASE regress_vault_stats;
\connect regress_vault_stats
CREATE EXTENSION pg_vault_tde;
\d vault_tde.stat_relations

SET client_min_messages = warning;
SET pg_vault_tde.encrypt_indexes = off;
CREATE TABLE t (id int PRIMARY KEY, x text STORAGE EXTERNAL) USING encrypted_heap;
CREATE INDEX t_i ON t USING encrypted_btree (id);
CREATE TABLE h (id int);
CREATE MATERIALIZED VIEW m USING encrypted_heap AS SELECT 1 AS id;
CREATE TABLE p (id int) PARTITION BY LIST (id) USING encrypted_heap;
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE VIEW counters AS
    SELECT CASE kind WHEN 'toast' THEN 'TOAST' ELSE relname END AS relation, kind, tablerelid::regclass AS "table",
        n_tup_encrypted AS encrypted, CASE kind WHEN 'index' THEN -1 ELSE n_tup_decrypted END AS decrypted, auth_failures AS failures
    FROM vault_tde.stat_relations WHERE kind <> 'toast' OR tablerelid = 't'::regclass
    ORDER BY tablerelid::regclass::text, kind DESC;

-- a transaction's own counts are there when it has ended
BEGIN;
INSERT INTO t SELECT i, 'short' FROM generate_series(1, 10) i;
INSERT INTO t VALUES (11, repeat('long', 1000));
SELECT n_tup_encrypted FROM vault_tde.stat_relations WHERE relname = 't';
COMMIT;
SELECT * FROM counters;

SELECT vault_tde.stat_reset();
SELECT count(*) FROM t WHERE x = 'short';
SELECT decrypted FROM counters WHERE relation = 't';
INSERT INTO t VALUES (1, 'short') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'other') ON CONFLICT (id) DO UPDATE SET x = excluded.x;
UPDATE t SET id = 12 WHERE id = 11;
DELETE FROM t WHERE id = 12;
INSERT INTO p VALUES (1), (1);
SELECT relation, "table", encrypted, failures FROM counters WHERE kind <> 'index';

-- of one relation; of all. When it was is known.
SELECT vault_tde.stat_reset('t');
SELECT relation, encrypted FROM counters WHERE kind <> 'index';
SELECT vault_tde.stat_reset(NULL);
SELECT count(*) FROM counters WHERE encrypted > 0;
SELECT vault_tde.stat_reset();
SELECT count(*) FROM counters WHERE encrypted > 0;
SELECT bool_and(stats_reset = max) FROM vault_tde.stat_relations, (SELECT max(stats_reset) FROM vault_tde.stat_relations) x;
SELECT bool_and(auth_last_failure IS NULL) FROM vault_tde.stat_relations;
SELECT entries > 0, max_entries, n_tup_encrypted, n_tup_decrypted, auth_failures, stats_reset IS NOT NULL FROM vault_tde.stat_relations_info;

-- A table that is heap now is not shown, nor one that is gone.
ALTER TABLE p1 SET ACCESS METHOD heap;
DROP MATERIALIZED VIEW m;
SELECT relation FROM counters;

\connect :home
DROP DATABASE regress_vault_stats;
