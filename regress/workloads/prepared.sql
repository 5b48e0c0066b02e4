-- Two-phase commit.
CREATE TABLE t (id int PRIMARY KEY, x text);
INSERT INTO t VALUES (1, 'one'), (2, 'two');
BEGIN;
INSERT INTO t VALUES (3, 'prepared');
UPDATE t SET id = 11 WHERE id = 1;
PREPARE TRANSACTION 'regress_vault_1';
INSERT INTO t VALUES (4, 'in between');
COMMIT PREPARED 'regress_vault_1';
BEGIN;
DELETE FROM t WHERE id = 2;
PREPARE TRANSACTION 'regress_vault_2';
INSERT INTO t VALUES (5, 'in between');
ROLLBACK PREPARED 'regress_vault_2';
-- with sub-transactions, a change of the catalogue, and a name in need of quotes
BEGIN;
ALTER TABLE t ADD COLUMN y int DEFAULT 7;
SAVEPOINT s;
INSERT INTO t VALUES (6, 'undone');
ROLLBACK TO s;
SAVEPOINT r;
INSERT INTO t VALUES (7, 'kept', 8);
RELEASE r;
DELETE FROM t WHERE id = 3;
PREPARE TRANSACTION 'regress vault ''3''';
COMMIT PREPARED 'regress vault ''3''';
-- names that end in _nodecode are decoded only when they are committed
BEGIN;
INSERT INTO t VALUES (8, 'late');
PREPARE TRANSACTION 'regress_vault_4_nodecode';
INSERT INTO t VALUES (9, 'in between');
COMMIT PREPARED 'regress_vault_4_nodecode';
-- empty, and with a message only
BEGIN;
CREATE TABLE u (id int);
PREPARE TRANSACTION 'regress_vault_5';
COMMIT PREPARED 'regress_vault_5';
BEGIN;
SELECT pg_logical_emit_message(true, 'prefix', 'prepared') IS NOT NULL;
PREPARE TRANSACTION 'regress_vault_6';
ROLLBACK PREPARED 'regress_vault_6';
-- a key rotation that is prepared with rows under its key
BEGIN;
SELECT count(vault_tde.rotate_key());
INSERT INTO t VALUES (10, 'under the new key', 1);
PREPARE TRANSACTION 'regress_vault_7';
COMMIT PREPARED 'regress_vault_7';
SELECT * FROM t ORDER BY id;
