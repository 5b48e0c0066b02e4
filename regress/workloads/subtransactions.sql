-- Sub-transactions: of savepoints and of exception blocks, kept, undone, nested, and many.
CREATE TABLE t (id int PRIMARY KEY, a int);
BEGIN;
INSERT INTO t VALUES (1, 1);
SAVEPOINT a;
INSERT INTO t VALUES (2, 2);
SAVEPOINT b;
UPDATE t SET a = 10 WHERE id = 1;
UPDATE t SET id = 20 WHERE id = 2;
ROLLBACK TO b;
UPDATE t SET id = 21 WHERE id = 2;
SAVEPOINT c;
DELETE FROM t WHERE id = 1;
RELEASE c;
ROLLBACK TO a;
INSERT INTO t VALUES (3, 3);
RELEASE a;
DELETE FROM t WHERE id = 1;
COMMIT;
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (4, 4);
ROLLBACK;
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (5, 5);
SAVEPOINT a;
INSERT INTO t VALUES (6, 6);
RELEASE a;
ROLLBACK TO a;
COMMIT;

DO $$
BEGIN
    FOR i IN 100..140 LOOP
        BEGIN
            INSERT INTO t VALUES (i, i);
            UPDATE t SET a = 1000 / (i % 4), id = id + 1000 WHERE id = i;
        EXCEPTION WHEN division_by_zero THEN
            BEGIN
                INSERT INTO t VALUES (i, -1);
                INSERT INTO t VALUES (1000 + i - 1, 0); -- fails but once
            EXCEPTION WHEN unique_violation THEN
                DELETE FROM t WHERE id = 1000 + i - 1;
            END;
        END;
    END LOOP;
END $$;
-- more than fit into the process array
DO $$
BEGIN
    FOR i IN 1..200 LOOP
        BEGIN
            INSERT INTO t VALUES (5000 + i, i);
            IF i % 3 = 0 THEN RAISE 'undo'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
-- procedures that commit in between
CREATE PROCEDURE p() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..6 LOOP
        UPDATE t SET a = i WHERE id = 3;
        INSERT INTO t VALUES (-i, i);
        IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
    END LOOP;
END $$;
CALL p();
SELECT count(*), sum(id), sum(a) FROM t;
