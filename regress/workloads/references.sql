-- Foreign keys, with the encrypted table on either side and on both, and constraints that are checked late.
CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, note text);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, code text REFERENCES parent (code) ON UPDATE CASCADE);
CREATE TABLE heap_child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE) USING heap;
CREATE TABLE heap_parent (id int PRIMARY KEY) USING heap;
CREATE TABLE child_of_heap (id int, parent int REFERENCES heap_parent ON DELETE SET NULL ON UPDATE SET DEFAULT);
INSERT INTO parent SELECT i, 'code' || i, 'note' FROM generate_series(1, 10) i;
INSERT INTO heap_parent SELECT generate_series(1, 10);

INSERT INTO child VALUES (1, 1, 'code1'), (2, 2, 'code2'), (3, NULL, NULL);
INSERT INTO child VALUES (4, 99, NULL); -- an error
INSERT INTO child VALUES (4, NULL, 'code99'); -- an error
INSERT INTO heap_child VALUES (1, 1), (2, 2), (3, 3), (4, 3);
INSERT INTO heap_child VALUES (5, 99); -- an error
INSERT INTO child_of_heap VALUES (1, 1), (2, 2), (3, 3);
UPDATE child SET parent = 99 WHERE id = 1; -- an error
UPDATE child SET parent = 3 WHERE id = 1;
DELETE FROM parent WHERE id = 2; -- an error
DELETE FROM parent WHERE id = 9;
UPDATE parent SET id = 22 WHERE id = 2; -- an error
UPDATE parent SET note = 'harmless' WHERE id = 2;
UPDATE parent SET code = 'renamed' WHERE id = 2;
SELECT * FROM child ORDER BY id;
DELETE FROM heap_parent WHERE id = 1;
UPDATE heap_parent SET id = 30 WHERE id = 3;
SELECT * FROM child_of_heap ORDER BY id;

-- cascades
ALTER TABLE child DROP CONSTRAINT child_parent_fkey, ADD FOREIGN KEY (parent) REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE;
UPDATE parent SET id = id + 100 WHERE id <= 3;
SELECT * FROM child ORDER BY id;
SELECT * FROM heap_child ORDER BY id;
UPDATE child SET code = NULL;
DELETE FROM parent WHERE id = 103;
SELECT * FROM child ORDER BY id;
SELECT * FROM heap_child ORDER BY id;
ALTER TABLE child ADD CONSTRAINT checked FOREIGN KEY (id) REFERENCES parent NOT VALID;
ALTER TABLE child VALIDATE CONSTRAINT checked; -- an error
ALTER TABLE child DROP CONSTRAINT checked;

-- a table that refers to itself
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE);
INSERT INTO tree SELECT i, nullif(i / 2, 0) FROM generate_series(1, 31) i;
WITH RECURSIVE path AS (SELECT * FROM tree WHERE id = 31 UNION ALL SELECT t.* FROM tree t JOIN path ON path.up = t.id) SELECT * FROM path;
DELETE FROM tree WHERE id = 2;
SELECT count(*) FROM tree;

-- checked at the end of the transaction
CREATE TABLE late (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED,
    u int UNIQUE DEFERRABLE);
BEGIN;
INSERT INTO late VALUES (1, 500, 1), (2, 4, 2);
INSERT INTO parent VALUES (500, 'code500');
UPDATE late SET id = 3 - id;
UPDATE late SET u = 3 - u;
COMMIT;
SELECT * FROM late ORDER BY id;
BEGIN;
INSERT INTO late VALUES (3, 501, 3);
COMMIT; -- an error
BEGIN;
INSERT INTO late VALUES (1, 4, 4);
SAVEPOINT s;
INSERT INTO late VALUES (4, 501, 5);
SET CONSTRAINTS late_parent_fkey IMMEDIATE; -- an error
ROLLBACK TO s;
DELETE FROM late WHERE u = 4;
COMMIT;
SELECT * FROM late ORDER BY id;

-- other constraints
CREATE TABLE checked (id int CHECK (id > 0), a int NOT NULL, EXCLUDE USING btree (a WITH =));
INSERT INTO checked VALUES (0, 1); -- an error
INSERT INTO checked VALUES (1, NULL); -- an error
INSERT INTO checked VALUES (1, 1);
INSERT INTO checked VALUES (2, 1); -- an error
UPDATE checked SET id = -id; -- an error
SELECT * FROM checked;
