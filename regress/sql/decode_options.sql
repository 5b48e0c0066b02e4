-- Decoding: the plugin's options, alone and together, and how it refuses wrong ones.
SET client_min_messages = warning;
\setenv PGDATABASE :DBNAME
CREATE EXTENSION IF NOT EXISTS pg_vault_tde;

-- Every switch of test_decoding, in each spelling of a boolean, and some of them together.
\! "$PG_ABS_SRCDIR"/lib/decode switches include-xids=0 include-xids=off include-xids=true "include-xids=f include-timestamp=1" include-timestamp=on include-timestamp=0 force-binary=0 only-local=1 only-local=no include-rewrites=1 include-rewrites=0 stream-changes=1 stream-changes=0 skip-empty-xacts=1 skip-empty-xacts=yes "include-xids=0 include-timestamp=1 skip-empty-xacts=1 only-local=1 include-rewrites=1 stream-changes=1"

-- What that comparison leaves out: the transaction ids, the time, and transactions without changes.
CREATE TABLE t (id int PRIMARY KEY, x text) USING encrypted_heap;
SELECT 'created' FROM pg_create_logical_replication_slot('regress_vault', 'pg_vault_tde');
BEGIN;
SELECT pg_current_xact_id() AS change \gset
INSERT INTO t VALUES (1, 'one');
COMMIT;
BEGIN;
SELECT pg_current_xact_id() AS none \gset
CREATE TABLE u (id int) USING encrypted_heap;
COMMIT;
SELECT replace(replace(data, :'change', 'CHANGE'), :'none', 'NONE') AS data FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL) WHERE xid::text IN (:'change', :'none');
SELECT replace(replace(data, :'change', 'CHANGE'), :'none', 'NONE') AS data FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'skip-empty-xacts', '1') WHERE xid::text IN (:'change', :'none');
SELECT data FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-xids', '0') WHERE xid::text IN (:'change', :'none');
SELECT regexp_replace(data, '\d+-\d+-\d+ [\d:.]+([+-]\d+)?', 'TIME') AS data FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-timestamp', '1', 'include-xids', '0') WHERE xid::text = :'change';
-- binary output is text, too, but only the functions for binary output take it
SELECT convert_from(data, 'UTF8') FROM pg_logical_slot_peek_binary_changes('regress_vault', NULL, NULL, 'force-binary', '1', 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'force-binary', '1');

-- Options that do not exist or do not parse are errors that name them.
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'no-such-option', 'value');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'no-such-option', NULL);
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, '', '1');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-xids', 'maybe');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-timestamp', '');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'skip-empty-xacts', '2');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-xids', '0', 'include-xids', '1');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'INCLUDE-XIDS', '0');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, 'include-xids');
SELECT * FROM pg_logical_slot_peek_changes('regress_vault', NULL, NULL, VARIADIC ARRAY[NULL, '1']);
-- The slot is as it was.
SELECT data FROM pg_logical_slot_get_changes('regress_vault', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
UPDATE t SET id = 2;
SELECT data FROM pg_logical_slot_get_changes('regress_vault', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT data FROM pg_logical_slot_get_changes('regress_vault', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

-- up to so many changes, and up to a position
INSERT INTO t VALUES (3, 'three');
SELECT pg_current_wal_insert_lsn() AS here \gset
INSERT INTO t VALUES (4, 'four');
SELECT data FROM pg_logical_slot_get_changes('regress_vault', :'here', NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
INSERT INTO t VALUES (5, 'five');
SELECT data FROM pg_logical_slot_get_changes('regress_vault', NULL, 1, 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT data FROM pg_logical_slot_get_changes('regress_vault', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

-- other things that a slot can do: be temporary, be copied, be advanced
SELECT 'created' FROM pg_create_logical_replication_slot('regress_vault_temporary', 'pg_vault_tde', true);
INSERT INTO t VALUES (6, 'six');
SELECT data FROM pg_logical_slot_get_changes('regress_vault_temporary', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT 'copied' FROM pg_copy_logical_replication_slot('regress_vault', 'regress_vault_copy');
SELECT data FROM pg_logical_slot_get_changes('regress_vault_copy', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT 'advanced' FROM pg_replication_slot_advance('regress_vault', pg_current_wal_insert_lsn());
SELECT data FROM pg_logical_slot_get_changes('regress_vault', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE slot_name LIKE 'regress_vault%';
DROP TABLE t, u;
DROP SCHEMA encrypted, heap CASCADE;
