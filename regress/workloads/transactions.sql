-- Savepoints, cursors, row locks, isolation levels, two-phase commit.
CREATE TABLE t (id int PRIMARY KEY, a int, b text);
INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 20) i;

BEGIN;
UPDATE t SET a = 0 WHERE id = 1;
SAVEPOINT one;
UPDATE t SET a = a + 1 WHERE id IN (1, 2);
DELETE FROM t WHERE id = 3;
SAVEPOINT two;
UPDATE t SET a = a + 1 WHERE id IN (1, 2);
INSERT INTO t VALUES (21, 21, 'sub');
INSERT INTO t VALUES (1, 0, 'dup'); -- an error
ROLLBACK TO two;
SELECT * FROM t WHERE id IN (1, 2, 3, 21) ORDER BY id;
UPDATE t SET id = 103 WHERE id = 4;
RELEASE one;
INSERT INTO t VALUES (3, 3, 'again');
COMMIT;
BEGIN;
DELETE FROM t WHERE id < 10;
SELECT count(*) FROM t;
ROLLBACK;
SELECT * FROM t ORDER BY id;

-- sub-transactions of PL/pgSQL
CREATE PROCEDURE try(OUT problem text) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR i IN 1..5 LOOP
        BEGIN
            UPDATE t SET a = -i WHERE id = i + 4;
            INSERT INTO t VALUES (i + 20, 100 / (i - 3), 'tried');
        EXCEPTION WHEN division_by_zero THEN
            problem := SQLERRM || ' at ' || i;
        END;
    END LOOP;
    COMMIT;
    UPDATE t SET b = 'second transaction' WHERE id = 21;
    ROLLBACK;
    FOR r IN SELECT id FROM t ORDER BY id LOOP
        IF r.id = 22 THEN
            UPDATE t SET b = 'during loop' WHERE id = r.id;
            COMMIT;
        END IF;
    END LOOP;
END $$;
CALL try(NULL);
SELECT * FROM t ORDER BY id;

-- cursors
BEGIN;
DECLARE forth CURSOR FOR SELECT * FROM t ORDER BY id;
DECLARE scroll SCROLL CURSOR FOR SELECT * FROM t;
DECLARE hold SCROLL CURSOR WITH HOLD FOR SELECT * FROM t WHERE id < 8;
FETCH 2 FROM forth;
FETCH 3 FROM scroll;
UPDATE t SET a = 1000; -- cursors do not see it
FETCH 2 FROM forth;
FETCH BACKWARD 2 FROM scroll;
FETCH LAST FROM scroll;
FETCH FIRST FROM scroll;
FETCH ABSOLUTE 5 FROM scroll;
FETCH RELATIVE -2 FROM scroll;
MOVE FORWARD ALL FROM scroll;
FETCH BACKWARD ALL FROM scroll;
DECLARE lock CURSOR FOR SELECT * FROM t WHERE id BETWEEN 10 AND 14 FOR UPDATE;
FETCH 1 FROM lock;
UPDATE t SET b = 'here' WHERE CURRENT OF lock;
FETCH 1 FROM lock;
DELETE FROM t WHERE CURRENT OF lock;
FETCH 1 FROM hold;
COMMIT;
FETCH 2 FROM hold;
DELETE FROM t WHERE id = 6;
FETCH BACKWARD ALL FROM hold;
FETCH ALL FROM hold;
CLOSE hold;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t;
FETCH 2 FROM c;
SAVEPOINT s;
UPDATE t SET b = 'undone' WHERE CURRENT OF c;
ROLLBACK TO s;
UPDATE t SET b = 'done' WHERE CURRENT OF c RETURNING *;
COMMIT;
SELECT * FROM t ORDER BY id;

-- row locks
BEGIN;
SELECT * FROM t WHERE id < 5 ORDER BY id FOR UPDATE;
SELECT * FROM t WHERE id < 5 ORDER BY id FOR NO KEY UPDATE;
SELECT * FROM t WHERE id < 5 ORDER BY id FOR SHARE;
SELECT * FROM t WHERE id < 5 ORDER BY id FOR KEY SHARE;
SELECT count(*) FROM t WHERE xmax = pg_current_xact_id()::xid;
SAVEPOINT s;
SELECT * FROM t WHERE id = 10 FOR UPDATE SKIP LOCKED;
SELECT * FROM t WHERE id = 11 FOR UPDATE NOWAIT;
ROLLBACK TO s;
UPDATE t SET a = 1 WHERE id = 10;
SELECT a.id, b.id FROM t a LEFT JOIN t b ON b.id = a.id + 1000 WHERE a.id < 3 ORDER BY 1 FOR UPDATE OF a;
COMMIT;

-- isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
UPDATE t SET a = a + 1 WHERE id < 3;
SELECT id, a FROM t WHERE id < 3 ORDER BY id;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(a) FROM t WHERE id < 10;
INSERT INTO t VALUES (200, 0, 'serializable');
SELECT count(*) FROM t;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*) FROM t;
DELETE FROM t; -- an error
COMMIT;

-- two-phase commit
BEGIN;
INSERT INTO t VALUES (300, 0, 'prepared');
UPDATE t SET a = 7 WHERE id = 1;
PREPARE TRANSACTION 'regress_vault_a';
SELECT count(*) FROM t WHERE id = 300 OR a = 7;
SELECT id FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED;
COMMIT PREPARED 'regress_vault_a';
SELECT * FROM t WHERE id = 300 OR a = 7 ORDER BY id;
BEGIN;
DELETE FROM t;
PREPARE TRANSACTION 'regress_vault_b';
ROLLBACK PREPARED 'regress_vault_b';
SELECT count(*) FROM t;
