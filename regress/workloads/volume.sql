-- Transactions too big for a little logical_decoding_work_mem, with sub-transactions, some of them undone.
CREATE TABLE t (id int PRIMARY KEY, k int, x text);
BEGIN;
INSERT INTO t SELECT i, i, 'plaintext ' || repeat('x', 100) FROM generate_series(1, 2000) i;
SAVEPOINT s;
UPDATE t SET id = -id WHERE id <= 500;
SAVEPOINT undone;
INSERT INTO t SELECT i, i, 'never' FROM generate_series(10000, 12000) i;
ROLLBACK TO undone;
DELETE FROM t WHERE id % 2 = 0;
RELEASE s;
UPDATE t SET x = 'end';
COMMIT;
BEGIN;
INSERT INTO t SELECT i, i, 'never' FROM generate_series(10000, 12000) i;
ROLLBACK;
BEGIN;
COPY t (id, k, x) FROM PROGRAM 'seq 20000 21000 | sed "s/.*/&\t&\tcopied/"';
ALTER TABLE t ADD COLUMN y int DEFAULT 3; -- a change of the catalogue within the streamed transaction
UPDATE t SET y = 4 WHERE id > 20500;
DELETE FROM t WHERE id > 20900;
COMMIT;
