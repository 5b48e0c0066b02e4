-- Partitions and inheritance, with heap and encrypted members side by side, and rows that move between them.
CREATE TABLE p (id int, k int, t text DEFAULT 'none') PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) USING heap;
CREATE TABLE p3 (t text, dropped int, k int NOT NULL, id int); -- columns in another order
ALTER TABLE p3 DROP COLUMN dropped;
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (30) TO (50) PARTITION BY LIST (id);
CREATE TABLE p4_odd PARTITION OF p4 FOR VALUES IN (1, 3, 5, 7, 9);
CREATE TABLE p4_rest PARTITION OF p4 DEFAULT;
CREATE INDEX ON p (k);
CREATE UNIQUE INDEX ON p1 (id);

INSERT INTO p SELECT i % 10, i, 't' || i FROM generate_series(0, 49) i;
INSERT INTO p VALUES (1, 99); -- an error
SELECT tableoid::regclass, * FROM p ORDER BY k, id;
UPDATE p SET t = t || '!' WHERE k % 7 = 0;
UPDATE p SET k = k + 10 WHERE k < 5 RETURNING tableoid::regclass, *; -- moves from p1 to p2
UPDATE p SET k = k + 10 WHERE k BETWEEN 15 AND 19 RETURNING tableoid::regclass, *; -- p2 to p3
UPDATE p SET k = k - 20 WHERE k BETWEEN 20 AND 22 RETURNING tableoid::regclass, *; -- p3 to p1
UPDATE p SET id = id + 1 WHERE k BETWEEN 30 AND 49;
UPDATE p1 SET k = 12 WHERE id = 5; -- an error: no longer in p1
DELETE FROM p WHERE k IN (5, 14, 25, 35);
MERGE INTO p USING (SELECT 40 + i AS k, i AS id FROM generate_series(0, 12) i) s ON p.k = s.k
    WHEN MATCHED AND s.k % 2 = 0 THEN UPDATE SET k = 6, t = 'merged'
    WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED AND s.k < 50 THEN INSERT VALUES (s.id, s.k); -- an error: p1's unique index
MERGE INTO p USING (SELECT 40 + i AS k, i AS id FROM generate_series(0, 12) i) s ON p.k = s.k
    WHEN MATCHED AND s.k % 2 = 0 THEN UPDATE SET k = 16, t = 'merged'
    WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED AND s.k < 50 THEN INSERT VALUES (s.id, s.k);
COPY p FROM STDIN;
100	1	copied
101	11	copied
102	21	copied
103	31	copied
\.
SELECT tableoid::regclass, * FROM p ORDER BY k, id, t;
ALTER TABLE p DETACH PARTITION p1;
INSERT INTO p1 VALUES (1000, 1000, 'on its own');
SELECT * FROM p1 ORDER BY k, id;
DELETE FROM p1 WHERE k > 9;
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10);
SELECT count(*) FROM p WHERE k < 10;
TRUNCATE p2;
SELECT tableoid::regclass, count(*) FROM p GROUP BY 1 ORDER BY 1;

-- a unique key of the whole, upserts and triggers through the root
CREATE TABLE q (id int, k int, t text, PRIMARY KEY (id, k)) PARTITION BY HASH (k);
CREATE TABLE q0 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE q1 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap;
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.t := NEW.t || ' ' || TG_OP; RETURN NEW; END $$;
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON q FOR EACH ROW EXECUTE FUNCTION mark();
INSERT INTO q SELECT i, i, 'first' FROM generate_series(1, 10) i;
INSERT INTO q SELECT i, i, 'second' FROM generate_series(5, 15) i ON CONFLICT (id, k) DO UPDATE SET t = q.t || ' + ' || excluded.t;
UPDATE q SET k = k + 1 WHERE id < 5;
SELECT tableoid::regclass, * FROM q ORDER BY id;
CREATE TABLE refers (id int, k int, FOREIGN KEY (id, k) REFERENCES q);
INSERT INTO refers VALUES (6, 6), (7, 7);
INSERT INTO refers VALUES (6, 7); -- an error
DO $$
BEGIN
    DELETE FROM q WHERE id = 6;
EXCEPTION WHEN foreign_key_violation THEN
    RAISE WARNING 'refused'; -- (by a constraint that majors name differently)
END $$;

-- inheritance
CREATE TABLE base (id int, a text);
CREATE TABLE derived (b text) INHERITS (base);
CREATE TABLE derived_heap (c int) INHERITS (base) USING heap;
INSERT INTO base VALUES (1, 'base');
INSERT INTO derived VALUES (2, 'derived', 'b');
INSERT INTO derived_heap VALUES (3, 'derived heap', 3);
UPDATE base SET a = a || '!', id = id * 10 RETURNING tableoid::regclass, *;
SELECT * FROM base ORDER BY id;
SELECT * FROM ONLY base;
ALTER TABLE base ADD COLUMN d int DEFAULT 4;
SELECT * FROM derived;
DELETE FROM base WHERE id = 20 RETURNING *;
SELECT * FROM base ORDER BY id FOR UPDATE;
