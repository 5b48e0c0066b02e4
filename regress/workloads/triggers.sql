-- Triggers: what they are shown (OLD, NEW, transition tables) and what they do to the row.
CREATE TABLE t (id int PRIMARY KEY, a int, b text);
CREATE TABLE seen (n serial, event text, old_row text, new_row text);

CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen (event, old_row, new_row)
        VALUES (TG_WHEN || ' ' || TG_OP || ' ' || TG_LEVEL, CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END, CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END);
    IF TG_WHEN = 'AFTER' THEN RETURN NULL; END IF;
    IF TG_OP = 'DELETE' THEN RETURN CASE WHEN OLD.b = 'keep' THEN NULL ELSE OLD END; END IF;
    IF NEW.b = 'skip' THEN RETURN NULL; END IF;
    IF NEW.b = 'change' THEN NEW.a := NEW.a * 100; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER see_before BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION see();
CREATE TRIGGER see_after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION see();

CREATE FUNCTION see_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO seen (event, new_row) SELECT 'inserted', n::text FROM news n ORDER BY n.id;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO seen (event, old_row) SELECT 'deleted', o::text FROM olds o ORDER BY o.id;
    ELSE
        INSERT INTO seen (event, old_row, new_row) SELECT 'updated', o::text, n::text FROM olds o FULL JOIN news n USING (id) ORDER BY id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER all_inserted AFTER INSERT ON t REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION see_all();
CREATE TRIGGER all_updated AFTER UPDATE ON t REFERENCING OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION see_all();
CREATE TRIGGER all_deleted AFTER DELETE ON t REFERENCING OLD TABLE AS olds FOR EACH STATEMENT EXECUTE FUNCTION see_all();
CREATE TRIGGER truncated AFTER TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION see();

INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'skip'), (3, 3, 'change'), (4, 4, 'keep') RETURNING *;
UPDATE t SET a = a + 1 RETURNING *;
UPDATE t SET b = 'skip' WHERE id = 1;
UPDATE t SET b = 'change' WHERE id = 1 RETURNING *;
INSERT INTO t VALUES (1, 0, 'conflict'), (5, 5, 'five') ON CONFLICT (id) DO UPDATE SET b = excluded.b || t.b RETURNING *;
DELETE FROM t RETURNING *;
MERGE INTO t USING (VALUES (4, 'gone'), (6, 'change')) s (id, b) ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET b = s.b
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 6, s.b);
COPY t FROM STDIN;
7	7	change
8	8	skip
9	9	nine
\.
SELECT * FROM t ORDER BY id;

-- deferred: OLD and NEW are fetched again when the transaction commits
CREATE CONSTRAINT TRIGGER later AFTER UPDATE OR DELETE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION see();
BEGIN;
UPDATE t SET a = 0 WHERE id = 7;
UPDATE t SET a = 1 WHERE id = 7;
DELETE FROM t WHERE id = 9;
INSERT INTO seen (event) VALUES ('before commit');
COMMIT;
DROP TRIGGER later ON t;

-- conditions look at both rows
CREATE TRIGGER conditional AFTER UPDATE OF a ON t FOR EACH ROW WHEN (OLD.a IS DISTINCT FROM NEW.a AND NEW.b <> 'x') EXECUTE FUNCTION see();
UPDATE t SET a = a;
UPDATE t SET a = a + 1;
UPDATE t SET b = 'x';

-- a BEFORE trigger that changes the very row
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET b = b || ' meddled' WHERE id = NEW.id AND b NOT LIKE '%meddled';
    RETURN NEW;
END $$;
CREATE TRIGGER a_meddle BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.a = -1) EXECUTE FUNCTION meddle();
UPDATE t SET a = -1 WHERE id = 7; -- an error
SELECT * FROM t WHERE id = 7;
DROP TRIGGER a_meddle ON t;

-- one that leaves the row as it was
CREATE TRIGGER z_same BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
UPDATE t SET a = a;
UPDATE t SET a = a + 1 WHERE id = 6;
TRUNCATE t;
SELECT event, old_row, new_row FROM seen ORDER BY n;

-- on a view
CREATE VIEW v AS SELECT id, b FROM t;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN INSERT INTO t VALUES (NEW.id, 0, NEW.b); END IF;
    IF TG_OP = 'UPDATE' THEN UPDATE t SET b = NEW.b || OLD.b WHERE id = OLD.id; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE ON v FOR EACH ROW EXECUTE FUNCTION instead();
INSERT INTO v VALUES (1, 'through view');
UPDATE v SET b = 'changed ';
SELECT * FROM v;
